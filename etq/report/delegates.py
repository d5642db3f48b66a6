"""The graphs in delegates' blobs, each as one more graph of a report. Ops are in the modules of the nodes from which
they were made, and have the times of their events.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from etq.analysis.delegates import UNALIGNED, are_unaligned
from etq.report.target import Target

# The most ops of a page: more would make it too large to explore. Even in a small program, many calls may share one
# graph, which counts for each call.
MOST_OPS: Final = 20_000

# Calls of delegates with graphs: the blob of each, and its number of ops.
CALLS: Final = """
    WITH
    blobs AS (
        SELECT o.program_id, o.blob_offset, count(*) AS ops
        FROM captures AS c
        JOIN delegate_ops AS o ON o.program_id = c.program_id
        WHERE c.capture_id = $capture
        GROUP BY ALL
    )
    SELECT d.method, i.instruction_id, b.blob_offset, b.ops
    FROM captures AS c
    JOIN program_delegates AS d
        ON d.program_id = c.program_id AND d.method = coalesce($method, d.method)
    JOIN instructions AS i
        ON i.program_id = d.program_id AND i.method = d.method AND i.delegate_index = d.delegate_index
    JOIN blobs AS b ON b.program_id = d.program_id AND b.blob_offset = d.byte_offset
    WHERE c.capture_id = $capture
        AND d.method IN (SELECT m.method FROM linked_methods AS m WHERE m.capture_id = c.capture_id)
"""
OPS: Final = """
    SELECT
        d.method, d.instruction_id, d.op_index, d.backend, d.op, d.inputs, d.outputs, d.parameters, d.debug_handle,
        d.graph_id, d.node_index, d.event_name, d.calls, d.self_time, d.share_percent, d.unit,
        d.per_execute, d.calls / d.executes AS calls_per_execute
    FROM delegate_graph($capture, unit := $unit, method := $method, runs := $basis) AS d
"""
# Uses of values within the graph of a blob. Each value is made by one op, so there are no more uses than inputs of ops.
USES: Final = """
    WITH
    ops AS MATERIALIZED (
        SELECT o.blob_offset, o.op_index, o.inputs, o.outputs
        FROM captures AS c
        JOIN delegate_ops AS o ON o.program_id = c.program_id
        WHERE c.capture_id = $capture
    ),
    made AS (SELECT o.blob_offset, o.op_index, unnest(o.outputs) AS value_id FROM ops AS o),
    taken AS (SELECT o.blob_offset, o.op_index, unnest(o.inputs) AS value_id FROM ops AS o)
    SELECT DISTINCT m.blob_offset, m.op_index AS maker, t.op_index AS user
    FROM made AS m
    JOIN taken AS t ON t.blob_offset = m.blob_offset AND t.value_id = m.value_id
    ORDER BY ALL
"""
# Times of modules by call: of all ops in a module, and of its ops that are in no deeper module.
TOTALS: Final = f"""
    WITH
    ops AS MATERIALIZED ({OPS}),
    linked AS (SELECT c.record_id FROM captures AS c WHERE c.capture_id = $capture),
    placed AS (
        SELECT
            o.method, o.instruction_id, o.op_index, '' AS module_path, coalesce(p.module_path, '') = '' AS is_own
        FROM ops AS o
        CROSS JOIN linked AS l
        LEFT JOIN op_nodes AS p
            ON p.record_id = l.record_id AND p.graph_id = o.graph_id AND p.node_index = o.node_index
        UNION
        SELECT o.method, o.instruction_id, o.op_index, m.module_path, m.module_path = p.module_path
        FROM ops AS o
        CROSS JOIN linked AS l
        JOIN op_nodes AS p
            ON p.record_id = l.record_id AND p.graph_id = o.graph_id AND p.node_index = o.node_index
        JOIN node_modules AS m
            ON m.record_id = l.record_id AND m.graph_id = o.graph_id AND m.node_index = o.node_index
        WHERE m.module_path <> ''
    )
    SELECT
        p.method, p.instruction_id, p.module_path, sum(o.self_time), sum(o.share_percent),
        sum(o.self_time) FILTER (WHERE p.is_own), any_value(o.unit), sum(o.per_execute),
        sum(o.per_execute) FILTER (WHERE p.is_own), count(*), sum(o.calls)::BIGINT,
        sum(o.calls_per_execute)
    FROM placed AS p
    JOIN ops AS o ON o.method = p.method AND o.instruction_id = p.instruction_id AND o.op_index = p.op_index
    GROUP BY ALL
