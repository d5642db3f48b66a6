"""A stored trace's slices as arrays, as an ingest has them."""

from __future__ import annotations

from typing import Final, NamedTuple

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from etq.errors import WarehouseError
from etq.ingest.arrow import batch
from etq.ingest.memory import refuse_beyond
from etq.ingest.trace.classes import Class, classified

# In the order of the file; the parent as a row, -1 if there is none.
_SLICES: Final = """
    SELECT e.*, coalesce(p.row, -1) AS parent
    FROM (
        SELECT e.event_index AS at, e.run_index AS run, e.signature_index AS kind, t.thread_index AS thread,
            h.process_index AS process, e.start_ticks AS start, e.elapsed_ticks AS elapsed,
            coalesce(t.correlation_id, -1) AS correlation, coalesce(t.external_id, -1) AS external, e.parent_index,
            coalesce(e.parent_run_index, e.run_index) AS parent_run
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
        SELECT i.run_index, i.event_index, row_number() OVER (ORDER BY i.event_index) - 1 AS row
        FROM event_ticks AS i WHERE i.capture_id = $capture_id
    ) AS p ON p.run_index = e.parent_run AND p.event_index = e.parent_index
    ORDER BY e.at
"""
# What arrays can't be made of; the keys of the tables are unique, and no events contain each other in a circle.
_WRONG: Final = """
    SELECT 'several events are of the same place in the file' FROM event_ticks AS e
    WHERE e.capture_id = $capture_id HAVING count(*) > count(DISTINCT e.event_index)
    UNION ALL
    SELECT 'an event is in no thread' FROM event_ticks AS e
    LEFT JOIN trace_events AS t
        ON t.capture_id = e.capture_id AND t.run_index = e.run_index AND t.event_index = e.event_index
    LEFT JOIN threads AS i ON i.capture_id = t.capture_id AND i.thread_index = t.thread_index
    WHERE e.capture_id = $capture_id HAVING count(*) > count(i.thread_index)
    UNION ALL
    SELECT 'its signatures are not numbered from 0' FROM signatures AS s
    WHERE s.capture_id = $capture_id HAVING min(s.signature_index) <> 0 OR max(s.signature_index) >= count(*)
    UNION ALL
    SELECT 'an event has no signature' FROM event_ticks AS e
    LEFT JOIN signatures AS s ON s.capture_id = e.capture_id AND s.signature_index = e.signature_index
    WHERE e.capture_id = $capture_id HAVING count(*) > count(s.signature_index)
"""

# Whole numbers: indexes and ticks.
Whole = npt.NDArray[np.int64]
# What an event takes as arrays, and while DuckDB makes them.
_ROW_BYTES: Final = 150


class StoredSlices(NamedTuple):
    """A trace's slices as arrays [n], with the category and name of each kind, which is the index of a signature, and
    what the slices of each kind are. The parent is a row, -1 if there is none.
    """

    kinds: list[tuple[str, str]]
    classes: list[Class]
    kind: Whole
    at: Whole
    run: Whole
    thread: Whole
    process: Whole
    start: Whole
    elapsed: Whole
    correlation: Whole
    external: Whole
    parent: Whole


def stored_slices(connection: duckdb.DuckDBPyConnection, capture_id: int) -> StoredSlices:
    """Return the slices of a stored trace.

    Raises `WarehouseError` for a trace whose rows refer to rows that are not there, or that has two events of a place.
    """
    for (what,) in connection.execute(_WRONG, {"capture_id": capture_id}).fetchall():
        raise WarehouseError(f"damaged: the trace {capture_id}: {what}; use a copy of the file")
    [(rows,)] = connection.execute("SELECT count(*) FROM event_ticks WHERE capture_id = ?", [capture_id]).fetchall()
    refuse_beyond(f"trace {capture_id}", "to upgrade it", rows * _ROW_BYTES)
    query = "SELECT category, name FROM signatures WHERE capture_id = ? ORDER BY signature_index"
    kinds = [(category or "", name or "") for category, name in connection.execute(query, [capture_id]).fetchall()]
    found = connection.execute(_SLICES, {"capture_id": capture_id}).fetchnumpy()
    arrays = (found[name].astype(np.int64) for name in StoredSlices._fields[2:])
    return StoredSlices(kinds, classified(kinds), *arrays)


def stored_classes(connection: duckdb.DuckDBPyConnection, capture_id: int) -> list[Class]:
    """Return what the slices of each kind are, as a trace of schema 6 or later has it."""
    columns = ", ".join(f's."{name}"' for name in Class._fields)
    query = f"SELECT {columns} FROM signatures AS s WHERE s.capture_id = ? ORDER BY s.signature_index"
    return [Class(*row) for row in connection.execute(query, [capture_id]).fetchall()]


def traces_of(connection: duckdb.DuckDBPyConnection) -> list[int]:
    """Return the keys of the traces of a warehouse."""
    query = "SELECT capture_id FROM captures WHERE format = 'torch_trace' ORDER BY capture_id"
    return [capture_id for (capture_id,) in connection.execute(query).fetchall()]


def update(connection: duckdb.DuckDBPyConnection, table: str, capture_id: int, columns: dict[str, pa.Array]) -> None:
    """Change columns of a capture's rows in a table; the first column is the key of the rows."""
    key, *changed = columns
    connection.register("_rows", batch(columns))
    connection.execute(
        f"UPDATE {table} SET {', '.join(f'{name} = u.{name}' for name in changed)} FROM _rows AS u "
        f"WHERE {table}.capture_id = {capture_id:d} AND {table}.{key} = u.{key}"
    )
    connection.unregister("_rows")
