"""Finds impossible times of a trace: events whose time the profiler could not obtain, and work that ends after later
work of its stream.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from etq.ingest.trace.scanner import NONE
from etq.ingest.trace.ticks import Whole

# The ticks of an event whose time is unknown. Views leave out events that end before they start.
UNKNOWN: Final = -1
# The tolerance in ticks: profilers that write whole microseconds round the starts and durations of both events.
_ROUNDED: Final = 2_000
_DAY: Final = 86_400_000_000_000


def without_time(start: Whole, elapsed: Whole, call: Whole) -> Whole:
    """Return the slices, as rows, that have no time. A slice has no time in two cases. In the first, its start and
    duration are 0, and either the call that launched it starts later, or all other slices are further from 0 than the
    whole time that they span. In the second, only its start is 0, and all other slices are more than a day away.

    `start`, `elapsed` [n] are ticks; `call` [n] is the row of the call that launched each, -1 for none.
    """
    is_zero = start == 0
    rows = np.flatnonzero(is_zero)
    if not len(rows) or len(rows) == len(start):
        return rows[:0]
    others = np.flatnonzero(~is_zero)
    first, last = int(start[others].min()), int((start[others] + elapsed[others]).max())
    is_short = elapsed[rows] == 0
    if first > last - first:
        return np.asarray(rows[is_short | (first - elapsed[rows] > _DAY)], np.int64)
    is_before: npt.NDArray[np.bool_] = is_short & (call[rows] != NONE) & (start[call[rows]] > 0)
    return np.asarray(rows[is_before], np.int64)


def outlasting(thread: Whole, start: Whole, elapsed: Whole, call: Whole) -> tuple[Whole, Whole]:
    """Return the places of work that ends after later work of its stream, and when the next work of the stream starts.

    A stream is serial: its work ends in the order in which it was launched. With programmatic dependent launch, the
    next kernel may start early, but it ends later. The work of one call, such as the launch of a graph, may run side by
    side. A difference of one or two microseconds may be due to rounding.

    Arrays of n: `thread`, a number of each stream; `start` and `elapsed` in ticks; `call`, the row of the call that
    launched each, -1 for none.
    """
    order = np.lexsort((start, thread))
    thread, start, end, call = thread[order], start[order], (start + elapsed)[order], call[order]
    is_new = np.ones(len(order), np.bool_)
    is_new[1:] = (thread[1:] != thread[:-1]) | (call[1:] != call[:-1]) | (call[1:] == NONE)
    first = np.flatnonzero(is_new)
    if len(first) < 2:
        return order[:0], order[:0]
    group = np.cumsum(is_new) - 1
    of_thread = thread[first]
    least = _least_after(np.minimum.reduceat(end, first), of_thread)
    following = np.append(start[first[1:]], 0)
    has_following = np.append(of_thread[1:] == of_thread[:-1], False)
    is_over: npt.NDArray[np.bool_] = has_following[group] & (end > least[group] + _ROUNDED)
    return order[is_over], np.maximum(following[group], start)[is_over]


def _least_after(ends: Whole, thread: Whole) -> Whole:
    """Return for each of these ends the smallest end that comes after it in its thread. Ends are grouped by thread."""
    least = ends.copy()
    last = np.flatnonzero(np.append(thread[1:] != thread[:-1], True))
    begin = 0
    for at in last.tolist():
        part = ends[begin : at + 1]
        least[begin:at] = np.minimum.accumulate(part[:0:-1])[::-1]
        begin = at + 1
    return least
