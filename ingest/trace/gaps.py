"""Finds the times in which devices and their streams run nothing, and what the host then does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from etq.ingest.arrow import batch, encoded, flags, numbers
from etq.ingest.trace.classes import LONG_CALL, Class
from etq.ingest.trace.host_parts import Periods, Steps
from etq.ingest.trace.launches import Flags, Whole
from etq.ingest.trace.scanner import NONE
from etq.ingest.trace.steps import joined, ticks_until
from etq.ingest.trace.waits import EARLIEST, LATEST, UNKNOWN_WAIT, OfDevices, Trace, Waits, are_of, dense, last_until

# Activities of slices in which no thread waits.
_LEFT_OUT: Final = ("device_wait", "device_annotation", "counter_range", "python_function", "other")
# The causes of host time that are preferred to those of calls.
_FIRST: Final = ("data_loading", "communication")
# The purposes of calls that are causes only if they are long.
_LONG: Final = ("launch", "copy")
_NOT_RECORDED: Final = "not_recorded"
_BETWEEN_STEPS: Final = "between_steps"
_HOST: Final = "host"


class _Gaps(NamedTuple):
    """Gaps as arrays [g]: the row of the event that ended each, its start, and its length until the launch of that
    event returned (-1 without a launch).
    """

    row: Whole
    start: Whole
    host: Whole


class _Level(NamedTuple):
    """How long the launching threads of a process have waited for one cause, from one moment to the next, as arrays
    [m]: the moments, whether a thread waits from then on, whether it waits for a device, how long threads have waited
    until then, and the last moment until then from which a thread waited (`EARLIEST` if there is none).
    """

    at: Whole
    is_open: Flags
    is_waiting: Flags
    ticks: Whole
    since: Whole

    def until(self, moments: Whole) -> tuple[Whole, Whole]:
        """Return for each moment the place of the last moment until then, -1 if there is none, and how long threads
        have waited until then.
        """
        place = np.searchsorted(self.at, moments, side="right") - 1
        ticks = self.ticks[place] + np.where(self.is_open[place], moments - self.at[place], 0)
        return place, np.where(place == NONE, 0, ticks)


def device_gaps(
    trace: Trace, call: Whole, devices: OfDevices, waits: Waits, signature: Whole, steps: Steps
) -> tuple[pa.RecordBatch, Periods]:
    """Return the table `device_gaps`, and the host times of gaps of devices by the events that ended them. `call` [n]
    is the row of the call that launched each slice, or -1; `waits` has the waits of devices, `signature` [n] the
    signature of each slice.
    """
    place = np.flatnonzero(are_of(trace, lambda each: each.is_work)[devices.row] & (trace.elapsed[devices.row] >= 0))
    row = devices.row[place]
    start, called = trace.start[row], np.where(call[row] == NONE, LATEST, trace.start[call[row]])
    device, stream = dense(devices.device[place]), dense(devices.stream[place])
    stream += device * (int(stream.max(initial=0)) + 1)
    order = np.lexsort((trace.at[row], called, start))
    place, row, device, stream = (each[order] for each in (place, row, device, stream))
    idle = [_idle_since(trace, row, group) for group in (device, stream)]
    is_gap = [(each != EARLIEST) & (each < trace.start[row]) for each in idle]
    is_both = is_gap[0] & is_gap[1] & (idle[0] == idle[1])
    of_device, of_stream = np.flatnonzero(is_gap[0]), np.flatnonzero(is_gap[1] & ~is_both)
    found = np.concatenate([of_device, of_stream])
    since = np.concatenate([idle[0][of_device], idle[1][of_stream]])
    is_stream = np.repeat([False, True], [len(of_device), len(of_stream)])
    is_shared = np.concatenate([is_both[of_device], np.zeros(len(of_stream), np.bool_)])
    gaps = _of_host(trace, call, row, found, since)
    awaited = _awaited(trace, waits, place, row, found, since)
    causes, cause, owner, waited = _judged(trace, call, row, gaps, (steps.start, steps.end))
    first = np.unique(stream, return_index=True)[1]
    is_early = _is_early(waits, place, row, trace, device, first, found, since)
    by_event = np.lexsort((is_stream, trace.at[gaps.row]))
    columns = {
        "event_index": numbers(trace.at[gaps.row][by_event]),
        "is_of_stream": flags(is_stream[by_event], is_shared[by_event]),
        "start_ticks": numbers(since[by_event]),
        "host_ticks": numbers(gaps.host[by_event], gaps.host[by_event] == NONE),
        "awaited_index": numbers(trace.at[awaited[by_event]], awaited[by_event] == NONE),
        "host_cause": encoded([*causes, None], cause[by_event]),
    }
    for name, rows in (("host_signature", owner[by_event]), ("call_signature", waited[by_event])):
        columns[name] = numbers(signature[rows].astype(np.int32), rows == NONE)
    columns["is_early"] = flags(is_early[by_event])
    of_host = by_event[~is_stream[by_event] & (gaps.host[by_event] > 0)]
    own = _Gaps(*(each[of_host] for each in gaps))
    return batch(columns), Periods(trace.at[own.row], trace.thread[call[own.row]], own.start, own.start + own.host)


def _idle_since(trace: Trace, row: Whole, group: Whole) -> Whole:
    """Return the last end of the earlier work of the same group; `EARLIEST` if there is none."""
    order = np.argsort(group, kind="stable")
    ends, found = (trace.start + trace.elapsed)[row[order]], np.full(len(row), EARLIEST)
    bounds = np.flatnonzero(np.diff(group[order], prepend=NONE, append=NONE))
    for first, last in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        found[order[first + 1 : last]] = np.maximum.accumulate(ends[first:last])[:-1]
    return found


def _of_host(trace: Trace, call: Whole, row: Whole, found: Whole, since: Whole) -> _Gaps:
    """Return gaps before the work at the places `found` in `row`. A launch counts as returned when it begins, if it
    waits for what it launches, or launches several events and begins before the gap.
    """
    launched = np.bincount(call[row] + 1, minlength=len(trace.at) + 1)
    row = row[found]
    of = call[row]
    waits = are_of(trace, lambda each: each.waits is True)
    begin = trace.start[of]
    is_begun = waits[of] | ((launched[of + 1] > 1) & (begin <= since))
    returned = np.where(is_begun, begin, begin + trace.elapsed[of])
    host = np.maximum(np.minimum(returned, trace.start[row]) - since, 0)
    return _Gaps(row, since, np.where(of == NONE, NONE, host))


def _awaited(trace: Trace, waits: Waits, place: Whole, row: Whole, found: Whole, since: Whole) -> Whole:
    """Return the event for which the work at the places `found` in `row` waited, -1 if there is none: the one that
    records or calls name, or, if that can only be inferred, the last event to end; it ended within the gap. Of events
    that ended together, it is the one whose label comes first.
    """
    ends = trace.start + trace.elapsed
    start = trace.start[row[found]]
    named = np.where(waits.recorded != NONE, waits.recorded, waits.called)[place[found]]
    is_named = (named != NONE) & (ends[named] > since) & (ends[named] <= start)
    rank = np.unique(np.array([name for _, name in trace.kinds], np.object_), return_inverse=True)[1][trace.kind]
    lasts = row[trace.elapsed[row] > 0]
    lasts = lasts[np.lexsort((-trace.at[lasts], -rank[lasts], ends[lasts]))]
    nearest = np.append(lasts, NONE)[np.searchsorted(ends[lasts], start, side="right") - 1]
    is_near = (nearest != NONE) & (ends[nearest] > since) & (waits.is_inferred[place[found]] == 1)
    return np.where(is_named, named, np.where(is_near, nearest, NONE))


def _is_early(
    waits: Waits, place: Whole, row: Whole, trace: Trace, device: Whole, first: Whole, found: Whole, since: Whole
) -> Flags:
    """Return whether a stream of the gap's device may still run work from before the recording: its first event
    `first` ends a later gap, or this one, and waits for something that isn't recorded.
    """
    is_unknown = waits.kind[place] == UNKNOWN_WAIT
    is_first = np.zeros(len(row), np.bool_)
    is_first[first] = True
    lasts = found[(is_first & is_unknown)[found]]
    until = np.full(int(device.max(initial=0)) + 1, EARLIEST)
    np.maximum.at(until, device[lasts], trace.start[row[lasts]])
    return since < until[device[found]]


def _judged(
    trace: Trace, call: Whole, row: Whole, gaps: _Gaps, steps: tuple[Whole, Whole]
) -> tuple[Sequence[str], Whole, Whole, Whole]:
    """Return causes, and for each gap the place of its cause among them, the op or annotation that the launching thread
    was in, and a call in which most of the host time passed. Each is -1 for none, as for gaps whose longer part comes
    after the launch.
    """
    cause, owner, waited = (np.full(len(gaps.row), NONE) for _ in range(3))
    causes = [_HOST, _BETWEEN_STEPS, _NOT_RECORDED]
    lengths = trace.start[gaps.row] - gaps.start
    place = np.flatnonzero((gaps.host != NONE) & (2 * gaps.host >= lengths))
    if not len(place):
        return causes, cause, owner, waited
    own = _Gaps(*(each[place] for each in gaps))
    thread = trace.thread[call[own.row]]
    threads = np.unique(trace.thread[call[row[call[row] != NONE]]])
    chosen, asked, calls, found = _waited(trace, threads, trace.process[call[own.row]], own)
    apart = _apart(trace, thread, own, steps)
    is_between = apart & bool(len(steps[0]))
    # Gaps without a wait are of the host, or in nothing that is recorded.
    chosen = np.where(chosen == NONE, np.where(apart, 2, 0), chosen + len(causes))
    cause[place] = np.where(is_between, 1, chosen)
    middle = is_between | (chosen < len(causes))
    moment = np.where(middle, own.start + own.host // 2, asked)
    owner[place] = _innermost(trace, threads, thread, moment)
    waited[place] = np.where(is_between, NONE, calls)
    return [*causes, *found], cause, owner, waited


def _cause(each: Class) -> str | None:
    """Return why a thread waits in slices of a class, None if it doesn't wait."""
    is_one = each.purpose in _FIRST or (each.activity == "call" and each.purpose in _LONG)
    return each.call_cause or (each.purpose if is_one else None)


