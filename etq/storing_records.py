"""Putting ETRecords into a warehouse, and linking captures to them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

import duckdb
import numpy as np
import pyarrow as pa

import etq
from etq.ingest.arrow import batch, integers, texts
from etq.ingest.etrecord import read_etrecord
from etq.storing import Source, check_name_is_free, free_name, insert, microseconds

# Below this share of a capture's operators that fit a record, the record is taken for another program's.
FITTING: Final = 0.8


def store_record(connection: duckdb.DuckDBPyConnection, source: Source, name: str | None) -> tuple[int, bool]:
    """Put an ETRecord into the warehouse, or name the one that is there of the same content.

    Returns the record_id, and whether it is new. The caller holds a transaction.
    """
    known = connection.execute("SELECT record_id FROM records WHERE sha256 = ?", [source.sha256]).fetchall()
    if known:
        [(record_id,)] = known
        if name is not None:
            check_name_is_free(connection, "records", name, record_id)
            connection.execute("UPDATE records SET name = ? WHERE record_id = ?", [name, record_id])
        return record_id, False
    record_id = connection.execute("SELECT coalesce(max(record_id), 0) + 1 FROM records").fetchall()[0][0]
    given = free_name(connection, "records", source) if name is None else name
    check_name_is_free(connection, "records", given, record_id)
    for table, rows in read_etrecord(source.content, source.uri):
        whole = _with_what_is_given(rows, source, given) if table == "records" else rows
        insert(connection, table, record_id, whole, "record_id")
    return record_id, True


def _with_what_is_given(rows: pa.RecordBatch, source: Source, name: str) -> pa.RecordBatch:
    given = {
        "sha256": texts([source.sha256]),
        "name": texts([name]),
        "uri": texts([source.uri]),
        "byte_size": integers([len(source.content)], np.int64),
        "ingested_at": integers([microseconds(datetime.now(UTC))], np.int64).view(pa.timestamp("us")),
        "etq_version": texts([etq.__version__]),
    }
    return batch({**given, **dict(zip(rows.schema.names, rows.columns, strict=True))})


def link_record(connection: duckdb.DuckDBPyConnection, capture_id: int, record_id: int) -> None:
    """Say that a capture is of a record's program: infer the methods of its runs, find the nodes of its events.

    A record that doesn't fit is linked all the same, and told of in `findings`. The caller holds a transaction.
    """
    connection.execute("UPDATE captures SET record_id = ? WHERE capture_id = ?", [record_id, capture_id])
    [(sha256,)] = connection.execute("SELECT sha256 FROM captures WHERE capture_id = ?", [capture_id]).fetchall()
    connection.execute("UPDATE runs SET method = NULL, method_score = NULL WHERE capture_id = ?", [capture_id])
    connection.execute(
        """
        UPDATE runs SET method = b.method, method_score = b.score
        FROM block_methods($capture) AS b
        WHERE runs.capture_id = $capture_id AND runs.block_index = b.block_index
        """,
        {"capture": sha256, "capture_id": capture_id},
    )
    connection.execute("DELETE FROM signature_nodes WHERE capture_id = ?", [capture_id])
    connection.execute(
        "INSERT INTO signature_nodes SELECT $capture_id, n.* FROM _find_event_nodes($capture) AS n",
        {"capture": sha256, "capture_id": capture_id},
    )
    connection.execute(
        "DELETE FROM findings WHERE capture_id = ? AND rule IN ('foreign record', 'method unknown')", [capture_id]
    )
    connection.execute(
        "INSERT INTO findings SELECT $capture_id, f.rule, f.detail FROM _link_findings($capture, $fitting) AS f",
        {"capture": sha256, "capture_id": capture_id, "fitting": FITTING},
    )
