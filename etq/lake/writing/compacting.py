"""Compacts a lake: merges many small loads into few large ones, and removes rows that are not part of the lake."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Final

import duckdb

from etq.ingest.stores import deltalake
from etq.lake.reading.connection import LOAD, attach, read_parquet
from etq.lake.reading.state import LakeState, read
from etq.lake.reading.tables import KINDS, Lake, all_tables, loads_of, tables_of
from etq.lake.writing.loads import (
    EVENTS,
    MOST_CONTENTS,
    MOST_EVENTS,
    age_of,
    commit,
    drop,
    make_table,
    recorded_at,
    rewrite,
    writing,
)

# A load with this many captures is not enlarged, because a query about one capture reads a whole file of each table.
MOST_MERGED: Final = 20_000
# A younger load may belong to a writer that has not committed it yet.
LEAVE_SECONDS: Final = 3600


def compact(
    path: str | os.PathLike[str] | Lake,
    *,
    leave_seconds: float = LEAVE_SECONDS,
    storage_options: Mapping[str, str] | None = None,
) -> tuple[int, int]:
    """Merge small loads that are neighbours in time; rows are sorted by key. Returns the numbers of loads before and
    after.

    Rows of loads that were never committed are removed if they are older than `leave_seconds` (an hour). If the writer
    of such a load is still at work, it raises an error, and adds nothing.

    Readers keep their files: files that the lake no longer needs are deleted a week later.

    Raises `WarehouseError` for what isn't a lake, for a damaged lake, and for one that can't be written.
    """
    lake = Lake.at(path, storage_options)
    state = read(lake)
    for kind in KINDS:
        for group in _groups(state, kind):
            commit(lake, kind, [rewrite(state, kind, group)], group)
        _remove_uncommitted(lake, kind, leave_seconds)
    with writing(lake):
        lake.each(lambda table: _clean(lake, table), all_tables())
    return _number(state), _number(read(lake))


def _number(state: LakeState) -> int:
    return sum(len(state.loads(kind)) for kind in KINDS)


def _groups(state: LakeState, kind: str) -> Iterator[list[str]]:
    """Return groups of small loads to be merged. A group is at most as large as one load may be.

    The loads of a group are neighbours in time, so that the captures of one day are in few loads.
    """
    contents, events = state.rows(f"{kind}s"), state.rows(*(EVENTS if kind == "capture" else ()))
    small = [load for load in _in_time(state, kind) if contents[load] < MOST_CONTENTS]
    group: list[str] = []
    number = size = 0
    for load in small:
        number, size = number + contents[load], size + events.get(load, 0)
        if number > MOST_MERGED or size > MOST_EVENTS:
            if len(group) > 1:
                yield group
            group, number, size = [], contents[load], events.get(load, 0)
        group.append(load)
    if len(group) > 1:
        yield group


def _in_time(state: LakeState, kind: str) -> list[str]:
    """The loads of a kind, in the order of the middle of their times of recording."""
    root = f"{kind}s"
    if not state.of(root):
        return []
    with duckdb.connect(":memory:") as connection:
        attach(connection, state)
        files = read_parquet(state.paths(root), "filename = true")
        query = f"SELECT {LOAD} AS load FROM {files} GROUP BY ALL ORDER BY median({recorded_at(kind)}), load"
        with writing(state.lake):
            return [load for (load,) in connection.execute(query).fetchall()]


def _remove_uncommitted(lake: Lake, kind: str, leave_seconds: float) -> None:
    """Remove rows of loads that are missing from their root table. Before, a commit of that table discards these
    loads.
    """
    module = deltalake()
    tables = tables_of(kind)[:-1]
    while True:
        root = lake.open(f"{kind}s")
        found = set[str]().union(*lake.each(lambda table: loads_of(lake.open(table)), tables)) - loads_of(root)
        given_up = sorted(load for load in found if age_of(load) >= leave_seconds)
        if not given_up:
            return
        root = root or make_table(lake, f"{kind}s")
        noted = [module.Transaction(load, 1) for load in given_up]
        properties = module.CommitProperties(app_transactions=noted, max_commit_retries=0)
        with writing(lake), suppress(module.exceptions.CommitFailedError):
            # The commit fails if the table has changed since it was read. So none of the loads has been committed since
            # then, and none can be committed later.
            root.create_write_transaction([], "append", root.schema(), ["load_id"], commit_properties=properties)
            drop(lake, kind, given_up)
            return


def _clean(lake: Lake, table: str) -> None:
    """Write a checkpoint of a table's log, and delete files, and parts of the log, that have not been needed for a
    week.
    """
    opened = lake.open(table)
    if opened is not None:
        opened.vacuum(dry_run=False, full=True)
        opened = make_table(lake, table)
        opened.create_checkpoint()
        opened.cleanup_metadata()
