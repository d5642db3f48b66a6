"""Two graphs in a browser: they move together, counterparts are marked, names are shown as text."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

import etq
import etq.report
from tests.browser.driver import By, WebDriver
from tests.browser.pages import drawn, opened, select, texts, told
from tests.conftest import CAPTURES
from tests.unit.test_graph_pair import two

pytestmark = pytest.mark.long

STATE = "return etq.graphPair.map(({ view }) => [view.left, view.top, view.scale])"
# The middle and the top of the chosen box of each side on the screen, and whether the box is marked.
CHOSEN = """
    return etq.graphPair.map(({ view }) => {
      view.drawNow();
      const { x, y, width } = view.places, item = view.places.shown(view.chosen);
      return [(x[item] + width[item] / 2 - view.left) * view.scale, (y[item] - view.top) * view.scale, view.marked.has(item)];
    });
"""


def test_two_graphs(quiet: WebDriver, tmp_path: Path) -> None:
    path = tmp_path / "graphs.html"
    with two("convnet", "convnet_xnn") as warehouse:
        path.write_text(etq.report.graphs_of(warehouse, "base", "new").page(), encoding="utf-8")
        query = "SELECT base_name, new_name, change FROM compare_graphs('base', 'new')"
        pairs = warehouse.rows(query)[1]
    opened(quiet, path)
    quiet.execute_script("document.getElementById('pair-open').click()")
    for script in ("base.pan(30, 40)", "next.zoom(1.5, 10, 10)", "next.pan(-25, 60)", "base.zoom(0.5)"):
        before = quiet.execute_script(STATE)
        quiet.execute_script(f"const [base, next] = etq.graphPair.map(({{ view }}) => view); {script}")
        after = quiet.execute_script(STATE)
        assert after[0][2] == after[1][2] and after != before
        for at in (0, 1):
            assert after[1][at] - after[0][at] == pytest.approx(before[1][at] - before[0][at])
    choose = "const side = etq.graphPair[arguments[0]]; side.view.options.select(side.nodes.list('name').indexOf(arguments[1]));"
    name_of = "return etq.graphPair.map(({ nodes, view }) => (view.chosen < 0 ? null : nodes.get(view.chosen, 'name')))"
    for base, new, _ in pairs:
        quiet.execute_script(choose, 0 if base else 1, base or new)
        assert quiet.execute_script(name_of) == [base, new]
        if base and new:
            one, other = quiet.execute_script(CHOSEN)
            assert one == pytest.approx(other) and one[2]
    # Modules of one path open and close together.
    quiet.execute_script("document.getElementById('pair-close').click()")
    toggle = """
        const side = etq.graphPair[1], places = side.view.places;
        side.view.options.choose(places.count + side.groups.list("module_path").indexOf("features"));
        return etq.graphPair.map(({ groups, view }) => view.places.isOpen(view.places.count + groups.list("module_path").indexOf("features")));
    """
    assert quiet.execute_script(toggle) == [True, True]
    assert quiet.execute_script(toggle) == [False, False]
    shown = told(quiet, "pair-alone", "change", "base_name", "new_name")
    listed = {(change, one or other) for change, one, other in shown}
    assert listed == {(change, base or new) for base, new, change in pairs if not (base and new)}
    quiet.execute_script("document.querySelector('table[data-name=\"pair-alone\"] tbody tr').click()")
    drawn(quiet)
    assert None in quiet.execute_script(name_of)
    assert "No counterpart of" in quiet.execute_script(
        "return document.querySelectorAll('#graph_pair .detail')[1].textContent"
    )


def test_gaps(quiet: WebDriver, tmp_path: Path) -> None:
    """Boxes have the colours of their gaps; the list has the gaps, worst first, and counts the nodes without one."""
    with etq.open() as warehouse:
        record = warehouse.ingest_record(CAPTURES / "mlp/mlp.etrecord")
        right = {f"relu_{number}": [np.array([1.0, 2.0])] for number in range(1, 6)}
        new = {name: [np.array([1.0, 2.0 + 0.25**number])] for number, name in enumerate(right)}
        new["relu_5"] = [np.array([1.0, math.nan])]
        del new["relu_4"]
        for name, values in (("right", right), ("far", new)):
            warehouse.ingest_reference(record, values, name=name)
        page = etq.report.graphs_of(warehouse, "right", "far", metric="max_abs").page()
    path = tmp_path / "gaps.html"
    path.write_text(page, encoding="utf-8")
    opened(quiet, path)
    select(quiet, "#pair-colour", "gap")
    script = """
        document.getElementById("pair-open").click();
        const side = etq.graphPair[1], { label, colour } = side.view.options;
        return side.nodes.list("name").map((name, node) => [name, label(node)[1], colour(node)])
            .filter(([name]) => name.includes("relu"));
    """
    assert quiet.execute_script(script) == [
        ["aten_relu_default", "", "heat-0"], ["aten_relu_default_1", "1", "heat-5"],
        ["aten_relu_default_2", "0.25", "heat-5"], ["aten_relu_default_3", "0.0625", "heat-4"],
        ["aten_relu_default_4", "", "heat-0"], ["aten_relu_default_5", "NaN", "heat-5"],
    ]  # fmt: skip
    # NaN is beyond each limit; the gap grows from it, as it is the worst.
    field = quiet.find_element(By.CSS_SELECTOR, '#graph_pair input[aria-label="Search both graphs"]')
    field.send_keys(">0.2")
    assert texts(quiet, "#graph_pair output") == ["3 found"]
    assert quiet.execute_script("return etq.graphPair[1].view.hits.size") == 3
    assert "aten_relu_default_5 of far" in texts(quiet, "#graph_pair .growth")[0]
    rows = told(quiet, "pair-gaps", "base_name", "new_gap")
    expected = [("5", "NaN"), ("1", "1"), ("2", "0.25"), ("3", "0.0625")]
    assert rows == [(f"aten_relu_default_{number}", gap) for number, gap in expected]
    text = quiet.execute_script("return document.getElementById('graph_pair').textContent")
    assert "Distance from the values of right: largest difference" in text
    assert "1 op can't be compared: not logged in new." in text


def test_control_flow_opens_on_both_sides(quiet: WebDriver, tmp_path: Path) -> None:
    """Groups without a module path are matched by name and place within the counterpart of their parent."""
    path = tmp_path / "graphs.html"
    with etq.open() as warehouse:
        warehouse.ingest_record(CAPTURES / "cond/cond.etrecord")
        path.write_text(etq.report.graphs_of(warehouse, "cond", "cond").page(), encoding="utf-8")
    opened(quiet, path)
    script = """
        const names = (at) => etq.graphPair[at].view.places.visible.map((item) => etq.graphPair[at].view.options.label(item)[0]).sort();
        const found = [];
        ["cond", "true_graph_0", "cond"].forEach((name, step) => {
          const side = etq.graphPair[step % 2];
          side.view.options.choose(side.nodes.length + side.groups.list("name").indexOf(name));
          found.push([names(0), names(1)]);
        });
        return found;
    """
    for number, (base, new) in enumerate(quiet.execute_script(script)):
        assert (
            base == new
            and ("mul" in base, "false_graph_0" in base) == [(False, True), (True, True), (False, False)][number]
        )
