"""Nested graphs of control flow (cond, map, while) and delegate calls: the node to which each graph belongs, and the
edges between the graph and the nodes around it. In a record, nested graphs are arguments of a node. The row of this
node precedes the rows of the graphs' nodes. The inputs of the graphs are the node's last arguments, in order;
parameters of a delegate's graph are not among the arguments of its call.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from etq.database.handles import Answers

Key = tuple[int, int]

# For all graphs of a stage: the node that makes each value, the arguments of nodes, and the uses of values.
VALUES: Final = """
    SELECT v.graph_id, v.value_index, v.node_index, v.kind
    FROM graphs AS g
    JOIN node_values AS v ON v.record_id = g.record_id AND v.graph_id = g.graph_id
    WHERE g.record_id = $record AND g.stage = $stage
"""
ARGUMENTS: Final = """
    SELECT a.graph_id, a.node_index, a.position, a.value_index
    FROM graphs AS g
    JOIN node_arguments AS a ON a.record_id = g.record_id AND a.graph_id = g.graph_id
    WHERE g.record_id = $record AND g.stage = $stage
"""
USES: Final = """
    SELECT e.graph_id, e.from_node, e.to_node, e.position
    FROM graphs AS g
    JOIN op_edges AS e ON e.record_id = g.record_id AND e.graph_id = g.graph_id
    WHERE g.record_id = $record AND g.stage = $stage
"""


def owners_of(keys: Sequence[Key], subgraphs: Sequence[str]) -> dict[int, int]:
    """For each node in a nested graph, return the node that has the graph as an argument. Nodes are given by number.

    keys       graph and node_index of each node, in order
    subgraphs  the nested graphs that contain it, joined by /
    """
    latest: dict[tuple[int, str], int] = {}
    owners = {}
    for number, ((graph, _), path) in enumerate(zip(keys, subgraphs, strict=True)):
        owner = latest.get((graph, path.rpartition("/")[0])) if path else None
        if owner is not None:
            owners[number] = owner
        latest[graph, path] = number
    return owners


def nested_edges(
    warehouse: Answers, record: int, stage: str, keys: Sequence[Key], subgraphs: Sequence[str]
) -> list[tuple[int, int]]:
    """Return the edges between nodes inside and outside nested graphs, by number. One kind leads from the node that
    makes an argument to the nodes that use it within the graph. The other kind leads from the last nodes of the graph,
    whose results no other node of it uses, to the node that has the graph.

    record  the record's key
    stage   stage of its graphs, in `graphs`

    If the numbers of arguments and of the graph's inputs differ, no edges lead into it.
    """
    owners = owners_of(keys, subgraphs)
    if not owners:
        return []
    numbers = {key: number for number, key in enumerate(keys)}
    kinds: dict[Key, str] = {}
    first: dict[int, int] = {}
    values = warehouse.rows(VALUES, record=record, stage=stage)[1]
    for graph, value, node, kind in sorted(values, key=lambda row: row[:2]):
        kinds[graph, value] = kind
        if node is not None and (graph, node) in numbers:
            first.setdefault(numbers[graph, node], value)
    takers: dict[Key, list[int]] = defaultdict(list)
    arguments: dict[int, list[tuple[int, int | None]]] = defaultdict(list)
    for graph, node, position, value in warehouse.rows(ARGUMENTS, record=record, stage=stage)[1]:
        number = numbers[graph, node]
        arguments[number].append((position, value))
        if value is not None:
            takers[graph, value].append(number)
    uses: dict[int, list[tuple[int, int]]] = defaultdict(list)
    is_used = set()
    for graph, maker, user, position in warehouse.rows(USES, record=record, stage=stage)[1]:
        uses[numbers[graph, user]].append((numbers[graph, maker], position))
        is_used.add(numbers[graph, maker])
    members: dict[tuple[int, str], list[int]] = defaultdict(list)
    for number, owner in owners.items():
        members[owner, subgraphs[number]].append(number)
    found = set()
    for (owner, _), nodes in members.items():
        found |= {(node, owner) for node in nodes if node not in is_used}
        inputs = _inputs(keys[owner][0], [first[node] for node in nodes if node in first], kinds)
        operands, before = _operands(arguments[owner])
        if not operands or not inputs or len(inputs) % operands:
            continue
        # If an earlier graph of the node has no nodes, its inputs come directly before those of this graph.
        inputs = inputs[-operands:]
        for maker, position in uses[owner]:
            if position >= before:
                found |= {(maker, taker) for taker in takers[keys[owner][0], inputs[position - before]]}
    return sorted(found)


def _inputs(graph: int, values: Sequence[int], kinds: Mapping[Key, str]) -> list[int]:
    """Return the inputs of a nested graph, by value_index: they precede the first value of its nodes."""

    def backwards() -> Iterator[int]:
        for value in count(min(values) - 1, -1):
            if kinds.get((graph, value), "result") == "result":
                return
            if kinds[graph, value] == "input":
                yield value

    return [*backwards()][::-1] if values else []


def _operands(arguments: Sequence[tuple[int, int | None]]) -> tuple[int, int]:
    """Return how many of a node's arguments are inputs of its graphs, and how many precede these, such as a predicate.

    The graphs are arguments, too, but have no row in the table. So the first position without a row is that of the
    first graph.
    """
    positions = {position for position, _ in arguments}
    graph = next(position for position in count() if position not in positions)
    values = [position for position, value in arguments if value is not None]
    operands = sum(position > graph for position in values)
    return operands, len(values) - operands
