"""Checks a lake: first its files, then the rows as in a warehouse."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

import duckdb

from etq.database.temporary import temporary_folder
from etq.errors import counted, message_of
from etq.lake.reading.connection import LOAD, attach, connect_tables, read_parquet
from etq.lake.reading.state import LakeState, read
from etq.lake.reading.tables import KINDS, DataFile, Lake, loads_of, tables_of
from etq.lake.writing.changing import choose, take
from etq.maintenance.checking import (
    Part,
    number_pruned,
    of_files,
    of_keys,
    of_references,
    of_rollups,
    of_times,
    rollup_problems,
    time_problems,
)
from etq.warehouse.warehouse import open

# How many captures are copied into a warehouse at once, to compute their times and rollups again.
_AT_ONCE: Final = 100


def check(
    path: str | os.PathLike[str] | Lake,
    *,
    folder: str | os.PathLike[str] = ".",
    storage_options: Mapping[str, str] | None = None,
) -> Iterator[Part]:
    """Check the current state of a lake part by part. It is only read; writers continue meanwhile.

    The parts are the files of tables, which are all read; the loads, to which the rows of their captures must belong;
    and the parts of `etq.maintenance.checking.check`. If a file is damaged, nothing else is checked. Advice about the
    ranks of jobs isn't compared: if ranks were added separately, the advice about each ignores the others.

    Raises `WarehouseError` for what isn't a lake of this schema.
    """
    state = read(Lake.at(path, storage_options))
    with duckdb.connect(":memory:") as connection:
        attach(connection, state)
        yield (found := _files(connection, state))
        if found.problems:
            return
        yield _loads(connection, state)
    with closing(connect_tables(state)) as connection:
        of_rows, repeated = of_keys(connection)
        yield of_rows
        yield of_references(connection, are_unique=not of_rows.problems)
        query = "SELECT c.capture_id FROM captures AS c ORDER BY c.ingested_at, c.capture_id"
        captures = [key for (key,) in connection.execute(query).fetchall()]
        keys = [key for key in captures if key not in repeated]
        times, rollups = list[str](), list[str]()
        for start in range(0, len(keys), _AT_ONCE):
            of_part = _computed(state, keys[start : start + _AT_ONCE])
            times += of_part[0]
            rollups += of_part[1]
        yield of_times(len(captures), times, len(keys))
        yield of_rollups(len(captures), number_pruned(connection), rollups, len(keys))
        yield of_files(connection, Path(folder))


def _files(connection: duckdb.DuckDBPyConnection, state: LakeState) -> Part:
    """Read each value of each file, and count its rows."""
    problems, rows = list[str](), 0
    for table, files in state.files.items():
        rows += sum(file.rows for file in files)
        if _problem(connection, state, table, files) is not None:
            each = (_problem(connection, state, table, [file]) for file in files)
            problems += [problem for problem in each if problem is not None]
    number = sum(map(len, state.files.values()))
    return Part(f"files ({number:,} of {len(state.files)} tables, with {counted(rows, 'row')})", tuple(problems))


def _problem(
    connection: duckdb.DuckDBPyConnection, state: LakeState, table: str, files: Sequence[DataFile]
) -> str | None:
    """Return the problem with these files; None if there is none."""
    named = f"{table}/{files[0].path}"
    query = (
        f"SELECT count(*), max(hash(COLUMNS(*))) FROM {read_parquet([state.lake.uri(table, f.path) for f in files])}"
    )
    try:
        [(rows, *_)] = connection.execute(query).fetchall()
    except duckdb.Error as error:
        return f"{named}: damaged: {message_of(error)}"
    expected = sum(file.rows for file in files)
    return None if rows == expected else f"{named}: has {rows:,} rows, and the log says {expected:,}"


def _loads(connection: duckdb.DuckDBPyConnection, state: LakeState) -> Part:
    """Find rows that are in another load than their capture, record or program, and count loads that aren't part of the
    lake.
    """
    problems = []
    query = f"SELECT DISTINCT {{kind}}_id AS key, {LOAD} AS load FROM {{files}}"
    for kind in KINDS:
        for table in tables_of(kind)[:-1] if state.of(f"{kind}s") else ():
            if state.of(table):
                rows, roots = (
                    query.format(kind=kind, files=read_parquet(state.paths(each), "filename = true"))
                    for each in (table, f"{kind}s")
                )
                [(count,)] = connection.execute(
                    f"SELECT count(*) FROM ({rows}) AS r ANTI JOIN ({roots}) AS k USING (key, load)"
                ).fetchall()
                if count:
                    lacking = counted(count, kind)
                    problems.append(f"{table}: has rows of {lacking} missing from the load of these rows")
    number, left = sum(len(state.loads(kind)) for kind in KINDS), _number_left(state)
    others = f"; rows of {left:,} others, which etq lake compact removes" if left else ""
    return Part(f"loads ({number:,}{others})", tuple(problems))


def _number_left(state: LakeState) -> int:
    """The number of loads that aren't part of the lake, because their writers are at work or were killed."""
    lake, left = state.lake, 0
    for kind in KINDS:
        tables = tables_of(kind)[:-1]
        found = set[str]().union(*lake.each(lambda table: loads_of(lake.open(table)), tables))
        left += len(found - state.loads(kind) - loads_of(lake.open(f"{kind}s")))
    return left


def _computed(state: LakeState, keys: Sequence[int]) -> tuple[list[str], list[str]]:
    """Yield problems with the times and rollups of captures. They are computed again in a warehouse and compared."""
    with temporary_folder() as folder, open(Path(folder) / "checked.duckdb", external_access=True) as warehouse:
        take(warehouse.connection, state, choose(state, keys))
        return time_problems(warehouse.connection), rollup_problems(warehouse.connection, has_all_ranks=False)
