"""The op graph of a capture's program, with times, in Graphviz's language (`etq graph --format dot`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from etq import catalog
from etq.errors import printable
from etq.render.times import range_text

if TYPE_CHECKING:
    from etq.database.handles import Answers, Capture


def dot_of(warehouse: Answers, capture: str | Capture, options: Mapping[str, Any]) -> str:
    """Return the graph. A node has its op, module and self time, and is darker if it takes more of the executes' time.
    Edges lead to the nodes that use its outputs.

    The options are parameters of `node_totals`.
    """
    options = {name: value for name, value in options.items() if value is not None}
    parameters = {"capture": capture, **options}
    call = f"node_totals($capture{catalog.more_arguments(options)})"
    nodes = warehouse.rows(
        f"""
        SELECT
            n.graph_id, n.node_index, n.name, n.op_type, n.module_path, n.per_execute, n.share_percent, n.unit,
            n.backend
        FROM {call} AS n
        """,
        **parameters,
    )[1]
    edges = warehouse.rows(
        f"""
        SELECT DISTINCT e.graph_id, e.from_node, e.to_node
        FROM op_edges AS e
        JOIN (SELECT DISTINCT n.record_id, n.graph_id FROM {call} AS n) AS g
            ON g.record_id = e.record_id AND g.graph_id = e.graph_id
        ORDER BY ALL
        """,
        **parameters,
    )[1]
    lines = ["digraph ops {", '  node [shape=box, style="filled,rounded", fontname="Helvetica"];']
    for graph_id, index, name, op_type, module, time_in_execute, share, shown_unit, backend in nodes:
        time = "time unknown"
        if time_in_execute is not None:
            time = f"{range_text([time_in_execute], shown_unit)} ({share or 0:.1f} %)"
        label = [name or op_type, op_type, module or "(model)", time]
        label += [backend] if backend else []
        text = "\\n".join(_quoted(part) for part in label)
        lines.append(f'  n{graph_id}_{index} [label="{text}", fillcolor="0.08 {min((share or 0) / 50, 1):.3f} 1.0"];')
    lines += [f"  n{graph_id}_{maker} -> n{graph_id}_{user};" for graph_id, maker, user in edges]
    return "\n".join([*lines, "}"]) + "\n"


def _quoted(text: str) -> str:
    return printable(text).replace("\\", "\\\\").replace('"', '\\"')
