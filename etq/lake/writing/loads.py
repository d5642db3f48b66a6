"""Writes loads: rows of a warehouse's tables, with keys that are the same in every lake, and commits them.

A load's rows are written to its root table last. The commit of the root table fails if the table has changed since the
writer read it. So of two writers of the same content, one is refused, and removes its rows. Before the rows of a load
are removed, a transaction of Delta Lake in the root table marks the load, so that nobody can commit it any more.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import duckdb
import msgspec

from etq import catalog
from etq.catalog import quoted
from etq.database.publishing import fsync_file, fsync_folder
from etq.errors import WarehouseError, message_of
from etq.ingest.stores import deltalake, reason
from etq.lake.reading.connection import ORDER, attach, rows_of
from etq.lake.reading.state import DESCRIPTION, LakeState, check_is_lake
from etq.lake.reading.tables import KINDS, Lake, column_types, loads_of, tables_of
from etq.maintenance.merge import longer_names

if TYPE_CHECKING:
    from deltalake import DeltaTable

Result = TypeVar("Result")
# 60 bits: among a million contents, the probability that two have the same key is 4 in ten million.
KEY: Final = "('0x' || substr({}.sha256, 1, 15))::BIGINT"
# The most captures of a load, and the most rows of events. They are large enough that there are few files, and small
# enough to rewrite a file.
MOST_CONTENTS: Final = 2_000
MOST_EVENTS: Final = 20_000_000
EVENTS: Final = ("event_ticks", "trace_events")
_ROWS_AT_ONCE: Final = 100_000
# The number of commits after which a checkpoint is written. Readers read the commits since the last checkpoint.
_PROPERTIES: Final = {"delta.checkpointInterval": "10"}
# How often a commit is tried: if others commit to the same table, and if the store or the disk fails.
_TRIES_AMONG_OTHERS: Final = 100
_TRIES: Final = 3
# The key in a root table's log for the loads that a commit replaced, separated by commas.
_REPLACED: Final = "etq.replaced"
# The number of commits in which `finish` looks for that key: in an object store, each commit takes a request.
# Compactions find older commits.
_LOOKED_BACK: Final = 100


@dataclass(frozen=True)
class Load:
    """Captures, records or programs whose rows are in all tables but their root table.

    rows  the rows of the root table, as Arrow, without the column load_id
    """

    id: str
    rows: Any


def new_load() -> str:
    """The name of a load: 12 hexadecimal digits of the time in milliseconds, and 16 random ones."""
    return f"{time.time_ns() // 1_000_000:012x}{secrets.token_hex(8)}"


def age_of(load: str) -> float:
    """How long ago a load was begun, in seconds, by the clock of its writer."""
    return time.time() - int(load[:12], 16) / 1e3


def recorded_at(kind: str) -> str:
    """Return an expression for the time at which the content of a root table's row was recorded, or else was read."""
    return "coalesce(captured_at, ingested_at)" if kind == "capture" else "ingested_at"


def parts(connection: duckdb.DuckDBPyConnection, kind: str, keys: Iterable[int]) -> Iterator[list[int]]:
    """Yield lists of keys of captures, records or programs in the warehouse, in order; a list fits into a load."""
    counts: dict[int, int] = {}
    if kind == "capture":
        counted = " UNION ALL ".join(f"SELECT capture_id FROM {table}" for table in EVENTS)
        counts = dict(connection.execute(f"SELECT capture_id, count(*) FROM ({counted}) GROUP BY 1").fetchall())
    part: list[int] = []
    events = 0
    for key in keys:
        if part and (len(part) == MOST_CONTENTS or events + counts.get(key, 0) > MOST_EVENTS):
            yield part
            part, events = [], 0
        part.append(key)
        events += counts.get(key, 0)
    if part:
        yield part


def write(connection: duckdb.DuckDBPyConnection, lake: Lake, kind: str, keys: Sequence[int]) -> Load:
    """Write the captures, records or programs that have these keys in the warehouse. Raises the errors of
    `_written`.
    """
    connection.execute("CREATE OR REPLACE TEMP TABLE _chosen AS SELECT unnest(?::INTEGER[]) AS key", [[*keys]])
    others = ("program", "record")
    joined = " ".join(f"LEFT JOIN {other}s AS {other} ON {other}.{other}_id = t.{other}_id" for other in others)
    references = [f"{KEY.format(other)} AS {other}_id" for other in others]

    def query(table: str) -> str:
        is_capture = table == "captures"
        return f"""
            SELECT t.* REPLACE ({", ".join([f"{KEY.format('k')} AS {kind}_id", *(references if is_capture else [])])})
            FROM {table} AS t
            JOIN _chosen AS c ON c.key = t.{kind}_id
            JOIN {kind}s AS k ON k.{kind}_id = t.{kind}_id
            {joined if is_capture else ""}
            ORDER BY {KEY.format("k")}, t.rowid
        """

    try:
        return _written(connection, lake, kind, query)
    finally:
        connection.execute("DROP TABLE _chosen")


