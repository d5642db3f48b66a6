"""Schema 5: families of kernels, overlaps of slices, ops of delegates' graphs by event, outputs that events logged.

What a record's graphs return is not known of records that were read before: it is empty for these.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from etq.database.rollups import fill_rollups
from etq.ingest.arrow import batch, flags, integers, numbers, texts
from etq.ingest.trace.kernels import Kernel, kernels_of, unknown_kernels
from etq.ingest.trace.nesting import overlaps
from etq.ingest.trace.scanner import NONE
from etq.ingest.trace.slices import are_nested, calls_of, is_launched_within
from etq.maintenance.migration import Migration
from etq.storage.linking import link_many

# A trace's slices, in the order of the file; the parent as a row, -1 if there is none.
_SLICES: Final = """
    SELECT e.*, coalesce(p.row, -1) AS parent
    FROM (
        SELECT e.event_index AS at, e.signature_index AS kind, t.thread_index AS thread, e.start_ticks AS start,
            e.elapsed_ticks AS elapsed, coalesce(t.correlation_id, -1) AS correlation, e.parent_index
        FROM event_ticks AS e
        JOIN trace_events AS t
            ON t.capture_id = e.capture_id AND t.run_index = e.run_index AND t.event_index = e.event_index
        WHERE e.capture_id = $capture_id
    ) AS e
    LEFT JOIN (
        SELECT i.event_index, row_number() OVER (ORDER BY i.event_index) - 1 AS row
        FROM event_ticks AS i WHERE i.capture_id = $capture_id
    ) AS p ON p.event_index = e.parent_index
    ORDER BY e.at
"""


class _Slices(NamedTuple):
    """A trace's slices as arrays [n], with the category and name of each kind, which is the index of a signature."""

    kinds: list[tuple[str, str]]
    kind: npt.NDArray[np.int64]
    at: npt.NDArray[np.int64]
    thread: npt.NDArray[np.int64]
    start: npt.NDArray[np.int64]
    elapsed: npt.NDArray[np.int64]
    correlation: npt.NDArray[np.int64]
    parent: npt.NDArray[np.int64]


def _slices(connection: duckdb.DuckDBPyConnection, capture_id: int) -> _Slices:
    query = "SELECT category, name FROM signatures WHERE capture_id = ? ORDER BY signature_index"
    kinds = [(category or "", name or "") for category, name in connection.execute(query, [capture_id]).fetchall()]
    found = connection.execute(_SLICES, {"capture_id": capture_id}).fetchnumpy()
    return _Slices(kinds, *(found[name].astype(np.int64) for name in _Slices._fields[1:]))


def fill(connection: duckdb.DuckDBPyConnection) -> None:
    """Compute what is new of traces, and of links; then the rollups, which count both."""
    traces = "SELECT capture_id FROM captures WHERE format = 'torch_trace' ORDER BY capture_id"
    for (capture_id,) in connection.execute(traces).fetchall():
        slices = _slices(connection, capture_id)
        _classify(connection, capture_id, slices)
        _overlap(connection, capture_id, slices)
    for column in ("record_id", "program_id"):
        linked = f"SELECT {column}, list(capture_id) FROM captures WHERE {column} IS NOT NULL GROUP BY 1 ORDER BY 1"
        for key, captures in connection.execute(linked).fetchall():
            link_many(connection, sorted(captures), column, key)
    [(first, last)] = connection.execute("SELECT min(capture_id), max(capture_id) FROM captures").fetchall()
    if first is not None:
        fill_rollups(connection, first, last)


def _classify(connection: duckdb.DuckDBPyConnection, capture_id: int, slices: _Slices) -> None:
    call = calls_of(slices.kinds, slices.kind, slices.start, slices.correlation)
    kernels = kernels_of(
        slices.kinds,
        lambda kind, around: is_launched_within(call[slices.kind == kind], slices.parent, around[slices.kind]),
    )
    of_kernels = [kernels.get(place, Kernel(None, None)) for place in range(len(slices.kinds))]
    rows = batch(
        {
            "signature_index": integers(range(len(of_kernels))),
            "family": texts([each.family for each in of_kernels]),
            "uses_matrix_units": flags([each.uses_matrix_units for each in of_kernels]),
        }
    )
    _update(
        connection,
        "signatures SET kernel_family = u.family, uses_matrix_units = u.uses_matrix_units",
        rows,
        f"signatures.capture_id = {capture_id:d} AND signatures.signature_index = u.signature_index",
    )
    if unknown := unknown_kernels(slices.kinds, kernels, slices.kind.astype(np.int32), slices.elapsed):
        connection.execute("INSERT INTO findings VALUES (?, 'unknown kernels', ?)", [capture_id, unknown])


def _overlap(connection: duckdb.DuckDBPyConnection, capture_id: int, slices: _Slices) -> None:
    nested = np.flatnonzero(are_nested(slices.kinds, slices.kind, slices.elapsed))
    place = np.full(len(slices.kind) + 1, NONE, np.int64)
    place[nested] = np.arange(len(nested))
    start = slices.start[nested]
    ticks = overlaps(slices.thread[nested], start, start + slices.elapsed[nested], place[slices.parent[nested]])
    there = ticks > 0
    _update(
        connection,
        "event_ticks SET overlap_ticks = u.ticks",
        batch({"event_index": numbers(slices.at[nested][there]), "ticks": numbers(ticks[there])}),
        f"event_ticks.capture_id = {capture_id:d} AND event_ticks.event_index = u.event_index",
    )


def _update(connection: duckdb.DuckDBPyConnection, change: str, rows: pa.RecordBatch, condition: str) -> None:
    """Change rows of a table by those of `u`."""
    connection.register("_rows", rows)
    connection.execute(f"UPDATE {change} FROM _rows AS u WHERE {condition}")
    connection.unregister("_rows")


MIGRATION: Final = Migration(
    fill=fill,
    tables=frozenset({"graph_outputs", "signature_delegate_ops", "signature_outputs"}),
    columns={"signatures": ("kernel_family", "uses_matrix_units"), "event_ticks": ("overlap_ticks",)},
)
