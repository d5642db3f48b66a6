"""The graph of a capture's program for other programs: as JSON, and the colours of its nodes."""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from etq.errors import EtqError
from etq.report import graph_section
from etq.report.graph import graph_rows
from etq.report.graph_extras import NOTHING_MORE, GraphExtras
from etq.report.overlays import OVERLAYS, WORDS, Overlay
from etq.report.target import Target, target_of

if TYPE_CHECKING:
    from etq.database.handles import Answers, Capture

Row = dict[str, Any]


def json_of(
    warehouse: Answers, capture: str | Capture, unit: str | None, more: GraphExtras, options: dict[str, Any]
) -> str:
    """Return the graph as JSON, as `graph_json_of` documents it."""
    graph = Graph.of(warehouse, capture, unit, options, more, with_delegates=True)
    target = graph.target
    content = {
        "capture": target.name,
        "sha256": target.capture.sha256,
        "record": target.record,
        "method": target.method,
        "runs": target.runs,
        "unit": graph.unit,
        "note": graph_section.note_of(graph.target),
        "overlays": [
            {"key": each.key, "title": each.title, "unit": graph.unit_of(each), "node": each.node, "group": each.group}
            for each in graph.overlays
        ],
        "groups": [
            {"id": number, **_finite(row), "parent": None if row["parent"] < 0 else row["parent"]}
            for number, row in enumerate(graph.groups)
        ],
        "nodes": [
            {"id": number, "group": row["parent"], **{name: row[name] for name in row if name != "parent"}}
            for number, row in enumerate(map(_finite, graph.nodes))
        ],
        "edges": [{"from": edge["maker"], "to": edge["user"]} for edge in graph.edges],
    }
    return json.dumps(content, indent=1) + "\n"


def _finite(row: Row) -> Row:
    return {name: None if isinstance(value, float) and value - value != 0 else value for name, value in row.items()}


@dataclass(frozen=True)
class Graph:
    """The rows of a graph, and the unit of its times."""

    target: Target
    nodes: list[Row]
    groups: list[Row]
    edges: list[Row]
    bends: list[Row]

    @classmethod
    def of(
        cls,
        warehouse: Answers,
        capture: str | Capture,
        unit: str | None,
        options: dict[str, Any],
        more: GraphExtras = NOTHING_MORE,
        *,
        with_delegates: bool = False,
    ) -> Graph:
        target = target_of(warehouse, capture, unit, options.get("method"), options.get("runs", "typical"))
        tables = graph_rows(target, more, with_delegates=with_delegates)
        if not tables:
            raise EtqError(f"{target.name}: {graph_section.without_graph(target)}")
        rows = {name: [dict(zip(names, row, strict=True)) for row in found] for name, (names, found) in tables.items()}
        return cls(target, **rows)

    @property
    def overlays(self) -> list[Overlay]:
        """The overlays that this graph has values for."""
        return [each for each in OVERLAYS if not each.needs or each.node in self.nodes[0]]

    def overlay(self, key: str) -> Overlay:
        """Return an overlay that this graph has. Raises `EtqError` for other overlays, and names what they need."""
        chosen = next((each for each in OVERLAYS if each.key == key), None)
        if chosen is None:
            raise EtqError(f"unknown overlay {key}; known are {', '.join(each.key for each in OVERLAYS)}")
        if chosen not in self.overlays:
            raise EtqError(f"{self.target.name}: the overlay {key} needs {chosen.needs}")
        return chosen

    @property
    def unit(self) -> str | None:
        return next((each["unit"] for each in self.nodes if each["unit"] is not None), None)

    def unit_of(self, overlay: Overlay) -> str | None:
        """Return the unit of an overlay's values, None for counts and words."""
        if overlay.kind == "time":
            return self.unit
        return {"percent": "percent", "bytes": "bytes", "decibels": "dB"}.get(overlay.kind)


class Colours:
    """The colours of nodes by an overlay, under the names in the page's style."""

    def __init__(self, graph: Graph, overlay: Overlay) -> None:
        self._nodes = graph.nodes
        self._overlay = overlay
        counts = Counter(map(self._word, self._nodes)) if overlay.kind == "word" else {}
        frequent = sorted(counts, key=lambda word: (-counts[word], word))
        self._words = {word: min(at, WORDS + 1) for at, word in enumerate(frequent, 1)}
        badness = map(self._badness, self._nodes if overlay.kind != "word" else ())
        self._highest = max((bad for bad in badness if bad != math.inf), default=0)

    def of(self, node: int) -> str:
        """Return the colour of a node: for a word, by its frequency; for a number, by its share of the worst number."""
        row = self._nodes[node]
        if self._overlay.kind == "word":
            return f"sort-{self._words[self._word(row)]}"
        badness = self._badness(row)
        if not badness:
            return "heat-0"
        heat = self._overlay.heat
        return f"heat-{next((5 - at for at, part in enumerate(heat) if badness >= self._highest * part), 1)}"

    def _word(self, row: Row) -> str:
        return str(row[self._overlay.node] or self._overlay.none)

    def _badness(self, row: Row) -> float:
        value = row[self._overlay.node]
        return 0.0 if value is None else self._overlay.badness(value)