def _waited(trace: Trace, threads: Whole, process: Whole, gaps: _Gaps) -> tuple[Whole, Whole, Whole, Sequence[str]]:
    """Return the place in the returned causes of each gap's cause; the moment at which that wait began; and a call in
    which most of the time passed. -1 stands for none.

    The threads of the gap's process waited for the cause for half of the host time; or else a thread waited in it for a
    device when the gap began, so that nothing could be launched ahead, unless the host then went on for longer than a
    millisecond and longer than it had waited.
    """
    waits: dict[tuple[str, int], dict[str, list[tuple[bool, Whole]]]] = {}
    for cause, label, is_waiting, rows in _waits(trace, threads):
        for number in np.unique(trace.process[rows]).tolist():
            own = rows[trace.process[rows] == number]
            waits.setdefault((cause, number), {}).setdefault(label, []).append((is_waiting, own))
    causes = sorted({cause for cause, _ in waits})
    chosen, calls = (np.full(len(gaps.row), NONE) for _ in range(2))
    asked, most, rank = gaps.start.copy(), np.zeros(len(gaps.row), np.int64), np.full(len(gaps.row), LATEST)
    for cause, number in sorted(waits):
        at = np.flatnonzero(process == number)
        level = _level(trace, [each for of_label in waits[cause, number].values() for each in of_label])
        begin, host = gaps.start[at], gaps.host[at]
        before, so_far = level.until(begin)
        last, ticks = level.until(begin + host)
        twice = 2 * (ticks - so_far)
        is_half = twice >= host
        is_open = (before != NONE) & level.is_waiting[before]
        is_long = is_open & ((host < LONG_CALL) | (twice + 2 * (begin - level.since[before]) >= host))
        own = np.where(is_half, _FIRST.index(cause) if cause in _FIRST else len(_FIRST), len(_FIRST) + 1)
        is_better = (last != NONE) & (is_half | is_long)
        is_better &= (own < rank[at]) | ((own == rank[at]) & (twice > most[at]))
        kept = at[is_better]
        chosen[kept], rank[kept], most[kept] = causes.index(cause), own[is_better], twice[is_better]
        asked[kept] = np.where(is_open, begin, np.maximum(begin, level.since[last]))[is_better]
    for (cause, number), of_labels in waits.items():
        at = np.flatnonzero((process == number) & (chosen == causes.index(cause)))
        if not len(at) or cause in _FIRST:
            continue
        longest = np.full(len(at), NONE)
        for label in sorted(of_labels):
            level = _level(trace, of_labels[label])
            last, ticks = level.until(gaps.start[at] + gaps.host[at])
            ticks -= level.until(gaps.start[at])[1]
            is_longer = (last != NONE) & (ticks > longest)
            longest[is_longer] = ticks[is_longer]
            rows = np.concatenate([rows for _, rows in of_labels[label]])
            calls[at[is_longer]] = rows[trace.at[rows].argmin()]
    return chosen, asked, calls, causes


