"""Finds what critical paths need to know of the host of a trace: the times that are recorded, the threads in which
these end, and the waits of threads.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from etq.ingest.arrow import batch, integers, numbers
from etq.ingest.trace.classes import Class
from etq.ingest.trace.launches import Flags, Whole, are
from etq.ingest.trace.scanner import NONE
from etq.ingest.trace.waits import (
    EARLIEST,
    RECORDS,
    SYNCHRONIZATION,
    OfDevices,
    Trace,
    Waits,
    are_of,
    dense,
    last_until,
)

# The name of the trace's record of a host's wait for a stream.
_OF_STREAM: Final = "Stream Sync"
# Copies from and to memory that a device can't read by itself: their calls return when they have ended.
_WAITING_COPY: Final = "Pageable"


class _Found(NamedTuple):
    """Waits of threads as arrays [w]: the thread, the event (a call that waited, or the first event after a wait for
    another thread), and when the wait ended; when that ended for which the thread waited, and the event or the thread
    that it was, -1 for the other.
    """

    thread: Whole
    row: Whole
    at: Whole
    since: Whole
    event: Whole
    other: Whole


class Recording:
    """The times that a trace records. `start` and `end` are those of all events but annotations, `path` those of its
    ops, steps, calls and work. They are `EARLIEST` if there are none.
    """

    def __init__(self, trace: Trace) -> None:
        is_timed = trace.elapsed >= 0
        is_counted = is_timed & are_of(
            trace, lambda each: each.activity not in ("annotation", "device_annotation") or _communicates(each)
        )
        is_part = is_timed & are_of(trace, lambda each: each.is_work or _is(each, "op", "step", "call"))
        # A thread that only polls, as NCCL's watchdog does, does no work of the trace.
        polls = are_of(trace, lambda each: each.activity == "call" and each.purpose == "query")
        is_part &= np.isin(trace.thread, trace.thread[is_part & ~polls])
        self.start, self.end = _span(trace, is_counted)
        self.path = _span(trace, is_part & (trace.elapsed > 0))
        rows = np.flatnonzero(is_part & are_of(trace, lambda each: not each.is_work))
        ends = trace.start[rows] + trace.elapsed[rows]
        order = np.lexsort((-trace.at[rows], -trace.start[rows], ends))
        self._ends, self._threads = ends[order], trace.thread[rows[order]]
        self.thread = int(self.last_threads(*(np.array([each]) for each in self.path))[0])

    def last_threads(self, start: Whole, end: Whole) -> Whole:
        """Return for each period the thread of the last op, step or call that ended in it, -1 if there is none. Of
        those that end together, it is the first to start.
        """
        last = np.searchsorted(self._ends, end, side="right") - 1
        is_within = (last != NONE) & (np.append(self._ends, EARLIEST)[last] > start)
        return np.where(is_within, np.append(self._threads, NONE)[last], NONE)

    def row(self) -> pa.RecordBatch:
        """Return the table `recordings`."""
        values = (self.start, self.end, *self.path)
        names = ("start_ticks", "end_ticks", "path_start_ticks", "path_end_ticks")
        found = {
            name: integers([None if value == EARLIEST else value], np.int64)
            for name, value in zip(names, values, strict=True)
        }
        return batch({**found, "path_thread": integers([None if self.thread == NONE else self.thread])})


def host_waits(
    trace: Trace, call: Whole, devices: OfDevices, waits: Waits, is_backward: Flags, last_thread: int
) -> pa.RecordBatch:
    """Return the table `host_waits`. `call` [n] is the row of the call that launched each slice, or -1; `waits` has the
    waits of devices; `is_backward` [n] is whether each slice is in the backward pass; `last_thread` is the thread
    in which the recording ends.
    """
    found = [*_synchronized(trace, call, devices, waits), _handed_over(trace, call, is_backward, last_thread)]
    thread, row, at, since, event, other = (np.concatenate(each) for each in zip(*found, strict=True))
    index = trace.at[row]
    # Of nested calls that return together, the inner one.
    order = np.lexsort((event != NONE, index, -since, at, thread))
    is_first = np.ones(len(order), np.bool_)
    is_first[1:] = (np.diff(thread[order]) != 0) | (np.diff(at[order]) != 0)
    order = order[is_first]
    columns = {
        "event_index": numbers(index[order]),
        "thread_index": numbers(thread[order].astype(np.int32)),
        "at_ticks": numbers(at[order]),
        "since_ticks": numbers(since[order]),
        "for_event": numbers(trace.at[event[order]], event[order] == NONE),
        "for_thread": numbers(other[order].astype(np.int32), other[order] == NONE),
    }
    return batch(columns)


def _synchronized(trace: Trace, call: Whole, devices: OfDevices, waits: Waits) -> Iterator[_Found]:
    """Yield the waits of calls for work of devices. A call waits for the work that was the last to end during it: of
    its stream, if the trace names that; for the work of the CUDA event, if it waits for one; or for the copy that it
    launched.
    """
    is_waiting = are_of(trace, lambda each: each.activity == "call" and each.waits is True)
    calls = np.flatnonzero(is_waiting & (trace.elapsed > 0))
    work = _work(trace)
    ends = trace.start + trace.elapsed
    place = np.full(len(trace.at), NONE)
    place[devices.row] = np.arange(len(devices.row))
    awaited = np.flatnonzero((waits.kind == SYNCHRONIZATION) & (waits.event != NONE))
    of_records, recorded = call[devices.row[awaited]], waits.event[awaited]
    # The last work for which each call waited.
    order = np.lexsort((trace.at[recorded], ends[recorded], of_records))
    order = order[np.append(np.diff(of_records[order]) != 0, True)[: len(order)]]
    of_records, recorded = of_records[order], recorded[order]
    device, stream = _streams(trace, devices, calls)
    has_stream = stream != NONE
    free = calls[~has_stream & ~np.isin(calls, of_records)]
    none = np.zeros(len(work), np.int64)
    yield _waited(trace, free, work, last_until(none, ends[work], np.zeros(len(free), np.int64), ends[free]))
    # Streams as numbers, of the work and of the calls.
    both = (
        np.append(devices.device[place[work]], device[has_stream]),
        np.append(devices.stream[place[work]], stream[has_stream]),
    )
    of_device, of_stream = (dense(each) for each in both)
    held, asked = np.split(of_device * (len(of_stream) + 1) + of_stream, [len(work)])
    named = calls[has_stream]
    yield _waited(trace, named, work, last_until(held, ends[work], asked, ends[named]))
    is_one = np.isin(of_records, calls)
    yield _waited(trace, of_records[is_one], recorded[is_one], np.arange(int(is_one.sum())))
    names = [_WAITING_COPY in name and each.activity == "copy" for (_, name), each in _kinds(trace)]
    copies = work[are(trace.kind[work], names) & (call[work] != NONE)]
    copies = copies[_hosts(trace)[call[copies]]]
    yield _waited(trace, call[copies], copies, np.arange(len(copies)))


def _streams(trace: Trace, devices: OfDevices, calls: Whole) -> tuple[Whole, Whole]:
    """Return the device and stream for which each call waits, by the trace's record with the call's id, -1 for none.
    Calls with several such records are left out.
    """
    names = [category == RECORDS and name.startswith(_OF_STREAM) for category, name in trace.kinds]
    is_record = are(trace.kind[devices.row], names) & (devices.stream >= 0) & (trace.correlation[devices.row] > 0)
    places = np.flatnonzero(is_record)
    ids, first, counts = np.unique(trace.correlation[devices.row[places]], return_index=True, return_counts=True)
    ids, places = ids[counts == 1], places[first[counts == 1]]
    at = np.searchsorted(ids, trace.correlation[calls])
    is_there = (np.append(ids, NONE)[at] == trace.correlation[calls]) & (trace.correlation[calls] != NONE)
    places = np.append(places, NONE)[np.where(is_there, at, NONE)]
    device, stream = (
        np.where(is_there, np.append(each, NONE)[places], NONE) for each in (devices.device, devices.stream)
    )
    return device, stream


def _waited(trace: Trace, calls: Whole, work: Whole, place: Whole) -> _Found:
    """Return the waits of calls for the work at these places, -1 for none. It must end during the call."""
    row = np.append(work, NONE)[place]
    ends = np.append(trace.start + trace.elapsed, EARLIEST)
    is_during = (row != NONE) & (ends[row] > trace.start[calls]) & (ends[row] <= ends[calls])
    calls, row = calls[is_during], row[is_during]
    return _Found(trace.thread[calls], calls, ends[calls], ends[row], row, np.full(len(calls), NONE))


def _handed_over(trace: Trace, call: Whole, is_backward: Flags, last_thread: int) -> _Found:
    """Return the waits of threads for other threads: after a time in which a thread ran no op and no call, its next one
    waited for the last op or call to end in a thread of the other class. Threads that launch work are of one of two
    classes, and hand over within their process: to or from the backward pass. A thread is of the backward pass if it is
    in it for most of its time, or if it runs no ops of the forward pass besides.
    """
    called = call[_work(trace)]
    running = np.unique(np.append(trace.thread[called[called != NONE]], last_thread))
    hosts = np.flatnonzero(_hosts(trace) & np.isin(trace.thread, running))
    ends = trace.start + trace.elapsed
    hosts = hosts[np.lexsort((trace.at[hosts], -ends[hosts], trace.start[hosts], trace.thread[hosts]))]
    has_number, backward = trace.sequence[hosts] != NONE, is_backward[hosts]
    before = np.full(len(hosts), EARLIEST)
    of_backward = np.zeros(len(hosts), np.bool_)
    is_start = np.zeros(len(hosts), np.bool_)
    bounds = np.flatnonzero(np.diff(trace.thread[hosts], prepend=NONE, append=NONE))
    for first, last in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        own = slice(first, last)
        before[first + 1 : last] = np.maximum.accumulate(ends[hosts[own]])[:-1]
        # Within others are those that begin before these have ended.
        is_start[own] = trace.start[hosts[own]] > before[own]
        ticks, behind, numbered = (each[own][is_start[own]] for each in (trace.elapsed[hosts], backward, has_number))
        # Hooks of the backward pass have no sequence number, unlike ops of the forward pass.
        of_backward[own] = 2 * ticks[behind].sum() > ticks.sum() or (
            behind.any() and numbered.any() and not (numbered & ~behind).any()
        )
    if of_backward.all() or not of_backward.any():
        starts = done = np.zeros(0, np.int64)
    else:
        group = 2 * trace.process[hosts] + of_backward
        starts = np.flatnonzero(is_start)
        # Of those that end together, the one in the first thread.
        by_thread = np.argsort(-trace.thread[hosts], kind="stable")
        done = last_until(group[by_thread], ends[hosts[by_thread]], group[starts] ^ 1, trace.start[hosts[starts]])
        done = np.append(by_thread, NONE)[done]
        is_later = (done != NONE) & (np.append(ends[hosts], EARLIEST)[done] > before[starts])
        starts, done = starts[is_later], hosts[done[is_later]]
    rows = hosts[starts]
    event = np.full(len(rows), NONE)
    return _Found(trace.thread[rows], rows, trace.start[rows], ends[done], event, trace.thread[done])


def _work(trace: Trace) -> Whole:
    """Return the work of devices that takes longer than 0, in the order of the file."""
    rows = np.flatnonzero(are_of(trace, lambda each: each.is_work) & (trace.elapsed > 0))
    return rows[np.argsort(trace.at[rows], kind="stable")]


def _hosts(trace: Trace) -> Flags:
    return are_of(trace, lambda each: _is(each, "op", "call")) & (trace.elapsed > 0)


def _kinds(trace: Trace) -> Iterator[tuple[tuple[str, str], Class]]:
    return zip(trace.kinds, trace.classes, strict=True)


def _is(each: Class, *activities: str) -> bool:
    """Whether it has one of these activities, and is not an annotation for a module."""
    return each.activity in activities and each.purpose != "module"


def _communicates(each: Class) -> bool:
    return each.purpose == "communication"


def _span(trace: Trace, are_within: Flags) -> tuple[int, int]:
    """Return the first start and the last end of slices; both are `EARLIEST` if there are none."""
    if not are_within.any():
        return EARLIEST, EARLIEST
    start = trace.start[are_within]
    return int(start.min()), int((start + trace.elapsed[are_within]).max())
