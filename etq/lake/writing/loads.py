"""Writing loads: rows of a warehouse's tables as Parquet, with keys that are the same in every lake."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Container, Iterator, Sequence
from typing import Any, Final

import duckdb
import msgspec

from etq import catalog
from etq.catalog import quoted
from etq.database.connection import with_access
from etq.errors import WarehouseError, message_of
from etq.lake.reading.connection import check_root, read_parquet
from etq.lake.reading.library import reason
from etq.lake.reading.state import LakeState, Loads
from etq.lake.reading.tables import KEY, SHARED, DataFile, Lake, tables_of
from etq.lake.writing import stores

# The most captures of a load, and the most rows of events: large enough to make few files, and small enough to
# rewrite one.
MOST_CONTENTS: Final = 2_000
MOST_EVENTS: Final = 20_000_000
EVENTS: Final = ("event_ticks", "trace_events")


class Load(msgspec.Struct, frozen=True):
    """Some captures, records or programs, part of a lake once they are committed.

    rows   the rows of the root table, which name them, as a stream of Arrow
    files  the file of each other table with rows
    """

    id: str
    kind: str
    rows: bytes
    files: dict[str, DataFile]


def parts(connection: duckdb.DuckDBPyConnection, kind: str, keys: Sequence[int]) -> Iterator[list[int]]:
    """Keys of captures, records or programs in the warehouse, as many at a time as a load holds, in their order."""
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


def write(connection: duckdb.DuckDBPyConnection, lake: Lake, kind: str, keys: Sequence[int], prefix: str = "") -> Load:
    """Write the captures, records or programs with these keys of the warehouse.

    They are part of the lake once it names their load, whose name begins with `prefix`.
    """
    connection.execute("CREATE OR REPLACE TEMP TABLE _chosen AS SELECT unnest(?::INTEGER[]) AS key", [[*keys]])
    replaced, joined = [f"{KEY.format('k')} AS {kind}_id"], ""
    if kind == "capture":
        references = [f"{KEY.format(other)} AS {other}_id" for other in ("program", "record")]
        joined = " ".join(
            f"LEFT JOIN {other}s AS {other} ON {other}.{other}_id = t.{other}_id" for other in ("program", "record")
        )

    def query(table: str) -> str:
        is_capture = table == "captures"
        return f"""
            SELECT t.* REPLACE ({", ".join([*replaced, *(references if is_capture else [])])})
            FROM {table} AS t
            JOIN _chosen AS c ON c.key = t.{kind}_id
            JOIN {kind}s AS k ON k.{kind}_id = t.{kind}_id
            {joined if is_capture else ""}
            ORDER BY {KEY.format("k")}, t.rowid
        """

    try:
        return _load(connection, lake, kind, len(keys), query, prefix)
    finally:
        connection.execute("DROP TABLE _chosen")


def merge(connection: duckdb.DuckDBPyConnection, state: LakeState, kind: str, loads: Sequence[str]) -> Load:
    """Write what these loads hold of the lake as one load, sorted by key."""
    roots = [each for each in state.of(f"{kind}s") if each.load in loads]
    check_root(state, kind, roots)
    root = read_parquet([state.lake.uri(f"{kind}s", each.path) for each in roots], of_loads=True)

    def query(table: str) -> str:
        paths = [state.lake.uri(table, each.path) for each in state.of(table) if each.load in loads]
        columns = ", ".join(f't."{column.name}"' for column in catalog.objects()[table].columns)
        source = read_parquet(paths, of_loads=True).removesuffix(")") + ", filename = true, file_row_number = true)"
        return (
            f"SELECT {columns} FROM {source} AS t SEMI JOIN {root} AS k USING ({kind}_id, load_id) "
            f"ORDER BY t.{kind}_id, t.filename, t.file_row_number"
            if paths
            else ""
        )

    return _load(connection, state.lake, kind, sum(each.rows for each in roots), query)


def named(kind: str, roots: Sequence[DataFile], loads: Sequence[Load], held: Loads | None = None) -> Loads:
    """The files of the loads that files of a root table name, which are new or `held`."""
    tables: Loads = held or {}
    tables = {**tables, **{load.id: {table: [file] for table, file in load.files.items()} for load in loads}}
    return {root.load: {**tables[root.load], f"{kind}s": [root]} for root in roots}


def write_shared(connection: duckdb.DuckDBPyConnection, lake: Lake, table: str) -> DataFile | None:
    """Write all rows of a `SHARED` table of a connection to a file, unless there are none."""
    [(count,)] = connection.execute(f"SELECT count(*) FROM {table}").fetchall()
    return _write(connection, lake, table, f"{secrets.token_hex(8)}-{count}", f"FROM {table}")


def files_of(loads: Sequence[Load]) -> dict[str, list[DataFile]]:
    """The files of loads in each table but the roots."""
    tables = dict.fromkeys(table for load in loads for table in load.files)
    return {table: [load.files[table] for load in loads if table in load.files] for table in tables}


def discard(lake: Lake, loads: Sequence[Load]) -> None:
    """Delete the files of loads that were not committed to any table."""
    stores.delete(lake, [f"{table}/{file.path}" for load in loads for table, file in load.files.items()])


def discard_of_prefix(lake: Lake, prefix: str, kept: Container[str]) -> None:
    """Delete the files of captures' loads whose names begin so, except `kept` loads, which may be committed."""
    found = [path for path in lake.listed() if f"/load_id={prefix}" in path]
    stores.delete(lake, [path for path in found if path.split("/load_id=")[1].split("/")[0] not in kept])


