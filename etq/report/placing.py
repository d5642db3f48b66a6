"""The places of nodes on a page of graphs: nodes in groups, and the edges between them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from etq.report.nested import nested_edges
from etq.report.tree import Tree

if TYPE_CHECKING:
    from etq.database.handles import Answers

# The uses of values, and the modules of nodes from the outermost on, in a record's graphs of a stage.
EDGES: Final = """
    SELECT DISTINCT e.graph_id, e.from_node, e.to_node
    FROM graphs AS g
    JOIN op_edges AS e ON e.record_id = g.record_id AND e.graph_id = g.graph_id
    WHERE g.record_id = $record AND g.stage = $stage
    ORDER BY ALL
"""
LEVELS: Final = """
    SELECT m.graph_id, m.node_index, m.module_path, m.module_class
    FROM graphs AS g
    JOIN node_modules AS m ON m.record_id = g.record_id AND m.graph_id = g.graph_id
    WHERE g.record_id = $record AND g.stage = $stage
    ORDER BY m.graph_id, m.node_index, m.depth
"""


class Placed(NamedTuple):
    """Nodes and groups in their places, as `graph_rows` documents them.

    keys    graph and node_index of each node
    nodes   parent, rank and order of each node
    groups  graph_id, method, parent, name, path, module_class, rank and order of each group
    edges   maker and user, by number
    bends   group, owner, rank and order
    """

    keys: list[tuple[int, int]]
    nodes: list[tuple[int, int, int]]
    groups: list[tuple[Any, ...]]
    edges: list[tuple[int, int]]
    bends: list[tuple[int, ...]]


def levels_of(warehouse: Answers, record: int, stage: str) -> list[tuple[Any, ...]]:
    """Return the modules of the nodes of a record's graphs: graph, node, path and class, outermost first."""
    return warehouse.rows(LEVELS, record=record, stage=stage)[1]


def placed(
    warehouse: Answers,
    graphs: tuple[int, str],
    nodes: tuple[Sequence[str], Sequence[tuple[Any, ...]]],
    levels: Sequence[tuple[Any, ...]],
    more_edges: Sequence[tuple[int, int, int]] = (),
) -> Placed:
    """Place the nodes of graphs.

    graphs      the key of the record, and the stage of its graphs
    nodes       names of columns, and rows, of all nodes
    levels      as of `levels_of`
    more_edges  graph, maker and user of edges that the record doesn't have
    """
    names, rows = nodes
    columns = ("graph_id", "node_index", "method", "subgraph", "op", "name")
    of_graphs, indexes, methods, subgraphs, ops, known = ([row[names.index(each)] for row in rows] for each in columns)
    keys = list(zip(of_graphs, indexes, strict=True))
    numbers = {key: number for number, key in enumerate(keys)}
    method_of = dict(zip(of_graphs, methods, strict=True))
    tree = Tree(keys, subgraphs, levels, [op or name for op, name in zip(ops, known, strict=True)])
    record, stage = graphs
    edges = [
        (numbers[graph, maker], numbers[graph, user])
        for graph, maker, user in [*warehouse.rows(EDGES, record=record, stage=stage)[1], *more_edges]
        if (graph, maker) in numbers and (graph, user) in numbers
    ]
    edges += nested_edges(warehouse, record, stage, keys, subgraphs)
    places, bends = tree.placed(edges)
    groups = [
        (each.graph_id, method_of[each.graph_id], each.parent, each.name, each.path, each.module_class, *place)
        for each, place in zip(tree.groups, places[len(keys) :], strict=True)
    ]
    of_nodes = [(parent, *place) for parent, place in zip(tree.parents, places, strict=False)]
    return Placed(keys, of_nodes, groups, edges, bends)
