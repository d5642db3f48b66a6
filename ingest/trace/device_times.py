"""Finds for each event of a trace the time of the kernels, copies and fills that it launched."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from etq.ingest.arrow import numbers
from etq.ingest.events.own_times import EXACT, summed
from etq.ingest.trace.calls import overlapping, starts_until
from etq.ingest.trace.launches import Flags, Whole, are
from etq.ingest.trace.passes import Calls
from etq.ingest.trace.scanner import NONE

# Sums are limited to 64 bits.
_MOST: Final = 2**63 - 1


class DeviceTimes(NamedTuple):
    """The columns of `trace_events` about the time of devices, as arrays [n]. `has_before` is false for a NULL in
    `before`; in the others, 0 is NULL.
    """

    own: Whole
    total: Whole
    before: Whole
    has_before: Flags

    def columns(self, rows: Whole) -> dict[str, pa.Array]:
        own, total, before = self.own[rows], self.total[rows], self.before[rows]
        return {
            "device_self_ticks": numbers(own, own == 0),
            "device_ticks": numbers(total, total == 0),
            "device_before_ticks": numbers(before, ~self.has_before[rows]),
        }


def device_times(trace: Calls, call: Whole, launch: Whole, owner: Whole) -> DeviceTimes:
    """Return the times of the work that each slice launched itself, and within it.

    For each slice [n], -1 for none: `call` is the row of its call, if it isn't one itself; `launch` is the slice at
    which work is launched, and `owner` the one that it belongs to.
    """
    count, kind, end = len(trace.kind), trace.kind, trace.start + np.maximum(trace.elapsed, 0)
    is_work = are(kind, [each.is_work for each in trace.classes]) & (trace.elapsed >= 0)
    own, launched = (
        summed(holder[rows], trace.elapsed[rows], count)
        for holder, rows in ((each, np.flatnonzero(is_work & (each != NONE))) for each in (owner, launch))
    )
    own = np.where(is_work & (owner == NONE), trace.elapsed, own)
    hosts = np.argsort(trace.at, kind="stable")
    hosts = hosts[~are(kind, [bool(each.on_device) for each in trace.classes])[hosts]]
    order, until = starts_until(trace.thread[hosts].astype(np.int64), trace.start[hosts], end[hosts])
    rows = hosts[order]
    ticks = launched[rows]
    so_far = (ticks if ticks.sum(dtype=np.float64) < EXACT else ticks.astype(object)).cumsum()
    within = so_far[np.maximum(until, np.arange(1, len(rows) + 1)) - 1] - so_far
    # What a call launches counts for the events around the call.
    ticks = np.where(are(kind[rows], [each.activity == "call" for each in trace.classes]), 0, ticks)
    total, before = np.zeros(count, np.int64), np.zeros(count, np.int64)
    total[rows], before[rows] = np.minimum(within + ticks, _MOST), np.minimum(so_far - ticks, _MOST)
    are_calls = (call == NONE) | ~are(kind, [each.activity == "op" for each in trace.classes])
    overlaps = overlapping(trace.kinds, kind, trace.thread, trace.start, trace.elapsed, are_calls)
    return DeviceTimes(own, total, before, overlaps & (total > 0))
