"""Finds which values of a record's graphs are the outputs of its delegate calls."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Any, Final, NamedTuple

from etq.storage.op_results import Ask, Graphs, Node

# A call of a delegate: its method and instruction.
Call = tuple[str, int]
# The most pairs of nodes of one op in different places that are checked; with more, their order counts as unknown.
MOST_PAIRS: Final = 1_000_000
_UNORDERED: Final = "nodes of one op run in several calls, in an unknown order"
_MUTATED: Final = "the call changes buffers, so the order of its outputs is unknown"


class Output(NamedTuple):
    """An output of a call; `mapping` is exact or inferred."""

    position: int
    graph: int | None
    node: int | None
    output: int | None
    mapping: str


class _Placed(NamedTuple):
    """A node with a debug handle of a call, as `placed_nodes` has it: in a call or none, and on which `basis`."""

    method: str
    graph: int
    node: int
    handle: int
    call: int | None
    basis: str


class _Entry(NamedTuple):
    """One handle in a call's list, with the value that belongs to it.

    is_output   whether something outside the call uses the value; None if unknown
    is_mutated  whether it is the new content of a buffer
    is_shared   whether nodes of the handle may be in other calls
    is_guessed  whether the value is unknown, or its node's call is only inferred
    """

    graph: int | None
    node: int | None
    output: int | None
    is_output: bool | None
    is_mutated: bool
    is_shared: bool
    is_guessed: bool


def outputs_of_calls(ask: Ask, keys: tuple[int, int, int | None], graphs: Graphs) -> dict[Call, list[Output] | str]:
    """Return the outputs of each delegate call in the program's order, or why they are unknown.

    keys  of the capture, the record and the program

    A call's outputs are the values of its nodes that other nodes use, or that the graph returns. The export keeps the
    order of nodes, so the outputs are in the order of the call's debug handles.
    """
    lists: dict[Call, list[int]] = defaultdict(list)
    counts: dict[Call, int | None] = {}
    for method, instruction, outputs, handle in ask(
        "SELECT h.method, h.instruction_id, d.outputs, h.debug_handle FROM delegates AS d "
        "JOIN debug_handles AS h USING (record_id, method, instruction_id) "
        f"WHERE d.record_id = {keys[1]:d} ORDER BY h.method, h.instruction_id, h.position"
    ):
        lists[method, instruction].append(handle)
        counts[method, instruction] = outputs
    if not lists:
        return {}
    query = "SELECT p.graph_id, p.node_index, p.debug_handle, p.instruction_id, p.basis FROM placed_nodes AS p"
    rows = ask(f"{query} WHERE p.capture_id = {keys[0]:d}")
    placed = [_Placed(graphs.methods[row[0]], *row) for row in rows]
    certainty = _Certainty(ask, keys, graphs, placed)
    values = _Values(graphs, placed, certainty)
    return {call: _decided([*values.entries(call, handles)], counts[call]) for call, handles in lists.items()}


def _decided(entries: list[_Entry], outputs: int | None) -> list[Output] | str:
    """Return the outputs of a call, or why they are unknown. `outputs`: their number in the program."""
    found = sum(entry.is_output is True for entry in entries)
    shared = sum(entry.is_shared for entry in entries)
    is_open = any(entry.is_output is None for entry in entries)
    if is_open or (outputs is not None and shared and outputs not in (found, found + shared)):
        return _UNORDERED
    if outputs is not None and outputs != found and not shared:
        return f"the call has {outputs} outputs, its nodes {found}"
    if outputs is not None and outputs > 1 and any(entry.is_mutated for entry in entries):
        return _MUTATED
    mapping = "inferred" if any(entry.is_guessed for entry in entries) else "exact"
    takes_shared = outputs is not None and outputs > found
    taken = [entry for entry in entries if entry.is_output or (entry.is_shared and takes_shared)]
    return [Output(at, entry.graph, entry.node, entry.output, mapping) for at, entry in enumerate(taken)]


class _Values:
    """The values of a call's nodes, in the order of its list of handles."""

    def __init__(self, graphs: Graphs, placed: list[_Placed], certainty: _Certainty) -> None:
        self._graphs = graphs
        self._certainty = certainty
        self._places = {(one.graph, one.node): one for one in placed}
        self._of_call: dict[tuple[Call, int], list[_Placed]] = defaultdict(list)
        self._of_handle: dict[tuple[str, int], list[_Placed]] = defaultdict(list)
        for one in placed:
            self._of_handle[one.method, one.handle].append(one)
            if one.call is not None and certainty.is_certain(one):
                self._of_call[(one.method, one.call), one.handle].append(one)

    def entries(self, call: Call, handles: list[int]) -> Iterator[_Entry]:
        listed = {handle: iter(self._listed(call, handle)) for handle in handles}
        for handle in handles:
            of_handle = self._of_handle.get((call[0], handle), [])
            is_certain = all(map(self._certainty.is_certain, of_handle))
            is_inferred = any(map(self._certainty.is_inferred, of_handle))
            graph, node, output, key = next(listed[handle], (None, None, None, None))
            is_output, is_mutated = (False, False) if key is None else self._use(call, (graph, key))
            is_unknown = not of_handle or (is_certain and node is None)
            yield _Entry(graph, node, output, is_output, is_mutated, not is_certain, is_unknown or is_inferred)

    def _listed(self, call: Call, handle: int) -> list[tuple[Any, ...]]:
        """Return the values of a handle's nodes in a call: graph, node, output and key. A node with several outputs
        comes before the nodes that select them.
        """
        found: list[tuple[Any, ...]] = []
        for one in sorted(self._of_call.get((call, handle), []), key=lambda each: each.node):
            name = self._graphs.names.get((one.graph, one.node))
            values = [
                value
                for value in self._graphs.values.get((one.graph, one.node), ())
                if name is not None and not value.name.startswith(f"{name}_unused_")
            ]
            if any(value.name != name for value in values):
                found.append((one.graph, one.node, None, None))
            found += [(one.graph, one.node, value.output, value.key) for value in values]
        return found

    def _use(self, call: Call, value: tuple[int, int]) -> tuple[bool | None, bool]:
        """Whether something outside a call uses a value of its graph (None if unknown), and whether the value is the
        new content of a buffer.
        """
        kinds = self._graphs.returned.get(value, [])
        users = [self._places.get((value[0], user)) for user in self._graphs.users.get(value, ())]
        certain = [user for user in users if user is None or self._certainty.is_certain(user)]
        if kinds or any(user is None or user.call != call[1] for user in certain):
            return True, "mutation" in kinds
        return (None if len(certain) < len(users) else False), False


