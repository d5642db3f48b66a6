"""Corrects Python frames that a recording left open: they end when their callers end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from etq.ingest.trace.launches import are
from etq.ingest.trace.nesting import above_of, by_start, order_of
from etq.ingest.trace.scanner import NONE
from etq.ingest.trace.types import Entries, Part, lenient

Whole = npt.NDArray[np.int64]

_FRAMES: Final = "python_function"
# More levels than any program has; a damaged file may have any depth.
_DEEPEST: Final = 500


class _Arguments(msgspec.Struct, gc=False):
    """The ids of a frame and of its caller."""

    number: int = msgspec.field(default=NONE, name="Python id")
    caller: int = msgspec.field(default=NONE, name="Python parent id")


class _Event(msgspec.Struct, gc=False):
    args: _Arguments | None = None


_events, _event = lenient(_Event)


def clamped(
    categories: Sequence[str],
    kind: Whole,
    thread: Whole,
    start: Whole,
    elapsed: Whole,
    slack: Whole,
    at: Whole,
    entries: Entries,
) -> Whole:
    """Return how long slices last, in nanoseconds: a Python frame ends no later than the frame that called it.

    The caller is the frame of the thread that was open at the frame's start and has the id `Python parent id`. If the
    profiler missed a frame's return, it ends the frame at the end of the recording. `kind` [n] is the place of each
    slice's category, `at` [n] its position in the file; a frame may end after its caller by up to `slack` [n].
    """
    rows = np.flatnonzero(are(kind, [category.lower() == _FRAMES for category in categories]) & (elapsed >= 0))
    if not len(rows):
        return elapsed
    rows = rows[by_start(start[rows], (start + elapsed)[rows])]
    rows = rows[order_of(thread[rows])]
    is_first = np.diff(thread[rows], prepend=NONE) != 0
    begin, end = start[rows], (start + elapsed)[rows]
    ids: dict[int, _Arguments] = {}

    def arguments(places: Whole) -> list[_Arguments]:
        """Return the ids of frames, by their places among `rows`."""
        unread = np.array([place for place in np.unique(places).tolist() if place not in ids], np.int64)
        unread = unread[np.argsort(at[rows[unread]])]
        found: list[_Event] = []
        entries.decode(Part(at[rows[unread]].astype(np.int64), _events, _event, found.extend))
        ids.update(zip(unread.tolist(), [each.args or _Arguments() for each in found], strict=True))
        return [ids[place] for place in places.tolist()]

    for _ in range(_DEEPEST):
        opened = above_of(begin + 1, end, is_first)
        # A frame may end later than the frame that was open at its start. Its caller is that frame, or a frame around
        # it.
        late = np.flatnonzero((opened != NONE) & (end - slack[rows] > end[opened]))
        around, was = opened[late], end.copy()
        while len(late):
            callers = [each.number for each in arguments(around)]
            is_called = np.array(
                [each.caller == caller != NONE for each, caller in zip(arguments(late), callers, strict=True)], np.bool_
            )
            chosen = late[is_called]
            end[chosen] = np.minimum(end[chosen], end[around[is_called]])
            late, around = late[~is_called], opened[around[~is_called]]
            late, around = late[around != NONE], around[around != NONE]
        if (end == was).all():
            break
    ends = elapsed.copy()
    ends[rows] = end - begin
    return ends
