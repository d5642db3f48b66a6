"""The graph of a page, as tests ask it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import etq.report
from etq.warehouse.warehouse import Warehouse
from tests.browser.driver import WebDriver
from tests.browser.pages import drawn, select

# Texts and colours of boxes by name: first and second line, and the name of the colour.
SHOWN: Final = """
    const view = etq.graph, places = view.places;
    return places.visible.map((item) => [
      item < places.count ? places.nodes.get(item, "name") : places.groups.get(item - places.count, "module_path"),
      ...view.options.label(item), view.options.colour(item), item < places.count,
    ]);
"""
# Of an open module: children that are not within it, and pairs of children that overlap.
MISPLACED: Final = """
    const places = etq.graph.places, wrong = [];
    const box = (item) => [places.x[item], places.y[item], places.x[item] + places.width[item], places.y[item] + places.height[item]];
    for (const frame of places.frames) {
      const [left, top, right, bottom] = box(frame);
      const rows = places.rows[frame - places.count];
      rows.forEach((row, rank) => row.forEach((item, at) => {
        const [x0, y0, x1, y1] = box(item);
        if (x0 < left - 0.01 || y0 < top - 0.01 || x1 > right + 0.01 || y1 > bottom + 0.01) wrong.push(["outside", item]);
        if (at && box(row[at - 1])[2] > x0 + 0.01) wrong.push(["overlaps", row[at - 1], item]);
        for (const lower of rows[rank + 1] ?? []) if (box(lower)[1] < y1) wrong.push(["below", item, lower]);
      }));
    }
    return wrong.slice(0, 5);
"""


def graph_page(warehouse: Warehouse, folder: Path) -> Path:
    path = folder / "graph.html"
    path.write_text(etq.report.graph_of(warehouse, "run").page(), encoding="utf-8")
    return path


def choose(page: WebDriver, overlay: str) -> None:
    select(page, "#graph-overlay", overlay)


def press(page: WebDriver, button: str) -> None:
    page.execute_script("document.getElementById(arguments[0]).click()", button)
    drawn(page)
