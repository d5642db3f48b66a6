"""Matches logged outputs of events with results of ops: the rows of `signature_outputs`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import duckdb
import numpy as np

from etq.ingest.arrow import batch, integers, lists, texts
from etq.storage.delegate_outputs import Output, outputs_of_calls
from etq.storage.inserting import insert
from etq.storage.op_results import EDGE, Ask, Graphs, Op, Result

_NO_NODE: Final = "only values of other nodes of the op are logged"
Sizes = list[int | None] | None


class OpOutput(NamedTuple):
    """One output of an event that is a result of an op; see the table `signature_outputs`."""

    signature: int
    position: int | None
    handle: int
    result: int | None
    sizes: Sizes
    result_sizes: Sizes
    mapping: str | None
    problem: str | None


class _Event(NamedTuple):
    """An event whose outputs may be those of an op. It belongs to the last instruction with the op's debug handle,
    because the node with the outputs is the op's last node.
    """

    signature: int
    kind: str
    block: int
    method: str
    instruction: int
    handle: int
    slot: int
    op: str
    is_last: bool  # whether the handle is the last of the event's handles


def find_outputs(connection: duckdb.DuckDBPyConnection, capture_id: int) -> None:
    """Match a capture's logged values with the outputs of ops, after its events' nodes were found; see `outputs_of`."""

    def ask(query: str) -> list[tuple[Any, ...]]:
        return connection.execute(query).fetchall()

    if ask(f"SELECT 1 FROM debug_values AS v WHERE v.capture_id = {capture_id:d} LIMIT 1"):
        insert(connection, "signature_outputs", capture_id, _rows([*outputs_of(ask, capture_id)]))


def find_op_values(connection: duckdb.DuckDBPyConnection, capture_ids: Sequence[int]) -> None:
    """Fill `op_values` with the values of the ops of captures, after their outputs were matched and methods set."""
    query = "SELECT list(DISTINCT o.capture_id) FROM signature_outputs AS o WHERE list_contains(?, o.capture_id)"
    [(valued,)] = connection.execute(query, [list(capture_ids)]).fetchall()
    if valued:
        connection.execute(
            """
            INSERT INTO op_values
            WITH valued AS (SELECT unnest($keys::INTEGER[]) AS capture_id) FROM _find_op_values('valued')
            """,
            {"keys": valued},
        )


def outputs_of(ask: Ask, capture_id: int, graphs: Graphs | None = None) -> Iterator[OpOutput]:
    """Yield the matches of outputs of a linked capture's events with results of ops.

    graphs  the edge graphs of its record; None: they are read
    """
    query = f"SELECT k.record_id, k.program_id, k.format FROM captures AS k WHERE k.capture_id = {capture_id:d}"
    [(record, program, kind)] = ask(query)
    if record is None:
        return
    if kind == "reference":
        yield from _of_reference(ask, capture_id, record)
        return
    graphs = graphs or Graphs(ask, record, EDGE)
    results = graphs.results()
    events = _last_events(ask, capture_id, record)
    yield from _of_kernels(graphs, results, [event for event in events if event.kind == "kernel"])
    if any(event.kind != "kernel" for event in events):
        calls = outputs_of_calls(ask, (capture_id, record, program), graphs)
        yield from _of_delegates(graphs, results, events, calls)


def _of_reference(ask: Ask, capture_id: int, record: int) -> Iterator[OpOutput]:
    [(stage, method)] = ask(f"SELECT r.name, r.method FROM runs AS r WHERE r.capture_id = {capture_id:d}")
    places: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for name, *place in ask(
        "SELECT v.name, v.event_index, v.value_index FROM debug_values AS v "
        f"WHERE v.capture_id = {capture_id:d} ORDER BY v.event_index, v.value_index"
    ):
        places[name].append((place[0], place[1]))
    yield from outputs_of_nodes(Graphs(ask, record, stage), stage, method, places)


def outputs_of_nodes(
    graphs: Graphs, stage: str, method: str, places: Mapping[str, Sequence[tuple[int, int]]]
) -> Iterator[OpOutput]:
    """Yield which values of a reference are results of ops, for a method's graph of a stage.

    places  the event and the position of the values of each node, by its name
    """
    handled = graphs.handled(stage)
    for (of_method, handle), results in graphs.results(stage).items():
        for result in results if of_method == method else ():
            nodes = handled[result.graph, handle] if result.last is None else [result.last]
            for node in nodes if result.depth == 0 else ():
                mapping = "exact" if result.problem is None else None
                for event, position in places.get(graphs.names[result.graph, node] or "", ()):
                    yield OpOutput(event, position, handle, position, None, None, mapping, result.problem)


def _last_events(ask: Ask, capture_id: int, record: int) -> list[_Event]:
    query = f"""
        SELECT o.signature_index, s.kind, s.block_index, o.method, s.instruction_id, s.slot,
            string_split(s.family, '.')[1], o.debug_handles
        FROM signature_ops AS o JOIN signatures AS s USING (capture_id, signature_index)
        WHERE o.capture_id = {capture_id:d} AND s.kind IN ('kernel', 'delegate_call', 'delegate')
            AND s.chain_index = 0 AND o.debug_handles IS NOT NULL
        ORDER BY o.signature_index
    """
    last: dict[tuple[str, int], int] = {
        (method, handle): instruction
        for method, handle, instruction in ask(
            "SELECT h.method, h.debug_handle, max(h.instruction_id) FROM debug_handles AS h "
            f"WHERE h.record_id = {record:d} GROUP BY ALL"
        )
    }
    return [
        _Event(signature, kind, block, method, instruction, handle, slot, _node_op(op), handle == handles[-1])
        for signature, kind, block, method, instruction, slot, op, handles in ask(query)
        for handle in dict.fromkeys(handles)
        if last.get((method, handle)) == instruction
    ]


def _node_op(op: str) -> str:
    """Return the op of the node that a kernel runs. The name differs for views of tensors with dynamic shapes, which
    have their own kernel.
    """
    return "view_copy" if op == "et_view" else op


def _of_kernels(graphs: Graphs, results: dict[Op, list[Result]], events: list[_Event]) -> Iterator[OpOutput]:
    # If an op has a single node, the node is the kernel's, whatever the kernel is called.
    nodes: dict[Op, int] = defaultdict(int)
    for (graph, handle), each in graphs.handled().items():
        nodes[graphs.methods[graph], handle] += len(each)
    for event in events:
        op = (event.method, event.handle)
        of_op = results.get(op, [])
        problem = next((result.problem for result in of_op), None)
        if problem is not None:
            yield OpOutput(event.signature, None, event.handle, None, None, None, None, problem)
            continue
        run = (
            result
            for result in of_op
            if result.node is not None and (nodes[op] == 1 or graphs.ops[result.graph, result.node] == event.op)
        )
        found = min(run, key=lambda result: result.depth, default=None)
        if found is not None:
            yield from _of_kernel(graphs, event, found)
        elif of_op:
            yield OpOutput(event.signature, None, event.handle, None, None, None, None, _NO_NODE)


def _of_kernel(graphs: Graphs, event: _Event, result: Result) -> Iterator[OpOutput]:
    node = (result.graph, result.node or 0)
    values = [value for value in graphs.values.get(node, ()) if result.output in (None, value.output)]
    for value in values:
        index = value.output if result.result is None else result.result
        sizes = graphs.sizes(result.graph, result.last, index)
        yield OpOutput(event.signature, value.output, event.handle, index, value.sizes, sizes, "exact", None)
    if not values:
        sizes = graphs.sizes(result.graph, result.last, result.result)
        yield OpOutput(event.signature, None, event.handle, result.result, None, sizes, None, None)


def _of_delegates(
    graphs: Graphs,
    results: dict[Op, list[Result]],
    events: list[_Event],
    calls: dict[tuple[str, int], list[Output] | str],
) -> Iterator[OpOutput]:
    for event in events:
        if event.kind == "delegate_call":
            of_call = calls.get((event.method, event.instruction), [])
            yield from _of_call(graphs, event, results.get((event.method, event.handle), []), of_call)
    # If several events within a call have a handle, the last one computes the outputs of the op.
    within = [
        (event, result)
        for event in events
        if event.kind == "delegate"
        for result in results.get((event.method, event.handle), ())
        if result.depth == 0
    ]
    last: dict[tuple[int, int, int], int] = {}
    for event, _ in within:
        key = (event.block, event.instruction, event.handle)
        last[key] = max(event.slot, last.get(key, event.slot))
    for event, result in within:
        is_last = event.is_last and event.slot == last[event.block, event.instruction, event.handle]
        if is_last and result.node is not None:
            for value in graphs.values.get((result.graph, result.node), ()):
                index, sizes = value.output, value.sizes
                yield OpOutput(event.signature, index, event.handle, index, sizes, sizes, "exact", None)


def _of_call(graphs: Graphs, event: _Event, results: list[Result], outputs: list[Output] | str) -> Iterator[OpOutput]:
    problems = {result.problem or (outputs if isinstance(outputs, str) else None): None for result in results}
    for problem in problems:
        if problem is not None:
            yield OpOutput(event.signature, None, event.handle, None, None, None, None, problem)
    if isinstance(outputs, str):
        return
    found = [
        (result, output)
        for result in results
        for output in outputs
        if output.output is not None
        and (output.graph, output.node) == (result.graph, result.node)
        and result.output in (None, output.output)
    ]
    least = min((result.depth for result, _ in found), default=0)
    for result, output in found:
        if result.depth == least:
            index = output.output if result.result is None else result.result
            sizes = graphs.sizes(result.graph, output.node, output.output)
            result_sizes = graphs.sizes(result.graph, result.last, index)
            yield OpOutput(
                event.signature, output.position, event.handle, index, sizes, result_sizes, output.mapping, None
            )


def _rows(found: list[OpOutput]) -> Any:
    columns = list(zip(*found, strict=True)) or [()] * len(OpOutput._fields)
    signatures, positions, handles, results, sizes, result_sizes, mappings, problems = columns
    return batch(
        {
            "signature_index": integers(signatures),
            "position": integers(positions),
            "debug_handle": integers(handles),
            "result_index": integers(results),
            "sizes": _sizes(sizes),
            "result_sizes": _sizes(result_sizes),
            "mapping": texts(mappings),
            "problem": texts(problems),
        }
    )


def _sizes(listed: Any) -> Any:
    flat = integers([size for sizes in listed for size in sizes or ()], np.int64)
    counts = np.array([len(sizes or ()) for sizes in listed], np.int64)
    return lists(flat, counts, np.array([sizes is None for sizes in listed], np.bool_))
