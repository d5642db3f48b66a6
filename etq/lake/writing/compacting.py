"""Compacting a lake: merges many small loads into few large ones, and deletes what is not part of the lake any more."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Final

import duckdb

from etq.lake.reading import links
from etq.lake.reading.connection import attach
from etq.lake.reading.state import LakeState, live, read
from etq.lake.reading.tables import FILE_PATH, KINDS, SHARED, DataFile, Lake, tables_of
from etq.lake.writing import commits, stores
from etq.lake.writing.commits import Change, change, dropped, make_table, note_others
from etq.lake.writing.loads import EVENTS, MOST_CONTENTS, MOST_EVENTS, merge, named, rows_of, write_root
from etq.lake.writing.publishing import known_of
from etq.lake.writing.stores import writing

# A load of so many captures is not made larger: a question about one capture reads a whole file of each table.
MOST_MERGED: Final = 20_000

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
        state = read(lake)
        before = _number(state)
        if not lake.is_remote:  # A disk may be full.
            _free(lake, leave_seconds)
        known_of(state, "capture")  # Refuses captures that are there twice before any is written again.
        with duckdb.connect(":memory:") as connection:
            attach(connection, state)
            listed = live(lake)
            for kind in KINDS:
                groups = [group for group in _groups(state, kind, listed) if _merge(connection, state, kind, group)]
                _drop(lake, kind, {*chain(*groups)}, leave_seconds)
        note_others(lake)
        _clean_logs(lake)
        _free(lake, leave_seconds)
        return before, _number(read(lake))


def _number(state: LakeState) -> int:
    return sum(len(state.loads(kind)) for kind in KINDS)


def _groups(state: LakeState, kind: str, listed: Mapping[str, Sequence[DataFile]]) -> Iterator[list[str]]:
    """Loads that are to be one: small ones, and those of which the lake has a part, or files that logs don't list."""
    contents = _rows(state, f"{kind}s")
    events = _rows(state, *(EVENTS if kind == "capture" else ()))
    groups: list[list[str]] = [[]]
    number = size = 0
    for load in sorted(contents, key=lambda load: (events.get(load, 0), load)):
        is_much = number > 0 and contents[load] > max(MOST_CONTENTS, 4 * number)
        number, size = number + contents[load], size + events.get(load, 0)
        if groups[-1] and (is_much or number > MOST_MERGED or size > MOST_EVENTS):
            groups.append([])
            number, size = contents[load], events.get(load, 0)
        groups[-1].append(load)
    paths = {(table, each.path) for table, files in listed.items() for each in files}
    gone = {each.load for table in tables_of(kind) for each in state.of(table) if (table, each.path) not in paths}
    for group in groups:
        if len(group) > 1 or any(load in gone or not state.loads(kind)[load] for load in group):
            yield group


def _rows(state: LakeState, *tables: str) -> dict[str, int]:
    """The number of rows of each load."""
    rows: dict[str, int] = {}
    for file in (file for table in tables for file in state.of(table)):
        rows[file.load] = rows.get(file.load, 0) + file.rows
    return rows


def _merge(connection: duckdb.DuckDBPyConnection, state: LakeState, kind: str, group: list[str]) -> bool:
    """Put one load in the place of several, unless another writer changes these meanwhile."""
    lake, root = state.lake, f"{kind}s"
    begin = read(lake, root=root).version
    load = merge(connection, state, kind, group)
    for table, file in load.files.items():
        commits.commit(lake, table, [file])
    files = write_root(lake, kind, rows_of([load]))
    was = {each.path for each in state.of(root) if each.load in group}

    def plan(now: LakeState) -> Change | None:
        is_dropped = load.id in dropped(now, root, begin)
        if is_dropped or {each.path for each in now.of(root) if each.load in group} != was:
            return None  # The rows that were written are dropped in time.
        return Change(named(kind, files, [load]), group)

    return change(lake, kind, plan)


def _drop(lake: Lake, kind: str, merged: Collection[str], leave_seconds: float) -> None:
    """Take the rows of loads that are not part of the lake out of its tables: `merged` ones, and old ones."""
    before = time.time() - leave_seconds
    dead: dict[str, set[str]] = {}

    def plan(state: LakeState) -> Change | None:
        named = state.loads(kind)
        for table, files in live(lake, kind).items():
            old = {each.load for each in files if each.load in merged or each.written < before}
            dead[table] = old - named.keys()
        loads = sorted(set().union(*dead.values()))
        # From this commit on no writer commits them.
        return Change({}, dropped=loads) if loads else None

    if any(live(lake, kind).values()) and change(lake, kind, plan):
        for table, loads in dead.items():
            if loads:
                commits.commit(lake, table, [], loads)


def _free(lake: Lake, leave_seconds: float) -> None:
    """Delete the files that no version since needs, which takes no room on a disk that is full."""
    before = time.time() - leave_seconds
    hours = max(0, math.ceil(leave_seconds / 3600))

    def given_up(name: str) -> list[str]:
        # A writer that was killed may have written files of a table that it had not created.
        if (table := lake.find_table(name)) is None:
            return []
        # The library's list, but not its deletion: it would follow links, and make commits.
        listed = lake.result(partial(table.vacuum, hours, enforce_retention_duration=False, full=True))
        return [f"{name}/{path}" for path in listed if FILE_PATH.fullmatch(path)]

    found = lake.each(given_up, lake.tables())
    # Read after that: what another process restored meanwhile stays.
    roots = (*(f"{kind}s" for kind in KINDS), *SHARED)
    files = [read(lake, root=root).files for root in roots] + [live(lake)]
    kept = {f"{table}/{each.path}" for named in files for table in named for each in named[table]}
    lake.each(partial(stores.delete, lake, kept=kept), found)
    if not lake.is_remote:
        links.sweep(lake.url, before)


def _clean_logs(lake: Lake) -> None:
    """Write checkpoints for those who read the logs, and delete what is older than these need."""

    def clean(name: str) -> None:
        table = make_table(lake, name)
        if table.version() > 10:
            lake.result(table.create_checkpoint)
            lake.result(table.cleanup_metadata)

    lake.each(clean, lake.tables())
