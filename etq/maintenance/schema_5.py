"""Schema 5: families of kernels, overlaps of slices, ops of delegates' graphs by event, outputs that events logged.

What a record's graphs return is not known of records that were read before: it is empty for these. The families are
filled with the classes of schema 6.
"""

from __future__ import annotations

from typing import Final

import duckdb
import numpy as np

from etq.ingest.arrow import numbers
from etq.ingest.trace.nesting import overlaps
from etq.ingest.trace.scanner import NONE
from etq.ingest.trace.slices import are_nested
from etq.maintenance.migration import Migration
from etq.maintenance.stored_slices import StoredSlices, stored_slices, traces_of, update
from etq.storage.linking import link_many


def fill(connection: duckdb.DuckDBPyConnection) -> None:
    """Compute what is new of traces, and of links."""
    for capture_id in traces_of(connection):
        _overlap(connection, capture_id, stored_slices(connection, capture_id))
    for column in ("record_id", "program_id"):
        linked = f"SELECT {column}, list(capture_id) FROM captures WHERE {column} IS NOT NULL GROUP BY 1 ORDER BY 1"
        for key, captures in connection.execute(linked).fetchall():
            link_many(connection, sorted(captures), column, key)


def _overlap(connection: duckdb.DuckDBPyConnection, capture_id: int, slices: StoredSlices) -> None:
    nested = np.flatnonzero(are_nested(slices.kinds, slices.classes, slices.kind, slices.elapsed))
    place = np.full(len(slices.kind) + 1, NONE, np.int64)
    place[nested] = np.arange(len(nested))
    start = slices.start[nested]
    ticks = overlaps(slices.thread[nested], start, start + slices.elapsed[nested], place[slices.parent[nested]])
    there = ticks > 0
    columns = {"event_index": numbers(slices.at[nested][there]), "overlap_ticks": numbers(ticks[there])}
    update(connection, "event_ticks", capture_id, columns)


MIGRATION: Final = Migration(
    fill=fill,
    tables=frozenset({"graph_outputs", "signature_delegate_ops", "signature_outputs"}),
    columns={"signatures": ("kernel_family", "uses_matrix_units"), "event_ticks": ("overlap_ticks",)},
)
