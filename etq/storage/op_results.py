"""Finds which values of a record's graphs are the results of ops, from rows of its tables."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

# A function that returns the rows of a query.
Ask = Callable[[str], list[tuple[Any, ...]]]
EDGE: Final = "edge_dialect_exported_program"
# Ops whose output has the elements of their first argument, in the same order.
_KEEPING: Final = frozenset(
    {
        *("view_copy", "view", "_unsafe_view", "reshape", "squeeze_copy", "squeeze", "unsqueeze_copy", "unsqueeze"),
        *("flatten", "clone", "_clone_dim_order", "alias_copy", "alias", "detach_copy", "detach", "contiguous"),
    }
)
_MOST_KEEPING: Final = 8
_SHARED: Final = "several nodes have results of the op"

# A node: its graph, and its index in it.
Node = tuple[int, int]
# An op: its method and debug handle.
Op = tuple[str, int]


class Value(NamedTuple):
    """An output of a node; `key` is its key in the graph."""

    output: int
    key: int
    name: str
    sizes: list[int | None] | None


class Result(NamedTuple):
    """A value that has the elements of an op's output.

    node    the node whose value it is; None with a problem
    output  the node's output; None: each of them
    result  the op's output; None: that of the same index
    depth   the number of nodes that only change the shape between this node and the op's last node
    last    the op's last node, whose outputs are those of the op
    """

    graph: int
    node: int | None
    output: int | None
    result: int | None
    depth: int
    last: int | None
    problem: str | None


class Graphs:
    """The graphs of some stages of a record, by dictionaries.

    stages    the stage of each graph; `methods`: its method
    names     name of each node with a handle; `ops`: its op, as kernels are named
    values    its outputs, in order
    users     nodes that use a value, by graph and the value's key; `firsts`: values of a node's first argument
    returned  the kinds of outputs as which a graph returns a value, by graph and the value's key
    """

    def __init__(self, ask: Ask, record_id: int, *stages: str) -> None:
        rows = ask(f"SELECT g.graph_id, g.method, g.stage FROM graphs AS g WHERE g.record_id = {record_id:d}")
        self.methods = {graph: method for graph, method, stage in rows if stage in stages}
        self.stages = {graph: stage for graph, _, stage in rows if stage in stages}
        self._chosen = chosen = (
            f"t.record_id = {record_id:d} AND t.graph_id IN ({', '.join(map(str, self.methods)) or 'NULL'})"
        )
        self._handled: dict[tuple[int, int], list[int]] = defaultdict(list)
        self.names: dict[Node, str | None] = {}
        self.ops: dict[Node, str] = {}
        for graph, node, handle, name, op in ask(
            "SELECT t.graph_id, t.node_index, t.debug_handle, p.name, string_split(p.op, '.')[1] "
            "FROM node_debug_handles AS t JOIN op_nodes AS p USING (record_id, graph_id, node_index) "
            f"WHERE {chosen} ORDER BY t.graph_id, t.node_index, t.debug_handle"
        ):
            self._handled[graph, handle].append(node)
            self.names[graph, node], self.ops[graph, node] = name, op
        self.values: dict[Node, list[Value]] = defaultdict(list)
        for graph, node, *value in ask(
            "SELECT t.graph_id, t.node_index, t.output_index, t.value_index, t.value_name, t.sizes "
            f"FROM node_values AS t WHERE {chosen} AND t.node_index IS NOT NULL ORDER BY ALL"
        ):
            self.values[graph, node].append(Value(*value))
        self.users: dict[tuple[int, int], list[int]] = defaultdict(list)
        self.firsts: dict[Node, list[int]] = defaultdict(list)
        for graph, node, position, value in ask(
            "SELECT t.graph_id, t.node_index, t.position, t.value_index FROM node_arguments AS t "
            f"WHERE {chosen} AND t.value_index IS NOT NULL"
        ):
            self.users[graph, value].append(node)
            if position == 0:
                self.firsts[graph, node].append(value)
        self.returned: dict[tuple[int, int], list[str]] = defaultdict(list)
        for graph, value, kind in ask(
            f"SELECT t.graph_id, t.value_index, t.kind FROM graph_outputs AS t WHERE {chosen}"
        ):
            self.returned[graph, value].append(kind)

    def sizes(self, graph: int, node: int | None, output: int | None) -> list[int | None] | None:
        """Return the sizes of an output of a node; None where unknown."""
        if node is None:
            return None
        return next((value.sizes for value in self.values.get((graph, node), ()) if value.output == output), None)

    def stack_traces(self, ask: Ask) -> dict[Node, str | None]:
        """Return the stack trace of each node."""
        query = f"SELECT t.graph_id, t.node_index, t.stack_trace FROM op_nodes AS t WHERE {self._chosen}"
        return {(graph, node): trace for graph, node, trace in ask(query)}

    def handled(self, stage: str = EDGE) -> dict[tuple[int, int], list[int]]:
        """Return the nodes of a stage's graphs that have a debug handle, in order, by graph and handle."""
        return {key: nodes for key, nodes in self._handled.items() if self.stages[key[0]] == stage}

    def results(self, stage: str = EDGE) -> dict[Op, list[Result]]:
        """Return the values that have the elements of each op's outputs, of a stage's graphs.

        Nodes of one op share a debug handle. The op's outputs are the outputs of the one node whose values other ops
        use, or the graph returns. If that node only changes the shape, its input has the same elements.
        """
        found: dict[Op, list[Result]] = defaultdict(list)
        for (graph, handle), nodes in self.handled(stage).items():
            of_op = found[self.methods[graph], handle]
            if len(nodes) == 1:  # as most ops have, and no node uses its own value
                of_op.append(Result(graph, nodes[0], None, None, 0, nodes[0], None))
                continue
            last = [node for node in nodes if not self._is_inner(graph, node, nodes)]
            if len(last) == 1:
                of_op += self._chain(graph, last[0], nodes)
            elif last:
                of_op.append(Result(graph, None, None, None, 0, None, _SHARED))
        return found

    def _is_inner(self, graph: int, node: int, nodes: Sequence[int]) -> bool:
        """Whether only nodes of the same op use a node's values."""
        keys = [(graph, value.key) for value in self.values.get((graph, node), ())]
        users = [user for key in keys for user in self.users.get(key, ())]
        return bool(users) and not any(key in self.returned for key in keys) and all(user in nodes for user in users)

    def _chain(self, graph: int, last: int, nodes: Sequence[int]) -> Iterator[Result]:
        """Yield an op's last node, then the values before it that only nodes that change the shape separate from it."""
        makers = {value.key: (node, value.output) for node in nodes for value in self.values.get((graph, node), ())}
        level = [Result(graph, last, None, None, 0, last, None)]
        while level:
            yield from level
            taken = [
                Result(graph, *makers[value], 0, one.depth + 1, last, None)
                for one in level
                if one.node is not None and one.depth < _MOST_KEEPING and self.ops[graph, one.node] in _KEEPING
                for value in self.firsts.get((graph, one.node), ())
                if value in makers
            ]
            level = [*dict.fromkeys(taken)]
