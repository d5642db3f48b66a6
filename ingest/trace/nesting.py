"""Orders and nesting of a trace's slices, by numpy alone: a loop over each slice takes as long as all else."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from etq.ingest.trace.scanner import NONE

Whole = npt.NDArray[np.int64]
# How many steps slices climb together, by their number; what is left then climbs one by one. A round is so many steps
# more.
_STEPS: Final = 8
_OF_ROUND: Final = 200


def order_of(codes: Whole) -> Whole:
    """The stable order of codes from 0 on: of few of them, at once rather than by comparing."""
    return np.argsort(codes.astype(np.uint16) if len(codes) and codes.max() < 2**16 else codes, kind="stable")


def first_places(codes: Whole, count: int) -> Whole:
    """For each code below `count` the first place that has it; -1 where none does."""
    first = np.full(count, NONE, np.int64)
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    return first


def occurrences(codes: Whole) -> npt.NDArray[np.int32]:
    """How many of the same code came before."""
    order = order_of(codes)
    is_first = np.diff(codes[order], prepend=NONE) != 0
    starts = np.flatnonzero(is_first)
    found = np.zeros(len(codes), np.int32)
    found[order] = np.arange(len(codes)) - np.repeat(starts, np.diff(starts, append=len(codes)))
    return found


def launches(ids: Whole, starts: Whole, wanted: Whole, moments: Whole) -> Whole:
    """For each wanted id, at its moment, the last call of that id that starts by then, or else the first; -1 for none.

    As `_launches` in SQL, which also distinguishes processes.
    """
    order = np.lexsort((starts, ids))
    count = len(order)
    every = np.concatenate([ids[order], wanted])
    # Calls come before the work they launch with the same id at the same time.
    merged = np.lexsort((np.arange(len(every)) >= count, np.concatenate([starts[order], moments]), every))
    is_call = merged < count
    last = np.maximum.accumulate(np.where(is_call, merged, NONE))
    place = np.empty(len(wanted), np.int64)
    place[merged[~is_call] - count] = last[~is_call]
    if not count:
        return place
    # Work that starts before all calls of its id finds a call of another id here, or none.
    first = np.minimum(np.searchsorted(ids[order], wanted), count - 1)
    place = np.where((place != NONE) & (ids[order][place] == wanted), place, first)
    return np.where(ids[order][place] == wanted, order[place], NONE)


def parents(thread: Whole, start: Whole, end: Whole, slack: Whole) -> Whole:
    """The slice of the same thread that contains each, as torch nests them (`_populate_cpu_children`); -1 for none.

    A slice may stand out of its parent by its `slack`.
    """
    order = _by_start(start, end)
    order = order[order_of(thread[order])]
    is_first = np.diff(thread[order], prepend=NONE) != 0
    # A slice that ends after another's end, or begins there, is not nested in it.
    reach = np.maximum(start[order] + 1, end[order] - slack[order])
    above = _above(reach, end[order], is_first)
    parent = np.full(len(order), NONE, np.int64)
    is_within = above != NONE
    parent[order[is_within]] = order[above[is_within]]
    return parent


def _by_start(start: Whole, end: Whole) -> Whole:
    """By start; of those that start together, the longest first."""
    order = np.argsort(start, kind="stable")
    is_tied = np.diff(start[order]) == 0
    return np.lexsort((-end, start)) if (is_tied & (np.diff(end[order]) > 0)).any() else order


def _above(reach: Whole, end: Whole, is_first: npt.NDArray[np.bool_]) -> Whole:
    """For each place the nearest before it that doesn't end before its reach; -1 for none, nor for the first of any."""
    above = np.arange(NONE, len(reach) - 1)
    above[is_first] = NONE
    # A slice that ends too early is not the parent of those that passed it: next, try the one that they wait at now.
    waiting = np.flatnonzero((above != NONE) & (reach > end[above]))
    steps = 0
    while len(waiting) and steps < _STEPS * len(reach):
        steps += len(waiting) + _OF_ROUND
        above[waiting] = above[above[waiting]]
        waiting = waiting[(above[waiting] != NONE) & (reach[waiting] > end[above[waiting]])]
    if len(waiting):
        climbed, ends = above.tolist(), end.tolist()
        for place, last in zip(waiting.tolist(), reach[waiting].tolist(), strict=True):
            # From the one before it, so that what that one passed by isn't passed by again.
            at = place - 1
            while at != NONE and last > ends[at]:
                at = climbed[at]
            climbed[place] = at
        above = np.array(climbed, np.int64)
    return above
