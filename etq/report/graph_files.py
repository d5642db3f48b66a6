"""The graph of a capture's program as a file for other programs: an SVG picture, or JSON."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from etq.errors import EtqError
from etq.report import graph_section
from etq.report.graph import graph_rows
from etq.report.graph_extras import NOTHING_MORE, GraphExtras
from etq.report.graph_texts import cut, short, shown, style, text_width, writable
from etq.report.overlays import OVERLAYS, WORDS, Overlay
from etq.report.placing import TITLE, Line, Places
from etq.report.target import Target, target_of

if TYPE_CHECKING:
    from etq.warehouse.warehouse import Capture, Warehouse

Row = dict[str, Any]

# Sizes as on the page: a box, its least and greatest width, and what is around a picture.
BOX: Final = 38
LEAST: Final = 76
WIDEST: Final = 210
MARGIN: Final = 16
# The narrowest picture, for its title and legend, and the height of a line of these.
NARROWEST: Final = 480
LEGEND_LINE: Final = 20


def json_of(
    warehouse: Warehouse, capture: str | Capture, unit: str | None, more: GraphExtras, options: dict[str, Any]
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
            {
                "key": each.key,
                "title": each.title,
                "unit": graph.unit_of(each),
                "node": each.node,
                "group": each.group,
            }
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


def svg_of(
    warehouse: Warehouse,
    capture: str | Capture,
    unit: str | None,
    more: GraphExtras,
    options: dict[str, Any],
    overlay: str,
    levels: int | None,
) -> str:
    """Return the graph as an SVG picture, as `graph_svg_of` documents it."""
    graph = Graph.of(warehouse, capture, unit, options, more)
    return Picture(graph, graph.overlay(overlay), levels).text()


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
        warehouse: Warehouse,
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
        """What this graph has values of."""
        return [each for each in OVERLAYS if not each.needs or each.node in self.nodes[0]]

    def overlay(self, key: str) -> Overlay:
        """Return an overlay that this graph has. Raises `EtqError` for others, with what they need."""
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


class Picture:
    """A picture of all graphs of a capture, next to each other, below a title and a legend."""

    def __init__(self, graph: Graph, overlay: Overlay, levels: int | None) -> None:
        self.graph = graph
        self.overlay = overlay
        self.items = [*graph.nodes, *graph.groups]
        self.places = Places(graph.nodes, graph.groups, graph.edges, graph.bends)
        self.places.open_to(None if levels is None else levels + 1)
        self.words = self._words() if overlay.kind == "word" else {}
        self.words_of_groups = self._words_of_groups() if overlay.kind == "word" else {}
        self.highest = 0.0

    def text(self) -> str:
        """Return the picture."""
        places = self.places
        roots = [item for item in range(places.count, places.all) if places.parent[item] < 0]
        placed = []
        for root in roots:
            places.place(root, self._size)
            placed.append((root, [*places.frames], [*places.visible], places.lines(root)))
        self.judge(item for _, _, visible, _ in placed for item in visible)
        graphs_wide = sum(places.width[root] + MARGIN for root in roots) - MARGIN
        wide = max(graphs_wide, NARROWEST)
        header, down = self._header(wide)
        across = (wide - graphs_wide) / 2
        body = []
        for root, frames, visible, lines in placed:
            body.append(f'<g transform="translate({_place(across)} {_place(down)})">')
            body += [self._frame(item) for item in frames]
            body += [_line(line) for line in lines]
            body += [self._box(item) for item in visible]
            body.append("</g>")
            across += places.width[root] + MARGIN
        high = down + max(places.height[root] for root in roots)
        size = f"{_place(wide + 2 * MARGIN)} {_place(high + 2 * MARGIN)}"
        title = escape(writable(self._title()))
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{-MARGIN} {-MARGIN} {size}" '
                + 'width="{}" height="{}" role="img">'.format(*size.split()),
                f"<title>{title}</title>",
                f"<style>{style()}</style>",
                f'<rect class="back" x="{-MARGIN}" y="{-MARGIN}" width="100%" height="100%"/>',
                *header,
                *body,
                "</svg>\n",
            ]
        )

    def judge(self, items: Iterable[int]) -> None:
        """Have colours of numbers compare these items."""
        if self.overlay.kind != "word":
            self.highest = max((bad for bad in map(self._badness, items) if bad != math.inf), default=0)

    def _title(self) -> str:
        return f"{self.graph.target.name}: graph by {self.overlay.title}"

    def _header(self, wide: float) -> tuple[list[str], float]:
        """Return the title and the legend, and where they end."""
        found = [f'<text class="title" y="14">{escape(cut(self._title(), wide, 1.3))}</text>']
        x, y = 0.0, 24.0
        for colour, text in self._legend():
            needed = 18 + text_width(text) + 14
            if x and x + needed > wide:
                x, y = 0.0, y + LEGEND_LINE
            found.append(f'<rect class="box {colour}" x="{_place(x)}" y="{_place(y)}" width="12" height="12" rx="2"/>')
            found.append(f'<text class="key" x="{_place(x + 18)}" y="{_place(y + 10)}">{escape(writable(text))}</text>')
            x += needed
        return found, y + LEGEND_LINE + 8

    def _legend(self) -> list[tuple[str, str]]:
        if self.overlay.kind == "word":
            counts = Counter(self._word(node) for node in range(self.places.count))
            found = [
                (f"sort-{step}", f"{short(word, 60)}: {counts[word]:,} ops")
                for word, step in self.words.items()
                if step <= WORDS
            ]
            others = [word for word, step in self.words.items() if step > WORDS]
            if others:
                name = f"{len(others):,} others" if len(others) > 1 else short(others[0], 60)
                found.append((f"sort-{WORDS + 1}", f"{name}: {sum(counts[word] for word in others):,} ops"))
            return [*found, ("heat-0", "several")]
        found = []
        if self.highest:
            word = "up to" if self.overlay.scale in ("decibels", "cosine") else "from"
            steps = [self._shown(self.overlay.of_badness(self.highest * part)) for part in self.overlay.heat]
            found = [(f"heat-{5 - at}", f"{word} {step}") for at, step in enumerate(steps)]
            found.append(("heat-1", "less" if word == "from" else "more"))
        return [*found, ("heat-0", "none, or unknown")]

    def _words(self) -> dict[str, int]:
        """Return the number of the colour of each word, the most frequent first."""
        counts = Counter(self._word(node) for node in range(self.places.count))
        frequent = sorted(counts, key=lambda word: (-counts[word], word))
        return {word: min(at, WORDS + 1) for at, word in enumerate(frequent, 1)}

    def _words_of_groups(self) -> dict[int, str | None]:
        """Return the word that all nodes of a group have, None for several."""
        found: dict[int, str | None] = {}
        for node in range(self.places.count):
            word = self._word(node)
            at = self.places.parent[node]
            while at >= 0:
                item = self.places.count + at
                found[item] = word if found.get(item, word) == word else None
                at = self.places.parent[item]
        return found

    def _is_group(self, item: int) -> bool:
        return item >= self.places.count

    def _word(self, node: int) -> str:
        return str(self.items[node][self.overlay.node] or self.overlay.none)

    def _value(self, item: int) -> float | None:
        value: float | None = self.items[item][str(self.overlay.group) if self._is_group(item) else self.overlay.node]
        return value

    def _badness(self, item: int) -> float:
        value = self._value(item)
        return 0.0 if value is None else self.overlay.badness(value)

    def _shown(self, value: float | None) -> str:
        return shown(value, self.overlay.kind, self.graph.unit)

    def colour(self, item: int) -> str:
        """Return the name of an item's colour."""
        if self.overlay.kind == "word":
            word = self.words_of_groups.get(item) if self._is_group(item) else self._word(item)
            return "heat-0" if word is None else f"sort-{self.words[word]}"
        badness = self._badness(item)
        if not badness:
            return "heat-0"
        heat = self.overlay.heat
        return f"heat-{next((5 - at for at, part in enumerate(heat) if badness >= self.highest * part), 1)}"

    def _label(self, item: int) -> tuple[str, str]:
        row = self.items[item]
        first = (row["name"] or "(the model)") if self._is_group(item) else (row["op"] or row["op_type"])
        if self.overlay.kind != "word":
            return first, self._shown(self._value(item))
        return first, (self.words_of_groups.get(item) or "several") if self._is_group(item) else self._word(item)

    def _size(self, item: int) -> tuple[float, float]:
        first, second = self._label(item)
        wide = text_width(f"+ {first} ") * 1.1 if self._is_group(item) else text_width(first)
        return min(max(max(wide, text_width(second)) + 18, LEAST), WIDEST), BOX

    def _frame(self, item: int) -> str:
        x, y, wide, high = self._rectangle(item)
        kind = "frame-2" if self.places.depth[item] % 2 else "frame"
        name = cut(self._label(item)[0], self.places.width[item] - 16, 1.1)
        return (
            f'<g id="g{item - self.places.count}"><title>{self._about(item)}</title>'
            f'<rect class="{kind}" x="{x}" y="{y}" width="{wide}" height="{high}"/>'
            f'<text class="name" x="{_place(self.places.x[item] + 8)}" '
            f'y="{_place(self.places.y[item] + TITLE / 2 + 5)}">{escape(name)}</text></g>'
        )

    def _box(self, item: int) -> str:
        x, y, wide, high = self._rectangle(item)
        places, colour = self.places, self.colour(item)
        is_group = self._is_group(item)
        first, second = self._label(item)
        middle, room = _place(places.x[item] + places.width[item] / 2), places.width[item] - 8
        name = f"g{item - places.count}" if is_group else f"n{item}"
        parts = [f'<g id="{name}"><title>{self._about(item)}</title>']
        if is_group:
            # A closed module looks like a stack.
            back = (_place(places.x[item] + 3), _place(places.y[item] + 3))
            parts.append(
                f'<rect class="box heat-0" x="{back[0]}" y="{back[1]}" width="{wide}" height="{high}" rx="2"/>'
            )
        parts.append(
            f'<rect class="box {colour}" x="{x}" y="{y}" width="{wide}" height="{high}" rx="{2 if is_group else 8}"/>'
        )
        lines = [
            (f"+ {first}" if is_group else first, 17 if second else 24, 1.1 if is_group else 1.0),
            (second, 31, 0.92),
        ]
        for at, (text, down, factor) in enumerate(lines):
            if text:
                kind = "value" if at else "name" if is_group else "op"
                parts.append(
                    f'<text class="{kind} middle {colour}-text" x="{middle}" y="{_place(places.y[item] + down)}">'
                    f"{escape(cut(text, room, factor))}</text>"
                )
        return "".join([*parts, "</g>"])

    def _rectangle(self, item: int) -> tuple[str, str, str, str]:
        places = self.places
        x, y, wide, high = (values[item] for values in (places.x, places.y, places.width, places.height))
        return _place(x), _place(y), _place(wide), _place(high)

    def _about(self, item: int) -> str:
        """Return what a pointer on the box shows: its name and all its values."""
        row = self.items[item]
        name = (row["module_path"] or row["name"] or "(the model)") if self._is_group(item) else row["name"]
        lines = [name]
        if not self._is_group(item):
            lines += [row["op_type"], f"module: {row['module_path']}" if row["module_path"] else None]
        for overlay in self.graph.overlays:
            value = row[overlay.node] if not self._is_group(item) else row[overlay.group] if overlay.group else None
            if value is not None and overlay.key != "op":
                lines.append(f"{overlay.title}: {shown(value, overlay.kind, self.graph.unit)}")
        return escape("\n".join(writable(short(line, 200)) for line in lines if line))


def _line(line: Line) -> str:
    """Return an edge with its head: upright at each point that it passes."""
    points = line.points
    way = [f"M{_place(points[0][0])} {_place(points[0][2])}"]
    for (x0, _, y0), (x1, y1, y2) in pairwise(points):
        if x0 == x1:
            way.append(f"L{_place(x1)} {_place(y1)}")
        else:
            bow = (y1 - y0) / 2 if y1 > y0 else 30
            way.append(f"C{_place(x0)} {_place(y0 + bow)} {_place(x1)} {_place(y1 - bow)} {_place(x1)} {_place(y1)}")
        if y2 > y1:
            way.append(f"L{_place(x1)} {_place(y2)}")
    x, y = points[-1][:2]
    head = f"M{_place(x)} {_place(y)}l-3.5 -7h7z"
    return f'<path class="edge" d="{"".join(way)}"/><path class="head" d="{head}"/>'


def _place(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
