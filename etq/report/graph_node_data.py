"""One overlay of a graph as node data for Model Explorer (https://github.com/google-ai-edge/model-explorer).

The format is that of its `node_data_builder`, with ids as in `etq.export.model_explorer`. Each node states its
colour, the same as on etq's page. A gradient of Model Explorer wouldn't do: its steps are equal, and the greatest value
is the worst.
"""

from __future__ import annotations

import json
import math
import re
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

from etq.errors import EtqError
from etq.report.graph_extras import GraphExtras
from etq.report.graph_files import Colours, Graph
from etq.report.overlays import Overlay

if TYPE_CHECKING:
    from etq.database.handles import Answers, Capture

GRAPH: Final = "graph"
# Model Explorer's names of the nodes of a record's top graphs.
NAMES: Final = """
    SELECT p.graph_id, p.node_index, coalesce(p.name, v.value_name) AS name
    FROM captures AS c
    JOIN op_nodes AS p ON p.record_id = c.record_id AND p.subgraph = ''
    LEFT JOIN node_values AS v
        ON v.record_id = p.record_id AND v.graph_id = p.graph_id AND v.node_index = p.node_index AND v.output_index = 0
    WHERE c.capture_id = $capture
"""


def node_data_of(
    warehouse: Answers,
    capture: str | Capture,
    unit: str | None,
    more: GraphExtras,
    options: dict[str, Any],
    overlay: str,
) -> str:
    """Return the values of an overlay as JSON, as `graph_node_data_of` documents it."""
    graph = Graph.of(warehouse, capture, unit, options, more)
    chosen = graph.overlay(overlay)
    methods = sorted({row["method"] for row in graph.nodes})
    if len(methods) > 1:
        raise EtqError(f"{graph.target.name} ran {', '.join(methods)}; choose one with the option method")
    names = {row[:2]: row[2] for row in warehouse.rows(NAMES, capture=graph.target.capture)[1]}
    colours = Colours(graph, chosen)
    shades = palette()
    results = {}
    for number, row in enumerate(graph.nodes):
        name = names.get((row["graph_id"], row["node_index"]))
        value = row[chosen.node]
        if name is not None and (value is not None or chosen.kind == "word"):
            colour = colours.of(number)
            results[name] = {
                "value": _value(value, chosen),
                "bgColor": shades[colour],
                "textColor": shades[f"{colour}-text"],
            }
    of_unit = graph.unit_of(chosen)
    data: dict[str, Any] = {
        "name": f"{graph.target.name}: {chosen.title}" + (f" ({of_unit})" if of_unit else ""),
        "results": results,
    }
    if chosen.kind == "word":
        data["showExpandedSummaryOnGroupNode"] = True
    return json.dumps({GRAPH: data}, indent=1) + "\n"


def _value(value: Any, overlay: Overlay) -> float | str:
    """Return a value as Model Explorer reads it; infinities and NaN are texts, as JSON lacks them."""
    if overlay.kind == "word":
        return str(value or overlay.none)
    number = float(value)
    if math.isfinite(number):
        return value if isinstance(value, int) else number
    return "NaN" if math.isnan(number) else "∞" if number > 0 else "-∞"


def palette() -> dict[str, str]:
    """Return the colours of the page in its light theme, by name."""
    found: dict[str, str] = {}
    for name in ("page.css", "graph.css"):
        style = (files("etq.report") / "assets" / name).read_text(encoding="utf-8")
        [block] = re.findall(r'data-theme="light"\] \{(.*?)\}', style, re.DOTALL)
        found |= dict(re.findall(r"--([\w-]+): (#\w+);", block))
    return found
