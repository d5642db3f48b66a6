"""Finds what each device event waited for before it started: from the trace's records, from its calls, or from times
alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from etq.ingest.arrow import encoded, flags, numbers
from etq.ingest.trace.classes import Class
from etq.ingest.trace.launches import Flags, Whole, are
from etq.ingest.trace.nesting import order_of
from etq.ingest.trace.scanner import NONE

KINDS: Final = ("dependency", "unknown_wait", "stream_delay", "launch_delay", "synchronization")
_DEPENDENCY, UNKNOWN_WAIT, _STREAM, _LAUNCH, SYNCHRONIZATION = range(len(KINDS))
COLUMNS: Final = ("wait_kind", "wait_index", "recorded_index", "called_index", "is_inferred", "latency_ticks")
# The category of the trace's records of waits, and their names if a stream waits and if the host waits.
RECORDS: Final = "cuda_sync"
_OF_STREAM: Final = "Stream Wait Event"
_OF_HOST: Final = "Event Sync"
# The limits of a device's latency, in nanoseconds, and the fewest measurements from which it is computed.
_SHORTEST: Final = 10_000
_LONGEST: Final = 100_000
_OFTEN: Final = 5
# Times before and after all others.
EARLIEST: Final = np.iinfo(np.int64).min
LATEST: Final = np.iinfo(np.int64).max


class Trace(Protocol):
    """A trace's slices as arrays [n]."""

    @property
    def kinds(self) -> list[tuple[str, str]]: ...
    @property
    def classes(self) -> list[Class]: ...
    @property
    def kind(self) -> Whole: ...
    @property
    def at(self) -> Whole: ...
    @property
    def process(self) -> Whole: ...
    @property
    def start(self) -> Whole: ...
    @property
    def elapsed(self) -> Whole: ...
    @property
    def thread(self) -> Whole: ...
    @property
    def correlation(self) -> Whole: ...
    @property
    def sequence(self) -> Whole: ...
    @property
    def parent(self) -> Whole: ...
    @property
    def overlap(self) -> Whole: ...


class OfDevices(NamedTuple):
    """Events of devices as arrays [d]: the row of each, and its properties in the file; -1 if missing."""

    row: Whole
    device: Whole
    stream: Whole
    wait_stream: Whole
    wait_correlation_id: Whole


class _Work(NamedTuple):
    """Kernels, copies and fills as arrays [w], in the order of the file.

    place, row  place in `OfDevices`, and row of the slice
    is_kernel   whether it is a kernel
    start, end  in ticks
    device      a number of its device, from 0
    stream      a number of its device and stream, from 0
    call        row of the call that launched it, or -1
    called      when that call started; `EARLIEST` without a call
    returned    when that call ended; `EARLIEST` without a call
    ended       [e] indexes of the work that takes longer than 0, in the order of its ends
    rank        the work's index in `ended`; -1 for work of length 0
    """

    place: Whole
    row: Whole
    is_kernel: Flags
    start: Whole
    end: Whole
    device: Whole
    stream: Whole
    call: Whole
    called: Whole
    returned: Whole
    ended: Whole
    rank: Whole


class _Records(NamedTuple):
    """The trace's records of waits for a CUDA event, as arrays [r]. An event stands for all work that was launched in
    its stream before it was recorded.

    place      place in `OfDevices`
    is_host    whether the host waited
    is_stream  whether a stream waited
    stream     number of the stream that waited
    waiting    when the call that waits started
    awaited    the work it waited for, or -1
    """

    place: Whole
    is_host: Flags
    is_stream: Flags
    stream: Whole
    waiting: Whole
    awaited: Whole


class Waits(NamedTuple):
    """The waits of events of devices, as arrays [d]: the columns `COLUMNS` of `device_events`. Kinds are places in
    `KINDS`, indexes are rows, and false and true are 0 and 1; -1 stands for none.
    """

    kind: Whole
    event: Whole
    recorded: Whole
    called: Whole
    is_inferred: Whole
    latency: Whole


def wait_columns(trace: Trace, waits: Waits) -> dict[str, pa.Array]:
    """Return the columns `COLUMNS` of `device_events`."""
    kinds = encoded([*KINDS, None], waits.kind)
    indexes = (numbers(trace.at[rows], rows == NONE) for rows in (waits.event, waits.recorded, waits.called))
    inferred = flags(waits.is_inferred == 1, waits.is_inferred == NONE)
    columns = (kinds, *indexes, inferred, numbers(waits.latency, waits.latency == NONE))
    return dict(zip(COLUMNS, columns, strict=True))