def rewrite(state: LakeState, kind: str, loads: Collection[str], without: Collection[int] = ()) -> Load:
    """Write the content of these loads as one load, sorted by key, without contents whose keys are in `without`.

    Raises as `_written`.
    """
    chosen = state.only(kind, loads)
    left_out = f"WHERE NOT list_contains([{', '.join(map(str, without))}]::BIGINT[], t.{kind}_id)"

    def query(table: str) -> str:
        if not chosen.of(table):
            return ""
        return f"{rows_of(chosen, table, is_numbered=True)} {left_out} ORDER BY t.{kind}_id, {ORDER}"

    with duckdb.connect(":memory:") as connection:
        attach(connection, chosen)
        return _written(connection, state.lake, kind, query)


def _written(connection: duckdb.DuckDBPyConnection, lake: Lake, kind: str, query: Callable[[str], str]) -> Load:
    """Write the rows that `query` selects from each table of a kind; none if it is empty.

    Raises `WarehouseError` if the lake can't be written, or its files can't be read.
    """
    load = new_load()
    try:
        with writing(lake):
            for table in tables_of(kind)[:-1]:
                if selection := query(table):
                    _append(connection, lake, table, load, selection)
            return Load(load, connection.sql(query(f"{kind}s")).to_arrow_table())
    except BaseException:
        discard(lake, kind, [load])
        raise


def _append(connection: duckdb.DuckDBPyConnection, lake: Lake, table: str, load: str, query: str) -> None:
    """Append rows to a table, unless there are none.

    Rows that others append meanwhile don't conflict. With deltalake 1.6, rows that others remove do, at any isolation
    level of the table; then the rows are written again.
    """
    for attempt in range(1, _TRIES_AMONG_OTHERS + 1):
        try:
            if _append_once(connection, lake, table, load, query):
                _flush(lake, table, load)
            return
        except deltalake().exceptions.CommitFailedError:
            if attempt == _TRIES_AMONG_OTHERS:
                raise


def _append_once(connection: duckdb.DuckDBPyConnection, lake: Lake, table: str, load: str, query: str) -> bool:
    """Append rows to a table, and return whether there are any."""
    import pyarrow as pa

    with closing(connection.sql(query).to_arrow_reader(_ROWS_AT_ONCE)) as rows:
        first = next(iter(rows), None)
        if first is None:
            return False
        schema = rows.schema.append(pa.field("load_id", pa.string()))
        batches = (batch.append_column("load_id", pa.repeat(load, len(batch))) for batch in chain([first], rows))
        _put(make_table(lake, table), pa.RecordBatchReader.from_batches(schema, batches), _TRIES_AMONG_OTHERS)
        return True


def _put(
    table: DeltaTable, data: Any, tries: int, predicate: str | None = None, note: dict[str, str] | None = None
) -> None:
    """Commit rows to a table, replacing those that match a predicate, with a note in the log."""
    module = deltalake()
    properties = module.CommitProperties(max_commit_retries=tries, custom_metadata=note)
    if predicate is not None and not len(data):
        table.delete(predicate, commit_properties=properties)
        return
    module.write_deltalake(
        table,
        data,
        mode="append" if predicate is None else "overwrite",
        predicate=predicate,
        writer_properties=module.WriterProperties(compression="ZSTD"),
        commit_properties=properties,
        # Logs are cleaned when a lake is compacted.
        post_commithook_properties=module.PostCommitHookProperties(create_checkpoint=True, cleanup_expired_logs=False),
    )


def _flush(lake: Lake, table: str, load: str) -> None:
    """Flush a load's files of a table in a folder to the disk, before a commit of another table relies on them.

    Raises `WarehouseError` if the disk can't do it.
    """
    if lake.is_remote:
        return
    folder = Path(lake.uri(table))
    try:
        for path in (*folder.glob(f"load_id={load}/*"), max((folder / "_delta_log").glob("*.json"))):
            fsync_file(path)
            fsync_folder(path.parent)
    except OSError as error:
        raise _unwritten(lake.uri(table), error) from error


