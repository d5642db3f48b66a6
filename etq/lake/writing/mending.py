"""Going back to a version of a lake, and taking out what is damaged."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress

import duckdb

from etq.errors import WarehouseError
from etq.lake.reading.checking import check
from etq.lake.reading.connection import attach, check_root, read_parquet
from etq.lake.reading.state import LakeState, live, read
from etq.lake.reading.tables import KINDS, SHARED, Lake, kind_of, tables_of
from etq.lake.writing import commits
from etq.lake.writing.commits import Change, change, dropped, note_others
from etq.lake.writing.sharing import go_back
from etq.lake.writing.stores import writing


def restore(
    path: str | os.PathLike[str], version: int, *, storage_options: Mapping[str, str] | None = None
) -> tuple[int, int]:
    """Make the captures of a version those of the lake. Returns their number before and after.

    This is a new version, so the versions since stay, too. Programs and records stay.

    Raises `WarehouseError` for what isn't a lake, for a version that it doesn't have, and if `compact` has deleted
    files of that.
    """
    lake = Lake.at(path, storage_options)
    with writing(lake):
        then, before = read(lake, version), read(lake)
        _check_there(then)
        listed = live(lake, "capture")
        for table in tables_of("capture")[:-1]:
            there = {file.path for file in listed.get(table, [])}
            if files := [file for file in then.of(table) if file.path not in there]:
                commits.commit(lake, table, files)

        seen = before

        def plan(now: LakeState) -> Change | None:
            nonlocal seen
            seen = now
            if dropped(now, "captures", before.version) & then.loads("capture").keys():
                raise WarehouseError(
                    f"{lake}: a compaction has just taken out what version {version} has; restore again"
                )
            return _replaced(now, then, now)

        if change(lake, "capture", plan):
            try:
                # A compaction may have deleted them before it saw the commit.
                _check_there(then)
            except WarehouseError:
                change(lake, "capture", lambda now: _replaced(now, seen, then))
                raise
        return _count(before), _count(read(lake))


def _replaced(now: LakeState, wanted: LakeState, unwanted: LakeState) -> Change | None:
    """Have the `wanted` loads of captures in the place of those `unwanted`."""
    there, loads = now.of_kind("capture"), wanted.of_kind("capture")
    added = {load: files for load, files in loads.items() if there.get(load, {}).get("captures") != files["captures"]}
    without = {*added, *((unwanted.of_kind("capture").keys() & there.keys()) - loads.keys())}
    return Change(added, without) if without else None


def _check_there(state: LakeState) -> None:
    """Raise `WarehouseError` if a file of the captures of a version is missing."""
    there = state.lake.listed()
    for table in tables_of("capture"):
        for each in state.of(table):
            if f"{table}/{each.path}" not in there:
                place = state.lake.uri(table, each.path)
                raise WarehouseError(f"{place}: missing, so that version {state.version} can't be restored")


def repair(path: str | os.PathLike[str], *, storage_options: Mapping[str, str] | None = None) -> list[str]:
    """Take out the loads of which a file is missing or damaged. Returns the names of their captures, as far as known.
    Overviews and comments are again as they were before.

    Their files stay until `compact` deletes them, and the version before stays, too.

    Raises `WarehouseError` for what isn't a lake, and for a damaged log.
    """
    lake = Lake.at(path, storage_options)
    with writing(lake):
        state = read(lake)
        faults = [fault for fault in check(lake.url, storage_options=lake.options) if fault.load]
        for kind in KINDS:
            loads = {fault.load for fault in faults if kind_of(fault.table) == kind}

            def plan(now: LakeState, kind: str = kind, loads: set[str] = loads) -> Change | None:
                found = now.loads(kind).keys() & loads
                return Change({}, found) if found else None

            if loads and change(lake, kind, plan):
                for table, files in live(lake, kind).items():
                    if found := {each.load for each in files} & loads:
                        commits.commit(lake, table, [], found)
        note_others(lake)
        for table in SHARED:
            if lost := {fault.load for fault in faults if fault.table == table}:
                go_back(lake, table, lost)
        return _names(state, {fault.load for fault in faults})


def _count(state: LakeState) -> int:
    return sum(each.rows for each in state.of("captures"))


def _names(state: LakeState, loads: set[str]) -> list[str]:
    """The names of the captures of loads, of those whose names can be read."""
    names: list[str] = []
    with duckdb.connect(":memory:") as connection:
        attach(connection, state)
        for each in state.of("captures"):
            if each.load in loads:
                with suppress(duckdb.Error, WarehouseError):
                    check_root(state, "capture", [each])
                    query = f"SELECT name FROM {read_parquet([state.lake.uri('captures', each.path)])}"
                    names += [name for (name,) in connection.execute(query).fetchall()]
    return sorted(names)
