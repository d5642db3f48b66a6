"""Finds what the host did in periods of a trace: in gaps of devices, and on the critical path."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from etq.ingest.arrow import batch, encoded, numbers
from etq.ingest.trace.classes import COMPILING, LONG_CALL
from etq.ingest.trace.launches import Flags, Whole, are, is_launch, is_module, nearest
from etq.ingest.trace.scanner import NONE
from etq.ingest.trace.waits import EARLIEST, Trace

# Shorter ops count as part of the host's launching, shorter functions as part of the function around them.
_SHORT: Final = 20_000
_LONG: Final = ("launch", "copy")
_CAUSES: Final = (
    "data_loading", "communication", "compilation", "graph_instantiation", "host", "cpu_op", "op_function", "step",
    "function",
)  # fmt: skip
_DATA_LOADING, _COMMUNICATION, _COMPILATION, _CAPTURE, _HOST, _CPU_OP, _OP_FUNCTION, _STEP, _FUNCTION = range(
    len(_CAUSES)
)
_NONE: Final[tuple[Whole, ...]] = (np.zeros(0, np.int64),) * 7


class Steps(NamedTuple):
    """Steps of any tool, as in `tool_steps`: the names of their annotations without numbers, None for steps that are
    runs; and their starts and ends, as arrays [s].
    """

    patterns: Collection[str | None]
    start: Whole
    end: Whole


class Periods(NamedTuple):
    """Periods of threads, as arrays [p]: the number, the thread, the start and the end of each."""

    period: Whole
    thread: Whole
    start: Whole
    end: Whole


class _States(NamedTuple):
    """States of threads of the host, each of which lasts until the thread's next state, as arrays [m] in the order of
    threads and times: the thread; the start; the innermost open event, -1 if none is open; and the place in `causes`
    of the cause of the state's time, -1 if no event is open, or if it is a function that waits for what other
    threads launch.
    """

    causes: list[str]
    thread: Whole
    at: Whole
    innermost: Whole
    cause: Whole


class _Moments(NamedTuple):
    """Starts and ends of events in threads of the host, as arrays [m] in the order of threads and times: the thread;
    the time; the innermost event that is then open, -1 if none is; the kind of the event that starts or ends, and 1 or
    -1. Until then: how many launches there were in all threads, and how many captures of graphs, loaders, events of
    communication and of compilation are open.
    """

    thread: Whole
    at: Whole
    innermost: Whole
    own: Whole
    change: Whole
    launched: Whole
    captures: Whole
    loads: Whole
    communicates: Whole
    compiles: Whole


class _Names(NamedTuple):
    """What is known of the kinds of a trace's slices, as arrays [k]; `cause` is the place of the cause of calls among
    the causes, `long_cause` that of long calls. `patterns` are the names without numbers.
    """

    patterns: list[str]
    is_host: Flags
    is_call: Flags
    is_op: Flags
    is_step: Flags
    is_function: Flags
    loads: Flags
    communicates: Flags
    compiles: Flags
    captures: Whole
    cause: Whole
    long_cause: Whole


class HostParts(NamedTuple):
    """The parts of periods, as arrays [q]: the place of the period; the start and the length; the innermost event, and
    the innermost event of the period's own thread, -1 for none; and what the host did, and the cause of the time, as
    places in `causes`, -1 for none.
    """

    causes: list[str]
    place: Whole
    at: Whole
    ticks: Whole
    name: Whole
    own: Whole
    did: Whole
    cause: Whole


def gap_parts(trace: Trace, calls: Whole, gaps: Periods, steps: Steps, signature: Whole) -> pa.RecordBatch:
    """Return the table `gap_parts`. `calls` [n] is the row of the call that launched each slice, or -1; `gaps` are the
    host times of gaps, by the events that ended them; `signature` [n] has the signature of each slice.
    """
    parts = host_parts(trace, calls, gaps, steps)
    return batch(
        {
            "event_index": numbers(gaps.period[parts.place].astype(np.int32)),
            "start_ticks": numbers(parts.at),
            "ticks": numbers(parts.ticks),
            "host_signature": numbers(signature[parts.name].astype(np.int32), parts.name == NONE),
            "did": encoded([*parts.causes, None], parts.did),
            "cause": encoded([*parts.causes, None], parts.cause),
        }
    )


def host_parts(trace: Trace, calls: Whole, periods: Periods, steps: Steps) -> HostParts:
    """Return what threads did in periods; if that is unknown, what the other thread of their process with the most
    launches did. `calls` is as in `gap_parts`. Periods of no thread have no parts.

    Algorithm: the states of both threads and the steps cut the time of a thread. A period has a part for each cut
    within it.
    """
    launching = _launching(trace, calls)
    states = _states(trace, launching, steps.patterns)
    size = int(max(trace.thread.max(initial=0), periods.thread.max(initial=0))) + 1
    launches, process = np.bincount(trace.thread[launching], minlength=size), np.full(size, NONE)
    process[trace.thread] = trace.process
    starts, ends = np.sort(steps.start), np.sort(steps.end)
    found = [_NONE]
    for thread in np.unique(periods.thread[periods.thread != NONE]).tolist():
        others = np.where(process == process[thread], launches, 0)
        others[thread] = 0
        most = int(others.argmax()) if others.any() else NONE
        rows = np.flatnonzero((periods.thread == thread) & (periods.end > periods.start))
        own, other = (np.flatnonzero(states.thread == each) for each in (thread, most))
        at = np.sort(np.concatenate([[EARLIEST], states.at[own], states.at[other], starts, ends]))
        at = at[np.append(at[1:] != at[:-1], True)]
        first = np.searchsorted(at, periods.start[rows], side="right") - 1
        count = np.searchsorted(at, periods.end[rows]) - first
        place = np.repeat(np.arange(len(rows)), count)
        cut = np.arange(len(place)) - np.repeat(np.cumsum(count) - count, count) + first[place]
        begin = np.maximum(periods.start[rows][place], at[cut])
        until = np.minimum(periods.end[rows][place], np.append(at[1:], np.iinfo(np.int64).max)[cut])
        own, other = (
            np.append(each, NONE)[np.searchsorted(states.at[each], at, side="right") - 1][cut] for each in (own, other)
        )
        is_within = np.searchsorted(starts, at, side="right") > np.searchsorted(ends, at, side="right")
        found.append(_parts(states, rows[place], begin, until - begin, own, other, is_within[cut], bool(len(starts))))
    columns = (np.concatenate(each) for each in zip(*found, strict=True))
    return HostParts([*states.causes, "between_steps", "not_recorded"], *columns)


def _parts(
    states: _States, place: Whole, at: Whole, ticks: Whole, own: Whole, other: Whole, is_within: Flags, has_steps: bool
) -> tuple[Whole, ...]:
    """Return the columns of `HostParts` but the causes; `own` and `other` are states of the threads, -1 for none."""
    cause, innermost = np.append(states.cause, NONE), np.append(states.innermost, NONE)
    is_unknown = cause[own] == NONE
    shown = np.where(is_unknown, other, own)
    is_step = is_within | (is_unknown & (innermost[own] != NONE))
    did = np.where((cause[shown] == NONE) & is_step, _STEP, cause[shown])
    between, unrecorded = len(states.causes), len(states.causes) + 1
    why = np.where(has_steps & ~is_within, between, np.where(did == NONE, unrecorded, did))
    return place, at, ticks, innermost[shown], innermost[own], did, why


def _launching(trace: Trace, calls: Whole) -> Whole:
    """Return the rows of calls that launch."""
    launches = are(trace.kind, [is_launch(each) for each in trace.classes])
    launches[calls[calls != NONE]] = True
    return np.flatnonzero(launches & are(trace.kind, [each.activity == "call" for each in trace.classes]))


def _names(trace: Trace, causes: list[str]) -> _Names:
    """Return what is known of kinds; causes of calls are added to `causes`."""

    def place(cause: str | None) -> int:
        if cause is not None and cause not in causes:
            causes.append(cause)
        return NONE if cause is None else causes.index(cause)

    labels, classes = [label for _, label in trace.kinds], trace.classes
    activities = [None if is_module(each) else each.activity for each in classes]
    is_call = [each.activity == "call" for each in classes]
    columns = (
        [not each.on_device and each.purpose != "profiler" for each in classes],
        [each == "call" for each in activities],
        [each == "op" for each in activities],
        [each == "step" for each in activities],
        [each in ("python", "python_function", "other") for each in activities],
        [each.purpose == "data_loading" for each in classes],
        [each.purpose == "communication" for each in classes],
        [each.purpose in COMPILING for each in classes],
    )
    captures = [
        is_one * (("BeginCapture" in label) - ("EndCapture" in label))
        for label, is_one in zip(labels, is_call, strict=True)
    ]
    host, call, op, step, function, loads, communicates, compiles = (np.array(each, np.bool_) for each in columns)
    return _Names(
        [re.sub("[0-9]+", "*", label) for label in labels],
        *(host, call, op, step, function, loads, communicates, compiles, np.array(captures, np.int64)),
        np.array([place(each.call_cause) for each in classes], np.int64),
        np.array([place(each.purpose if each.purpose in _LONG else "call") for each in classes], np.int64),
    )


def _moments(trace: Trace, names: _Names, launching: Whole, end: Whole, is_one: Flags) -> _Moments:
    """Return the moments of threads. After an event starts, it is the innermost one; after it ends, its parent is.
    Launches, and other calls that take some microseconds, are no events of their own, unless they are long. `launching`
    are the rows of launches; `end` [n] the ends of slices of the host, which `is_one` [n] marks.
    """
    kind, counted = trace.kind, end - trace.start
    is_state = is_one & (~names.is_call[kind] | (names.cause[kind] != NONE) | (counted >= LONG_CALL))
    rows, launches = np.flatnonzero(is_state & (counted > 0)), launching[is_one[launching]]
    # With a coarse clock, it is unclear whether a launch is in a function that begins in the same tick: it counts as in
    # the function if its op does.
    parent = trace.parent[launches]
    is_in_op = (parent != NONE) & is_one[parent] & names.is_op[kind[parent]] & (counted[parent] > 0)
    is_in_op &= trace.start[parent] == trace.start[launches]
    captures = np.flatnonzero(is_one & (names.captures[kind] != 0))
    # Elsewhere a capture's begin or end isn't recorded, or is another thread's.
    open_of = np.bincount(trace.thread[captures], names.captures[kind[captures]], int(trace.thread.max(initial=0)) + 1)
    captures = captures[open_of[trace.thread[captures]] == 0]
    every = np.concatenate([rows, rows, launches, captures])

    def joined(*parts: Whole | int) -> Whole:
        sizes = (len(rows), len(rows), len(launches), len(captures))
        kind = np.int8 if all(isinstance(each, int) for each in parts) else np.int64
        return np.concatenate([np.full(size, each, kind) for each, size in zip(parts, sizes, strict=True)])

    at = joined(trace.start[rows], end[rows], trace.start[launches], trace.start[captures])
    # Of events that start together, the longest is first; of those that end together, the one that started last.
    order = np.lexsort(
        (
            joined(trace.at[rows], -trace.at[rows], 0, 0),
            joined(-end[rows], -trace.start[rows], 0, 0),
            joined(2, 0, np.where(is_in_op, 3, 1), 1),
            at,
            trace.thread[every],
        )
    )
    change, own = joined(1, -1, 0, 0)[order], kind[every[order]]
    is_kept = change != 0
    kept = order[is_kept]
    innermost = joined(rows, trace.parent[rows], NONE, NONE)[kept]
    innermost[~is_one[innermost]] = NONE

    def so_far(changes: Whole) -> Whole:
        sums: Whole = np.cumsum(changes, dtype=np.int32)[is_kept]
        return sums

    return _Moments(
        trace.thread[every[kept]],
        at[kept],
        innermost,
        own[is_kept],
        change[is_kept],
        so_far(joined(0, 0, 1, 0)[order]),
        so_far(joined(0, 0, 0, names.captures[kind[captures]])[order]),
        *(so_far(change * flags[own]) for flags in (names.loads, names.communicates, names.compiles)),
    )


def _states(trace: Trace, launching: Whole, patterns: Collection[str | None]) -> _States:
    """Return the states of all threads. `launching` are the rows of launches, `patterns` as in `Steps`."""
    causes = [*_CAUSES]
    names, kind = _names(trace, causes), trace.kind
    counted = trace.elapsed - trace.overlap
    is_one = names.is_host[kind] & (counted >= 0) & (trace.elapsed >= 0)
    moments = _moments(trace, names, launching, trace.start + counted, is_one)
    begins = _begin_launches(names, moments, patterns)
    is_launching = np.cumsum(np.where((names.is_op & begins)[moments.own], moments.change, 0)) > 0
    innermost = moments.innermost
    is_known, of, length = innermost != NONE, kind[innermost], counted[innermost]
    is_long, is_short = length >= LONG_CALL, length < _SHORT
    is_op, is_in_op = is_known & names.is_op[of], ops_around(trace)[innermost] != NONE
    is_passing = is_known & (begins[of] | (names.is_function[of] & is_short))
    is_asked = is_known & ~begins[of] & ~is_op & ~is_short
    waiting = np.zeros(len(kind) + 1, np.bool_)
    asked = np.unique(innermost[is_asked])
    waiting[asked[_launch_within(trace, launching, asked, trace.start[asked] + counted[asked])]] = True
    chosen: tuple[tuple[Flags, int | Whole], ...] = (
        (moments.loads > 0, _DATA_LOADING),
        (moments.communicates > 0, _COMMUNICATION),
        (moments.compiles > 0, _COMPILATION),
        (is_known & (names.cause[of] != NONE), names.cause[of]),
        (is_known & names.is_call[of] & is_long, names.long_cause[of]),
        (is_known & (moments.captures > 0), _CAPTURE),
        # An op within a launching op is part of it, unless it takes a millisecond or more.
        (is_op & (begins[of] | is_short | (is_launching & ~is_long)), _HOST),
        (is_op, _CPU_OP),
        # Short functions are part of the function around them, if there are many of them.
        (is_passing & is_in_op, _OP_FUNCTION),
        (is_passing, _STEP),
        (is_known & ~waiting[innermost], _FUNCTION),
    )
    cause = np.full(len(innermost), NONE)
    for holds, value in reversed(chosen):
        cause = np.where(holds, value, cause)
    return _States(causes, moments.thread, moments.at, innermost, cause)


def ops_around(trace: Trace) -> Whole:
    """Return the op that contains each slice, -1 if none does."""
    return nearest(trace.parent, are(trace.kind, [each.activity == "op" for each in trace.classes]))


def owners_of(trace: Trace) -> Whole:
    """Return the op that each slice is, or is in; the slice itself if there is none."""
    is_op = are(trace.kind, [each.activity == "op" and not is_module(each) for each in trace.classes])
    around = ops_around(trace)
    return np.where(is_op | (around == NONE), np.arange(len(around)), around)


def _begin_launches(names: _Names, moments: _Moments, patterns: Collection[str | None]) -> Flags:
    """Return the kinds of slices within which anything is launched, by their names without numbers; also calls and
    steps.
    """
    sums = np.zeros(len(names.patterns), np.int64)
    np.add.at(sums, moments.own, -moments.change * moments.launched)
    of_patterns = dict.fromkeys(names.patterns, 0)
    for pattern, count in zip(names.patterns, sums.tolist(), strict=True):
        of_patterns[pattern] += count
    known = {*patterns}
    begins = [of_patterns[pattern] > 0 or pattern in known for pattern in names.patterns]
    return np.array(begins, np.bool_) | names.is_call | names.is_step


def _launch_within(trace: Trace, launching: Whole, asked: Whole, end: Whole) -> Flags:
    """Return whether any thread of its process launches within each of the slices `asked`, which end at `end`."""
    found = np.zeros(len(asked), np.bool_)
    for process in np.unique(trace.process[asked]).tolist():
        at = np.sort(trace.start[launching[trace.process[launching] == process]])
        own = np.flatnonzero(trace.process[asked] == process)
        begun = np.searchsorted(at, trace.start[asked[own]], side="right")
        found[own] = np.searchsorted(at, end[own]) > begun
    return found