def commit(lake: Lake, kind: str, loads: Sequence[Load], replaced: Collection[str] = ()) -> bool:
    """Make loads part of a lake, instead of those that are `replaced`. Loads may be empty: then content is removed.

    A name that other content has is made longer. Returns False, and removes the loads, if other writers were faster:
    then the lake already has some of the content, or lacks some of the replaced content.

    Raises `WarehouseError` if the lake can't be written, and if a compaction gave up one of the loads.
    """
    import pyarrow as pa

    root, names = (
        f"{kind}s",
        [load.id for load in loads if len(load.rows)],
    )  # a load may have been replaced as a whole
    rows = pa.concat_tables(load.rows.append_column("load_id", pa.repeat(load.id, len(load.rows))) for load in loads)
    for attempt in range(1, _TRIES_AMONG_OTHERS + 1):
        table = make_table(lake, root)
        there = loads_of(table)
        if names and there.issuperset(names):
            break  # Only the answer to the commit was lost.
        if any(table.transaction_version(name) is not None for name in names):
            discard(lake, kind, names)
            raise WarehouseError(f"{lake}: the load took so long that a compaction discarded it; add it again")
        held = {sha256: name for sha256, (name, load) in contents(table).items() if load not in replaced}
        if not there.issuperset(replaced) or not held.keys().isdisjoint(rows["sha256"].to_pylist()):
            discard(lake, kind, names)
            return False
        try:
            chosen = _is_one_of([*replaced, *names]) if replaced else None
            _put(table, _named(rows, held), 0, chosen, {_REPLACED: ",".join(replaced)} if replaced else None)
            break
        except (deltalake().exceptions.DeltaError, OSError) as error:
            is_conflict = isinstance(error, deltalake().exceptions.CommitFailedError)
            is_last = attempt == (_TRIES_AMONG_OTHERS if is_conflict else _TRIES)
            if is_last and not (names and loads_of(lake.open(root)).issuperset(names)):
                # The store may still make the commit, so that the rows stay until a compaction gives up the load.
                raise _unwritten(lake.uri(root), error) from error
            _pause(attempt)
    for name in names:
        _flush(lake, root, name)
    drop(lake, kind, replaced)
    return True


def replace_rows(lake: Lake, table: str, change: Callable[[Any], tuple[Any, Result]]) -> Result:
    """Replace the rows of a small table, as Arrow, by one commit. Returns the second result of `change`, after the new
    rows.

    If others commit meanwhile, it is called again on the new rows. Raises `WarehouseError` for a lake that can't be
    read or written.
    """
    import pyarrow as pa

    load = new_load()
    for attempt in range(1, _TRIES_AMONG_OTHERS + 1):
        opened = make_table(lake, table)
        there = loads_of(opened)
        if load in there:
            break  # Only the answer to the commit was lost.
        with writing(lake):
            rows, result = change(opened.to_pyarrow_table().drop_columns(["load_id"]))
        try:
            _put(opened, rows.append_column("load_id", pa.repeat(load, len(rows))), 0, _is_one_of([*there, load]))
            break
        except (deltalake().exceptions.DeltaError, OSError) as error:
            is_conflict = isinstance(error, deltalake().exceptions.CommitFailedError)
            if attempt == (_TRIES_AMONG_OTHERS if is_conflict else _TRIES):
                raise _unwritten(lake.uri(table), error) from error
            _pause(attempt)
    _flush(lake, table, load)
    return result


def _pause(attempt: int) -> None:
    """Wait for a random time, longer after each attempt, so that writers don't all try again at once."""
    time.sleep(min(0.01 * 2**attempt, 1) * secrets.randbelow(1000) / 1000)


def contents(root: DeltaTable | None) -> dict[str, tuple[str, str]]:
    """The name and load of each content in a root table, by SHA-256. Raises as `files_of` does."""
    import pyarrow as pa

    if not loads_of(root) or root is None:
        return {}
    try:
        columns = root.to_pyarrow_table(columns=["sha256", "name", "load_id"]).to_pydict()
    except (pa.ArrowException, OSError) as error:
        place = root.table_uri.rstrip("/")
        raise WarehouseError(f"{place}: can't be read: {reason(error)}; use a copy of the lake") from error
    return {sha256: (name, load) for sha256, name, load in zip(*columns.values(), strict=True)}


