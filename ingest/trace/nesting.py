"""Order and nesting of a trace's slices, by numpy alone: a loop over the slices would double the reading time."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from etq.ingest.trace.scanner import NONE

Whole = npt.NDArray[np.int64]
# The parents of all slices are searched together, in rounds, until this many steps per slice were taken; the parents of
# the remaining slices are then searched one by one. Starting a round costs as much as `_OF_ROUND` steps.
_STEPS: Final = 8
_OF_ROUND: Final = 200


def order_of(codes: Whole) -> Whole:
    """Return the stable order of codes, which are 0 or more. If all are below 2**16, numpy sorts without comparing."""
    return np.argsort(codes.astype(np.uint16) if len(codes) and codes.max() < 2**16 else codes, kind="stable")


def first_places(codes: Whole, count: int) -> Whole:
    """Return for each code below `count` its first place, -1 if it doesn't occur."""
    first = np.full(count, NONE, np.int64)
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    return first


def occurrences(codes: Whole) -> npt.NDArray[np.int32]:
    """Return for each code how many equal codes come before it."""
    order = order_of(codes)
    is_first = np.diff(codes[order], prepend=NONE) != 0
    starts = np.flatnonzero(is_first)
    found = np.zeros(len(codes), np.int32)
    found[order] = np.arange(len(codes)) - np.repeat(starts, np.diff(starts, append=len(codes)))
    return found


def nesting(thread: Whole, start: Whole, end: Whole, slack: Whole) -> tuple[Whole, Whole]:
    """Return two things for each slice: its parent, which is the slice of the same thread that contains it, -1 if there
    is none; and how much time before its end belongs to other slices of the thread.

    The rule for parents is torch's (`_populate_cpu_children`). A slice may end after its parent by up to its `slack`.
    """
    order = by_start(start, end)
    order = order[order_of(thread[order])]
    is_first = np.diff(thread[order], prepend=NONE) != 0
    # A slice is not nested in a slice that ends earlier, or that ends where it begins.
    reach = np.maximum(start[order] + 1, end[order] - slack[order])
    above = above_of(reach, end[order], is_first)
    parent = np.full(len(order), NONE, np.int64)
    is_within = above != NONE
    parent[order[is_within]] = order[above[is_within]]
    return parent, _overlaps(order, start, end, above, is_first)


def _overlaps(order: Whole, start: Whole, end: Whole, above: Whole, is_first: npt.NDArray[np.bool_]) -> Whole:
    overlap = np.empty(len(order), np.int64)
    overlap[order] = end[order] - _counted_ends(start[order], end[order], above, is_first)
    return overlap


def by_start(start: Whole, end: Whole) -> Whole:
    """Return the order by start; of slices that start together, the longest comes first."""
    order = np.argsort(start, kind="stable")
    is_tied = np.diff(start[order]) == 0
    return np.lexsort((-end, start)) if (is_tied & (np.diff(end[order]) > 0)).any() else order


def above_of(reach: Whole, end: Whole, is_first: npt.NDArray[np.bool_]) -> Whole:
    """Return for each place the nearest earlier place of its thread whose end is not before `reach`; -1 if there is
    none.

    `is_first` marks the first slice of each thread.
    """
    above = np.arange(NONE, len(reach) - 1)
    above[is_first] = NONE
    # If a candidate ends too early, the next candidate is the candidate's own candidate.
    waiting = np.flatnonzero((above != NONE) & (reach > end[above]))
    steps = 0
    while len(waiting) and steps < _STEPS * len(reach):
        steps += len(waiting) + _OF_ROUND
        above[waiting] = above[above[waiting]]
        waiting = waiting[(above[waiting] != NONE) & (reach[waiting] > end[above[waiting]])]
    if len(waiting):
        climbed, ends = above.tolist(), end.tolist()
        for place, last in zip(waiting.tolist(), reach[waiting].tolist(), strict=True):
            # Start at the previous slice and follow the parents already found, which skip slices that ended too early.
            at = place - 1
            while at != NONE and last > ends[at]:
                at = climbed[at]
            climbed[place] = at
        above = np.array(climbed, np.int64)
    return above


def _counted_ends(start: Whole, end: Whole, above: Whole, is_first: npt.NDArray[np.bool_]) -> Whole:
    """Return a limit for each slice: until then, the thread's time belongs to the slice.

    The limit is the earliest of three times: the slice's end, the start of the next slice that it doesn't contain, and
    the limit of its parent. So slices within one slice don't overlap.
    """
    ends = end.copy()
    # If a slice isn't within the previous one, it comes after the previous one and after all slices around that, up to
    # its own parent.
    later = np.flatnonzero(~is_first)
    before = later - 1
    while len(later):
        is_after = before != above[later]
        later, before = later[is_after], before[is_after]
        ends[before] = np.minimum(ends[before], start[later])
        before = above[before]
        is_within = before != NONE
        later, before = later[is_within], before[is_within]
    for _ in range(_STEPS):
        longer = np.flatnonzero((above != NONE) & (ends > ends[above]))
        if not len(longer):
            return ends
        ends[longer] = ends[above[longer]]
    # If many nested slices still end later than those around them, they are adjusted one by one, from the outermost to
    # the innermost.
    found = ends.tolist()
    for place, outer in enumerate(above.tolist()):
        if outer != NONE and found[place] > found[outer]:
            found[place] = found[outer]
    return np.array(found, np.int64)
