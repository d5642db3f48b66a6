"""Finds launches of kernels that are recorded into a graph: launches between the calls that begin and end the graph's
capture. Nothing runs until the graph is launched.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from etq.ingest.trace.classes import Class
from etq.ingest.trace.scanner import NONE

Whole = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

_BEGIN: Final = re.compile(r"[a-z]+StreamBegin(?:Rec|C)apture")
_END: Final = re.compile(r"[a-z]+StreamEndCapture")
_INSTANTIATE: Final = re.compile(r"[a-z]+GraphInstantiate")
_ENGINE: Final = "autograd::engine::evaluate_function: "


class Calls(NamedTuple):
    """Properties of a trace's slices, as arrays [n]; `kinds` has the category and name of each kind, `classes` its
    class.

    process  a number that identifies the process
    forward  the thread that ran the forward op; -1 for none
    works    whether it is a call that launched work of a device
    """

    kinds: Sequence[tuple[str, str]]
    classes: Sequence[Class]
    kind: Whole
    thread: npt.NDArray[np.int32]
    process: Whole
    start: Whole
    elapsed: Whole
    forward: Whole
    works: Flags


class _Capture(NamedTuple):
    thread: int
    process: int
    begin: int
    end: int


def are_captured(calls: Calls, are_empty: Flags) -> Flags:
    """Return which launches are recorded into a graph; `are_empty` [n] are the launches without work.

    Such a launch is within a capture of its thread. If its thread runs the backward pass, it may also be within a
    capture of another thread of the process, because the backward pass launches into the streams of the forward pass.
    Launches of other threads aren't captured.
    """
    found = np.zeros(len(are_empty), np.bool_)
    if not any(_BEGIN.match(name) or _END.match(name) for _, name in calls.kinds):
        return found
    rows = np.flatnonzero(are_empty)
    of_thread, of_process = defaultdict(list), defaultdict(list)
    for capture in _captures(calls):
        of_thread[capture.thread].append(capture)
        of_process[capture.process].append(capture)
    is_engine = np.array([name.startswith(_ENGINE) for _, name in calls.kinds], np.bool_)[calls.kind]
    backward = np.unique(calls.thread[is_engine | (calls.forward > 0)])
    in_backward = np.isin(calls.thread[rows], backward)
    for captures, numbers, chosen in (
        (of_thread, calls.thread, np.ones(len(rows), np.bool_)),
        (of_process, calls.process, in_backward),
    ):
        for number, each in captures.items():
            held = rows[chosen & (numbers[rows] == number)]
            found[held[_are_within(each, calls.start[held])]] = True
    return found


def _are_within(captures: Sequence[_Capture], moments: Whole) -> Flags:
    order = sorted(captures, key=lambda each: each.begin)
    ends = np.maximum.accumulate(np.array([each.end for each in order], np.int64))
    last = np.searchsorted(np.array([each.begin for each in order], np.int64), moments, side="right") - 1
    found: Flags = (last != NONE) & (moments <= ends[last])
    return found


def _captures(calls: Calls) -> Iterator[_Capture]:
    """Yield the captures of each thread.

    If several streams are captured, one capture begins within another. A capture may end in a different thread than it
    began in. If the begin or end of a capture was not recorded, the capture is taken to extend to the nearest call of
    its thread that can't happen during a capture.
    """
    are_begins, are_ends = (
        np.array([each.match(name) is not None for _, name in calls.kinds], np.bool_)[calls.kind]
        for each in (_BEGIN, _END)
    )
    begun: dict[int, list[int]] = defaultdict(list)
    alone: list[int] = []
    rows = np.flatnonzero(are_begins | are_ends)
    for row in rows[np.argsort(calls.start[rows], kind="stable")].tolist():
        open_ones = begun[int(calls.thread[row])]
        if are_begins[row]:
            open_ones.append(row)
        elif open_ones:
            begin = open_ones.pop()
            yield _capture(calls, begin, int(calls.start[begin]), _end(calls, row))
        else:
            alone.append(row)
    breaks, first, last = _breaks(calls), int(calls.start.min()), _end(calls)
    left = set(alone)
    # Begins and ends are ordered by start, so an end before a begin is also before all later begins.
    ends: dict[int, deque[int]] = defaultdict(deque)
    for row in alone:
        ends[int(calls.process[row])].append(row)
    for row in sorted((row for rows in begun.values() for row in rows), key=lambda row: int(calls.start[row])):
        begin, of_process = int(calls.start[row]), ends[int(calls.process[row])]
        while of_process and calls.start[of_process[0]] < begin:
            of_process.popleft()
        if not of_process:
            later = breaks[int(calls.thread[row])]
            place = int(np.searchsorted(later, begin, side="right"))
            yield _capture(calls, row, begin, int(later[place]) - 1 if place < len(later) else last)
            continue
        other = of_process.popleft()
        left.discard(other)
        for each in (row, other):
            yield _capture(calls, each, begin, _end(calls, other))
    for row in (row for row in alone if row in left):
        earlier = breaks[int(calls.thread[row])]
        place = int(np.searchsorted(earlier, calls.start[row])) - 1
        begin = int(earlier[place]) + 1 if place >= 0 else first
        yield _capture(calls, row, begin, _end(calls, row))


def _capture(calls: Calls, row: int, begin: int, end: int) -> _Capture:
    return _Capture(int(calls.thread[row]), int(calls.process[row]), begin, end)


def _end(calls: Calls, row: int | None = None) -> int:
    """Return the end of a call, or of the trace."""
    if row is None:
        return int((calls.start + np.maximum(calls.elapsed, 0)).max())
    return int(calls.start[row] + max(calls.elapsed[row], 0))


def _breaks(calls: Calls) -> defaultdict[int, Whole]:
    """Return, by thread, the sorted starts of calls that can't happen during a capture: they wait for a device,
    instantiate a graph, or launched work that ran.
    """
    are_breaks = np.array(
        [
            each.activity == "call" and (each.purpose == "synchronization" or _INSTANTIATE.match(name) is not None)
            for each, (_, name) in zip(calls.classes, calls.kinds, strict=True)
        ],
        np.bool_,
    )[calls.kind]
    rows = np.flatnonzero(are_breaks | calls.works)
    rows = rows[np.lexsort((calls.start[rows], calls.thread[rows]))]
    threads, firsts = np.unique(calls.thread[rows], return_index=True)
    found: defaultdict[int, Whole] = defaultdict(lambda: np.zeros(0, np.int64))
    # The first part is empty: it lies before the first thread's part.
    found.update(zip(threads.tolist(), np.split(calls.start[rows], firsts)[1:], strict=True))
    return found