class _Pair(NamedTuple):
    """Two nodes of a handle in different places, in order."""

    one: _Placed
    other: _Placed

    @property
    def is_of_calls(self) -> bool:
        return self.one.call is not None and self.other.call is not None


class _Certainty:
    """How certain the calls of nodes are.

    Nodes of one handle in several calls are in the order of the calls; this order is certain only if each call depends
    on all calls before it. A node that no delegate runs can only be confused with a delegated node of the same op.
    """

    def __init__(self, ask: Ask, keys: tuple[int, int, int | None], graphs: Graphs, placed: list[_Placed]) -> None:
        self._graphs = graphs
        self._open: set[tuple[int, int]] = set()
        self._inferred = {(one.graph, one.handle, one.node) for one in placed if one.basis == "handles"}
        self._doubtful: set[tuple[int, int]] = set()
        pairs = self._pairs(placed)
        if pairs:
            edges = _Edges(ask, keys[1])
            instructions = _Instructions(ask, keys, graphs, placed, pairs, edges)
            for key, each in pairs.items():
                self._judge(key, each, edges, instructions)

    def is_certain(self, placed: _Placed) -> bool:
        return (placed.graph, placed.handle) not in self._open

    def is_inferred(self, placed: _Placed) -> bool:
        key = (placed.graph, placed.handle)
        return key in self._doubtful or (*key, placed.node) in self._inferred

    def _pairs(self, placed: list[_Placed]) -> dict[tuple[int, int], list[_Pair]]:
        of_handle: dict[tuple[int, int], list[_Placed]] = defaultdict(list)
        for one in sorted(placed, key=lambda each: each.node):
            of_handle[one.graph, one.handle].append(one)
        pairs: dict[tuple[int, int], list[_Pair]] = {}
        left = MOST_PAIRS
        for key, each in of_handle.items():
            if len({one.call for one in each}) == 1:
                continue
            left -= len(each) ** 2 // 2
            if left < 0:
                self._open.add(key)
            else:
                pairs[key] = [
                    _Pair(one, other)
                    for one, other in combinations(each, 2)
                    if one.call != other.call
                    and one.basis != "graph"
                    and (self._op(one) == self._op(other) or (one.call is not None and other.call is not None))
                ]
        return pairs

    def _op(self, placed: _Placed) -> str:
        return self._graphs.ops[placed.graph, placed.node]

    def _judge(self, key: tuple[int, int], pairs: list[_Pair], edges: _Edges, instructions: _Instructions) -> None:
        last = max((pair.other.node for pair in pairs), default=0)
        reached = {node: edges.reached((key[0], node), last) for node in {pair.one.node for pair in pairs}}
        for pair in pairs:
            is_reached = pair.other.node in reached[pair.one.node]
            if pair.is_of_calls:
                if instructions.is_open(pair, is_reached):
                    self._open.add(key)
            elif not is_reached or "view_copy" in (self._op(pair.one), self._op(pair.other)):
                self._doubtful.add(key)


