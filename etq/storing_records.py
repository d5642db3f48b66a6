"""Putting ETRecords into a warehouse, and linking captures to them."""

from __future__ import annotations

from typing import Final

import duckdb

from etq.ingest.etrecord import read_etrecord
from etq.storing import Source, store_once

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
    connection.execute("UPDATE runs SET method = NULL, method_score = NULL WHERE capture_id = ?", [capture_id])
    connection.execute(
        """
        UPDATE runs SET method = b.method, method_score = b.score
        FROM _best_methods($capture) AS b
        WHERE runs.capture_id = $capture AND runs.block_index = b.block_index
        """,
        {"capture": capture_id},
    )
    for table, found in (("signature_nodes", "_find_event_nodes"), ("signature_ops", "_find_event_ops")):
        connection.execute(f"DELETE FROM {table} WHERE capture_id = ?", [capture_id])
        connection.execute(
            f"INSERT INTO {table} SELECT $capture, f.* FROM {found}($capture) AS f", {"capture": capture_id}
        )
    connection.execute(
        "DELETE FROM findings WHERE capture_id = ? AND rule IN ('foreign record', 'foreign program', 'method unknown')",
        [capture_id],
    )
    connection.execute(
        "INSERT INTO findings SELECT $capture, f.rule, f.detail FROM _link_findings($capture, $fitting) AS f",
        {"capture": capture_id, "fitting": FITTING},
    )
