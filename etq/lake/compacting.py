"""Compacting a lake: merges many small loads into few large ones, and deletes what is of the lake no more."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import duckdb

from etq.lake.reading import prepare
from etq.lake.tables import KINDS, ConflictError, Lake, State, files_of, read, writing
from etq.lake.writing import EVENTS, MOST_CONTENTS, MOST_EVENTS, merge

if TYPE_CHECKING:
    from deltalake import DeltaTable

# What is of the lake no more may be what a writer has not committed yet, or what a reader of an older version reads.
_LEAVE_SECONDS: Final = 7 * 24 * 3600


def compact(
    path: str | os.PathLike[str],
    *,
    leave_seconds: float = _LEAVE_SECONDS,
    storage_options: Mapping[str, str] | None = None,
) -> tuple[int, int]:
    """Put small loads together, sorted by key, as large as one may be. Returns the numbers of loads before and after.

    Readers keep their files: files that are of the lake no more are deleted `leave_seconds` (a week) after
    they were written or taken out, and with them the versions that had them.

    Raises `WarehouseError` for what isn't a lake, for a damaged lake, and for one that can't be written.
    """
    lake = Lake.at(path, storage_options)
    with writing(lake):
        return _compact(lake, leave_seconds)


def _compact(lake: Lake, leave_seconds: float) -> tuple[int, int]:
    state = read(lake)
    before = _number(state)
    merged: set[str] = set()
    with duckdb.connect(":memory:") as connection:
        prepare(connection, lake)
        for kind in KINDS:
            for group in _groups(state, kind):
                if _merge(connection, state, kind, group):
                    merged.update(group)
    state = _drop(lake, merged, leave_seconds)
    _delete(state, leave_seconds)
    return before, _number(state)


def _number(state: State) -> int:
    return sum(map(len, state.loads.values()))


def _groups(state: State, kind: str) -> Iterator[list[str]]:
    """Loads that are to be one: small ones, and those of which the lake has a part."""
    contents = _rows(state, [f"{kind}s"])
    events = _rows(state, EVENTS)
    group: list[str] = []
    number = size = 0
    for load in sorted(contents, key=lambda load: (events.get(load, 0), load)):
        if group and (number + contents[load] > MOST_CONTENTS or size + events.get(load, 0) > MOST_EVENTS):
            if _is_worth(state, kind, group):
                yield group
            group, number, size = [], 0, 0
        group.append(load)
        number, size = number + contents[load], size + events.get(load, 0)
    if _is_worth(state, kind, group):
        yield group


def _is_worth(state: State, kind: str, group: list[str]) -> bool:
    return len(group) > 1 or not all(state.loads[kind][load] for load in group)


def _rows(state: State, tables: tuple[str, ...] | list[str]) -> dict[str, int]:
    rows: dict[str, int] = {}
    for table in tables:
        for file in state.files.get(table, []):
            rows[file.load] = rows.get(file.load, 0) + file.rows
    return rows


def _merge(connection: duckdb.DuckDBPyConnection, state: State, kind: str, group: list[str]) -> bool:
    """Put one load in the place of several, unless another writer changes these meanwhile."""
    lake, root = state.lake, f"{kind}s"
    load = merge(connection, state, kind, group)
    versions = {table: lake.commit(table, [file]) for table, file in load.files.items() if table != root}
    was = {each for each in state.files[root] if each.load in group}
    while True:
        seen = lake.open(root)
        if {each for each in files_of(seen) if each.load in group} != was:
            return False  # What was written is dropped in time.
        note = lake.note(seen, versions) if kind == "capture" else None
        with suppress(ConflictError):
            lake.commit(root, [load.root], group, seen=seen, note=note)
            return True


def _drop(lake: Lake, merged: set[str], leave_seconds: float) -> State:
    """Take the rows of loads that aren't the lake's out of its tables; of those of late, only the `merged`."""
    before = time.time() - leave_seconds
    while True:
        state = read(lake, every=True)
        dead = {
            table: loads
            for table, files in state.dead().items()
            if (loads := {each.load for each in files if each.load in merged or each.written < before})
        }
        dropped = sorted(set().union(*dead.values()))
        if not dropped:
            return state
        # From here on no writer commits them, and readers that haven't begun look again.
        try:
            captures = state.opened["captures"]
            lake.commit("captures", [], seen=captures, note=lake.note(captures, {}, dropped))
        except ConflictError:
            continue
        for table, loads in dead.items():
            lake.commit(table, [], loads)
        return read(lake, every=True)


def _delete(state: State, leave_seconds: float) -> None:
    """Delete the files that no version since needs, and write down what each table has."""

    def delete(table: DeltaTable) -> None:
        hours = max(0, int(leave_seconds // 3600))
        table.vacuum(hours, dry_run=False, enforce_retention_duration=False, full=True)
        # A checkpoint takes a dozen requests to a store, an entry of the log one.
        if table.version() > 12:
            table.create_checkpoint()

    state.lake.each(delete, state.opened.values())
