"""Writing what a team says about captures to a lake: overviews and comments, the tables that are `SHARED`.

Each is small, and one file: a change reads it, and commits another file in its place, only as it saw the table. If
another writer was faster, the change is made again, from what that one wrote: nothing is lost, and no number is given
twice.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final, TypeVar

import duckdb

from etq import catalog
from etq.database.limits import within
from etq.errors import WarehouseError
from etq.ingest import memory
from etq.lake.reading.connection import MEASURING, attach, read_parquet, stated
from etq.lake.reading.state import LakeState, noted, read
from etq.lake.reading.tables import SHARED, Lake
from etq.lake.writing import commits
from etq.lake.writing.commits import ConflictError, make_table
from etq.lake.writing.loads import write_shared
from etq.lake.writing.stores import writing
from etq.maintenance.merge import UNITED_SHARED

Result = TypeVar("Result")
# The most rows of such a table, and bytes to which its file unpacks.
MOST_ROWS: Final = 100_000
_MOST_BYTES: Final = 1 << 28


def edit(
    path: str | os.PathLike[str] | Lake,
    table: str,
    work: Callable[[duckdb.DuckDBPyConnection], Result],
    *,
    storage_options: Mapping[str, str] | None = None,
) -> Result:
    """Return what `work` does with a connection that has the rows of a `SHARED` table, which become those of the lake.

    It is called again if another writer was faster. Raises what it raises, and `WarehouseError` for what isn't a lake,
    for a damaged one, and for one that can't be written.
    """
    lake = Lake.at(path, storage_options)
    with writing(lake):
        read(lake)  # Refuses what isn't a lake, or is one of another version of etq.
        while True:
            with suppress(ConflictError):
                return _edited(lake, table, work)


def _edited(lake: Lake, table: str, work: Callable[[duckdb.DuckDBPyConnection], Result]) -> Result:
    """Try it once. Raises `ConflictError` if another writer was faster."""
    seen = make_table(lake, table) if lake.commits(table) else None
    state = read(lake, root=table)
    with duckdb.connect(":memory:", config=within(MEASURING)) as connection:
        _insert(connection, state, table)
        before = connection.execute(f"FROM {table}").fetchall()
        result = work(connection)
        if connection.execute(f"FROM {table}").fetchall() == before:
            return result
        [(count,)] = connection.execute(f"SELECT count(*) FROM {table}").fetchall()
        if count > MOST_ROWS:
            raise WarehouseError(f"{lake.uri(table)}: has {MOST_ROWS:,} rows, and takes no more; remove some")
        seen = seen or make_table(lake, table)
        if seen.version() > state.version:  # made by another writer meanwhile
            raise ConflictError
        file = write_shared(connection, lake, table)
    loads = {file.load: {table: [file]}} if file else {}
    added = [file] if file else []
    commits.commit(lake, table, added, [*state.by_load], seen=seen, note=noted(loads))
    return result


def _insert(connection: duckdb.DuckDBPyConnection, state: LakeState, table: str) -> None:
    """Create a table with the rows that the lake has. Raises `WarehouseError` for more than it may have."""
    connection.execute(catalog.objects()[table].statement)
    if not (paths := state.paths(table)):
        return
    attach(connection, state)
    source, expected = read_parquet(paths), sum(each.rows for each in state.of(table))
    [(rows,)] = connection.execute(f"SELECT count(*) FROM {source}").fetchall()
    if rows != expected:
        what = f"the files of {table} have {rows:,} rows; expected {expected:,}"
        raise WarehouseError(f"{state.lake}: damaged: {what}; see etq lake check")
    size, _ = stated(connection, paths)
    if rows > MOST_ROWS or size > _MOST_BYTES:
        most = f"{MOST_ROWS:,} rows and {memory.shown(_MOST_BYTES)}"
        raise WarehouseError(f"{state.lake.uri(table)}: larger than {most}, which are read")
    columns = ", ".join(f't."{column.name}"' for column in catalog.objects()[table].columns)
    connection.execute(f"INSERT INTO {table} SELECT {columns} FROM {source} AS t")


def go_back(lake: Lake, table: str, lost: Collection[str]) -> None:
    """Have a `SHARED` table as the last commit left it whose file isn't `lost`, by load, and is there."""
    there = lake.listed(table)
    with writing(lake), suppress(ConflictError):  # a writer since has read it
        seen, now = make_table(lake, table), read(lake, root=table)
        for version in sorted(lake.commits(table), reverse=True):
            with suppress(WarehouseError):
                before = read(lake, version, root=table)
                if all(file.load not in lost and f"{table}/{file.path}" in there for file in before.of(table)):
                    break
        commits.commit(lake, table, before.of(table), [*now.by_load], seen=seen, note=noted(before.by_load))


def renote(lake: Lake) -> None:
    """Have the tables that are `SHARED` be those of this version of etq, after an upgrade of the lake."""
    for table in SHARED:
        if lake.commits(table):
            state = read(lake, root=table)
            commits.commit(lake, table, [], seen=make_table(lake, table), note=noted(state.by_load))


def share(lake: Lake, connection: duckdb.DuckDBPyConnection) -> None:
    """Add the overviews and comments of a warehouse to a lake: overviews of other names, and comments that it lacks."""
    for table, statement in UNITED_SHARED.items():
        rows = connection.sql(f"FROM {table}").to_arrow_table()
        if len(rows) > 0:
            edit(lake, table, partial(_unite, lake, table, rows, statement))


def _unite(lake: Lake, table: str, rows: Any, statement: str, connection: duckdb.DuckDBPyConnection) -> None:
    for other in {*SHARED} - {table}:
        _insert(connection, read(lake, root=other), other)
    connection.register("given", rows)
    if connection.execute(f"SELECT count(*) FROM {table}").fetchall() == [(0,)]:
        statement = f"INSERT INTO {table} FROM given"  # comments keep their numbers
    connection.execute(f"CREATE SCHEMA _source; CREATE TABLE _source.{table} AS FROM given")
    connection.execute(statement)
