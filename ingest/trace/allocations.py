"""Finds what a trace's allocations and releases belong to: the call in which each happened, and the events during which
it happened.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from etq.ingest.arrow import batch, encoded, filled, flags, numbers
from etq.ingest.trace.launches import Flags, Whole, are, is_node
from etq.ingest.trace.passes import Calls
from etq.ingest.trace.scanner import NONE

# How torch counts the memory of types of devices, which are as in c10's DeviceType: the CPU; and CUDA, HIP, XPU and
# PrivateUse1.
_COUNTED: Final = {"cpu": (0, 2, 5), "device": (1, 6, 12, 20)}
_STEP: Final = "ProfilerStep#"


class Allocations(NamedTuple):
    """Allocations and releases, as arrays [m]: the thread, the time in ticks, the bytes, below 0 for a release and 0 if
    they are unknown, and the type of the device, -1 if it is unknown.
    """

    thread: Whole
    at: Whole
    bytes: Whole
    device_type: Whole

    @staticmethod
    def of(rows: pa.RecordBatch) -> Allocations:
        """Return the rows of the table `trace_memory`."""
        thread, at, sizes, types = (
            filled(rows.column(name), missing)
            for name, missing in (("thread_index", NONE), ("at_ticks", 0), ("bytes", 0), ("device_type", NONE))
        )
        return Allocations(thread, at, sizes, types)


def columns_of_memory(trace: Calls, node: Whole, operator: Whole, memory: Allocations) -> dict[str, pa.Array]:
    """Return the columns of `trace_memory` that are found from the slices of the trace. `node` [n] is the node that
    contains each slice, and `operator` [n] the call that it belongs to, as rows; -1 for none.
    """
    counts_as = np.full(len(memory.at), len(_COUNTED))
    for place, types in enumerate(_COUNTED.values()):
        counts_as[np.isin(memory.device_type, types)] = place
    calls = _calls_at(trace, node, operator, memory.thread, memory.at)
    return {
        "counts_as": encoded([*_COUNTED, None], counts_as),
        "call_index": numbers(np.append(trace.at, NONE)[calls].astype(np.int32), calls == NONE),
        "is_outside": flags(_are_outside(trace, memory.at)),
    }


def event_memory(trace: Calls, run: Whole, memory: Allocations) -> pa.RecordBatch:
    """Return the table `event_memory`; `run` [n] is the run of each slice."""
    columns: dict[str, Any] = {}
    for name, types in _COUNTED.items():
        counted = np.where(np.isin(memory.device_type, types), memory.bytes, 0)
        columns[f"{name}_bytes"], columns[f"self_{name}_bytes"] = _within_events(trace, memory.at, counted)
    rows = np.flatnonzero(np.any([values != 0 for values in columns.values()], axis=0))
    return batch(
        {
            "run_index": numbers(run[rows].astype(np.int32)),
            "event_index": numbers(trace.at[rows].astype(np.int32)),
            **{name: _sums(values[rows]) for name, values in columns.items()},
        }
    )


def _calls_at(trace: Calls, node: Whole, operator: Whole, thread: Whole, at: Whole) -> Whole:
    """Return for each moment [m] of a thread the call in which it is: the innermost one that has begun and not yet
    ended, as a row; -1 for none. Steps are no calls, as a step may begin within an op that it doesn't contain.
    """
    is_step = [name.startswith(_STEP) for _, name in trace.kinds]
    is_one = are(trace.kind, [is_node(each) for each in trace.classes]) & ~are(trace.kind, is_step)
    is_one &= trace.elapsed > 0
    rows = np.flatnonzero(is_one)
    if not len(rows):
        return np.full(len(at), NONE)
    moments = np.concatenate([trace.start[rows], (trace.start + trace.elapsed)[rows], at])
    # A thread and a moment are one number.
    times, place = np.unique(moments, return_inverse=True)
    place += np.concatenate([trace.thread[rows], trace.thread[rows], thread]).astype(np.int64) * len(times)
    start, end, asked = np.split(place, [len(rows), 2 * len(rows)])
    # Of calls that begin together, the one that ends first is the innermost; of those that end together, the one that
    # begins first is the outermost.
    begun = _first_of(start, np.lexsort((-trace.at[rows], end, start)))
    ended = _first_of(end, np.lexsort((trace.at[rows], start, end)))
    ended = ended[~np.isin(end[ended], start)]
    above = operator[node[rows[ended]]]
    above[node[rows[ended]] == NONE] = NONE
    after = np.where((above != NONE) & is_one[above], operator[above], NONE)
    changes, calls = np.concatenate([start[begun], end[ended]]), np.concatenate([operator[rows[begun]], after])
    order = np.argsort(changes)
    last = np.searchsorted(changes[order], asked, side="right") - 1
    is_of_thread = (last != NONE) & (changes[order][last] // len(times) == asked // len(times))
    return np.where(is_of_thread, calls[order][last], NONE)


def _are_outside(trace: Calls, at: Whole) -> Flags:
    """Return for each moment whether no event of the host, other than the profiler's own, lasts at that time."""
    hosts = np.flatnonzero(
        ~are(trace.kind, [bool(each.on_device) or each.purpose == "profiler" for each in trace.classes])
    )
    hosts = hosts[np.argsort(trace.start[hosts], kind="stable")]
    until = np.maximum.accumulate((trace.start + trace.elapsed)[hosts])
    last = np.searchsorted(trace.start[hosts], at, side="right") - 1
    outside: Flags = (last == NONE) | (np.append(until, 0)[last] < at)
    return outside


def _first_of(places: Whole, order: Whole) -> Whole:
    """Return the first row of each place, in this order, which is by places."""
    is_first: Flags = np.diff(places[order], prepend=NONE) != 0
    return order[is_first]


def _within_events(trace: Calls, at: Whole, sizes: Whole) -> tuple[Any, Any]:
    """Return for each slice of the host [n] the sum of what happened from its start to its end, both included; and this
    sum without those of the slices directly within it.
    """
    hosts = np.flatnonzero(~are(trace.kind, [bool(each.on_device) for each in trace.classes]) & (trace.elapsed >= 0))
    order = np.argsort(at, kind="stable")
    times, so_far = at[order], np.append(0, np.cumsum(_exact(sizes[order])))
    start, end = trace.start[hosts], trace.start[hosts] + trace.elapsed[hosts]
    total = np.zeros(len(trace.kind), so_far.dtype)
    total[hosts] = so_far[np.searchsorted(times, end, side="right")] - so_far[np.searchsorted(times, start)]
    total = _exact(total)
    inner, own = hosts[trace.parent[hosts] != NONE], total.copy()
    np.subtract.at(own, trace.parent[inner], total[inner])
    return total, own


def _exact(values: Any) -> Any:
    """Return integers as Python's if sums of them may not fit 64 bits."""
    return values if np.abs(values).sum(dtype=np.float64) < 2.0**62 else values.astype(object)


def _sums(values: Any) -> pa.Array:
    """Return sums, null if they don't fit 64 bits."""
    is_null = np.abs(values) >= 2**63 if values.dtype == object else np.zeros(len(values), np.bool_)
    is_null = is_null.astype(np.bool_)
    return numbers(np.where(is_null, 0, values).astype(np.int64), is_null if is_null.any() else None)
