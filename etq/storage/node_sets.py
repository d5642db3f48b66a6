"""Computes the costs of the nodes that the events of a linked capture run: the rows of `signature_costs`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, Final, NamedTuple

import duckdb
import numpy as np
import pyarrow as pa

from etq.ingest.arrow import batch, flags, integers, lists, texts
from etq.storage.inserting import insert
from etq.storage.op_results import Ask

# The values that nodes take or give, by graph and node.
Moves = dict[tuple[int, int], list["_Moved"]]

_MOST: Final = 2**63 - 1
# Kinds of events that run one node of their op.
_SINGLE: Final = ("kernel", "operator_call")
# The nodes of a kernel are those of its op.
_RUN: Final = """
    SELECT n.signature_index, s.block_index, s.kind, s.instruction_id, n.graph_id, n.node_index
    FROM captures AS k
    JOIN signature_nodes AS n USING (capture_id)
    JOIN signatures AS s ON s.capture_id = n.capture_id AND s.signature_index = n.signature_index
    JOIN op_nodes AS p ON p.record_id = k.record_id AND p.graph_id = n.graph_id AND p.node_index = n.node_index
    WHERE k.capture_id = {:d} AND n.is_own
        AND (s.kind <> 'kernel' OR string_split(s.family, '.')[1] = string_split(p.op, '.')[1])
    ORDER BY n.signature_index, n.graph_id, n.node_index
"""
_NODES: Final = """
    SELECT p.graph_id, p.node_index, p.op_type, p.module_path, c.moves, c.flops, c.bytes_read, c.reason
    FROM op_nodes AS p
    JOIN costed_nodes AS c USING (record_id, graph_id, node_index)
    WHERE p.record_id = (SELECT k.record_id FROM captures AS k WHERE k.capture_id = {:d})
"""
_TAKEN: Final = """
    SELECT t.graph_id, t.node_index, t.value_index, min(t.position)
    FROM node_arguments AS t
    WHERE t.record_id = (SELECT k.record_id FROM captures AS k WHERE k.capture_id = {:d}) AND t.value_index IS NOT NULL
    GROUP BY ALL
"""
_VALUES: Final = """
    SELECT v.graph_id, v.value_index, v.node_index, v.bytes FROM node_values AS v
    WHERE v.record_id = (SELECT k.record_id FROM captures AS k WHERE k.capture_id = {:d})
"""


class _Run(NamedTuple):
    """The nodes that an event runs. If the event runs an unknown one of them, `is_one_of`."""

    signature: int
    graph: int
    nodes: tuple[int, ...]
    is_one_of: bool


class _Node(NamedTuple):
    op_type: str
    module: str | None
    moves: str | None
    flops: int | None
    bytes_read: int | None
    reason: str | None


class _Moved(NamedTuple):
    """A value that a node reads or writes, the node that makes it, None for inputs, and its bytes, None if unknown."""

    is_read: bool
    value: int
    maker: int | None
    bytes: int | None


class _Cost(NamedTuple):
    """The columns of `signature_costs` about a set of nodes."""

    flops: int | None
    bytes: int | None
    unknown: int
    reason: str | None
    op_types: str
    module_path: str | None


def find_costs(connection: duckdb.DuckDBPyConnection, capture_id: int) -> None:
    """Fill `signature_costs` with the costs of a capture's events, after their nodes were found."""
    rows = costs_of(lambda query: connection.execute(query).fetchall(), capture_id)
    insert(connection, "signature_costs", capture_id, rows)


def costs_of(ask: Ask, capture_id: int) -> pa.RecordBatch:
    """Return the rows of `signature_costs` of a linked capture. Nodes and values that are missing from a damaged
    warehouse are left out.
    """
    nodes = {(graph, node): _Node(*rest) for graph, node, *rest in ask(_NODES.format(capture_id))}
    runs = [*_runs(row for row in ask(_RUN.format(capture_id)) if row[4:] in nodes)]
    moved, users = _moved(nodes, ask(_TAKEN.format(capture_id)), ask(_VALUES.format(capture_id)))
    known = {run[1:3]: _cost(run.graph, run.nodes, nodes, moved, users) for run in runs}
    costs = [known[run[1:3]] for run in runs]
    return batch(
        {
            "signature_index": integers([run.signature for run in runs]),
            "graph_id": integers([run.graph for run in runs]),
            "nodes": lists(
                integers([node for run in runs for node in run.nodes]), np.array([len(run.nodes) for run in runs])
            ),
            "is_one_of": flags(np.array([run.is_one_of for run in runs], np.bool_)),
            "flops": integers([cost.flops for cost in costs], np.int64),
            "bytes": integers([cost.bytes for cost in costs], np.int64),
            "unknown": integers([cost.unknown for cost in costs]),
            "reason": texts([cost.reason for cost in costs]),
            "op_types": texts([cost.op_types for cost in costs]),
            "module_path": texts([cost.module_path for cost in costs]),
        }
    )


