"""Compacting a lake: merges many small loads into few large ones, and deletes what is not part of the lake any more."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from functools import partial
from itertools import chain
from typing import Final

import duckdb

from etq.lake import stores
from etq.lake.reading import attach
from etq.lake.stores import writing
from etq.lake.tables import KINDS, ConflictError, Lake, State, files_of, read, tables_of
from etq.lake.writing import EVENTS, MOST_CONTENTS, MOST_EVENTS, merge, rows_of, write_root

# Such rows and files may be of a writer that has not committed them yet, or of a reader of an older version.
_LEAVE_SECONDS: Final = 7 * 24 * 3600


def compact(
    path: str | os.PathLike[str],
    *,
    leave_seconds: float = _LEAVE_SECONDS,
    storage_options: Mapping[str, str] | None = None,
) -> tuple[int, int]:
    """Put small loads together, sorted by key, as large as one may be. Returns the numbers of loads before and after.

    Readers keep their files: files that are not part of the lake any more are deleted `leave_seconds` (a week) after
    they were written or taken out, and with them the versions that had them.

    Raises `WarehouseError` for what isn't a lake, for a damaged lake, and for one that can't be written.
    """
    lake = Lake.at(path, storage_options)
    with writing(lake):
        state = read(lake, latest=True)
        state.open_all()
        before = _number(state)
        with duckdb.connect(":memory:") as connection:
            attach(connection, state)
            for kind in KINDS:
                groups = [group for group in _groups(state, kind) if _merge(connection, state, kind, group)]
                _drop(lake, kind, {*chain(*groups)}, leave_seconds)
        _vacuum(lake, leave_seconds)
        state = _note_versions(lake)
        return before, _number(state)


def _number(state: State) -> int:
    return sum(len(state.loads(kind)) for kind in KINDS)


def _groups(state: State, kind: str) -> Iterator[list[str]]:
    """Loads that are to be one: small ones, and those of which the lake has a part."""
    contents = _rows(state, f"{kind}s")
    events = _rows(state, *(EVENTS if kind == "capture" else ()))
    groups: list[list[str]] = [[]]
    number = size = 0
    for load in sorted(contents, key=lambda load: (events.get(load, 0), load)):
        number, size = number + contents[load], size + events.get(load, 0)
        if groups[-1] and (number > MOST_CONTENTS or size > MOST_EVENTS):
            groups.append([])
            number, size = contents[load], events.get(load, 0)
        groups[-1].append(load)
    for group in groups:
        if len(group) > 1 or not all(state.loads(kind)[load] for load in group):
            yield group


def _rows(state: State, *tables: str) -> dict[str, int]:
    """The number of rows of each load."""
    rows: dict[str, int] = {}
    for file in (file for table in tables for file in state.files(table)):
        rows[file.load] = rows.get(file.load, 0) + file.rows
    return rows


def _merge(connection: duckdb.DuckDBPyConnection, state: State, kind: str, group: list[str]) -> bool:
    """Put one load in the place of several, unless another writer changes these meanwhile."""
    lake, root = state.lake, f"{kind}s"
    load = merge(connection, state, kind, group)
    versions = {table: lake.commit(table, [file]) for table, file in load.files.items()}
    files = write_root(lake, kind, rows_of([load]))
    was = {each for each in state.files(root) if each.load in group}
    while True:
        seen = lake.open(root)
        is_dropped = load.id in lake.dropped(seen, state.opened(root).version())
        if is_dropped or {each for each in files_of(seen) if each.load in group} != was:
            return False  # The rows that were written are dropped in time.
        with suppress(ConflictError):
            lake.commit(root, files, group, seen=seen, versions=versions if kind == "capture" else None)
            return True


def _drop(lake: Lake, kind: str, merged: Collection[str], leave_seconds: float) -> None:
    """Take the rows of loads that are not part of the lake out of its tables: `merged` ones, and old ones."""
    before = time.time() - leave_seconds
    while True:
        state = read(lake, latest=True)
        dead = {
            name: {each.load for each in state.dead(name) if each.load in merged or each.written < before}
            for name in state.open_all(kind)
        }
        dropped = sorted(set().union(*dead.values()))
        if not dropped:
            return
        # From here on no writer commits them.
        with suppress(ConflictError):
            lake.commit(f"{kind}s", [], seen=state.opened(f"{kind}s"), dropped=dropped)
            for name, loads in dead.items():
                if loads:
                    lake.commit(name, [], loads)
            return


def _vacuum(lake: Lake, leave_seconds: float) -> None:
    """Delete the files that no version since needs."""
    hours = max(0, int(leave_seconds // 3600))

    def vacuum(name: str) -> None:
        # A writer that was killed may have written files of a table that it had not created.
        if lake.exists(name) or stores.listed(lake, name):
            table = lake.make_table(name)
            lake.result(partial(table.vacuum, hours, dry_run=False, enforce_retention_duration=False, full=True))

    lake.each(vacuum, tables_of(*KINDS))


def _note_versions(lake: Lake) -> State:
    """Have `captures` note the tables as they are now, and write checkpoints, so that readers read few commits."""
    while True:
        state = read(lake, latest=True)
        versions = {name: state.opened(name).version() for name in state.open_all() if name != "captures"}
        with suppress(ConflictError):
            lake.commit("captures", [], seen=state.captures, versions=versions)
            break

    def checkpoint(name: str) -> None:
        table = lake.open(name)
        if table.version() > 3:  # A checkpoint takes a few requests to a store, a commit one.
            lake.result(table.create_checkpoint)

    lake.each(checkpoint, state.open_all())
    return state
