"""Links the events within delegate calls to the ops of the delegates' graphs, and to nodes, by their order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

import duckdb
import numpy as np

from etq.ingest.arrow import batch, integers, numbers
from etq.ingest.program.alignment import KINDS, aligned, may_run
from etq.storage.inserting import insert

# The most pairs of event and op in all calls of a capture: each takes a byte, and 5 ns.
MOST_PAIRS: Final = 50_000_000
# Kinds that the nodes of a call don't determine: XNNPACK adds and removes changes of layout and type.
_LAYOUT: Final = frozenset({"convert", "copy", "transpose"})
_Places: TypeAlias = "Sequence[int | None]"
_Any = TypeVar("_Any")


class _Event(NamedTuple):
    block: int
    method: str
    instruction: int
    signature: int
    kind: str
    blob: int | None
    is_unmapped: bool


class _Op(NamedTuple):
    blob: int
    op_index: int
    name: str
    kind: str
    events: list[str]
    handle: int | None


class _Node(NamedTuple):
    method: str
    instruction: int
    graph: int
    node_index: int
    handle: int
    kind: str


def align_delegates(connection: duckdb.DuckDBPyConnection, capture_id: int, has_ops: bool) -> None:
    """Fill `signature_delegate_ops`, and add to `signature_nodes` the events of delegates that wrote no map.

    has_ops  whether the capture's program has graphs of delegates

    The nodes of the delegate calls must already be stored.
    """

    def rows(macro: str) -> list[tuple[Any, ...]]:
        return connection.execute(f"FROM {macro}(?)", [capture_id]).fetchall()

    ops = _grouped((_Op(*row) for row in rows("_classified_delegate_ops")) if has_ops else (), "blob")
    of_calls = [_Node(*row) for row in rows("_delegate_call_nodes")]
    all_events = [_Event(*row) for row in rows("_delegate_events")]
    # One query for all calls, as planning it takes longer than the rest.
    names = [*{node.kind for node in of_calls} | {event.kind for event in all_events}]
    classified = "SELECT n.name, _delegate_op_class(n.name) FROM (SELECT unnest(?::VARCHAR[]) AS name) AS n"
    kinds = dict(connection.execute(classified, [names]).fetchall())
    nodes = _grouped((node._replace(kind=kinds[node.kind]) for node in of_calls), "method", "instruction")
    aligner = _Aligner()
    run: list[tuple[int, int, float]] = []
    found: list[tuple[int, _Node, float]] = []
    for key, each in groupby(all_events, key=lambda event: event[:3]):
        events = [event._replace(kind=kinds[event.kind]) for event in each]
        graph = ops.get((events[0].blob,), [])
        by_graph = aligner.align([event.kind for event in events], [(*op.events,) for op in graph])
        of_graph = [(event.signature, graph[op].op_index) for event, op in _placed(events, by_graph)]
        run += _scored(of_graph, [event.signature for event in events])
        if events[0].is_unmapped:
            of_call = [*_nodes_of_call(aligner, events, by_graph, graph, nodes.get(key[1:], []))]
            found += _scored(of_call, [event.signature for event in events if event.kind not in _LAYOUT])
    insert(
        connection,
        "signature_delegate_ops",
        capture_id,
        batch(
            {
                "signature_index": integers([row[0] for row in run]),
                "op_index": integers([row[1] for row in run]),
                "score": numbers(np.array([row[2] for row in run], np.float64)),
            }
        ),
    )
    _insert_nodes(connection, capture_id, found)


def _nodes_of_call(
    aligner: _Aligner, events: Sequence[_Event], by_graph: _Places, graph: Sequence[_Op], nodes: Sequence[_Node]
) -> Iterator[tuple[int, _Node]]:
    """Yield the events of a call that have a node, each with its node.

    The node belongs to the debug handle of the event's op. Without such a handle, or without a graph, the events are
    aligned with the nodes themselves. With a graph, an event without an op has no node, because the graph is more exact
    than the nodes.
    """
    of_ops = _nodes_of_ops(graph, nodes)
    ops = dict(_placed(range(len(events)), by_graph))
    shown = [at for at, event in enumerate(events) if event.kind not in _LAYOUT]
    left = [node for node in nodes if node.kind in KINDS - _LAYOUT]
    by_nodes = aligner.align([events[at].kind for at in shown], [(node.kind,) for node in left])
    guesses = {at: left[node] for at, node in _placed(shown, by_nodes)}
    used = {of_ops[op] for op in ops.values() if op in of_ops}
    for at, event in enumerate(events):
        if at in ops and ops[at] in of_ops and may_run(event.kind, graph[ops[at]].kind):
            yield event.signature, of_ops[ops[at]]
        elif at in guesses and guesses[at] not in used and (at in ops or not graph):
            yield event.signature, guesses[at]


def _nodes_of_ops(graph: Sequence[_Op], nodes: Sequence[_Node]) -> dict[int, _Node]:
    """The nodes from which the ops of a graph were made, by place of the op: nodes with the op's handle and kind, in
    order.

    If the numbers of ops and nodes differ, it is unknown which op was made from which node.
    """
    found: dict[int, _Node] = {}
    for columns in (("handle",), ("handle", "kind")):
        of_nodes = _grouped(nodes, *columns)
        of_ops = _grouped([_Placed(at, op.handle, op.kind) for at, op in enumerate(graph)], *columns)
        for key, each in of_ops.items():
            same = of_nodes.get(key, [])
            if len(same) == len(each) and (len(each) == 1 or len(columns) == 2):
                found |= {op.at: node for op, node in zip(each, same, strict=True)}
    return found


class _Placed(NamedTuple):
    at: int
    handle: int | None
    kind: str


class _Aligner:
    """Aligns calls, each distinct sequence of events and ops once, up to a limit on their total size."""

    def __init__(self) -> None:
        self._known: dict[tuple[tuple[str, ...], tuple[tuple[str, ...], ...]], _Places] = {}
        self._pairs = 0

    def align(self, events: Sequence[str], ops: Sequence[tuple[str, ...]]) -> _Places:
        key = (*events,), (*ops,)
        if key not in self._known:
            self._pairs += len(events) * sum(map(len, ops))
            self._known[key] = aligned(events, ops) if self._pairs <= MOST_PAIRS else [None] * len(events)
        return self._known[key]


def _placed(events: Iterable[_Any], places: _Places) -> Iterator[tuple[_Any, int]]:
    return ((event, place) for event, place in zip(events, places, strict=True) if place is not None)


def _scored(found: Sequence[tuple[int, _Any]], counted: Sequence[int]) -> list[tuple[int, _Any, float]]:
    """The aligned events of a call, each with the share of the counted events that are aligned; 1 if no event
    counts.
    """
    share = len({signature for signature, _ in found}.intersection(counted)) / len(counted) if counted else 1.0
    return [(signature, each, share) for signature, each in found]


def _grouped(rows: Iterable[Any], *columns: str) -> dict[tuple[Any, ...], list[Any]]:
    """Rows grouped by these columns, in order."""
    found: dict[tuple[Any, ...], list[Any]] = defaultdict(list)
    for row in rows:
        found[tuple(getattr(row, column) for column in columns)].append(row)
    return found


def _insert_nodes(
    connection: duckdb.DuckDBPyConnection, capture_id: int, found: Sequence[tuple[int, _Node, float]]
) -> None:
    rows = {
        "signature_index": integers([signature for signature, _, _ in found]),
        "debug_handle": integers([node.handle for _, node, _ in found]),
        "graph_id": integers([node.graph for _, node, _ in found]),
        "node_index": integers([node.node_index for _, node, _ in found]),
        "score": numbers(np.array([score for _, _, score in found], np.float64)),
    }
    connection.register("_rows", batch(rows))
    connection.execute(f"""
        INSERT INTO signature_nodes BY NAME
        SELECT {capture_id:d} AS capture_id, 0 AS position, true AS is_own, 'aligned' AS mapping, r.* FROM _rows AS r
    """)
    connection.unregister("_rows")