def _runs(rows: Iterable[tuple[Any, ...]]) -> Iterator[_Run]:
    """Yield the nodes of each event, in the first graph that has some. If several kernels of one op share a debug
    handle that has as many nodes of this op, the nodes are assigned to the kernels in order.
    """
    alike = defaultdict[tuple[Any, ...], list[tuple[float, int]]](list)
    for (signature, block, kind, instruction), of_event in groupby(rows, key=lambda row: row[:4]):
        graph, of_graph = next(groupby(of_event, key=lambda row: row[4]))
        nodes = tuple(dict.fromkeys(row[5] for row in of_graph))
        alike[block, kind, graph, nodes].append((np.inf if instruction is None else instruction, signature))
    found = []
    for (_, kind, graph, nodes), events in alike.items():
        is_each, is_single = len(events) == len(nodes), kind in _SINGLE
        for place, (_, signature) in enumerate(sorted(events)):
            run = (nodes[place],) if is_single and is_each else nodes
            found.append(_Run(signature, graph, run, is_single and len(nodes) > 1 and not is_each))
    yield from sorted(found)


def _moved(
    nodes: dict[tuple[int, int], _Node], taken: Sequence[tuple[int, ...]], values: Sequence[tuple[Any, ...]]
) -> tuple[Moves, dict[tuple[int, int], set[int]]]:
    """Return the values that each node moves, and the nodes that read each value, by graph and value. A value that a
    node takes twice is read once.
    """
    moved, users = Moves(), defaultdict[tuple[int, int], set[int]](set)
    value_of = {(graph, value): (maker, size) for graph, value, maker, size in values}
    given = defaultdict[tuple[int, int], list[tuple[int, int | None]]](list)
    for graph, value, maker, size in values:
        if (graph, maker) in nodes:
            given[graph, maker].append((value, size))
    first = defaultdict[tuple[int, int], list[int | None]](list)
    for graph, node, value, position in taken:
        if (graph, node) not in nodes or (graph, value) not in value_of:
            continue
        users[graph, value].add(node)
        maker, size = value_of[graph, value]
        if position == 0:
            first[graph, node].append(size)
        read = _read(nodes[graph, node].moves, position, size, given.get((graph, node), ()))
        moved.setdefault((graph, node), []).append(_Moved(True, value, maker, read))
    for (graph, node), made in given.items():
        moves = nodes[graph, node].moves
        for value, size in made:
            sizes = first.get((graph, node), [None]) if moves == "update" else [_written(moves, size)]
            moved.setdefault((graph, node), []).extend(_Moved(False, value, node, each) for each in sizes)
    return moved, users


def _read(moves: str | None, position: int, size: int | None, given: Sequence[tuple[int, int | None]]) -> int | None:
    """Return the bytes that a node reads of a value, see `cost_formulas`."""
    if moves in ("nothing", "made") or (moves == "update" and position):
        return 0
    if moves == "chosen" and not position:
        written = [each for _, each in given if each is not None]
        return sum(written) if given and len(written) == len(given) else None
    return size if moves in ("all", "update", "chosen") else None


def _written(moves: str | None, size: int | None) -> int | None:
    return 0 if moves == "nothing" else size if moves in ("all", "chosen", "made") else None


def _cost(
    graph: int,
    members: tuple[int, ...],
    nodes: dict[tuple[int, int], _Node],
    moved: Moves,
    users: dict[tuple[int, int], set[int]],
) -> _Cost:
    """Return the cost of a set of nodes: the operations of all its nodes; the bytes that come from outside, and those
    that are used outside or not at all. Values that nodes of a set pass to each other needn't go through memory.
    """
    of_set, within = [nodes[graph, node] for node in members], {*members}
    sizes = defaultdict[tuple[bool, int], list[int | None]](list)
    for node in members:
        for is_read, value, maker, size in moved.get((graph, node), ()):
            readers = users.get((graph, value))
            if maker not in within if is_read else not readers or not readers <= within:
                sizes[is_read, value].append(size)
    known = [max(each for each in of_value if each is not None) for of_value in sizes.values() if None not in of_value]
    has_bytes = len(known) == len(sizes) and all(node.bytes_read is not None for node in of_set)
    flops = [node.flops for node in of_set if node.flops is not None]
    reasons = [node.reason for node in of_set if node.reason is not None]
    modules = {node.module for node in of_set if node.module is not None}
    return _Cost(
        _limited(sum(flops)) if len(flops) == len(of_set) else None,
        _limited(sum(known)) if has_bytes else None,
        len(reasons),
        reasons[0] if reasons else None,
        " ".join(sorted({node.op_type for node in of_set})),
        modules.pop() if len(modules) == 1 else None,
    )


def _limited(number: int) -> int | None:
    return number if abs(number) <= _MOST else None
