"""Changes captures of a lake. They are copied into a warehouse and changed there by the code that changes any
warehouse. Then they replace the lake's captures by one commit of `captures`: readers see a change completely or not at
all.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import duckdb

from etq import catalog
from etq.advice.filling import ranks_of
from etq.database.connection import connect
from etq.database.schema import create_file, in_transaction
from etq.database.temporary import temporary_folder
from etq.errors import WarehouseError, message_of
from etq.lake.reading.connection import LOAD, ORDER, attach, connect_tables, read_parquet, rows_of
from etq.lake.reading.state import LakeState, read
from etq.lake.reading.tables import KINDS, Lake, tables_of
from etq.lake.writing.loads import (
    EVENTS,
    MOST_CONTENTS,
    MOST_EVENTS,
    Load,
    commit,
    contents,
    discard,
    finish,
    parts,
    replace_rows,
    rewrite,
    write,
)
from etq.selectors import JOB

Result = TypeVar("Result")


@dataclass(frozen=True)
class Chosen:
    """The content that is taken out of a lake: the keys of the captures to change; the keys of these captures and the
    other ranks of their jobs; the keys of the records and programs of all of them; and the loads with these captures.
    """

    changed: Sequence[int]
    keys: Mapping[str, Sequence[int]]
    loads: Collection[str]


def change(
    lake: Lake,
    keys: Sequence[int],
    work: Callable[[duckdb.DuckDBPyConnection, list[int]], Result],
    *,
    reads: Collection[str] | None = None,
    with_ranks: bool = True,
    jobs: Sequence[str] = (),
    others: Mapping[str, Sequence[int]] | None = None,
    in_one: bool = True,
) -> Result:
    """Change captures of a lake, given by their keys in the lake. Returns the result of `work`.

    Their loads are written again as other loads, without these captures. If other writers change these loads meanwhile,
    everything is repeated on the new state. If a call was killed, repeating it completes the change.

    work        changes captures of a warehouse; it gets the connection and the captures' keys in the warehouse
    reads       the tables of which it needs the captures' rows, because it removes the other rows; by default all
                tables. Captures that other writers have removed are then left out
    with_ranks  whether it changes advice about the other ranks of their jobs, too
    jobs        jobs of which they become ranks
    others      keys of records and programs, by kind, to which they become linked
    in_one      whether it is one transaction; otherwise it makes its own

    Raises `WarehouseError` for a lake that can't be read or written, and if others have removed the captures.
    """
    finish(lake)
    while True:
        state = read(lake)
        chosen = choose(state, keys, with_ranks=with_ranks, jobs=jobs, others=others)
        if not chosen.changed and reads is None:
            raise WarehouseError(f"{lake}: others have removed it meanwhile; nothing was changed")
        with _new_warehouse() as connection:
            result = _worked(connection, state, chosen, work, reads, in_one=in_one)
            if not chosen.changed or _put_back(connection, state, chosen):
                return result


@contextmanager
def _new_warehouse() -> Iterator[duckdb.DuckDBPyConnection]:
    """Provide a connection to an empty warehouse, which is removed at the end."""
    with temporary_folder() as folder:
        path = str(Path(folder) / "changed.duckdb")
        try:
            create_file(path)
        except OSError as error:
            raise WarehouseError(f"{path}: can't be written: {(error.strerror or str(error)).lower()}") from error
        with closing(connect(path, read_only=False, external_access=True, is_own=True)) as connection:
            yield connection


def _worked(
    connection: duckdb.DuckDBPyConnection,
    state: LakeState,
    chosen: Chosen,
    work: Callable[[duckdb.DuckDBPyConnection, list[int]], Result],
    reads: Collection[str] | None,
    *,
    in_one: bool,
) -> Result:
    """Change the chosen captures in a warehouse."""
    try:
        if not in_one:
            return work(connection, in_transaction(connection, lambda: take(connection, state, chosen, reads)))
        return in_transaction(connection, lambda: work(connection, take(connection, state, chosen, reads)))
    except duckdb.Error as error:
        raise WarehouseError(f"{state.lake}: {message_of(error)}") from error


def choose(
    state: LakeState,
    keys: Sequence[int],
    *,
    with_ranks: bool = False,
    jobs: Sequence[str] = (),
    others: Mapping[str, Sequence[int]] | None = None,
) -> Chosen:
    """Return the content of a lake that is taken out to change captures. Arguments are those of `change`."""
    of_jobs = f"SELECT l.capture_id FROM labels AS l WHERE l.key = '{JOB}' AND list_contains(?::VARCHAR[], l.value)"
    if not state.of("captures"):
        return Chosen([], dict.fromkeys(KINDS, ()), ())
    with closing(connect_tables(state)) as connection:
        ranks = [*keys, *(ranks_of(connection, keys) if with_ranks else [])]
        if jobs:
            ranks += ranks_of(connection, [key for (key,) in connection.execute(of_jobs, [[*jobs]]).fetchall()])
        rows = connection.execute(
            f"""
            SELECT c.capture_id, {LOAD}, c.record_id, c.program_id
            FROM {read_parquet(state.paths("captures"), "filename = true")} AS c
            WHERE list_contains($keys::BIGINT[], c.capture_id) ORDER BY c.ingested_at, c.capture_id
            """,
            {"keys": ranks},
        ).fetchall()
    captures, loads, records, programs = map(list, zip(*rows, strict=True)) if rows else ([], [], [], [])
    others = others or {}
    there = {
        "program": _known([*programs, *others.get("program", ())]),
        "record": _known([*records, *others.get("record", ())]),
        "capture": captures,
    }
    return Chosen([key for key in captures if key in {*keys}], there, {*loads})


def _known(keys: Iterable[int | None]) -> list[int]:
    return sorted({key for key in keys if key is not None})


def take(
    connection: duckdb.DuckDBPyConnection, state: LakeState, chosen: Chosen, reads: Collection[str] | None = None
) -> list[int]:
    """Copy the chosen content into a warehouse. Returns the keys there of the captures to change."""
    there = state.only("capture", chosen.loads)
    attach(connection, there)
    for kind in KINDS:
        connection.execute(
            f"""
            CREATE OR REPLACE TEMP TABLE _{kind}_keys AS
            SELECT k.key AS old_key, k.place::INTEGER AS new_key, list_contains($changed::BIGINT[], k.key) AS is_changed
            FROM (SELECT unnest($keys::BIGINT[]) AS key, generate_subscripts($keys::BIGINT[], 1) AS place) AS k
            """,
            {"keys": chosen.keys[kind], "changed": [*chosen.changed] if kind == "capture" else []},
        )
        for table in tables_of(kind) if chosen.keys[kind] else ():
            if there.of(table):
                is_read = kind != "capture" or reads is None or table in reads
                connection.execute(_copying(there, kind, table, chosen.keys[kind], is_read=is_read))
    query = "SELECT new_key FROM _capture_keys WHERE is_changed ORDER BY new_key"
    return [key for (key,) in connection.execute(query).fetchall()]


def _copying(state: LakeState, kind: str, table: str, keys: Sequence[int], *, is_read: bool) -> str:
    """Return a statement that copies rows of a lake's table into a warehouse. Rows of the captures to change are only
    copied if `is_read`.
    """
    replaced, joined = {f"{kind}_id": "m.new_key"}, ""
    if table == "captures":
        for other in ("program", "record"):
            replaced[f"{other}_id"] = f"{other}.new_key"
            joined += f" LEFT JOIN _{other}_keys AS {other} ON {other}.old_key = t.{other}_id"
    columns = ", ".join(f'"{column.name}"' for column in catalog.named(table).columns)
    return f"""
        INSERT INTO {table} ({columns})
        {rows_of(state, table, replaced, is_numbered=True)}
        JOIN _{kind}_keys AS m ON m.old_key = t.{kind}_id{joined}
        WHERE t.{kind}_id IN ({", ".join(map(str, keys))}){"" if is_read else " AND NOT m.is_changed"}
        ORDER BY m.new_key, {ORDER}
    """


def _put_back(connection: duckdb.DuckDBPyConnection, state: LakeState, chosen: Chosen) -> bool:
    """Replace the content that was taken out by the content of a warehouse. Returns False if other writers were
    faster.
    """
    lake, loads = state.lake, list[Load]()
    for kind in KINDS:
        if kind != "capture":  # content to which captures refer is written before them
            query = f"SELECT k.sha256, k.{kind}_id FROM {kind}s AS k WHERE k.{kind}_id > ?"
            if made := dict(connection.execute(query, [len(chosen.keys[kind])]).fetchall()):
                add_contents(lake, connection, kind, made)
    left = [key for (key,) in connection.execute("SELECT c.capture_id FROM captures AS c ORDER BY 1").fetchall()]
    try:
        loads.extend(write(connection, lake, "capture", part) for part in parts(connection, "capture", left))
        loads.extend(rewrite(state, "capture", group, chosen.keys["capture"]) for group in _groups(state, chosen.loads))
    except BaseException:
        discard(lake, "capture", [load.id for load in loads])
        raise
    return commit(lake, "capture", loads, chosen.loads)


def add_contents(
    lake: Lake, connection: duckdb.DuckDBPyConnection, kind: str, keys: Mapping[str, int], is_replaced: bool = False
) -> tuple[int, int]:
    """Add contents of a warehouse, whose keys are given by SHA-256. Returns the numbers of new and replaced ones."""
    while True:
        held = contents(lake.open(f"{kind}s"))
        known = keys.keys() & held.keys()
        chosen = [key for sha256, key in keys.items() if is_replaced or sha256 not in known]
        if not chosen:
            return 0, 0
        loads, replaced = [write(connection, lake, kind, chosen)], set[str]()
        if is_replaced and known:
            # The loads with replaced content are written again, without it.
            replaced = {held[sha256][1] for sha256 in known}
            loads.append(rewrite(read(lake), kind, replaced, loads[0].rows[f"{kind}_id"].to_pylist()))
        if commit(lake, kind, loads, replaced):
            return (len(keys) - len(known), len(known)) if is_replaced else (len(chosen), 0)


def _groups(state: LakeState, loads: Iterable[str]) -> Iterator[list[str]]:
    """Return groups of loads. The remaining content of a group becomes one load."""
    contents, events = state.rows("captures"), state.rows(*EVENTS)
    group: list[str] = []
    number = size = 0
    for load in sorted(loads):
        number, size = number + contents.get(load, 0), size + events.get(load, 0)
        if group and (number > MOST_CONTENTS or size > MOST_EVENTS):
            yield group
            group, number, size = [], contents.get(load, 0), events.get(load, 0)
        group.append(load)
    if group:
        yield group


def change_whole(lake: Lake, table: str, work: Callable[[duckdb.DuckDBPyConnection], Result]) -> Result:
    """Change the comments or named views of a lake by one commit; `work` does it to a table of a database. Returns its
    result.

    Raises `WarehouseError` for a lake that can't be read or written, and what `work` raises.
    """
    read(lake)  # a lake of this version

    def changed(rows: object) -> tuple[object, Result]:
        with duckdb.connect(":memory:") as connection:
            connection.execute(catalog.named(table).statement)
            connection.register("_held", rows)
            connection.execute(f"INSERT INTO {table} BY NAME FROM _held")
            result = work(connection)
            return connection.sql(f"FROM {table} ORDER BY ALL").to_arrow_table(), result

    return replace_rows(lake, table, changed)
