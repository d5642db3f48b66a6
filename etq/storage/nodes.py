"""Finding the nodes of a capture's events by debug handles: rows of `signature_nodes`."""

from __future__ import annotations

from itertools import groupby
from typing import Any, Final

import duckdb
import numpy as np
import pyarrow as pa

from etq.ingest.arrow import batch, flags, integers, numbers, texts
from etq.storage.inserting import insert

_PLACED: Final = "d.method, d.graph_id, d.node_index, d.debug_handle, d.instruction_id, d.basis"
_NODES: Final = """
    SELECT n.signature_index, n.debug_handle, n.graph_id, n.node_index, n.instruction_id, n.kind,
        string_split(n.op, '.')[1] = n.kernel_op
    FROM _nodes_of_handles(?) AS n
    ORDER BY n.signature_index, n.position, n.node_index
"""


def placed_nodes(connection: duckdb.DuckDBPyConnection, capture_id: int) -> pa.RecordBatch | None:
    """Return the nodes that delegates run, as rows of `_node_delegates`; None if the capture's record has none."""
    query = "SELECT k.record_id, k.program_id FROM captures AS k JOIN delegates AS d USING (record_id)"
    found = connection.execute(f"{query} WHERE k.capture_id = ? LIMIT 1", [capture_id]).fetchall()
    if not found:
        return None
    # As a literal, NULL lets the planner drop the part for programs.
    record, program = ("NULL" if key is None else f"{key:d}" for key in found[0])
    rows = connection.execute(
        f"SELECT {_PLACED} FROM _node_delegates({record}, {program}, {capture_id:d}) AS d"
    ).fetchall()
    methods, graphs, nodes, handles, instructions, bases = zip(*rows, strict=True) if rows else [()] * 6
    return batch(
        {
            "method": texts(methods),
            "graph_id": integers(graphs),
            "node_index": integers(nodes),
            "debug_handle": integers(handles),
            "instruction_id": integers(instructions),
            "basis": texts(bases),
        }
    )


def find_nodes_of_handles(
    connection: duckdb.DuckDBPyConnection, capture_id: int, placed: pa.RecordBatch | None
) -> None:
    """Fill `signature_nodes` with the nodes that the record's and the backends' maps assign to a capture's events.

    placed  as `placed_nodes` returns it
    """
    columns = (
        []
        if placed is None
        else [placed.column(name).to_pylist() for name in ("graph_id", "node_index", "instruction_id")]
    )
    of_calls = set(zip(*columns, strict=True))
    found: list[tuple[Any, ...]] = []
    for signature, each in groupby(connection.execute(_NODES, [capture_id]).fetchall(), key=lambda row: row[0]):
        nodes = []
        for _, handle, *node, kind, is_of_kernel in each:
            is_of_delegate = kind in ("delegate", "delegate_call")
            if placed is not None or not is_of_delegate:
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
