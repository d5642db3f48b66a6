"""A stored trace's slices as arrays, as an ingest has them."""

from __future__ import annotations

from typing import Final, NamedTuple

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from etq.ingest.trace.classes import Class, classified

# In the order of the file; the parent as a row, -1 if there is none.
_SLICES: Final = """
    SELECT e.*, coalesce(p.row, -1) AS parent
    FROM (
        SELECT e.event_index AS at, e.signature_index AS kind, t.thread_index AS thread, h.process_index AS process,
            e.start_ticks AS start, e.elapsed_ticks AS elapsed, coalesce(t.correlation_id, -1) AS correlation,
            coalesce(t.external_id, -1) AS external, e.parent_index
        FROM event_ticks AS e
        JOIN trace_events AS t
            ON t.capture_id = e.capture_id AND t.run_index = e.run_index AND t.event_index = e.event_index
        JOIN (
            SELECT i.thread_index, dense_rank() OVER (ORDER BY i.process) - 1 AS process_index
            FROM threads AS i WHERE i.capture_id = $capture_id
        ) AS h ON h.thread_index = t.thread_index
        WHERE e.capture_id = $capture_id
    ) AS e
    LEFT JOIN (
        SELECT i.event_index, row_number() OVER (ORDER BY i.event_index) - 1 AS row
        FROM event_ticks AS i WHERE i.capture_id = $capture_id
    ) AS p ON p.event_index = e.parent_index
    ORDER BY e.at
"""

Whole = npt.NDArray[np.int64]


class StoredSlices(NamedTuple):
    """A trace's slices as arrays [n], with the category and name of each kind, which is the index of a signature, and
    what the slices of each kind are. The parent is a row, -1 if there is none.
    """

    kinds: list[tuple[str, str]]
    classes: list[Class]
    kind: Whole
    at: Whole
    thread: Whole
    process: Whole
    start: Whole
    elapsed: Whole
    correlation: Whole
    external: Whole
    parent: Whole


def stored_slices(connection: duckdb.DuckDBPyConnection, capture_id: int) -> StoredSlices:
    """Return the slices of a stored trace."""
    query = "SELECT category, name FROM signatures WHERE capture_id = ? ORDER BY signature_index"
    kinds = [(category or "", name or "") for category, name in connection.execute(query, [capture_id]).fetchall()]
    found = connection.execute(_SLICES, {"capture_id": capture_id}).fetchnumpy()
    arrays = (found[name].astype(np.int64) for name in StoredSlices._fields[2:])
    return StoredSlices(kinds, classified(kinds), *arrays)


def traces_of(connection: duckdb.DuckDBPyConnection) -> list[int]:
    """Return the keys of the traces of a warehouse."""
    query = "SELECT capture_id FROM captures WHERE format = 'torch_trace' ORDER BY capture_id"
    return [capture_id for (capture_id,) in connection.execute(query).fetchall()]


def update(connection: duckdb.DuckDBPyConnection, change: str, rows: pa.RecordBatch, condition: str) -> None:
    """Change rows of a table by those of `u`."""
    connection.register("_rows", rows)
    connection.execute(f"UPDATE {change} FROM _rows AS u WHERE {condition}")
    connection.unregister("_rows")
