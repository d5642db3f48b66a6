"""Schema 6: what the events of traces are, what launched the work of devices, and what contains each event.

Whether events of an unknown category are work of a device is not known of traces that were read before: they are not.
"""

from __future__ import annotations

from typing import Final

import duckdb
import numpy as np

from etq.ingest.arrow import integers, numbers
from etq.ingest.trace.kernels import unknown_kernels, with_communication
from etq.ingest.trace.launches import AROUND, around_of, calls_of, is_launched_within, owners_of
from etq.ingest.trace.rows import class_columns
from etq.ingest.trace.scanner import NONE
from etq.maintenance.migration import Migration
from etq.maintenance.stored_slices import StoredSlices, Whole, stored_slices, traces_of, update

_LAUNCHES: Final = ("call_index", "op_index", "owner_index")


def fill(connection: duckdb.DuckDBPyConnection) -> None:
    """Classify the events of traces, and find what launched the work of devices."""
    for capture_id in traces_of(connection):
        slices = stored_slices(connection, capture_id)
        call = calls_of(slices.classes, slices.kind, slices.start, slices.elapsed, slices.correlation, slices.process)
        _classify(connection, capture_id, slices, call)
        _own(connection, capture_id, slices, call)
        _nest(connection, capture_id, slices)


def _classify(connection: duckdb.DuckDBPyConnection, capture_id: int, slices: StoredSlices, call: Whole) -> None:
    classes = with_communication(
        slices.classes,
        lambda kind, around: is_launched_within(call[slices.kind == kind], slices.parent, around[slices.kind]),
    )
    columns = {"signature_index": integers(range(len(classes))), **class_columns(classes)}
    update(connection, "signatures", capture_id, columns)
    if unknown := unknown_kernels(slices.kinds, classes, slices.kind, slices.elapsed):
        found = [capture_id, "unknown kernels", unknown]
        connection.execute("DELETE FROM findings WHERE capture_id = ? AND rule = ?", found[:2])
        connection.execute("INSERT INTO findings VALUES (?, ?, ?)", found)


def _own(connection: duckdb.DuckDBPyConnection, capture_id: int, slices: StoredSlices, call: Whole) -> None:
    owners = owners_of(slices.classes, slices.kind, call, slices.parent, slices.external, slices.correlation)
    rows = np.flatnonzero((call != NONE) | (owners.owner != NONE))
    found = zip(_LAUNCHES, (call, owners.op, owners.owner), strict=True)
    columns = {name: numbers(slices.at[of[rows]], of[rows] == NONE) for name, of in found}
    update(connection, "device_events", capture_id, {"event_index": numbers(slices.at[rows]), **columns})


def _nest(connection: duckdb.DuckDBPyConnection, capture_id: int, slices: StoredSlices) -> None:
    found = around_of(slices.classes, slices.kind, slices.parent)
    columns = {name: numbers(slices.at[rows], rows == NONE) for name, rows in found}
    update(connection, "trace_events", capture_id, {"event_index": numbers(slices.at), **columns})


MIGRATION: Final = Migration(
    fill=fill,
    columns={
        "signatures": ("activity", "on_device", "purpose", "waits"),
        "device_events": _LAUNCHES,
        "trace_events": AROUND,
    },
)
