"""Going back to a version of a lake, and taking out what is damaged."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress

import duckdb

from etq.errors import WarehouseError
from etq.lake.checking import check
from etq.lake.publishing import publish
from etq.lake.reading import attach, check_root, read_parquet
from etq.lake.state import Change, LakeState, change, dropped, live, read
from etq.lake.stores import writing
from etq.lake.tables import KINDS, DataFile, Lake, kind_of, tables_of


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
            if files := _without(then.of(table), listed.get(table, [])):
                lake.commit(table, files)

        seen = before

        def plan(now: LakeState) -> Change | None:
            nonlocal seen
            seen = now
            if dropped(now, "captures", before.version) & then.loads("capture").keys():
                raise WarehouseError(
                    f"{lake}: a compaction has just taken out what version {version} has; restore again"
                )
            return _replaced(now, then, then.of("captures"), now.of("captures"))

        def back(now: LakeState) -> Change | None:
            return _replaced(now, seen, seen.of("captures"), then.of("captures"))

        if change(lake, "capture", plan):
            try:
                # A compaction may have deleted them before it saw the commit.
                _check_there(then)
            except WarehouseError:
                change(lake, "capture", back)
                raise
        return _count(before), _count(read(lake))


def _replaced(
    now: LakeState, source: LakeState, wanted: Sequence[DataFile], unwanted: Sequence[DataFile]
) -> Change | None:
    """Have the `wanted` files of captures, which `source` has, in the place of those `unwanted` that it hasn't."""
    added, gone = _without(wanted, now.of("captures")), _without(unwanted, wanted)
    loads = {each.load for each in (*added, *gone)}
    rows = {table: _without(source.of(table), now.of(table)) for table in source.files}
    return Change(added, loads, now.changed("capture", added, loads, rows)) if loads else None


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
                return Change([], found, now.changed(kind, [], found, {})) if found else None

            if loads and change(lake, kind, plan):
                for table, files in live(lake, kind).items():
                    if found := {each.load for each in files} & loads:
                        lake.commit(table, [], found)
        publish(lake, [], [])  # Notes programs and records that were taken out.
        return _names(state, {fault.load for fault in faults})


def _without(files: Sequence[DataFile], others: Sequence[DataFile]) -> list[DataFile]:
    """The files that others don't have."""
    paths = {each.path for each in others}
    return [each for each in files if each.path not in paths]


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
