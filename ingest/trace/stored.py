"""Computes what is stored about the calls, passes, work, waits and gaps of a trace again, from its stored events."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from etq.ingest.arrow import batch, encoded, filled, flags, numbers, texts
from etq.ingest.trace.allocations import Allocations, columns_of_memory, event_memory
from etq.ingest.trace.classes import Class
from etq.ingest.trace.collectives import HOST_COLLECTIVES, host_collectives
from etq.ingest.trace.costs import columns_of_ops
from etq.ingest.trace.device_times import device_times
from etq.ingest.trace.devices import are_used
from etq.ingest.trace.gaps import device_gaps
from etq.ingest.trace.host_parts import Periods, Steps, gap_parts, host_parts, ops_around, owners_of
from etq.ingest.trace.launches import Flags, Whole
from etq.ingest.trace.op_work import Kinds, Ops, OpWork
from etq.ingest.trace.passes import PASSES, columns_around, columns_of, passes_of
from etq.ingest.trace.paths import Recording, host_waits
from etq.ingest.trace.scanner import NONE
from etq.ingest.trace.waits import OfDevices, wait_columns, waits_of

# The rows of a capture that are read, without its key.
_SIGNATURES: Final = """
    SELECT s.category, s.label, s.activity, s.on_device, s.purpose, s.waits, s.kernel_family, s.uses_matrix_units
    FROM signatures AS s WHERE s.capture_id = $key ORDER BY s.signature_index
"""
_EVENTS: Final = """
    SELECT e.event_index, e.event_signature, e.thread_index, h.process,
        e.start_ticks, e.elapsed_ticks, coalesce(e.overlap_ticks, 0) AS overlap_ticks, e.parent_index, e.correlation_id,
        e.sequence_number, e.forward_thread
    FROM trace_events AS e
    JOIN (
        SELECT t.thread_index, min(t.thread_index) OVER (PARTITION BY t.process) AS process FROM threads AS t
        WHERE t.capture_id = $key
    ) AS h USING (thread_index)
    WHERE e.capture_id = $key
    ORDER BY e.event_index
"""
_OPS: Final = """
    SELECT e.run_index, e.call_index, (e.operator_ticks IS NOT NULL)::BIGINT AS is_called, e.operator_ticks, c.flops
    FROM trace_events AS e
    LEFT JOIN costed_ops AS o USING (capture_id, run_index, event_index)
    LEFT JOIN call_costs AS c USING (capture_id, cost_index)
    WHERE e.capture_id = $key
    ORDER BY e.event_index
"""
_MEMORY: Final = """
    SELECT m.event_index, m.thread_index, m.at_ticks, m.bytes, m.device_type
    FROM trace_memory AS m WHERE m.capture_id = $key ORDER BY m.event_index
"""
_NODES: Final = """
    SELECT e.node_index, e.operator_index FROM trace_events AS e WHERE e.capture_id = $key ORDER BY e.event_index
"""
_CALLS: Final = """
    SELECT d.event_index, d.call_index FROM device_events AS d WHERE d.capture_id = $key ORDER BY d.event_index
"""
_DEVICES: Final = """
    SELECT d.event_index, d.device, d.stream, d.wait_stream, d.wait_correlation_id, d.call_index, d.owner_index,
        d.op_index
    FROM device_events AS d WHERE d.capture_id = $key ORDER BY d.event_index
"""
_LISTED: Final = "SELECT d.device FROM trace_devices AS d WHERE d.capture_id = $key"
_GLOO: Final = """
    SELECT a.event_index, a.shapes, a.dtypes FROM host_collectives AS h
    JOIN op_arguments AS a USING (capture_id, run_index, event_index) WHERE h.capture_id = $key ORDER BY 1
"""
# Labels may have changed since the file was read.
_GROUP: Final = """
    SELECT min(h.group_description) AS name, min(h.group_size) AS size FROM host_collectives AS h
    WHERE h.capture_id = $key HAVING count(h.group_size) > 0
"""
_THREADS: Final = "SELECT h.thread FROM threads AS h WHERE h.capture_id = $key ORDER BY h.thread_index"
_STEPS: Final = "SELECT s.run_index, s.start_ticks, s.end_ticks FROM trace_steps AS s WHERE s.capture_id = $key"
_TOOL_STEPS: Final = "SELECT t.pattern, t.start_ticks, t.end_ticks FROM tool_steps AS t WHERE t.capture_id = $key"


class _Stored(NamedTuple):
    """A trace's slices as arrays [n]: the `Calls` of `passes.py`."""

    kinds: list[tuple[str, str]]
    classes: list[Class]
    at: Whole
    kind: Whole
    thread: Whole
    process: Whole
    start: Whole
    elapsed: Whole
    overlap: Whole
    parent: Whole
    correlation: Whole
    sequence: Whole
    forward: Whole


