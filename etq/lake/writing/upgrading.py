"""Upgrading a lake of an earlier schema: what its schema lacks is computed, load by load, in a warehouse beside it.

The captures change all at once, in the last commit. Their former files stay until a compaction deletes them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

import duckdb

from etq.database.rows import check_rows
from etq.database.temporary import temporary_folder
from etq.errors import WarehouseError
from etq.lake.reading.connection import attach, check_root, read_parquet
from etq.lake.reading.state import LakeState, read
from etq.lake.reading.tables import KINDS, SHARED, Lake, tables_of
from etq.lake.writing import commits
from etq.lake.writing.commits import Change, change, delta_schema
from etq.lake.writing.loads import Load, discard, files_of, named, rows_of, write, write_root
from etq.lake.writing.sharing import renote
from etq.lake.writing.stores import writing
from etq.maintenance.upgrading import migrate, migrations_since, new_tables, tables_before
from etq.version import SCHEMA_VERSION

# What captures refer to.
_OTHERS: Final = ("record", "program")


def upgrade(path: str | os.PathLike[str], *, storage_options: Mapping[str, str] | None = None) -> int:
    """Upgrade a lake that an earlier version of etq made. Returns the number of its captures; 0 for a lake of today.

    Raises `WarehouseError` for what isn't a lake, for a damaged lake, for one of a version that is too early or a later
    one, for one that can't be written, and if others write to it meanwhile.
    """
    lake = replace(Lake.at(path, storage_options), accepts_earlier=True)
    with writing(lake):
        states = {kind: read(lake, root=f"{kind}s") for kind in KINDS}
        before = states["capture"]
        shared = [read(lake, root=table) for table in SHARED if lake.commits(table)]
        if all(state.schema == SCHEMA_VERSION for state in (*states.values(), *shared)):
            return 0
        for kind in KINDS:
            check_root(before, kind, before.of(f"{kind}s"))
        loads: list[Load] = []
        try:
            for name in before.loads("capture"):
                loads.append(_upgraded(before, name))
            _check_same(before, read(lake))
        except BaseException:
            discard(lake, loads)  # no commit names them yet
            raise
        _add_columns(lake)
        for table, files in files_of(loads).items():
            commits.commit(lake, table, files)
        for kind in _OTHERS:
            if states[kind].files:
                change(lake, kind, lambda _: Change({}))
        change(lake, "capture", lambda now: _replaced(before, now, loads))
        renote(lake)
        return sum(each.rows for each in before.of("captures"))


def _replaced(before: LakeState, now: LakeState, loads: list[Load]) -> Change:
    """The new loads in the place of all former ones."""
    _check_same(before, now)
    roots = write_root(now.lake, "capture", rows_of(loads)) if loads else []
    return Change(named("capture", roots, loads), before.of_kind("capture"))


def _check_same(before: LakeState, now: LakeState) -> None:
    if now.of("captures") != before.of("captures"):
        raise WarehouseError(f"{now.lake}: others wrote to it meanwhile; upgrade it again, alone")


def _add_columns(lake: Lake) -> None:
    """Add new columns to the tables' schemas, for other programs that read them."""
    for name in lake.tables():
        table = lake.find_table(name)
        if table is None:
            continue
        there = {each.name for each in table.schema().fields}
        if missing := [each for each in delta_schema(name).fields if each.name not in there]:
            lake.result(lambda: table.alter.add_columns(missing))  # noqa: B023 - called at once


def _upgraded(state: LakeState, load: str) -> Load:
    """Write what a load holds of the lake as a load of today."""
    migrations = migrations_since(state.schema)
    with temporary_folder() as folder, duckdb.connect(str(Path(folder) / "part.duckdb")) as connection:
        attach(connection, state)
        for statement in tables_before(migrations).values():
            connection.execute(statement)
        _insert(connection, state, load)
        check_rows(connection, str(state.lake), "main.", new_tables(migrations))
        migrate(connection, str(state.lake), migrations)
        keys = [key for (key,) in connection.execute("SELECT capture_id FROM captures ORDER BY ALL").fetchall()]
        return write(connection, state.lake, "capture", keys)


def _insert(connection: duckdb.DuckDBPyConnection, state: LakeState, load: str) -> None:
    """Insert the rows of a load, and the records and programs that it refers to, with the keys of a warehouse."""

    def source(table: str, *, of_load: bool) -> str | None:
        files = [each for each in state.of(table) if not of_load or each.load == load]
        if not files:
            return None
        rows = read_parquet([state.lake.uri(table, each.path) for each in files])
        [(number,)] = connection.execute(f"SELECT count(*) FROM {rows}").fetchall()
        if number != (expected := sum(each.rows for each in files)):
            what = f"the files of {table} have {number:,} rows; expected {expected:,}"
            raise WarehouseError(f"{state.lake}: damaged: {what}; see etq lake check")
        return rows

    captures = source("captures", of_load=True)
    connection.execute(f"""
        CREATE TEMP TABLE _capture_keys AS
        SELECT k.capture_id AS lake_key, row_number() OVER (ORDER BY k.capture_id)::INTEGER AS key FROM {captures} AS k
    """)
    replaced = {"capture_id": "c.key"}
    joins = {"captures": ""}
    for kind in _OTHERS:
        root = source(f"{kind}s", of_load=False)
        found = (
            "SELECT NULL::BIGINT AS lake_key, NULL::INTEGER AS key WHERE false"
            if root is None
            else f"""
            SELECT k.{kind}_id AS lake_key, row_number() OVER (ORDER BY k.{kind}_id)::INTEGER AS key FROM {root} AS k
            WHERE k.{kind}_id IN (SELECT c.{kind}_id FROM {captures} AS c)
        """
        )
        connection.execute(f"CREATE TEMP TABLE _{kind}_keys AS {found}")
        joins["captures"] += f" LEFT JOIN _{kind}_keys AS _{kind} ON _{kind}.lake_key = t.{kind}_id"
        if root is not None:
            _copy(
                connection,
                f"{kind}s",
                f"{root} AS t JOIN _{kind}_keys AS c ON c.lake_key = t.{kind}_id",
                {f"{kind}_id": "c.key"},
            )
    for table in tables_of("capture"):
        if (rows := source(table, of_load=True)) is not None:
            of_others = {f"{kind}_id": f"_{kind}.key" for kind in _OTHERS} if table == "captures" else {}
            _copy(
                connection,
                table,
                f"{rows} AS t JOIN _capture_keys AS c ON c.lake_key = t.capture_id{joins.get(table, '')}",
                {**replaced, **of_others},
            )
    for kind in ("capture", *_OTHERS):
        connection.execute(f"DROP TABLE _{kind}_keys")


def _copy(connection: duckdb.DuckDBPyConnection, table: str, source: str, keys: Mapping[str, str]) -> None:
    """Insert rows into a table of an earlier schema; `keys` has the expressions of keys."""
    names = [name for name, *_ in connection.execute(f"DESCRIBE {table}").fetchall()]
    columns = ", ".join(keys.get(name, f't."{name}"') for name in names)
    connection.execute(f"INSERT INTO {table} SELECT {columns} FROM {source}")
