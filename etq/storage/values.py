"""Storing the contents of a debug buffer: the values of a capture's logged tensors."""

from __future__ import annotations

import duckdb
import pyarrow as pa

from etq.ingest.etdump.debug_buffer import with_elements
from etq.storage.sources import Source


def insert_values(
    connection: duckdb.DuckDBPyConnection, capture_id: int, rows: pa.RecordBatch, buffer: Source, keep: bool
) -> None:
    """Insert rows of `debug_values` with the statistics of their tensors, and with their elements if `keep` is set."""
    for part in with_elements(rows, buffer.content, buffer.uri):
        insert_rows(connection, capture_id, part, keep=keep)


def insert_rows(connection: duckdb.DuckDBPyConnection, capture_id: int, rows: pa.RecordBatch, *, keep: bool) -> None:
    """Insert rows of `debug_values` that have a column `elements`, which is stored only if `keep` is set."""
    left_out = "" if keep else " EXCLUDE (elements)"
    connection.register("_values", rows)
    connection.execute(
        f"""
        INSERT INTO debug_values BY NAME
        SELECT {capture_id:d} AS capture_id, r.*{left_out}, unnest(_tensor_statistics(r.elements))
        FROM _values AS r
        """
    )
    connection.unregister("_values")


def keep_values(connection: duckdb.DuckDBPyConnection, capture_id: int, buffer: Source) -> None:
    """Add the tensors of a debug buffer to the rows of `debug_values` of a capture that was stored without it."""
    query = "SELECT * EXCLUDE (capture_id, min, max, mean, nan_count, inf_count, sha256, elements) FROM debug_values"
    rows = connection.sql(f"{query} WHERE capture_id = ?", params=[capture_id]).to_arrow_table()
    connection.execute("DELETE FROM debug_values WHERE capture_id = ?", [capture_id])
    for part in rows.combine_chunks().to_batches():
        insert_values(connection, capture_id, part, buffer, keep=True)


def find_in_values(connection: duckdb.DuckDBPyConnection, capture_id: int, buffer: Source) -> None:
    """Add findings about tensors missing from the buffer, and about values that differ between runs."""
    connection.execute(
        "DELETE FROM findings WHERE capture_id = ? AND rule IN ('short debug buffer', 'values differ')", [capture_id]
    )
    connection.execute(
        "INSERT INTO findings SELECT $capture, f.rule, f.detail FROM _value_findings($capture, $bytes) AS f",
        {"capture": capture_id, "bytes": len(buffer.content)},
    )
