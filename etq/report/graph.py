"""The graph of a report: nodes by module with their times and costs, and their places within modules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from etq.report import delegates
from etq.report.columns import Table, table
from etq.report.graph_extras import NOTHING_MORE, GraphExtras, bounded, more_values
from etq.report.overlays import METRICS
from etq.report.placing import levels_of, placed
from etq.report.target import Target

EDGE: Final = "edge_dialect_exported_program"
EXPORTED: Final = "exported_program"
# The format of captures without runs: reference values, and records and programs alone.
WITHOUT_RUNS: Final = "reference"
# Key and hash of the record, and the stage of its graphs: the edge program, whose nodes have times; without it, the
# exported program.
RECORD: Final = f"""
    SELECT r.record_id, r.sha256, CASE WHEN bool_or(g.stage = '{EDGE}') THEN '{EDGE}' ELSE '{EXPORTED}' END AS stage
    FROM captures AS c
    JOIN records AS r ON r.record_id = c.record_id
    JOIN graphs AS g ON g.record_id = r.record_id
    WHERE c.capture_id = $capture
    GROUP BY ALL
"""

# Names of columns, and rows.
Rows = tuple[Sequence[str], Sequence[tuple[Any, ...]]]

# Nodes of the edge program, with times; and nodes of the exported program, without times, which are used for an
# incomplete record, or if no run is known.
TIMED: Final = "FROM node_totals($capture, unit := $unit, method := $method, runs := $basis)"
UNTIMED: Final = """
    SELECT
        p.*, g.method, b.backend, 0 AS calls, NULL::DOUBLE AS self_time, NULL::DOUBLE AS share_percent,
        NULL AS unit, NULL::DOUBLE AS per_execute,
        NULL::BIGINT AS executes
    FROM linked AS l
    JOIN graphs AS g ON g.record_id = l.record_id AND g.stage = $stage
    JOIN op_nodes AS p ON p.record_id = g.record_id AND p.graph_id = g.graph_id
    LEFT JOIN placed_nodes AS b
        ON b.capture_id = l.capture_id AND b.graph_id = p.graph_id AND b.node_index = p.node_index
    WHERE coalesce($method, g.method) = g.method
"""

# A node without events has the time NULL, not 0, because a delegate may run it within an event of several nodes.
NODES: Final = """
    WITH
    linked AS (SELECT c.capture_id, c.record_id FROM captures AS c WHERE c.capture_id = $capture),
    handles AS (
        SELECT
            h.graph_id, h.node_index,
            string_agg(h.debug_handle::VARCHAR, ', ' ORDER BY h.debug_handle) AS debug_handles
        FROM linked AS l
        JOIN node_debug_handles AS h ON h.record_id = l.record_id
        GROUP BY ALL
    ),
    taken AS (
        SELECT
            a.graph_id, a.node_index,
            string_agg(
                CASE a.argument WHEN '' THEN '' ELSE a.argument || '=' END || coalesce(v.value_name, a.literal), ', '
                ORDER BY a.position, a.value_index
            ) AS arguments
        FROM linked AS l
        JOIN node_arguments AS a ON a.record_id = l.record_id
        LEFT JOIN node_values AS v
            ON v.record_id = a.record_id AND v.graph_id = a.graph_id AND v.value_index = a.value_index
        GROUP BY ALL
    ),
    made AS (
        SELECT v.graph_id, v.node_index, v.dtype
        FROM linked AS l
        JOIN node_values AS v ON v.record_id = l.record_id
        WHERE v.node_index IS NOT NULL
        QUALIFY row_number() OVER (PARTITION BY v.graph_id, v.node_index ORDER BY v.output_index) = 1
    ),
    ran AS (
        SELECT n.graph_id, n.node_index, string_agg(DISTINCT s.label, ', ' ORDER BY s.label) AS events
        FROM linked AS l
        JOIN signature_nodes AS n ON n.capture_id = l.capture_id AND n.is_own
        JOIN signatures AS s ON s.capture_id = n.capture_id AND s.signature_index = n.signature_index
        GROUP BY ALL
    ),
    shown AS ({shown})
    SELECT
        n.graph_id, n.method, n.node_index, coalesce(n.name, n.op_type) AS name, n.op_type, p.op, p.subgraph,
        n.module_path, n.source_file, n.source_line, p.stack_trace, n.backend, nullif(n.calls, 0) AS calls,
        nullif(n.calls, 0) / n.executes AS calls_per_execute,
        CASE WHEN n.calls > 0 THEN n.self_time END AS self_time,
        CASE WHEN n.calls > 0 THEN n.share_percent END AS share_percent, n.unit,
        CASE WHEN n.calls > 0 THEN n.per_execute END AS per_execute,
        c.flops, c.bytes_read + c.bytes_written AS bytes, c.formula, c.reason, c.input_shapes, c.output_shape, m.dtype,
        h.debug_handles, t.arguments, r.events
    FROM shown AS n
    JOIN op_nodes AS p ON p.record_id = n.record_id AND p.graph_id = n.graph_id AND p.node_index = n.node_index
    LEFT JOIN node_costs($record) AS c ON c.graph_id = n.graph_id AND c.node_index = n.node_index
    LEFT JOIN handles AS h ON h.graph_id = n.graph_id AND h.node_index = n.node_index
    LEFT JOIN taken AS t ON t.graph_id = n.graph_id AND t.node_index = n.node_index
    LEFT JOIN made AS m ON m.graph_id = n.graph_id AND m.node_index = n.node_index
    LEFT JOIN ran AS r ON r.graph_id = n.graph_id AND r.node_index = n.node_index
    ORDER BY n.graph_id, n.node_index