def _waits(trace: Trace, threads: Whole) -> Iterator[tuple[str, str, bool, Whole]]:
    """Yield slices of one kind in which these threads wait for input data, for other processes, or in a call of the
    runtime or driver: the cause, the label, whether they wait for a device, and their rows.
    """
    is_asked = np.isin(trace.thread, threads) & (trace.elapsed >= 0)
    for number, ((_, label), each) in enumerate(zip(trace.kinds, trace.classes, strict=True)):
        if each.activity in _LEFT_OUT or (cause := _cause(each)) is None:
            continue
        rows = np.flatnonzero(is_asked & (trace.kind == number))
        if cause in _LONG:
            rows = rows[trace.elapsed[rows] >= LONG_CALL]
        if len(rows):
            yield cause, label, each.activity == "call" and each.waits is True, rows


def _level(trace: Trace, waits: Sequence[tuple[bool, Whole]]) -> _Level:
    rows = np.concatenate([rows for _, rows in waits])
    is_waiting = np.repeat([each for each, _ in waits], [len(rows) for _, rows in waits])
    start = trace.start[rows]
    at, place = np.unique(np.concatenate([start, start + trace.elapsed[rows]]), return_inverse=True)
    begin, end = np.split(place.reshape(-1), 2)
    count = len(at)
    is_open, is_asked = (
        np.cumsum(np.bincount(begin[each], minlength=count) - np.bincount(end[each], minlength=count)) > 0
        for each in (slice(None), is_waiting)
    )
    length = np.where(is_open, np.diff(at, append=at[-1:]), 0)
    since = np.maximum.accumulate(np.where(is_open, at, EARLIEST))
    return _Level(at, is_open, is_asked, np.cumsum(length) - length, since)