def computed_again(read: Callable[[str], pa.Table]) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yield tables, and the columns of them that are computed from the events of a trace alone, with their keys. `read`
    runs a query with the capture's key as the parameter `key`.

    Raises `ValueError` if an event refers to a row that doesn't exist, or contains itself.
    """
    trace, threads = _trace(read)
    kinds, of_kinds = trace.kinds, trace.classes
    row_of = partial(_rows_of, trace.at)
    causes = batch(
        {
            "signature_index": numbers(np.arange(len(kinds), dtype=np.int32)),
            "call_cause": texts([each.call_cause for each in of_kinds]),
        }
    )
    yield "signatures", causes
    passes = passes_of(trace, of_kinds, threads)
    recording = Recording(trace)
    yield "recordings", recording.row()
    run, start, end = _columns(read(_STEPS))
    thread = recording.last_threads(start, end)
    yield "trace_steps", batch({"run_index": numbers(run), "end_thread": numbers(thread, thread == NONE)})
    run_of, call_of, is_called, own_ticks, flops = _columns(read(_OPS))
    index, *others, call, owner, op = _columns(read(_DEVICES))
    row, call, owner, op = row_of(index), row_of(call), row_of(owner), row_of(op)
    # An owner that was recorded when a graph was captured lies within the call; others contain it.
    launch = np.where((call == NONE) | _are_within(trace.parent, owner, call), owner, call)
    launches, owners = np.full((2, len(trace.at)), NONE)
    launches[row], owners[row] = launch, owner
    times, every = device_times(trace, call_of, launches, owners), np.arange(len(trace.at))
    of_events = {"event_index": numbers(trace.at), **columns_of(trace, passes, every), **times.columns(every)}
    yield "trace_events", batch(of_events)
    is_work = np.array([each.is_work for each in of_kinds], np.bool_)[trace.kind[row]] & (trace.elapsed[row] >= 0)
    yield from _memory(trace, run_of, read)
    yield "trace_devices", _used(read, others[0][is_work])
    yield "host_collectives", _collectives(trace, run_of, read)
    ops = Ops(run_of, ops_around(trace), np.full(len(trace.at), NONE), is_called == 1, own_ticks)
    ops.owner[row] = op
    work = OpWork(trace, Kinds(kinds, of_kinds, trace.kind), ops, passes)
    yield "costed_ops", batch(columns_of_ops(work, flops[work.rows]))
    if not len(index):
        return
    devices = OfDevices(row, *others)
    calls = np.full(len(trace.at), NONE)
    calls[row] = call
    waits = waits_of(trace, calls, devices)
    found = {"event_index": numbers(index), "launch_index": numbers(trace.at[launch], launch == NONE)}
    found |= columns_around(trace, passes, np.where(call == NONE, owner, call))
    yield "device_events", batch({**found, **wait_columns(trace, waits)})
    is_backward = passes.place == PASSES.index("backward")
    yield "host_waits", host_waits(trace, calls, devices, waits, is_backward, recording.thread)
    steps = _steps(read)
    gaps, of_host = device_gaps(trace, calls, devices, waits, trace.kind, steps)
    yield "device_gaps", gaps
    yield "gap_parts", gap_parts(trace, calls, of_host, steps, trace.kind)


def parts_of(read: Callable[[str], pa.Table], asked: pa.Table) -> pa.RecordBatch:
    """Return what the host did in the periods `asked`: period, thread_index, start_ticks, end_ticks. A row is a part of
    a period, as in `gap_parts`, with the op that it is in, or else its event: owner. `read` and errors are as above.
    """
    trace, _ = _trace(read)
    index, call = _columns(read(_CALLS))
    calls = np.full(len(trace.at), NONE)
    calls[_rows_of(trace.at, index)] = _rows_of(trace.at, call)
    periods = Periods(*_columns(asked))
    parts = host_parts(trace, calls, periods, _steps(read))
    columns: dict[str, pa.Array] = {
        "period": numbers(periods.period[parts.place]),
        "at_ticks": numbers(parts.at),
        "ticks": numbers(parts.ticks),
        "owner": numbers(trace.kind[owners_of(trace)[parts.own]], parts.own == NONE),
        "name": numbers(trace.kind[parts.name], parts.name == NONE),
        "did": encoded([*parts.causes, None], parts.did),
        "cause": encoded([*parts.causes, None], parts.cause),
    }
    return batch(columns)


def _trace(read: Callable[[str], pa.Table]) -> tuple[_Stored, list[Any]]:
    """Return the slices of a trace, and its threads."""
    classes = read(_SIGNATURES).to_pydict()
    kinds = [*zip(classes.pop("category"), classes.pop("label"), strict=True)]
    of_kinds = [Class(*values) for values in zip(*(classes[name] for name in Class._fields), strict=True)]
    trace, threads = _Stored(kinds, of_kinds, *_columns(read(_EVENTS))), read(_THREADS).column("thread").to_pylist()
    trace = trace._replace(parent=_rows_of(trace.at, trace.parent))
    _check_nesting(trace.parent)
    for numbered, count in ((trace.kind, len(kinds)), (trace.thread, len(threads))):
        if len(numbered) and not 0 <= numbered.min() <= numbered.max() < count:
            raise ValueError("a signature or thread is missing")
    return trace, threads


def _steps(read: Callable[[str], pa.Table]) -> Steps:
    pattern, *spans = read(_TOOL_STEPS).columns
    return Steps(pattern.to_pylist(), *(filled(each.combine_chunks(), NONE) for each in spans))


class _Inputs(NamedTuple):
    """The inputs of events, as in `inputs.py`: the events, and the shapes and types of each."""

    events: Whole
    written: Sequence[tuple[bytes, ...]]

    def at(self, events: Whole) -> tuple[Sequence[tuple[bytes, ...]], Whole]:
        place = np.searchsorted(self.events, events)
        return self.written, np.where(np.append(self.events, NONE)[place] == events, place, NONE)


def _collectives(trace: _Stored, run: Whole, read: Callable[[str], pa.Table]) -> pa.RecordBatch:
    index, *written = read(_GLOO).columns
    inputs = [
        tuple((each or "").encode() for each in given)
        for given in zip(*(each.to_pylist() for each in written), strict=True)
    ]
    groups = [f"{group['name']}:{group['size']}" for group in read(_GROUP).to_pylist()]
    found = host_collectives(trace, run, _Inputs(filled(index.combine_chunks(), NONE), inputs), "".join(groups))
    return pa.RecordBatch.from_pylist([], HOST_COLLECTIVES) if found is None else found.rows


def _memory(trace: _Stored, run: Whole, read: Callable[[str], pa.Table]) -> Iterator[tuple[str, pa.RecordBatch]]:
    [*batches] = read(_MEMORY).combine_chunks().to_batches()
    if not batches:
        return
    [rows] = batches
    given, (node, operator) = Allocations.of(rows), (_rows_of(trace.at, each) for each in _columns(read(_NODES)))
    found = columns_of_memory(trace, node, operator, given)
    yield "trace_memory", batch({"event_index": rows.column("event_index"), **found})
    yield "event_memory", event_memory(trace, run, given)


def _used(read: Callable[[str], pa.Table], working: Whole) -> pa.RecordBatch:
    [listed] = _columns(read(_LISTED))
    used = are_used(listed.tolist(), {*working.tolist()})
    return batch({"device": numbers(listed.astype(np.int32)), "is_used": flags(used)})


def _rows_of(at: Whole, index: Whole) -> Whole:
    """Return the rows of the events with these numbers, or -1 for -1."""
    row = np.searchsorted(at, index)
    if (np.append(at, NONE)[row] != index)[index != NONE].any():
        raise ValueError("a number has no event")
    return np.where(index == NONE, NONE, row)


def _check_nesting(parent: Whole) -> None:
    above = parent
    for _ in range(len(parent).bit_length() + 1):  # each round doubles the distance
        above = np.where(above == NONE, NONE, above[above])
    if (above != NONE).any():
        raise ValueError("an event contains itself")


def _are_within(parent: Whole, inner: Whole, outer: Whole) -> Flags:
    """Return whether each of these slices lies within another."""
    found = np.zeros(len(inner), np.bool_)
    rows = np.flatnonzero((inner != NONE) & (outer != NONE))
    above = inner[rows]
    while len(rows):
        above = parent[above]
        found[rows[above == outer[rows]]] = True
        rows, above = (each[(above != NONE) & (above != outer[rows])] for each in (rows, above))
    return found


def _columns(table: pa.Table) -> list[Whole]:
    return [filled(column.combine_chunks(), NONE) for column in table.columns]