def _named(rows: Any, held: Mapping[str, str]) -> Any:
    """Return rows of a root table with the names of contents. If other content has a name, it is made longer."""
    import pyarrow as pa

    owners = {name: sha256 for sha256, name in held.items()}
    names = []
    for sha256, name, uri in zip(*(rows[column].to_pylist() for column in ("sha256", "name", "uri")), strict=True):
        candidates = (name, *longer_names(name, uri, sha256))
        names.append(next(free for free in candidates if owners.setdefault(free, sha256) == sha256))
    return rows.set_column(rows.schema.get_field_index("name"), "name", pa.array(names, pa.string()))


def discard(lake: Lake, kind: str, loads: Collection[str]) -> None:
    """Remove the rows of loads that were not committed. If the store doesn't answer, a later compaction does it."""
    try:
        drop(lake, kind, loads)
    except (deltalake().exceptions.DeltaError, OSError, WarehouseError):
        return


def drop(lake: Lake, kind: str, loads: Collection[str]) -> None:
    """Remove the rows of loads that are missing from the root table from the other tables of a kind."""

    def drop_from(table: str) -> None:
        for attempt in range(_TRIES):
            opened = lake.open(table)
            if opened is None or loads_of(opened).isdisjoint(loads):
                return
            properties = deltalake().CommitProperties(max_commit_retries=_TRIES_AMONG_OTHERS)
            try:
                opened.delete(_is_one_of(loads), commit_properties=properties)
                return
            except deltalake().exceptions.CommitFailedError:  # others removed them at the same time
                if attempt == _TRIES - 1:
                    raise

    if loads:
        with writing(lake):
            lake.each(drop_from, tables_of(kind)[:-1])


def finish(lake: Lake) -> None:
    """Remove the rows of recently replaced loads whose writer was killed before doing so.

    Raises `WarehouseError` for a lake that can't be read or written.
    """
    for kind in KINDS:
        tables = tables_of(kind)[:-1]
        found = set[str]().union(*lake.each(lambda table: loads_of(lake.open(table)), tables))
        root = lake.open(f"{kind}s")
        if root is not None and (left := found - loads_of(root)):
            with writing(lake):
                commits = root.history(_LOOKED_BACK)
            drop(lake, kind, left & {load for each in commits for load in each.get(_REPLACED, "").split(",")})


def _is_one_of(loads: Iterable[str]) -> str:
    return f"load_id IN ({', '.join(map(quoted, loads))})"


def make_table(lake: Lake, table: str) -> DeltaTable:
    """Return the present state of a table, which is created if it doesn't exist. Raises `WarehouseError` if it can't be
    created.
    """
    module, key = deltalake(), catalog.named(table).columns[0].name
    problem: Exception | None = None
    for _ in range(_TRIES):
        opened = lake.open(table)  # perhaps another writer created it
        if opened is not None:
            if table == "captures":
                check_is_lake(lake, opened)
            return opened
        try:
            module.DeltaTable.create(
                lake.uri(table), _delta_schema(table), "ignore", ["load_id"], table, DESCRIPTION,
                configuration={**_PROPERTIES, "delta.dataSkippingStatsColumns": key}, storage_options=lake.options,
            )  # fmt: skip
        except (module.exceptions.DeltaError, OSError) as error:
            problem = error
    raise _unwritten(lake.uri(table), problem) from problem


def _delta_schema(table: str) -> Any:
    """The columns of a table in a lake."""
    types = column_types(table).items()
    fields = [{"name": name, "type": type_, "nullable": True, "metadata": {}} for name, type_ in types]
    return deltalake().Schema.from_json(msgspec.json.encode({"type": "struct", "fields": fields}).decode())


@contextmanager
def writing(lake: Lake) -> Iterator[None]:
    """Convert errors of the library, the system and DuckDB within the block to `WarehouseError`."""
    try:
        yield
    except duckdb.Error as error:
        raise WarehouseError(f"{lake}: {message_of(error)}") from error
    except (deltalake().exceptions.DeltaError, OSError) as error:
        raise _unwritten(str(lake), error) from error


def _unwritten(place: str, error: Exception | None) -> WarehouseError:
    return WarehouseError(f"{place}: can't be written: {reason(error)}; the lake keeps what it had: repeat the command")
