"""Schema 7: what views of traces shared is computed when a trace is read."""

from __future__ import annotations

from typing import Final

import duckdb

from etq.ingest.trace.launches import calls_of
from etq.ingest.trace.steps import step_rows
from etq.maintenance.migration import Migration
from etq.maintenance.stored_slices import StoredSlices, stored_classes, stored_slices, traces_of
from etq.storage.inserting import insert


def fill(connection: duckdb.DuckDBPyConnection) -> None:
    """Compute what is new of traces."""
    for capture_id in traces_of(connection):
        slices = stored_slices(connection, capture_id)._replace(classes=stored_classes(connection, capture_id))
        _add_steps(connection, capture_id, slices)


def _add_steps(connection: duckdb.DuckDBPyConnection, capture_id: int, slices: StoredSlices) -> None:
    call = calls_of(slices.classes, slices.kind, slices.start, slices.elapsed, slices.correlation, slices.process)
    rows = step_rows(slices.kinds, slices.classes, slices.kind, slices.run, slices.start, slices.elapsed, call)
    if rows.num_rows:
        insert(connection, "trace_steps", capture_id, rows)


MIGRATION: Final = Migration(fill=fill, tables=frozenset({"trace_steps"}))