class _Edges:
    """The uses of nodes' results by other nodes of a record's graphs."""

    def __init__(self, ask: Ask, record: int) -> None:
        self.after: dict[Node, list[int]] = defaultdict(list)
        self.before: dict[Node, list[int]] = defaultdict(list)
        query = f"SELECT DISTINCT e.graph_id, e.from_node, e.to_node FROM op_edges AS e WHERE e.record_id = {record:d}"
        for graph, one, other in ask(query):
            self.after[graph, one].append(other)
            self.before[graph, other].append(one)

    def reached(self, start: Node, last: int) -> set[int]:
        """Return the nodes up to `last` that depend on a node."""
        graph, first = start
        found, left = {first}, [first]
        while left:
            new = {node for node in self.after.get((graph, left.pop()), ()) if node <= last} - found
            found |= new
            left += new
        return found


class _Instructions:
    """The range of instructions that can contain the nodes of several calls."""

    def __init__(
        self,
        ask: Ask,
        keys: tuple[int, int, int | None],
        graphs: Graphs,
        placed: list[_Placed],
        pairs: Mapping[tuple[int, int], list[_Pair]],
        edges: _Edges,
    ) -> None:
        self._edges = edges
        self._graphs = graphs
        capture, record, program = keys
        moved = {key for key, each in pairs.items() if any(pair.is_of_calls for pair in each)}
        self._known: dict[Node, list[tuple[int, int]]] = defaultdict(list)
        self._calls: dict[tuple[str, int], list[int]] = defaultdict(list)
        if not moved:
            return
        for one in placed:
            if one.call is not None and (one.graph, one.handle) not in moved:
                self._known[one.graph, one.node].append((one.call, one.call))
        program_key = "NULL" if program is None else f"{program:d}"
        kernels: dict[tuple[str, int, str], tuple[int, int, int]] = {}
        for method, handle, op, *of_op in ask(
            "SELECT h.method, h.debug_handle, k.op, count(*), min(h.instruction_id), max(h.instruction_id) "
            "FROM debug_handles AS h "
            f"JOIN _kernel_ops({record:d}, {program_key}, {capture:d}) AS k USING (method, instruction_id) "
            f"WHERE h.record_id = {record:d} GROUP BY ALL"
        ):
            kernels[method, handle, op] = (of_op[0], of_op[1], of_op[2])
        for (graph, handle), nodes in graphs.handled().items():
            of_ops: dict[str, list[int]] = defaultdict(list)
            for node in nodes:
                of_ops[graphs.ops[graph, node]].append(node)
            for op, same in of_ops.items():
                count, first, last = kernels.get((graphs.methods[graph], handle, op), (0, 0, 0))
                if count == len(same):
                    for node in same:
                        self._known[graph, node].append((first, last))
        for method, instruction, handle in ask(
            "SELECT h.method, h.instruction_id, h.debug_handle FROM delegates AS d "
            "JOIN debug_handles AS h USING (record_id, method, instruction_id) "
            f"WHERE d.record_id = {record:d}"
        ):
            self._calls[method, handle].append(instruction)

    def is_open(self, pair: _Pair, is_reached: bool) -> bool:
        """Whether the nodes of a pair may be in other calls than those they were placed in."""
        one, other = self._possible(pair.one), self._possible(pair.other)
        if one is None or other is None or pair.one.call is None or pair.other.call is None:
            return True
        are_within = one[0] <= pair.one.call <= one[1] and other[0] <= pair.other.call <= other[1]
        can_turn = not is_reached and one[1] > pair.one.call and other[0] < pair.other.call
        return not are_within or can_turn

    def _possible(self, placed: _Placed) -> tuple[int, int] | None:
        """Return the first and last call in which a node can be: those between the nearest nodes before and after it
        with known instructions.
        """
        node = (placed.graph, placed.node)
        before = [first for first, _ in self._nearest(node, self._edges.before)]
        after = [last for _, last in self._nearest(node, self._edges.after)]
        calls = [
            call
            for call in self._calls.get((placed.method, placed.handle), ())
            if call >= max(before, default=0) and (not after or call <= min(after))
        ]
        return (min(calls), max(calls)) if calls else None

    def _nearest(self, start: Node, edges: Mapping[Node, list[int]]) -> list[tuple[int, int]]:
        """Return the first and last instruction of the nearest known nodes on all paths from a node."""
        graph, first = start
        seen, left, found = {first}, [first], []
        while left:
            for node in edges.get((graph, left.pop()), ()):
                known = self._known.get((graph, node), [])
                found += known
                is_passed = not known or any(one != last for one, last in known)
                if is_passed and node not in seen:
                    seen.add(node)
                    left.append(node)
        return found