def waits_of(trace: Trace, call: Whole, devices: OfDevices) -> Waits:
    """Return what each event of a device waited for. `call` [n] is the row of the call that launched each slice, or
    -1.

    An event starts after three other events have ended: its launch, the previous event in its stream, and an event of
    another stream, which is known from a record of a wait or from a call. It has waited for the last of the three.
    Without records and calls, a wait is inferred for an event that starts late: after its launch and the previous end,
    more time passes than the device's latency, and more than twice the time until the call returned. If the last event
    of another stream ended within the latency before the start, the event waited for it. Otherwise, it waited for
    something that the trace doesn't show.
    """
    work, records = _work_and_records(trace, call, devices)
    has_records = len(records.place) > 0
    recorded = _recorded(work, records)
    is_waiting, named = _called(trace, work, has_records)
    # For each work, how many events longer than 0 its call launched. Events without a call count as events of one call.
    launched = np.bincount(work.call + 1, work.rank != NONE)[work.call + 1]
    latency = _latencies(work, launched, named)[work.device]
    called = np.where((named != NONE) & (work.start - work.end[named] <= latency), named, NONE)
    is_unnamed = np.full(len(work.row), not has_records and not is_waiting.any())
    if not has_records:
        is_unnamed |= (work.call == NONE) | (work.called == _first_launches(work)[work.stream])
    is_inferred = (is_unnamed | (launched > 1)) & (called == NONE)
    kind, event = _judged(work, recorded, called, is_inferred, latency)

    row = np.append(work.row, NONE)
    columns = (kind, row[event], row[recorded], row[called], is_inferred.astype(np.int64), latency)
    found = Waits(*(np.full(len(devices.row), NONE) for _ in Waits._fields))
    for column, values in zip(found, columns, strict=True):
        column[work.place] = values
    is_known = records.is_host & (records.awaited != NONE)
    found.kind[records.place[is_known]] = SYNCHRONIZATION
    found.event[records.place[is_known]] = work.row[records.awaited[is_known]]
    return found


def _work_and_records(trace: Trace, call: Whole, devices: OfDevices) -> tuple[_Work, _Records]:
    place = np.flatnonzero(are_of(trace, lambda each: each.is_work)[devices.row] & (trace.elapsed[devices.row] >= 0))
    place = place[np.argsort(devices.row[place], kind="stable")]
    row, (held, recorded_at) = devices.row[place], _record_calls(trace, call, devices)
    # Streams of the work, streams that waited according to records, and streams that they waited for.
    device = dense(np.concatenate([devices.device[each] for each in (place, held, held)]))
    stream = dense(np.concatenate([devices.stream[place], devices.stream[held], devices.wait_stream[held]]))
    stream = dense(device * (int(stream.max(initial=0)) + 1) + stream)
    stream, waiting, waited = np.split(stream, [len(row), len(row) + len(held)])
    start, by = trace.start[row], call[row]
    end = start + trace.elapsed[row]
    lasts = np.flatnonzero(end > start)
    ended = lasts[np.argsort(end[lasts], kind="stable")]
    rank = np.full(len(row), NONE)
    rank[ended] = np.arange(len(ended))
    called, returned = (
        np.where(by == NONE, EARLIEST, each) for each in (trace.start[by], trace.start[by] + trace.elapsed[by])
    )
    is_kernel = are_of(trace, lambda each: each.activity == "kernel")[row]
    work = _Work(place, row, is_kernel, start, end, device[: len(row)], stream, by, called, returned, ended, rank)
    names = np.array([trace.kinds[kind][1] for kind in trace.kind[devices.row[held]].tolist()], np.str_)
    since = trace.start[call[devices.row[held]]]
    awaited = _last_launched(work, waited, recorded_at)
    return work, _Records(held, names == _OF_HOST, names == _OF_STREAM, waiting, since, awaited)


def are_of(trace: Trace, holds: Callable[[Class], bool]) -> Flags:
    return are(trace.kind, [holds(each) for each in trace.classes])


