"""Launches of kernels that are recorded into a graph, between the calls that begin and end its capture: nothing runs
until the graph is launched.
"""

from __future__ import annotations

import re
from collections import defaultdict
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
    """What is known of a trace's slices, as arrays [n]; `kinds`, `classes` have category and name, and class, of each
    kind.

    process  a number of the process
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
    """Return which launches without work, `are_empty` [n], are recorded into a graph.

    They lie in a capture of their thread; or of another thread of the process, if theirs runs the backward pass, whose
    launches go to the streams of the forward pass. Other threads launch on as ever.
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
    """Yield the captures of each thread; one begins within another if several streams are captured.

    A capture may end in another thread than it began in. Of one whose begin or end was not recorded, the times are from
    or to the nearest call of its thread that no thread makes while it captures.
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
    for row in sorted((row for rows in begun.values() for row in rows), key=lambda row: int(calls.start[row])):
        process, begin = calls.process[row], int(calls.start[row])
        other = next((end for end in alone if calls.process[end] == process and calls.start[end] >= begin), None)
        if other is None:
            after = _breaks(calls, row)
            later = after[after > begin]
            yield _capture(calls, row, begin, int(later.min()) - 1 if len(later) else _end(calls))
            continue
        alone.remove(other)
        for each in (row, other):
            yield _capture(calls, each, begin, _end(calls, other))
    for row in alone:
        before = _breaks(calls, row)
        earlier = before[before < calls.start[row]]
        yield _capture(calls, row, int(earlier.max()) + 1 if len(earlier) else int(calls.start.min()), _end(calls, row))


def _capture(calls: Calls, row: int, begin: int, end: int) -> _Capture:
    return _Capture(int(calls.thread[row]), int(calls.process[row]), begin, end)


def _end(calls: Calls, row: int | None = None) -> int:
    """Return the end of a call, or of the trace."""
    if row is None:
        return int((calls.start + np.maximum(calls.elapsed, 0)).max())
    return int(calls.start[row] + max(calls.elapsed[row], 0))


def _breaks(calls: Calls, row: int) -> Whole:
    """Return the starts of the calls in a call's thread that no capture has: they wait for a device, instantiate a
    graph, or launched work that ran.
    """
    are_breaks = np.array(
        [
            each.activity == "call" and (each.purpose == "synchronization" or _INSTANTIATE.match(name) is not None)
            for each, (_, name) in zip(calls.classes, calls.kinds, strict=True)
        ],
        np.bool_,
    )[calls.kind]
    found: Whole = calls.start[(are_breaks | calls.works) & (calls.thread == calls.thread[row])]
    return found