def _apart(trace: Trace, thread: Whole, gaps: _Gaps, steps: tuple[Whole, Whole]) -> Flags:
    """Return whether more than half of the host time of each gap is in no step, or, if there are no steps, in nothing
    that is recorded of the launching thread.
    """
    within = np.zeros(len(gaps.row), np.int64)
    if len(steps[0]):
        spans = joined(*steps)
        within = ticks_until(*spans, gaps.start + gaps.host) - ticks_until(*spans, gaps.start)
    else:
        rows = np.flatnonzero((trace.parent == NONE) & (trace.elapsed > 0))
        for number in np.unique(thread).tolist():
            at, own = np.flatnonzero(thread == number), rows[trace.thread[rows] == number]
            spans = joined(trace.start[own], trace.start[own] + trace.elapsed[own])
            begin = gaps.start[at]
            within[at] = ticks_until(*spans, begin + gaps.host[at]) - ticks_until(*spans, begin)
    found: Flags = 2 * within < gaps.host
    return found


def _innermost(trace: Trace, threads: Whole, thread: Whole, moments: Whole) -> Whole:
    """Return the innermost op or annotation of a thread at each moment, -1 if there is none. `threads` has all threads
    that are asked for.

    Algorithm: the number of open slices after each start and end. The innermost is the last that started at that depth.
    """
    is_owner = are_of(trace, lambda each: each.activity in ("op", "annotation", "step"))
    # Those of graphs' captures have no time of the thread.
    rows = np.flatnonzero(is_owner & np.isin(trace.thread, threads) & (trace.elapsed > trace.overlap))
    start = trace.start[rows]
    end = start + trace.elapsed[rows]
    both = np.append(rows, rows)
    change = np.repeat([1, -1], len(rows))
    at = np.append(start, end)
    order = np.lexsort((trace.at[both], -np.append(end, start), change, at, trace.thread[both]))
    at, change, both = at[order], change[order], both[order]
    depth = np.cumsum(change)
    group = trace.thread[both] * (int(depth.max(initial=0)) + 1) + depth
    by_depth = np.argsort(group, kind="stable")
    begun = np.maximum.accumulate(np.where(change[by_depth] > 0, np.arange(len(both)), NONE))
    innermost = np.full(len(both), NONE)
    innermost[by_depth] = both[by_depth[begun]]
    innermost[depth == 0] = NONE
    return np.append(innermost, NONE)[last_until(trace.thread[both], at, thread, moments)]
