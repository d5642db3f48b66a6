"""Node data for Model Explorer (https://github.com/google-ai-edge/model-explorer): times over the graph of a program.

The format is that of its `node_data_builder`: {graph id: {name, results: {node id: {value}}, gradient}}. In its adapter
for PyTorch's exported programs, the graph id is `graph` and a node's id is its name, as in the record.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from etq import catalog
from etq.errors import QueryError
from etq.export.rows import encoded

if TYPE_CHECKING:
    from etq.database.handles import Answers, Capture

GRAPH: Final = "graph"
EDGE: Final = "edge_dialect_exported_program"
# Colours from the shortest to the longest time.
GRADIENT: Final = [
    {"stop": 0, "bgColor": "#fff7ec", "textColor": "#000000"},
    {"stop": 0.5, "bgColor": "#fc8d59", "textColor": "#000000"},
    {"stop": 1, "bgColor": "#990000", "textColor": "#ffffff"},
]


def model_explorer(warehouse: Answers, capture: Capture, options: dict[str, Any]) -> Iterator[str]:
    """Yield the text of the node data: mean self time of each node per execute.

    Raises `QueryError` if no record is linked, if no node has a time, and if several methods ran and `method` is
    missing.
    """
    parameters = {"graph": EDGE, **{name: value for name, value in options.items() if name not in ("method", "graph")}}
    parameters["graph"] = options.get("graph", EDGE)
    more = catalog.more_arguments(name for name in parameters if name != "graph")
    query = f"SELECT g.method, g.node_name, g.self_time, g.unit FROM _graph_times($capture, $graph{more}) AS g"
    rows = warehouse.rows(query, capture=capture.sha256, **parameters)[1]
    methods = sorted({method for method, *_ in rows})
    method = options.get("method") or (methods[0] if len(methods) == 1 else None)
    if not methods:
        raise QueryError(f"{capture.name}: no node of {parameters['graph']} has a time")
    if method is None:
        raise QueryError(f"{capture.name} ran {', '.join(methods)}; choose the graph of one with method")
    if method not in methods:
        raise QueryError(
            f"{capture.name}: no times of a method {method!r}; methods with times are {', '.join(methods)}"
        )
    chosen = [row for row in rows if row[0] == method]
    data = {
        "name": f"{capture.name}: self time ({chosen[0][3]})",
        "results": {name: {"value": own} for _, name, own, _ in chosen},
        "gradient": GRADIENT,
    }
    yield encoded({GRAPH: data}) + "\n"
