"""Compacting a lake: merges many small segments into few large ones, and deletes files of no segment."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from etq import catalog
from etq.lake import log
from etq.lake.log import ConflictError, Segment, State
from etq.lake.reading import connect
from etq.lake.segments import EVENTS, KINDS, MOST_CONTENTS, MOST_EVENTS, discard, rewrite

# A file of no segment may be one that a writer has not noted yet, or that a reader of the lake as it was still reads.
_LEFT_SECONDS: Final = 24 * 3600


def compact(path: str | os.PathLike[str], *, leave_seconds: float = _LEFT_SECONDS) -> tuple[int, int]:
    """Put small segments together, as large as one may be. Returns the numbers of segments before and after.

    Readers keep their files: files that no segment names any more are deleted a day (or `leave_seconds`)
    after they were written or taken out.

    Raises `WarehouseError` for a folder that isn't a lake, for a damaged lake, and for one that can't be written.
    """
    lake = Path(path)
    with log.writing(lake):
        return _compact(lake, leave_seconds)


def _compact(lake: Path, leave_seconds: float) -> tuple[int, int]:
    while True:
        state = log.read(lake)
        written: list[Segment] = []
        try:
            with connect(lake, state) as held:
                groups = [group for group in _groups(state) if len(group) > 1]
                for group in groups:
                    written.append(rewrite(held, lake, group))
            after = state
            if written:
                after = log.commit(lake, state, written, [each.name for group in groups for each in group])
            _delete_left(lake, after, leave_seconds)
            return len(state.segments), len(after.segments)
        except ConflictError:
            discard(lake, written)
        except BaseException:
            discard(lake, written)
            raise


def _groups(state: State) -> Iterator[list[Segment]]:
    """Segments that may be one."""
    for kind in KINDS:
        group: list[Segment] = []
        contents = events = 0
        for segment in sorted((each for each in state.segments.values() if each.kind == kind), key=_events):
            if group and (contents + segment.contents > MOST_CONTENTS or events + _events(segment) > MOST_EVENTS):
                yield group
                group, contents, events = [], 0, 0
            group.append(segment)
            contents, events = contents + segment.contents, events + _events(segment)
        if group:
            yield group


def _events(segment: Segment) -> int:
    return sum(segment.rows.get(table, 0) for table in EVENTS)


def left_files(lake: Path, state: State) -> Iterator[Path]:
    """Files of tables that no segment names."""
    for table in catalog.tables():
        named = {segment.file(lake, table.name) for segment in state.of_table(table.name)}
        yield from (each for each in (lake / table.name).glob("*.parquet") if each not in named)


def _delete_left(lake: Path, state: State, leave_seconds: float) -> None:
    # Files named by a later entry are younger than that.
    for path in left_files(lake, state):
        with suppress(FileNotFoundError):  # Another one deletes them, too.
            if path.stat().st_mtime < time.time() - leave_seconds:
                path.unlink()
