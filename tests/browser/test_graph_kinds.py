"""Graphs of all records, of hostile names and of any size in a browser."""

from __future__ import annotations

from pathlib import Path

import pytest

import etq
from etq.warehouse.warehouse import Warehouse
from tests.batches import linked
from tests.benchmarks.make_record import make_record
from tests.browser.driver import By, WebDriver
from tests.browser.graphs import MISPLACED, choose, graph_page, press
from tests.browser.pages import complaints, opened
from tests.conftest import CAPTURES
from tests.sampling import IS_WHOLE, thinned
from tests.unit.test_report_graph import RECORDS

pytestmark = pytest.mark.long


@pytest.mark.parametrize("name", thinned(RECORDS, ()))
def test_every_record(browser: WebDriver, tmp_path: Path, name: str) -> None:
    with linked(name) as warehouse:
        opened(browser, graph_page(warehouse, tmp_path))
    for button in ("graph-more", "graph-open", "graph-less", "graph-close", "graph-open"):
        press(browser, button)
        assert browser.execute_script(MISPLACED) == []
    options = browser.find_elements(By.CSS_SELECTOR, "#graph-overlay option")
    for overlay in [each.get_dom_attribute("value") for each in options]:
        choose(browser, str(overlay))
        assert browser.execute_script(MISPLACED) == []
    assert complaints(browser) == []


def _large(folder: Path, nodes: int) -> Warehouse:
    """The transformer repeated until it has so many nodes: each copy is a module, and takes the copy's before it."""
    copies = -(-nodes // 93)
    make_record(CAPTURES / "transformer/transformer.etrecord", folder / "large.etrecord", copies * 140)
    warehouse = etq.open()
    capture = warehouse.ingest(CAPTURES / "transformer/transformer_100runs.etdp", name="run")
    warehouse.link(capture, warehouse.ingest_record(folder / "large.etrecord"))
    for statement in (
        "UPDATE node_modules SET module_path = concat('block.', node_index // 93, '.', module_path) WHERE depth > 0",
        "UPDATE node_modules SET depth = depth + 1 WHERE depth > 0",
        "INSERT INTO node_modules SELECT record_id, graph_id, node_index, 1, 'block', concat('block.', node_index // 93), "
        "'Block', 0 FROM node_modules WHERE depth = 0",
        "INSERT INTO op_edges SELECT record_id, graph_id, node_index - 1, node_index, 9 FROM op_nodes "
        "WHERE node_index > 0 AND node_index % 93 = 0",
    ):
        warehouse.connection.execute(statement)
    return warehouse


def test_a_large_graph(quiet: WebDriver, tmp_path: Path) -> None:
    """All ops are drawn when all modules are open, and no picture has more than is in view."""
    nodes = 5000 if IS_WHOLE else 1000
    with _large(tmp_path, nodes) as warehouse:
        path = graph_page(warehouse, tmp_path)
        [(count,)] = warehouse.rows("SELECT count(*) FROM node_totals('run')")[1]
    assert nodes <= count < nodes + 93
    assert path.stat().st_size < 1.2e6
    opened(quiet, path)
    press(quiet, "graph-open")
    assert quiet.execute_script("return etq.graph.places.visible.length") == count
    assert quiet.execute_script(MISPLACED) == []
    # Every edge leads downward, as copies follow each other.
    upward = "return etq.graph.places.lines.filter((line) => line.points.some(([, y], at) => at && y < line.points[at - 1][2])).length"
    assert quiet.execute_script(upward) == 0
    script = """
        const view = etq.graph, counts = [];
        view.fit(0.8);
        for (let step = 0; step < 40; step += 1) {
          view.pan(3, 300);
          view.drawNow();
          counts.push(view.drawn);
        }
        return [Math.min(...counts), Math.max(...counts)];
    """
    least, most = quiet.execute_script(script)
    assert least > 0 and most < 250


def test_control_flow_opens_in_place(quiet: WebDriver, tmp_path: Path) -> None:
    """A click on cond shows its branches and their op below their inputs; edges lead down through them."""
    folder = CAPTURES / "cond"
    with etq.open() as warehouse:
        warehouse.ingest(folder / "cond.etdp", name="run", etrecord=folder / "cond.etrecord")
        opened(quiet, graph_page(warehouse, tmp_path))
    script = """
        const view = etq.graph, places = view.places;
        const group = (name) => places.count + places.groups.list("name").indexOf(name);
        const names = () => places.visible.map((item) => view.options.label(item)[0]).sort();
        const before = names();
        for (const name of ["cond", "true_graph_0"]) view.options.choose(group(name));
        const name = (item) => view.options.label(item)[0];
        const lines = places.lines.map(({ from, to, points }) => [name(from), name(to), points.every(([, y], at) => !at || y >= points[at - 1][2])]);
        return [before, names(), lines.sort()];
    """
    before, after, lines = quiet.execute_script(script)
    assert before == ["cond", "gt", "post", "pre", "sum"]
    assert after == ["add", "cond", "false_graph_0", "gt", "mul", "post", "pre", "sum"]
    assert quiet.execute_script(MISPLACED) == []
    assert {(start, end) for start, end, _ in lines} == {
        ("sum", "gt"), ("gt", "cond"), ("pre", "cond"), ("pre", "mul"), ("mul", "add"), ("add", "cond"),
        ("pre", "false_graph_0"), ("false_graph_0", "cond"), ("cond", "post"),
    }  # fmt: skip
    assert all(is_downward for *_, is_downward in lines)
    note = quiet.execute_script("return document.getElementById('graph').textContent")
    assert "has no edge program" in note and "typical runs" not in note