def _record_calls(trace: Trace, call: Whole, devices: OfDevices) -> tuple[Whole, Whole]:
    """Return the places of the records of waits, and when the CUDA events that they wait for were recorded.

    A CUDA event was recorded by the last call with its correlation id that started no later than the call that waits.
    Records whose calls are not in the trace are left out.
    """
    are_records = np.array([category == RECORDS for category, _ in trace.kinds], np.bool_)
    is_record = are_records[trace.kind[devices.row]] & (call[devices.row] != NONE)
    places = np.flatnonzero(is_record & (devices.wait_stream >= 0) & (devices.wait_correlation_id > 0))
    if not len(places):
        return places, places
    ids = devices.wait_correlation_id[places]
    calls = np.flatnonzero(are_of(trace, lambda each: each.activity == "call") & np.isin(trace.correlation, ids))
    of_calls, of_records = np.split(dense(np.concatenate([trace.correlation[calls], ids])), [len(calls)])
    found = last_until(of_calls, trace.start[calls], of_records, trace.start[call[devices.row[places]]])
    is_found = found != NONE
    return places[is_found], trace.start[calls[found[is_found]]]


def _last_launched(work: _Work, stream: Whole, until: Whole) -> Whole:
    """Return the last work that was launched in each stream until a time, or -1. If a call launched several, it is the
    one that ends last.
    """
    held = work.ended[work.call[work.ended] != NONE]
    found = last_until(work.stream[held], work.called[held], stream, until)
    return np.append(held, NONE)[found]


def _recorded(work: _Work, records: _Records) -> Whole:
    """Return for each work the other work that its stream waited for according to a record, or -1. A record applies to
    the next work launched in the stream that waits. If several records apply, the awaited work that ends last is taken.
    """
    rank = np.full(len(work.row), NONE)
    of_streams = np.flatnonzero(records.is_stream & (records.awaited != NONE))
    if not len(of_streams):
        return rank
    held = np.flatnonzero((work.call != NONE) & (work.rank != NONE))
    held = held[np.argsort(work.start[held], kind="stable")][::-1]
    # Times are negated, so that the search for the last work until a time finds the first work from that time on.
    stream, waiting = records.stream[of_streams], records.waiting[of_streams]
    following = last_until(work.stream[held], -work.called[held], stream, -waiting)
    is_there = following != NONE
    np.maximum.at(rank, held[following[is_there]], work.rank[records.awaited[of_streams[is_there]]])
    found: Whole = np.append(work.ended, NONE)[rank]
    return found


def _first_launches(work: _Work) -> Whole:
    """Return when the first work of each stream was launched."""
    first = np.full(int(work.stream.max(initial=0)) + 1, LATEST)
    held = np.flatnonzero(work.call != NONE)
    np.minimum.at(first, work.stream[held], work.called[held])
    return first


def _called(trace: Trace, work: _Work, has_records: bool) -> tuple[Flags, Whole]:
    """Return which work may have waited because of a call, and the work that it may have waited for, or -1.

    Such a call lets a stream wait for an event. It was made between the previous launch in the work's stream and the
    work's own launch; if there are several, the last one is used. Of the work of one launch, only the first is
    returned. If the trace has records, which are more exact, no work is returned. The call names neither the waiting
    stream nor the awaited stream. So the work may have waited for any other stream: for the last work launched there
    before the call, or for the last such work that had ended.
    """
    is_waiting, named = np.zeros(len(work.row), np.bool_), np.full(len(work.row), NONE)
    is_wait = are_of(trace, lambda each: each.activity == "call" and each.purpose == "stream_wait")
    waits = np.flatnonzero(is_wait & (trace.elapsed >= 0))
    held = work.ended[work.call[work.ended] != NONE]
    if has_records or not len(waits) or not len(held):
        return is_waiting, named
    process = trace.process[work.call]
    held = held[np.lexsort((held, work.start[held], process[held], work.called[held], work.stream[held]))]
    stream, called, process = work.stream[held], work.called[held], process[held]
    is_new = np.diff(stream, prepend=NONE) != 0
    is_first: Flags = is_new | (np.diff(called, prepend=0) != 0) | (np.diff(process, prepend=0) != 0)
    held, stream, called, process, is_new = (each[is_first] for each in (held, stream, called, process, is_new))
    previous = np.where(is_new, EARLIEST, np.roll(called, 1))
    wait = last_until(trace.process[waits], trace.start[waits], process, called)
    at = trace.start[waits[wait]]
    awaits = (wait != NONE) & (at >= previous)
    is_waiting[held[awaits]] = True
    named[held[awaits]] = _last_of_others(work, stream[awaits], at[awaits], work.start[held[awaits]])
    return is_waiting, named