"""


@dataclass
class DelegateGraphs:
    """Further rows for a graph, with graph_ids of their own.

    nodes   as those of the graph, without names
    levels  modules of ops: graph, node, path, class; outermost first
    edges   graph, maker, user
    times   by (title of the graph, path): total, share, self time, unit, total and self time in an execute
    sums    by (graph, path): ops, calls, and costs, which are unknown
    ops     by node of these graphs: its op
    origins by node of these graphs: the node of the record from which it was made, or None
    """

    nodes: list[tuple[Any, ...]] = field(default_factory=list)
    levels: list[tuple[int, int, str, str]] = field(default_factory=list)
    edges: list[tuple[int, int, int]] = field(default_factory=list)
    times: dict[tuple[str, str], tuple[Any, ...]] = field(default_factory=dict)
    sums: dict[tuple[int, str], tuple[Any, ...]] = field(default_factory=dict)
    ops: list[str] = field(default_factory=list)
    origins: list[tuple[int, int] | None] = field(default_factory=list)

    def links(self, numbers: Mapping[tuple[int, int], int]) -> list[tuple[str | None, int | None]]:
        """Return, for each node of the record and then for each node of these graphs, the ops made from it and the
        target of a click on it.

        The target is the first of these ops, or the node from which the clicked node was made. `numbers` has the number
        of each node of the record.
        """
        became: dict[int, list[int]] = defaultdict(list)
        for number, origin in enumerate(self.origins, len(numbers)):
            if origin is not None:
                became[numbers[origin]].append(number)
        texts = {node: ", ".join(self.ops[each - len(numbers)] for each in listed) for node, listed in became.items()}
        of_record = [(texts.get(node), became[node][0] if node in became else None) for node in range(len(numbers))]
        return [*of_record, *((None, None if each is None else numbers[each]) for each in self.origins)]


def delegate_graphs(
    target: Target, names: Sequence[str], nodes: Sequence[tuple[Any, ...]], levels: Sequence[tuple[int, int, str, str]]
) -> DelegateGraphs:
    """Return the graphs of delegate calls; `nodes` are rows of the record's graphs, with `names` of columns."""
    found = DelegateGraphs()
    called = _calls(target)
    if not called or _size(called) > MOST_OPS:
        return found
    at = {name: place for place, name in enumerate(names)}
    known = {(row[at["graph_id"]], row[at["node_index"]]): row for row in nodes}
    chains: dict[tuple[int, int], list[tuple[str, str]]] = defaultdict(list)
    for graph_id, node_index, path, module_class in levels:
        chains[graph_id, node_index].append((path, module_class))
    op_names, rows = target.rows(OPS)
    ops = [dict(zip(op_names, row, strict=True)) for row in rows]
    # Negative numbers distinguish these graphs from the record's graphs.
    calls = dict.fromkeys((op["method"], op["instruction_id"]) for op in ops)
    graphs = {call: -number for number, call in enumerate(calls, 1)}
    titles = {}
    for op in ops:
        call = op["method"], op["instruction_id"]
        graph = graphs[call]
        titles[call] = f"{op['method']}: {op['backend']}, instruction {op['instruction_id']}"
        node = op["graph_id"], op["node_index"]
        origin = known.get(node)
        values = _values(op, graph, titles[call], {} if origin is None else dict(zip(names, origin, strict=True)))
        found.nodes.append(tuple(values.get(name) for name in names))
        found.levels += [(graph, op["op_index"], *level) for level in chains.get(node, ())]
        found.ops.append(op["op"])
        found.origins.append(None if origin is None else node)
    uses: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for blob, maker, user in target.rows(USES)[1]:
        uses[blob].append((maker, user))
    for method, instruction_id, blob, _ in called:
        if (method, instruction_id) in graphs:
            found.edges += [(graphs[method, instruction_id], maker, user) for maker, user in uses[blob]]
    for method, instruction_id, path, *times, ops_within, calls_within, of_execute in target.rows(TOTALS)[1]:
        call = method, instruction_id
        found.times[titles[call], path] = tuple(times)
        found.sums[graphs[call], path] = (ops_within, calls_within, of_execute, None, ops_within, None, ops_within)
    return found


def note_of(target: Target) -> str | None:
    """Return a note on the graphs of delegate calls, if one is needed."""
    called = _calls(target)
    size = _size(called)
    if size > MOST_OPS:
        return (
            f"The graphs of its delegates are not drawn: they have {size:,} ops, and a page has at most "
            f"{MOST_OPS:,} of them. etq show delegate_graph shows them."
        )
    if called and are_unaligned(target.warehouse, target.capture):
        text = UNALIGNED.format(target.name)
        return text[0].upper() + text[1:]
    return None


def _calls(target: Target) -> list[tuple[Any, ...]]:
    """Return the rows of `CALLS`, in order; none without a program."""
    return sorted(target.rows(CALLS)[1]) if target.has_program else []


def _size(called: Sequence[tuple[Any, ...]]) -> int:
    """Return the number of ops of all calls."""
    return sum(ops for *_, ops in called)


def _values(op: Mapping[str, Any], graph: int, title: str, origin: Mapping[str, Any]) -> dict[str, Any]:
    """Return an op's values by the names of a node's columns; `origin` has the values of the node from which it was
    made.
    """
    same = ("backend", "op", "calls", "calls_per_execute", "self_time", "share_percent", "unit", "per_execute")
    return {
        **{name: origin.get(name) for name in ("module_path", "source_file", "source_line", "stack_trace")},
        **{name: op[name] for name in same},
        "graph_id": graph,
        "method": title,
        "node_index": op["op_index"],
        "name": f"{op['op']}_{op['op_index']}",
        "op_type": op["op"],
        "subgraph": "",
        "input_shapes": op["inputs"] or None,
        "output_shape": re.sub(r"\w+(?=\[)", "", op["outputs"]) or None,
        "dtype": op["outputs"].partition("[")[0] or None,
        "arguments": ", ".join(f"{name}={value}" for name, value in json.loads(op["parameters"]).items()) or None,
        "debug_handles": None if op["debug_handle"] is None else str(op["debug_handle"]),
        "events": op["event_name"],
    }
