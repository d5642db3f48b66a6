"""Matches kernels of a graph to the launches of a recording, by names and order, if these are unambiguous."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from etq.ingest.trace.nesting import occurrences
from etq.ingest.trace.scanner import NONE

Whole = npt.NDArray[np.int64]
# The most cells of a table: two sequences of 5,800 take 64 MB and a quarter of a second.
_MOST_CELLS: Final = 2**25


def aligned(kernels: Whole, launches: Whole, stream: Whole) -> tuple[Whole, int]:
    """Return the launch of each kernel, -1 for none, and how many kernels could be matched.

    `kernels` [n] and `launches` [m] have numbers that stand for names, in order; `stream` [n] has a number of each
    kernel's stream. Kernels of one stream start in the order in which they were recorded; the order between streams is
    unknown. A kernel that fits several launches counts among those that could be matched, but has no launch.
    """
    if len(np.unique(stream)) > 1:
        return _of_streams(kernels, launches, stream)
    if len(kernels) == len(launches) and bool((kernels == launches).all()):
        return np.arange(len(kernels)), len(kernels)
    first, last = _common(kernels, launches)
    found = np.where(first == last, first, NONE)
    # Runtimes may put independent nodes of a graph into another order.
    left = np.flatnonzero(found == NONE)
    rest = np.setdiff1d(np.arange(len(launches)), found)
    places = _by_name(kernels[left], launches[rest])
    found[left[places != NONE]] = rest[places[places != NONE]]
    return found, max(int((last != NONE).sum()), int((found != NONE).sum()))


def _of_streams(kernels: Whole, launches: Whole, stream: Whole) -> tuple[Whole, int]:
    """Match kernels of several streams. The kernels of one stream are in order among the launches. This gives each
    kernel a first and a last possible place. If only one launch of the kernel's name is left between these places, the
    kernel is matched, which narrows the places of other kernels.
    """
    first, last = np.full(len(kernels), NONE, np.int64), np.full(len(kernels), NONE, np.int64)
    streams = [np.flatnonzero(stream == number) for number in np.unique(stream).tolist()]
    for rows in streams:
        first[rows], last[rows] = _common(kernels[rows], launches)
    is_recorded = (first != NONE) & (last != NONE)
    streams = [rows[is_recorded[rows]] for rows in streams]
    free = {name: np.flatnonzero(launches == name) for name in np.unique(kernels).tolist()}
    count = sum(min(int((kernels[is_recorded] == name).sum()), len(places)) for name, places in free.items())
    found = np.full(len(kernels), NONE, np.int64)
    waiting = np.flatnonzero(is_recorded).tolist()
    while waiting:
        still = []
        for row in waiting:
            places = free[int(kernels[row])]
            begin, end = np.searchsorted(places, [first[row], last[row] + 1]).tolist()
            if end - begin == 1:
                found[row] = first[row] = last[row] = places[begin]
                free[int(kernels[row])] = np.delete(places, begin)
            else:
                still.append(row)
        if len(still) == len(waiting):
            break
        waiting = still
        for rows in streams:
            steps = np.arange(len(rows))
            first[rows] = np.maximum.accumulate(first[rows] - steps) + steps
            last[rows] = np.minimum.accumulate((last[rows] - steps)[::-1])[::-1] + steps
    return found, count


def _common(a: Whole, b: Whole) -> tuple[Whole, Whole]:
    """Return, for each item of `a`, the first and the last place in `b` that it has in a longest common subsequence; -1
    for none.

    If the sequences are too long for a table, their common beginning and end are cut off first.
    """
    first, last = np.full(len(a), NONE, np.int64), np.full(len(a), NONE, np.int64)
    begin, end = 0, 0
    if len(a) * len(b) > _MOST_CELLS:
        shorter = min(len(a), len(b))
        begin = _length_of_equal(a[:shorter], b[:shorter])
        end = min(_length_of_equal(a[::-1][:shorter], b[::-1][:shorter]), shorter - begin)
        first[:begin] = last[:begin] = np.arange(begin)
        first[len(a) - end :] = last[len(a) - end :] = np.arange(len(b) - end, len(b))
    inner, other = a[begin : len(a) - end], b[begin : len(b) - end]
    if 0 < len(inner) * len(other) <= _MOST_CELLS:
        table = _lengths(inner, other)
        for places, prefers_match in ((first, False), (last, True)):
            for at, place in _traced(table, inner.tolist(), other.tolist(), prefers_match=prefers_match):
                places[begin + at] = begin + place
    return first, last


def _length_of_equal(a: Whole, b: Whole) -> int:
    differing = np.flatnonzero(a != b)
    return int(differing[0]) if len(differing) else len(a)


def _lengths(a: Whole, b: Whole) -> npt.NDArray[np.uint16]:
    """Return the lengths of the longest common subsequences of all prefixes [n + 1, m + 1]."""
    table = np.zeros((len(a) + 1, len(b) + 1), np.uint16)
    for row, value in enumerate(a.tolist(), 1):
        before = table[row - 1]
        longer = np.maximum(before[1:], np.where(b == value, before[:-1] + 1, 0))
        np.maximum.accumulate(longer, out=table[row, 1:])
    return table


def _traced(table: npt.NDArray[np.uint16], a: list[int], b: list[int], *, prefers_match: bool) -> list[tuple[int, int]]:
    """Return the pairs of one longest common subsequence.

    With `prefers_match`, it is the subsequence with the last places, otherwise the one with the first places.
    """
    pairs = []
    row, column = len(a), len(b)
    while row and column:
        length = table[row, column]
        is_equal = a[row - 1] == b[column - 1]
        if is_equal and (prefers_match or length not in (table[row, column - 1], table[row - 1, column])):
            row, column = row - 1, column - 1
            pairs.append((row, column))
        elif table[row, column - 1] == length:
            column -= 1
        else:
            row -= 1
    return pairs


def _by_name(a: Whole, b: Whole) -> Whole:
    """Return for each item of `a` the place of the item of `b` that matches it. Names that occur equally often in both
    are matched in order; other items get -1.
    """
    found = np.full(len(a), NONE, np.int64)
    if not len(a) or not len(b):
        return found
    size = int(max(a.max(), b.max())) + 1
    often = np.bincount(a, minlength=size) == np.bincount(b, minlength=size)
    ours, theirs = np.flatnonzero(often[a]), np.flatnonzero(often[b])
    ours = ours[np.lexsort((occurrences(a[ours]), a[ours]))]
    theirs = theirs[np.lexsort((occurrences(b[theirs]), b[theirs]))]
    found[ours] = theirs
    return found
