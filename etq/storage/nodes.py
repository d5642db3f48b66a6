"""Finding the nodes of a capture's events by debug handles: rows of `signature_nodes`."""

from __future__ import annotations

from itertools import groupby
from typing import Any, Final

import duckdb
import numpy as np

from etq.ingest.arrow import batch, flags, integers, numbers, texts
from etq.storage.inserting import insert

# Whether a kernel has a handle of a delegate's call. If none has, captures and programs show nothing that the record
# doesn't show.
_SHARED: Final = """
    SELECT 1 FROM delegates AS d
    JOIN debug_handles AS h USING (record_id, method, instruction_id)
    JOIN debug_handles AS o USING (record_id, method, debug_handle)
    ANTI JOIN delegates AS k
        ON k.record_id = o.record_id AND k.method = o.method AND k.instruction_id = o.instruction_id
    WHERE d.record_id = ? LIMIT 1
"""
_ALL_DELEGATED: Final = """
    INSERT INTO placed_nodes
    SELECT {:d}, d.* EXCLUDE (record_id) FROM delegated_nodes AS d WHERE d.record_id = {:d}
    ORDER BY d.graph_id, d.node_index
"""
# The arguments of `_node_delegates` for a record alone: no program, and a capture that doesn't exist.
ALONE: Final = "{}, NULL, 0"
_NODES: Final = """
    SELECT n.signature_index, n.debug_handle, n.graph_id, n.node_index, n.instruction_id, n.kind,
        string_split(n.op, '.')[1] = n.kernel_op
    FROM _nodes_of_handles(?) AS n
    ORDER BY n.signature_index, n.position, n.node_index
"""


def place_nodes_of_record(connection: duckdb.DuckDBPyConnection, record_id: int) -> None:
    """Fill `delegated_nodes` with the nodes that delegates run, by a record alone."""
    if connection.execute("SELECT 1 FROM delegates AS d WHERE d.record_id = ? LIMIT 1", [record_id]).fetchall():
        _place(connection, "delegated_nodes", record_id, ALONE.format(record_id))


def place_nodes(connection: duckdb.DuckDBPyConnection, capture_id: int) -> bool:
    """Fill `placed_nodes` with the nodes that delegates run; return whether the capture's record has delegates."""
    query = "SELECT k.record_id, k.program_id FROM captures AS k JOIN delegates AS d USING (record_id)"
    found = connection.execute(f"{query} WHERE k.capture_id = ? LIMIT 1", [capture_id]).fetchall()
    for record, program in found:
        if connection.execute(_SHARED, [record]).fetchall():
            # As a literal, NULL lets the planner drop the part for programs.
            _place(connection, "placed_nodes", capture_id, f"{record}, {program or 'NULL'}, {capture_id:d}")
        else:
            connection.execute(_ALL_DELEGATED.format(capture_id, record))
    return bool(found)


def _place(connection: duckdb.DuckDBPyConnection, table: str, key: int, keys: str) -> None:
    """Fill a table with the rows of `_node_delegates` for the keys of a record, a program and a capture."""
    connection.execute(
        f"""
        INSERT INTO {table}
        SELECT {key:d}, d.graph_id, d.node_index, d.debug_handle, d.instruction_id, d.backend, d.basis
        FROM _node_delegates({keys}) AS d
        ORDER BY d.graph_id, d.node_index
        """
    )


def find_nodes_of_handles(connection: duckdb.DuckDBPyConnection, capture_id: int, *, has_delegates: bool) -> None:
    """Fill `signature_nodes` with the nodes that the record's and the backends' maps assign to a capture's events.

    has_delegates  as `place_nodes` returns it, which was called before
    """
    query = "SELECT p.graph_id, p.node_index, p.instruction_id FROM placed_nodes AS p WHERE p.capture_id = ?"
    of_calls = {*connection.execute(query, [capture_id]).fetchall()} if has_delegates else set()
    found: list[tuple[Any, ...]] = []
    for signature, each in groupby(connection.execute(_NODES, [capture_id]).fetchall(), key=lambda row: row[0]):
        nodes = []
        for _, handle, *node, kind, is_of_kernel in each:
            is_of_delegate = kind in ("delegate", "delegate_call")
            if has_delegates or not is_of_delegate:
                nodes.append((handle, *node[:2], tuple(node) in of_calls if is_of_delegate else bool(is_of_kernel)))
        is_any = any(is_run for *_, is_run in nodes)
        found += [(signature, at, *node, is_run or not is_any) for at, (*node, is_run) in enumerate(nodes)]
    signatures, positions, handles, graphs, indices, is_own = zip(*found, strict=True) if found else [()] * 6
    rows = {
        "signature_index": integers(signatures),
        "position": integers(positions),
        "debug_handle": integers(handles),
        "graph_id": integers(graphs),
        "node_index": integers(indices),
        "is_own": flags(np.array(is_own, np.bool_)),
        "mapping": texts(["exact"] * len(found)),
        "score": numbers(np.ones(len(found))),
    }
    insert(connection, "signature_nodes", capture_id, batch(rows))
