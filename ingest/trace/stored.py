"""Computes what is stored about the waits and gaps of a trace again, from its stored events."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from etq.ingest.arrow import batch, filled, numbers
from etq.ingest.trace.classes import Class
from etq.ingest.trace.gaps import device_gaps
from etq.ingest.trace.launches import Whole
from etq.ingest.trace.paths import Recording, host_waits
from etq.ingest.trace.scanner import NONE
from etq.ingest.trace.waits import OfDevices, wait_columns, waits_of

# The rows of a capture that are read, without its key.
_SIGNATURES: Final = """
    SELECT s.category, s.label, s.activity, s.on_device, s.purpose, s.waits, s.kernel_family, s.uses_matrix_units
    FROM signatures AS s WHERE s.capture_id = $key ORDER BY s.signature_index
"""
_EVENTS: Final = """
    SELECT e.event_index, e.event_signature, e.thread_index, dense_rank() OVER (ORDER BY h.process) AS process,
        e.start_ticks, e.elapsed_ticks, coalesce(e.overlap_ticks, 0) AS overlap_ticks, e.parent_index, e.correlation_id,
        e.sequence_number, coalesce(e.pass = 'backward', false)::INTEGER AS is_backward
    FROM trace_events AS e
    JOIN threads AS h USING (capture_id, thread_index)
    WHERE e.capture_id = $key
    ORDER BY e.event_index
"""
_DEVICES: Final = """
    SELECT d.event_index, d.device, d.stream, d.wait_stream, d.wait_correlation_id, d.call_index
    FROM device_events AS d WHERE d.capture_id = $key ORDER BY d.event_index
"""
_STEPS: Final = "SELECT s.run_index, s.start_ticks, s.end_ticks FROM trace_steps AS s WHERE s.capture_id = $key"
_TOOL_STEPS: Final = "SELECT t.start_ticks, t.end_ticks FROM tool_steps AS t WHERE t.capture_id = $key"


class _Stored(NamedTuple):
    """A trace's slices as arrays [n]: a `Trace` of `waits.py`."""

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


def computed_again(read: Callable[[str], pa.Table]) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yield tables, and the columns of them that are computed from the events of a trace alone, with their keys. `read`
    runs a query with the capture's key as the parameter `key`.
    """
    classes = read(_SIGNATURES).to_pydict()
    kinds = [*zip(classes.pop("category"), classes.pop("label"), strict=True)]
    of_kinds = [Class(*values) for values in zip(*(classes[name] for name in Class._fields), strict=True)]
    *of_events, is_backward = _columns(read(_EVENTS))
    trace = _Stored(kinds, of_kinds, *of_events)
    recording = Recording(trace)
    yield "recordings", recording.row()
    run, start, end = _columns(read(_STEPS))
    thread = recording.last_threads(start, end)
    yield "trace_steps", batch({"run_index": numbers(run), "end_thread": numbers(thread, thread == NONE)})
    index, *others, call_index = _columns(read(_DEVICES))
    if not len(index):
        return
    row = np.searchsorted(trace.at, index)
    devices = OfDevices(row, *others)
    call = np.full(len(trace.at), NONE)
    call[row] = np.where(call_index == NONE, NONE, np.searchsorted(trace.at, call_index))
    waits = waits_of(trace, call, devices)
    yield "device_events", batch({"event_index": numbers(index), **wait_columns(trace, waits)})
    yield "host_waits", host_waits(trace, call, devices, waits, is_backward == 1, recording.thread)
    starts, ends = _columns(read(_TOOL_STEPS))
    yield "device_gaps", device_gaps(trace, call, devices, waits, trace.kind, (starts, ends))


def _columns(table: pa.Table) -> list[Whole]:
    return [filled(column.combine_chunks(), NONE) for column in table.columns]
