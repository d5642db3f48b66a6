"""Storing the values of a reference run as a capture of format `reference`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

import duckdb

from etq.errors import WarehouseError
from etq.ingest.metrics.reference_values import Outputs, hash_of, read_reference
from etq.storage.capture import last_id
from etq.storage.inserting import insert
from etq.storage.naming import check_name_is_free
from etq.storage.nodes import place_nodes
from etq.storage.outputs import find_op_values, find_outputs
from etq.storage.values import insert_rows
from etq.version import VERSION


def store_reference(
    connection: duckdb.DuckDBPyConnection, record_id: int, graph: str, values: Mapping[str, Outputs], name: str | None
) -> tuple[int, bool]:
    """Store the outputs of a graph's nodes as a capture; if a capture has the same outputs, only rename it.

    graph  a stage, or a member of the file, as in the table `graphs`
    name   None: the record's name, followed by `-reference`, or by the graph if another graph has that name

    Returns the capture_id, and whether it is new. The caller holds a transaction. Raises `WarehouseError` for a name
    that is taken, and for a record that lacks the graph.
    """
    [(record_name, record_sha256, uri)] = connection.execute(
        "SELECT name, sha256, uri FROM records WHERE record_id = ?", [record_id]
    ).fetchall()
    stage, method = _graph_of(connection, record_id, record_name, graph)
    sha256 = hash_of(values, graph, record_sha256)
    known = connection.execute("SELECT capture_id FROM captures WHERE sha256 = ?", [sha256]).fetchall()
    capture_id = known[0][0] if known else last_id(connection) + 1
    wanted = _name_of(connection, record_name, graph) if name is None and not known else name
    if wanted is not None:
        check_name_is_free(connection, "captures", wanted, capture_id)
    if known:
        connection.execute("UPDATE captures SET name = coalesce(?, name) WHERE capture_id = ?", [wanted, capture_id])
        return capture_id, False
    connection.execute(
        """
        INSERT INTO captures BY NAME
        SELECT $capture AS capture_id, $sha256 AS sha256, $name AS name, 'reference' AS format, $uri AS uri,
            0 AS size_bytes, $now::TIMESTAMP AS ingested_at, 'ns' AS time_scale, $record AS record_id,
            'debug' AS profiling_level, $version AS etq_version
        """,
        {
            **{"capture": capture_id, "sha256": sha256, "name": wanted, "uri": uri, "record": record_id},
            **{"now": datetime.now(UTC).replace(tzinfo=None), "version": VERSION},
        },
    )
    for table, rows in read_reference(values, stage, method):
        if table == "debug_values":
            insert_rows(connection, capture_id, rows, keep=True)
        else:
            insert(connection, table, capture_id, rows)
    place_nodes(connection, capture_id)
    find_outputs(connection, capture_id)
    find_op_values(connection, [capture_id])
    return capture_id, True


def _name_of(connection: duckdb.DuckDBPyConnection, record_name: str, graph: str) -> str:
    name = f"{record_name}-reference"
    taken = connection.execute("SELECT 1 FROM captures WHERE name = ? AND format = 'reference'", [name]).fetchall()
    return f"{record_name}-{graph}" if taken else name


def _graph_of(connection: duckdb.DuckDBPyConnection, record_id: int, record_name: str, graph: str) -> tuple[str, str]:
    """Return the stage and the method of a record's graph, by its stage or its name in the file."""
    query = """
        SELECT stage, method FROM graphs WHERE record_id = $record AND $graph IN (stage, member)
        ORDER BY graph_id LIMIT 1
    """
    found = connection.execute(query, {"record": record_id, "graph": graph}).fetchall()
    if not found:
        raise WarehouseError(f"the record {record_name} has no {graph}")
    return found[0]
