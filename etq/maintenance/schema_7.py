"""Schema 7: steps of traces, waits of devices, and calls of ops. Before, each view of traces computed them anew.

The functions are those by which an ingest computes them: here they are applied to the slices of a stored trace.
"""

from __future__ import annotations

from typing import Final

import duckdb
import numpy as np

from etq.ingest.arrow import numbers
from etq.ingest.trace import calls, waits
from etq.ingest.trace.launches import calls_of, owners_of
from etq.ingest.trace.scanner import NONE
from etq.ingest.trace.steps import step_rows
from etq.maintenance.migration import Migration
from etq.maintenance.stored_slices import StoredSlices, Whole, stored_classes, stored_slices, traces_of, update
from etq.storage.inserting import insert

# The columns are the fields of `OfDevices`, with the event in place of its row.
_DEVICES: Final = """
    SELECT d.event_index AS row, coalesce(d.device, -1) AS device, coalesce(d.stream, -1) AS stream,
        coalesce(d.wait_stream, -1) AS wait_stream, coalesce(d.wait_correlation_id, -1) AS wait_correlation_id
    FROM device_events AS d
    SEMI JOIN event_ticks AS e
        ON e.capture_id = d.capture_id AND e.run_index = d.run_index AND e.event_index = d.event_index
    WHERE d.capture_id = ?
"""


def fill(connection: duckdb.DuckDBPyConnection) -> None:
    """Compute the tables and columns of schema 7 for all traces."""
    for capture_id in traces_of(connection):
        slices = stored_slices(connection, capture_id)._replace(classes=stored_classes(connection, capture_id))
        call = calls_of(slices.classes, slices.kind, slices.start, slices.elapsed, slices.correlation, slices.process)
        _add_steps(connection, capture_id, slices, call)
        _add_waits(connection, capture_id, slices, call)
        _add_calls(connection, capture_id, slices, call)


def _add_steps(connection: duckdb.DuckDBPyConnection, capture_id: int, slices: StoredSlices, call: Whole) -> None:
    rows = step_rows(slices.kinds, slices.classes, slices.kind, slices.run, slices.start, slices.elapsed, call)
    if rows.num_rows:
        insert(connection, "trace_steps", capture_id, rows)


def _add_waits(connection: duckdb.DuckDBPyConnection, capture_id: int, slices: StoredSlices, call: Whole) -> None:
    found = connection.execute(_DEVICES, [capture_id]).fetchnumpy()
    devices = waits.OfDevices(**{name: values.astype(np.int64) for name, values in found.items()})
    at = devices.row
    if not len(at):
        return
    devices = devices._replace(row=np.searchsorted(slices.at, at))
    columns = {"event_index": numbers(at), **waits.wait_columns(slices, call, devices)}
    update(connection, "device_events", capture_id, columns)


def _add_calls(connection: duckdb.DuckDBPyConnection, capture_id: int, slices: StoredSlices, call: Whole) -> None:
    kinds, classes, kind, parent = slices.kinds, slices.classes, slices.kind, slices.parent
    owners = owners_of(classes, kind, call, parent, slices.external, slices.correlation)
    found = calls.calls_and_operators(
        kinds, classes, kind, slices.thread, slices.start, slices.elapsed, parent, call, owners
    )
    columns = {name: numbers(indexes, indexes == NONE) for name, indexes in found.columns(slices.at).items()}
    update(connection, "trace_events", capture_id, {"event_index": numbers(slices.at), **columns})


MIGRATION: Final = Migration(
    fill=fill,
    tables=frozenset({"trace_steps"}),
    columns={"device_events": waits.COLUMNS, "trace_events": calls.COLUMNS},
)