"""

MODULES: Final = """
    SELECT m.method, m.module_path, m.total, m.share_percent, m.self_time, m.unit, m.per_execute, m.self_per_execute
    FROM module_totals($capture, unit := $unit, method := $method, runs := $basis) AS m
    WHERE m.depth IS NOT NULL
"""

# Costs and calls of modules: sums over their nodes, and the number of nodes whose values are unknown.
SUMS: Final = """
    WITH
    linked AS (SELECT c.capture_id, c.record_id FROM captures AS c WHERE c.capture_id = $capture),
    members AS (
        SELECT DISTINCT m.record_id, m.graph_id, m.node_index, m.module_path
        FROM linked AS l
        JOIN node_modules AS m ON m.record_id = l.record_id
    ),
    shown AS ({shown})
    SELECT
        m.graph_id, m.module_path, count(*) AS nodes, nullif(sum(n.calls), 0)::BIGINT AS calls,
        nullif(sum(n.calls), 0) / any_value(n.executes) AS calls_per_execute,
        sum(c.flops)::DOUBLE AS flops, (count(*) - count(c.flops)) AS without_flops,
        sum(c.bytes_read + c.bytes_written)::DOUBLE AS bytes,
        (count(*) - count(c.bytes_read + c.bytes_written)) AS without_bytes
    FROM members AS m
    JOIN shown AS n ON n.graph_id = m.graph_id AND n.node_index = m.node_index
    LEFT JOIN node_costs($record) AS c ON c.graph_id = m.graph_id AND c.node_index = m.node_index
    GROUP BY ALL
"""


def graph_tables(target: Target, more: GraphExtras = NOTHING_MORE) -> dict[str, Table]:
    """Return the tables of the section from `graph_rows`. Gaps that are not finite become `UNBOUNDED` and `NAN`."""
    tables = graph_rows(target, more, with_delegates=True)
    for name in ("nodes", "groups") if tables and more.gap is not None else ():
        names, rows = tables[name]
        signs = [{"snr": -1, "cosine": -1}.get(column, column in METRICS) for column in names]
        tables[name] = names, [tuple(map(bounded, row, signs)) for row in rows]
    return {name: table(*each) for name, each in tables.items()}


def graph_rows(target: Target, more: GraphExtras = NOTHING_MORE, *, with_delegates: bool = False) -> dict[str, Rows]:
    """Return the names of columns, and rows, of nodes, groups, edges and bends; nothing without a record.

    A group is a module, a nested graph, a node with its nested graphs, or a whole graph (without a parent). Nodes and
    groups have their parent group, and their rank and order among its children. Groups come after nodes in one
    numbering: group g is number len(nodes) + g. Edges are between nodes, by number. A bend is a place in a group
    through which edges of the bend's owner pass. The owner is a child of the group, by number, or a node outside the
    group.

    `with_delegates` adds the graphs in delegates' blobs, with negative numbers, and to each node the ops made from it.
    """
    found = target.rows(RECORD)[1]
    if not found:
        return {}
    key, record, stage = found[0]
    is_timed = stage == EDGE and target.format != WITHOUT_RUNS
    shown, given = (TIMED, {}) if is_timed else (UNTIMED, {"stage": stage})
    names, nodes = target.rows(NODES.format(shown=shown), record=record, **given)
    if not nodes:
        return {}
    levels = levels_of(target.warehouse, key, stage)
    inner = delegates.DelegateGraphs()
    if with_delegates and is_timed:
        inner = delegates.delegate_graphs(target, names, nodes, levels)
    nodes, levels = [*nodes, *inner.nodes], [*levels, *inner.levels]
    made = placed(target.warehouse, (key, stage), (names, nodes), levels, inner.edges)
    times = {row[:2]: row[2:] for row in target.rows(MODULES)[1]} if is_timed else {}
    sums = {row[:2]: row[2:] for row in target.rows(SUMS.format(shown=shown), record=record, **given)[1]}
    times, sums = times | inner.times, sums | inner.sums
    groups = [
        (*row, *times.get((row[1], row[4]), (None,) * 6), *sums.get((row[0], row[4]), (None,) * 7))
        for row in made.groups
    ]
    rows = [(*row, *place) for row, place in zip(nodes, made.nodes, strict=True)]
    node_names, group_names = [*names, "parent", "rank", "order"], [*GROUP_NAMES]
    if inner.nodes:
        links = inner.links({node: number for number, node in enumerate(made.keys) if node[0] >= 0})
        node_names += ["delegate_ops", "counterpart"]
        rows = [(*row, *link) for row, link in zip(rows, links, strict=True)]
    for more_names, values, of_groups in more_values(target, more) if is_timed or more != NOTHING_MORE else ():
        node_names += more_names
        group_names += more_names
        nothing: tuple[Any, ...] = (None,) * len(more_names)
        rows = [(*row, *values.get(key, nothing)) for row, key in zip(rows, made.keys, strict=True)]
        groups = [(*row, *of_groups.get((row[0], row[4]), nothing)) for row in groups]
    return {
        "nodes": (node_names, rows),
        "groups": (group_names, groups),
        "edges": (("maker", "user"), made.edges),
        "bends": (("group", "owner", "rank", "order"), made.bends),
    }


GROUP_NAMES: Final = (
    "graph_id", "method", "parent", "name", "module_path", "module_class", "rank", "order", "total", "share_percent",
    "self_time", "unit", "per_execute", "self_per_execute", "nodes", "calls", "calls_per_execute", "flops",
    "without_flops", "bytes", "without_bytes",
)  # fmt: skip
