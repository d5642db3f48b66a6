"""Schema 7: what views of traces shared is computed when a trace is read."""

from __future__ import annotations

from typing import Final

import duckdb

from etq.ingest.arrow import batch, numbers
from etq.ingest.trace.calls import COLUMNS, calls_and_operators
from etq.ingest.trace.launches import calls_of, owners_of
from etq.ingest.trace.scanner import NONE
from etq.maintenance.migration import Migration
from etq.maintenance.stored_slices import StoredSlices, stored_slices, traces_of, update


def fill(connection: duckdb.DuckDBPyConnection) -> None:
    """Compute what is new of traces."""
    for capture_id in traces_of(connection):
        _call(connection, capture_id, stored_slices(connection, capture_id))


def _call(connection: duckdb.DuckDBPyConnection, capture_id: int, slices: StoredSlices) -> None:
    kinds, classes, kind, parent = slices.kinds, slices.classes, slices.kind, slices.parent
    call = calls_of(classes, kind, slices.start, slices.elapsed, slices.correlation, slices.process)
    owners = owners_of(classes, kind, call, parent, slices.external, slices.correlation)
    found = calls_and_operators(kinds, classes, kind, slices.thread, slices.start, slices.elapsed, parent, call, owners)
    update(
        connection,
        f"trace_events SET {', '.join(f'{name} = u.{name}' for name in COLUMNS)}",
        batch(
            {
                "event_index": numbers(slices.at),
                **{name: numbers(indexes, indexes == NONE) for name, indexes in found.columns(slices.at).items()},
            }
        ),
        f"trace_events.capture_id = {capture_id:d} AND trace_events.event_index = u.event_index",
    )


MIGRATION: Final = Migration(fill=fill, columns={"trace_events": COLUMNS})