def _load(
    connection: duckdb.DuckDBPyConnection,
    lake: Lake,
    kind: str,
    count: int,
    query: Callable[[str], str],
    prefix: str = "",
) -> Load:
    """Write the rows that `query` selects from each table of a kind."""
    root = f"{kind}s"
    load = Load(f"{prefix}{secrets.token_hex(8)}-{count}", kind, _stream(connection, query(root)), {})
    try:
        for table in tables_of(kind):
            selection = query(table) if table != root else ""
            if selection and (file := _write(connection, lake, table, load.id, selection)):
                load.files[table] = file
    except BaseException:
        discard(lake, [load])
        raise
    return load


def _stream(connection: duckdb.DuckDBPyConnection, query: str) -> bytes:
    import pyarrow as pa

    rows = connection.sql(query).to_arrow_table()
    target = pa.BufferOutputStream()
    with pa.ipc.new_stream(target, rows.schema) as stream:
        stream.write_table(rows)
    return bytes(target.getvalue())


def rows_of(loads: Sequence[Load]) -> Any:
    """The rows of the loads' root table, as an Arrow table, with the column load_id."""
    import pyarrow as pa

    tables = [pa.ipc.open_stream(load.rows).read_all() for load in loads]
    names = [pa.array([load.id] * len(rows), pa.string()) for load, rows in zip(loads, tables, strict=True)]
    return pa.concat_tables(rows.append_column("load_id", each) for rows, each in zip(tables, names, strict=True))


def write_root(lake: Lake, kind: str, rows: Any) -> list[DataFile]:
    """Write rows of a root table, as an Arrow table: a file for each load."""
    with duckdb.connect(":memory:") as connection:
        connection.register("rows", rows)
        loads = connection.execute("SELECT DISTINCT load_id FROM rows ORDER BY ALL").fetchall()
        query = "SELECT r.* EXCLUDE (load_id) FROM rows AS r WHERE r.load_id = {} ORDER BY ALL"
        files = [_write(connection, lake, f"{kind}s", load, query.format(quoted(load))) for (load,) in loads]
        return [each for each in files if each is not None]


def _write(connection: duckdb.DuckDBPyConnection, lake: Lake, table: str, load: str, query: str) -> DataFile | None:
    """Write rows to a file, unless there are none."""
    path = f"load_id={load}/{secrets.token_hex(8)}.parquet"
    key = None if table in SHARED else catalog.objects()[table].columns[0].name
    written: list[DataFile] = []

    def make(target: str) -> bool:
        [(has_access,)] = connection.execute("SELECT current_setting('enable_external_access')").fetchall()
        if has_access:
            rows, size, statistics = _copy(connection, query, target)
        else:
            with with_access(connection, connection.sql(query)) as other:
                rows, size, statistics = _copy(other, "FROM rows", target)
        if rows:
            smallest, largest = (int(statistics[f'"{key}"'][each]) if key else 0 for each in ("min", "max"))
            written.append(DataFile(path, rows, size, smallest, largest))
        return bool(rows)

    try:
        stores.write(lake, table, path, make)
    except (duckdb.IOException, OSError) as error:
        what = reason(error) if isinstance(error, OSError) else message_of(error)
        raise WarehouseError(f"{lake.uri(table, path)}: can't be written: {what}") from error
    return written[0] if written else None


def _copy(connection: duckdb.DuckDBPyConnection, query: str, target: str) -> tuple[int, int, dict[str, Any]]:
    """Write rows to a file: their number, its size in bytes, and the statistics of each column."""
    copy = f"COPY ({query}) TO {quoted(target)} (FORMAT parquet, COMPRESSION zstd, RETURN_STATS)"
    [(_, rows, size, _, statistics, *_)] = connection.execute(copy).fetchall()
    return rows, size, statistics