def _last_of_others(work: _Work, stream: Whole, launched: Whole, until: Whole) -> Whole:
    """Return the last work of another stream that ended by a time, or -1. It must end no later than some work of its
    stream that was launched until the time `launched`.
    """
    # For each work: of the works in its stream that end no earlier, the time of the first launch. It is computed in
    # `order`, from the last end to the first.
    order = work.ended[::-1]
    order = order[order_of(work.stream[order])]
    moments, moment = np.unique(work.called[order], return_inverse=True)
    count = len(order)
    least = count - _running_max(work.stream[order], count - moment)
    # Work items of one stream that end at the same time have the same rank.
    is_last = np.diff(work.end[order], append=0) != 0
    is_last |= np.diff(work.stream[order], append=NONE) != 0
    least = least[np.flatnonzero(is_last)[np.cumsum(is_last) - is_last]]
    by_end = np.empty(count, np.int64)
    by_end[work.rank[order]] = least
    limit = np.searchsorted(moments, launched, side="right")
    before = np.searchsorted(work.end[work.ended], until, side="right")
    found = _last_below(by_end, work.stream[work.ended], before, limit, stream)
    return np.append(work.ended, NONE)[found]


class _Blocks(NamedTuple):
    """The smallest value of each block of 2**k values, the value's owner, and the smallest value of other owners."""

    least: Whole
    owner: Whole
    others: Whole

    def are_below(self, block: Whole, limit: Whole, without: Whole) -> Flags:
        """Return whether blocks have a value below a limit that belongs to an owner other than `without`."""
        found: Flags = np.where(self.owner[block] == without, self.others[block], self.least[block]) < limit
        return found

    def joined(self) -> _Blocks:
        """Return blocks of twice the length."""
        padded = (
            np.append(each, fill)[: len(each) + len(each) % 2]
            for each, fill in zip(self, (LATEST, NONE, LATEST), strict=True)
        )
        (least, least_right), (owner, owner_right), (others, others_right) = (
            (each[::2], each[1::2]) for each in padded
        )
        of = np.where(least <= least_right, owner, owner_right)
        left, right = np.where(owner == of, others, least), np.where(owner_right == of, others_right, least_right)
        return _Blocks(np.minimum(least, least_right), of, np.minimum(left, right))


def _last_below(values: Whole, owner: Whole, before: Whole, limit: Whole, without: Whole) -> Whole:
    """Return the last place before the place `before` that has a value below a limit and an owner other than `without`.

    -1 if there is none. The time that this takes is logarithmic in the number of values.
    """
    levels = [_Blocks(values, owner, np.full(len(values), LATEST))]
    while len(levels[-1].least) > 1:
        levels.append(levels[-1].joined())
    # Blocks that end at `end` are searched, from small to large ones, until one has such a value; `level` is that
    # block's level.
    end, level, block = before.copy(), np.full(len(before), NONE), np.full(len(before), NONE)
    for number, blocks in enumerate(levels):
        at = np.flatnonzero((level == NONE) & (end >> number & 1 == 1))
        own = (end[at] >> number) - 1
        has = blocks.are_below(own, limit[at], without[at])
        level[at[has]], block[at[has]] = number, own[has]
        end[at[~has]] -= 1 << number
    for number in range(len(levels) - 2, -1, -1):
        at = np.flatnonzero(level > number)
        right = 2 * block[at] + 1
        block[at] = right - ~levels[number].are_below(right, limit[at], without[at])
    return block


