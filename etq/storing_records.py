"""Putting ETRecords into a warehouse, and linking captures to them."""

from __future__ import annotations

from typing import Final

import duckdb

from etq.ingest.etrecord import read_etrecord
from etq.rollups import fill_rollups
from etq.sources import Source
from etq.storing import store_once

# Below this share of a capture's operators that fit a record, the record is taken for another program's.
FITTING: Final = 0.8


def store_record(connection: duckdb.DuckDBPyConnection, source: Source, name: str | None) -> tuple[int, bool]:
    """Put an ETRecord into the warehouse; see `store_once`."""
    return store_once(connection, "records", source, name, read_etrecord(source.content, source.uri))


def link(connection: duckdb.DuckDBPyConnection, capture_id: int, column: str, key: int) -> None:
    """Say of which record or program a capture is, by the column of `captures` that has its key.

    The methods of its runs are inferred, and the nodes of its events found. A record or program that doesn't fit is
    linked all the same, and told of in `findings`. The caller holds a transaction.
    """
    connection.execute(f"UPDATE captures SET {column} = ? WHERE capture_id = ?", [key, capture_id])
    for table in ("linked_methods", "signature_nodes", "signature_ops"):
        connection.execute(f"DELETE FROM {table} WHERE capture_id = ?", [capture_id])
    _find(connection, capture_id, "linked_methods", "_find_methods")
    connection.execute(
        """
        UPDATE runs SET method = b.method, method_score = b.score
        FROM (SELECT DISTINCT r.block_index FROM runs AS r WHERE r.capture_id = $capture) AS k
        LEFT JOIN linked_methods AS b ON b.capture_id = $capture AND b.block_index = k.block_index
        WHERE runs.capture_id = $capture AND runs.block_index = k.block_index
        """,
        {"capture": capture_id},
    )
    _find(connection, capture_id, "signature_nodes", "_find_event_nodes")
    if _has_unmapped_delegates(connection, capture_id):
        _find(connection, capture_id, "signature_nodes", "_find_aligned_nodes")
    _find(connection, capture_id, "signature_ops", "_find_event_ops")
    fill_rollups(connection, capture_id)
    connection.execute(
        "DELETE FROM findings WHERE capture_id = ? AND rule IN ('foreign record', 'foreign program', 'method unknown')",
        [capture_id],
    )
    connection.execute(
        "INSERT INTO findings SELECT $capture, f.rule, f.detail FROM _link_findings($capture, $fitting) AS f",
        {"capture": capture_id, "fitting": FITTING},
    )


def _find(connection: duckdb.DuckDBPyConnection, capture_id: int, table: str, finder: str) -> None:
    statement = f"INSERT INTO {table} SELECT $capture, f.* FROM {finder}($capture) AS f"
    connection.execute(statement, {"capture": capture_id})


def _has_unmapped_delegates(connection: duckdb.DuckDBPyConnection, capture_id: int) -> bool:
    """Whether there are delegates to align events within; where there are none, that search needn't be planned."""
    query = """
        SELECT 1 FROM captures AS k JOIN delegates AS d ON d.record_id = k.record_id
        WHERE k.capture_id = ? AND NOT d.is_mapped LIMIT 1
    """
    return bool(connection.execute(query, [capture_id]).fetchall())