def _latencies(work: _Work, launched: Whole, named: Whole) -> Whole:
    """Return the latency of each device in nanoseconds: twice the median time to start work that waits for nothing
    else. It is the longer of two medians: of the time from the launch on an idle device, and of the time from the end
    of work that an idle stream waited for because of a call.
    """
    last = np.append(work.end[work.ended], EARLIEST)
    idle = last[_before(work, work.device)]
    is_free = (idle != EARLIEST) & (work.called >= idle) & (work.start >= work.called)
    is_free &= work.is_kernel & (work.rank != NONE) & (launched == 1) & (work.call != NONE)
    measured = [(is_free, work.called)]
    if (named != NONE).any():
        source = np.where(named == NONE, EARLIEST, work.end[named])
        measured.append((source > np.maximum(work.called, last[_before(work, work.stream)]), source))
    twice = np.zeros(int(work.device.max(initial=0)) + 1, np.int64)
    for is_one, since in measured:
        ticks = np.minimum(work.start[is_one] - since[is_one], _LONGEST)
        device = work.device[is_one]
        ticks = ticks[np.lexsort((ticks, device))]
        counts = np.bincount(device, minlength=len(twice))
        first = np.cumsum(counts) - counts
        often = np.flatnonzero(counts >= _OFTEN)
        low, high = (first[often] + (counts[often] - less) // 2 for less in (1, 0))
        twice[often] = np.maximum(twice[often], ticks[low] + ticks[high])
    return np.clip(twice, _SHORTEST, _LONGEST)


def _before(work: _Work, group: Whole) -> Whole:
    """Return for each work the rank of the work that ends last among work of the same group that started before; -1 for
    none.
    """
    order = np.argsort(work.start, kind="stable")
    order = order[order_of(group[order])]
    found = np.full(len(order), NONE)
    last = _running_max(group[order], work.rank[order] + 1) - 1
    is_later = np.diff(group[order]) == 0
    found[order[1:][is_later]] = last[:-1][is_later]
    return found


def _judged(work: _Work, recorded: Whole, called: Whole, is_inferred: Flags, latency: Whole) -> tuple[Whole, Whole]:
    """Return for each work the kind of its wait, as a place in `KINDS`, and the work for which it waited. Both are -1
    for none, and for work of length 0.
    """
    limit = np.searchsorted(work.end[work.ended], work.start, side="right")
    ended = np.append(work.ended, NONE)
    other = ended[limit - 1]
    previous = ended[_last_of(work.stream[work.ended], np.arange(len(work.ended)), work.stream, limit)]
    ends = np.append(work.end, EARLIEST)
    has_call, has_previous = work.call != NONE, previous != NONE
    launch = np.minimum(work.called, work.start)
    free = ends[previous]
    ready = np.maximum(launch, free)
    returned = np.minimum(work.returned, work.start)
    is_ahead = has_call & has_previous & (free >= launch)
    since = np.where(ready == EARLIEST, work.start, ready)
    # Differences of two times fit into 64 bits; twice a difference may not.
    is_late = (work.start - since > latency) & (~has_call | (work.start - returned > returned - since))
    named = np.where(recorded != NONE, recorded, called)
    is_named = (ends[named] <= work.start) & (ends[named] > ready)
    is_named &= (recorded != NONE) | is_ahead | is_late
    nearest = np.where(other == NONE, work.start, ends[other])
    is_other = is_inferred & (other != NONE) & (work.start - nearest <= latency) & (ends[other] > ready)
    is_other &= ~has_call | is_late
    is_queued = is_ahead | ~has_call
    chosen = [is_named, is_other, is_late, is_queued & has_previous, is_queued]
    kind = np.select(chosen, [_DEPENDENCY, _DEPENDENCY, UNKNOWN_WAIT, _STREAM, NONE], _LAUNCH)
    event = np.select(chosen, [named, other, np.where(free == ready, previous, NONE), previous, NONE], NONE)
    lasts = work.rank != NONE
    return np.where(lasts, kind, NONE), np.where(lasts, event, NONE)


def last_until(groups: Whole, times: Whole, of: Whole, moments: Whole) -> Whole:
    """Return for each group in `of` the last of its places whose time is not after a moment; -1 if there is none. Of
    equal times, it is the last place.
    """
    distinct, ranks = np.unique(times, return_inverse=True)
    order = np.argsort(ranks, kind="stable")
    limits = np.searchsorted(distinct, moments, side="right")
    return np.append(order, NONE)[_last_of(groups[order], ranks[order], of, limits)]


def _last_of(groups: Whole, ranks: Whole, of: Whole, limits: Whole) -> Whole:
    """Return for each group in `of` the last of its places whose rank is below a limit; -1 if there is none. Ranks
    ascend, from 0 to less than the number of places.
    """
    order = order_of(groups)
    keys = groups[order] * (len(ranks) + 1) + ranks[order]
    found = np.searchsorted(keys, of * (len(ranks) + 1) + limits) - 1
    place = np.append(order, NONE)[found]
    is_found = (place != NONE) & (np.append(groups, NONE)[place] == of)
    return np.where(is_found, place, NONE)


def _running_max(groups: Whole, values: Whole) -> Whole:
    """Return for each value the largest value so far in its group. Groups ascend; values are from 0 to their number."""
    least = groups * (len(values) + 1)
    found: Whole = np.maximum.accumulate(least + values) - least
    return found


def dense(values: Whole) -> Whole:
    """Return the number of each value, from 0 in the order of values."""
    low, high = int(values.min(initial=LATEST)), int(values.max(initial=EARLIEST))
    if high - low > 4 * len(values) + 1000:
        return np.unique(values, return_inverse=True)[1]
    is_there = np.zeros(max(high - low + 1, 0), np.bool_)
    is_there[values - low] = True
    return (np.cumsum(is_there) - 1)[values - low]
