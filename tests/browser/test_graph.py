"""The graph of a report in a browser: modules that open, texts of boxes, and positions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import etq.report
from etq.report.graph_extras import GraphExtras
from etq.report.graph_files import Colours, Graph
from etq.report.overlays import METRICS
from etq.warehouse.warehouse import Warehouse
from tests.batches import linked
from tests.browser.driver import ActionChains, By, Keys, WebDriver
from tests.browser.graphs import MISPLACED, SHOWN, choose, graph_page, press
from tests.browser.pages import cells, drawn, near, number, opened, select, texts, written
from tests.conftest import CAPTURES
from tests.unit.test_report_graph import MORE, judged_warehouse

pytestmark = pytest.mark.long

# The name of the op that is chosen.
CHOSEN = "return etq.graph.places.nodes.get(etq.graph.chosen, 'name')"


@pytest.fixture(scope="module")
def lab() -> Iterator[Warehouse]:
    with linked("transformer") as warehouse:
        yield warehouse


@pytest.fixture(scope="module")
def path(lab: Warehouse, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(lab, "run", tmp_path_factory.mktemp("graph"))


@pytest.fixture
def page(quiet: WebDriver, path: Path) -> WebDriver:
    opened(quiet, path)
    return quiet


def click_at(page: WebDriver, item: str) -> None:
    """Click on the box, or the title of the open module, of an item: a script that gives its number."""
    where = page.execute_script(f"""
        const view = etq.graph, places = view.places, item = {item};
        view.canvas.scrollIntoView({{ block: "center" }});
        const x = places.x[item] + Math.min(places.width[item], 60) / 2, y = places.y[item] + 10;
        return [Math.round((x - view.left) * view.scale - view.width / 2), Math.round((y - view.top) * view.scale - view.height / 2)];
    """)
    canvas = page.find_element(By.CSS_SELECTOR, "#graph canvas")
    ActionChains(page).move_to_element_with_offset(canvas, *where).click().perform()
    drawn(page)


def module(path: str) -> str:
    return f"etq.graph.places.count + etq.graph.places.groups.list('module_path').indexOf('{path}')"


def boxes(page: WebDriver) -> list[str]:
    return [row[0] for row in page.execute_script(SHOWN)]


def test_modules_open_and_close(page: WebDriver, lab: Warehouse) -> None:
    """By a click each, and level by level; a module's box has its total."""
    assert boxes(page) == ["layers.0", "layers.1", "norm"]
    click_at(page, module("layers.0"))
    inner = ["layers.0.ln1", "layers.0.attn", "aten_add_tensor", "layers.0.ln2", "layers.0.ffn", "aten_add_tensor_1"]
    assert boxes(page) == [*inner, "layers.1", "norm"]
    click_at(page, module("layers.0.ln2"))
    assert "aten_native_layer_norm_default_1" in boxes(page)
    click_at(page, module("layers.0"))
    assert boxes(page) == ["layers.0", "layers.1", "norm"]
    press(page, "graph-more")
    assert len(boxes(page)) == 13
    totals = dict(lab.rows("SELECT module_path, per_execute FROM module_totals('run')")[1])
    shown = {name: number(second) for name, _, second, _, is_op in page.execute_script(SHOWN) if not is_op}
    assert len(shown) == 8
    assert shown == {name: near(totals[name]) for name in shown}
    press(page, "graph-open")
    assert len(boxes(page)) == lab.rows("SELECT count(*) FROM node_totals('run')")[1][0][0] == 93
    assert page.execute_script(MISPLACED) == []
    press(page, "graph-less")
    assert 13 < len(boxes(page)) < 93
    press(page, "graph-close")
    assert len(boxes(page)) == 3


OVERLAYS = {
    "time": "SELECT n.name, CASE WHEN n.calls > 0 THEN n.per_execute END FROM node_totals('run') AS n",
    "share": "SELECT n.name, CASE WHEN n.calls > 0 THEN n.share_percent END FROM node_totals('run') AS n",
    "calls": "SELECT n.name, nullif(n.calls, 0) FROM node_totals('run') AS n",
    "flops": "SELECT c.name, c.flops FROM node_costs('transformer') AS c WHERE starts_with(c.stage, 'edge')",
}


def test_overlays_show_the_values_of_the_views(page: WebDriver, lab: Warehouse) -> None:
    press(page, "graph-open")
    for overlay, query in OVERLAYS.items():
        choose(page, overlay)
        values: dict[str, float | None] = dict(lab.rows(query)[1])
        shown = {name: (number(second), colour) for name, _, second, colour, _ in page.execute_script(SHOWN)}
        expected = {name: near(each) for name, each in values.items()}
        assert {name: value for name, (value, _) in shown.items()} == expected, overlay
        # A darker colour is a larger value: each step is half of the one above it.
        highest = max(value or 0 for value in values.values())
        for name, (_, colour) in shown.items():
            value = values[name] or 0
            step = next((5 - at for at, part in enumerate((0.5, 0.25, 0.125, 0.0625)) if value >= highest * part), 1)
            assert colour == f"heat-{step if value else 0}", (overlay, name)


def test_gaps_memory_and_the_roofline(quiet: WebDriver, tmp_path: Path) -> None:
    """Each overlay has its colours and legend, and lists the worst first; values that are not finite are the worst."""
    with judged_warehouse() as warehouse:
        path = tmp_path / "graph.html"
        path.write_text(etq.report.graph_of(warehouse, "run", runs="all", **MORE).page(), encoding="utf-8")
        graph = Graph.of(warehouse, "run", None, {"runs": "all"}, GraphExtras(**MORE))
    opened(quiet, path)
    press(quiet, "graph-open")
    overlays = [each for each in graph.overlays if each.needs]
    assert len(overlays) == 9
    for overlay in overlays:
        choose(quiet, overlay.key)
        colours = Colours(graph, overlay)
        names = {row["name"]: at for at, row in enumerate(graph.nodes)}
        found = {names[name]: (second, colour) for name, _, second, colour, _ in quiet.execute_script(SHOWN)}
        for item, (_, colour) in found.items():
            assert colour == colours.of(item), (overlay.key, graph.nodes[item]["name"])
        script = "return document.querySelector('table[data-name=\"graph-ops\"] tbody td').textContent"
        worst = names[quiet.execute_script(script)]
        if overlay.key in METRICS:
            assert texts(quiet, "#graph .growth button") == ["aten_addmm_default_6"]
        assert colours._badness(graph.nodes[worst]) == max(colours._badness(graph.nodes[at]) for at in found)


def test_the_graph_of_a_delegate(quiet: WebDriver, tmp_path: Path) -> None:
    """What XNNPACK made of an op is one click away, and so is the op."""
    with linked("convnet_xnn") as warehouse:
        warehouse.link("run", warehouse.ingest_program(CAPTURES / "convnet_xnn/convnet_xnn.pte"))
        opened(quiet, graph_page(warehouse, tmp_path))
        rows = warehouse.rows("SELECT op, self_time FROM delegate_graph('run') ORDER BY self_time DESC, op_index")[1]
    columns = "return [...document.querySelectorAll('table[data-name=graph-ops] tbody tr td:first-child')].map((each) => each.innerText)"
    listed = quiet.execute_script(columns)
    assert "aten_convolution_default" in listed and not any(each.startswith("Conv2d") for each in listed)
    quiet.execute_script(
        "etq.graph.options.select(etq.graph.places.nodes.list('name').indexOf('aten_convolution_default'))"
    )
    press(quiet, "graph-counterpart")
    assert quiet.execute_script(CHOSEN) == "Conv2d_1"
    press(quiet, "graph-open")
    assert sorted(each[0] for each in quiet.execute_script(SHOWN)) == sorted(
        quiet.execute_script(
            "return etq.graph.places.nodes.list('name').filter((each, at) => etq.graph.places.isWithin(at))"
        )
    )
    assert [each.rpartition("_")[0] for each in quiet.execute_script(columns)] == [op for op, _ in rows[:8]]
    press(quiet, "graph-counterpart")
    assert quiet.execute_script(CHOSEN) == "aten_convolution_default"
    assert "aten_convolution_default" in quiet.execute_script(columns)


def test_details_of_an_op(page: WebDriver, lab: Warehouse) -> None:
    page.execute_script("etq.graph.options.select(etq.graph.places.nodes.list('name').indexOf('aten_addmm_default'))")
    text = texts(page, "#graph .detail")[0]
    [(stack, line)] = lab.rows("SELECT stack_trace, source_line FROM op_nodes WHERE name = 'aten_addmm_default'")[1]
    trace = page.execute_script("return document.querySelector('#graph .detail pre').innerText")
    assert trace.splitlines() == stack.splitlines()
    for part in ("aten.addmm.default", "layers.0.attn.qkv", "[16, 96] float32", "98,304", f"models/export_models.py:{line}",
                 "mat1=aten_view_copy_default", "native_call_addmm.out"):  # fmt: skip
        assert part in text, part
    links = page.find_elements(By.CSS_SELECTOR, "#graph .graph-links a")
    sections = ["#ops", "#modules", "#sources", "#timeline", "#events"]
    assert [each.get_dom_attribute("href") for each in links] == sections


SEARCHES = {
    "addmm": "contains(p.name, 'addmm')",
    "aten.native_layer_norm": "p.op = 'native_layer_norm'",
    "attn.qkv view": "contains(p.module_path, 'attn.qkv') AND p.op = 'view_copy'",
    "export_models.py:60": "p.source_line = 60",
    "handle:25": "25 IN (SELECT h.debug_handle FROM node_debug_handles AS h WHERE h.record_id = p.record_id "
    "AND h.graph_id = p.graph_id AND h.node_index = p.node_index)",
    "handle:2 addmm": "p.name = 'aten_addmm_default'",
    "nothing like it": "false",
}


def test_search(page: WebDriver, lab: Warehouse) -> None:
    field = page.find_element(By.CSS_SELECTOR, '#graph input[aria-label="Search the graph"]')
    for words, condition in SEARCHES.items():
        found = lab.rows(f"""
            SELECT p.name FROM op_nodes AS p JOIN graphs AS g USING (record_id, graph_id)
            WHERE g.stage = 'edge_dialect_exported_program' AND {condition} ORDER BY p.node_index
        """)[1]
        field.clear()
        field.send_keys(words)
        assert texts(page, "#graph output") == [f"{len(found)} found"], words
        for at, (name,) in enumerate(found[:3]):
            field.send_keys(Keys.ENTER)
            assert texts(page, "#graph output") == [f"{at + 1} of {len(found)}"]
            assert page.execute_script(CHOSEN) == name
            assert name in boxes(page)
        # What shows a match stays marked when modules open and close, and only that.
        for button in ("graph-open", "graph-close"):
            press(page, button)
            hits, visible = page.execute_script("return [[...etq.graph.hits], etq.graph.places.visible]")
            assert set(hits) <= set(visible) and bool(hits) == bool(found), words


def test_keys(page: WebDriver) -> None:
    canvas = page.find_element(By.CSS_SELECTOR, "#graph canvas")
    page.execute_script("etq.graph.canvas.focus()")
    state = "const view = etq.graph; return [view.left, view.top, view.scale]"
    before = page.execute_script(state)
    canvas.send_keys(Keys.ARROW_LEFT, Keys.ARROW_UP, "+")
    left, top, scale = page.execute_script(state)
    assert scale > before[2] and (left, top) != tuple(before[:2])
    canvas.send_keys("0")
    assert page.execute_script(state)[2] == pytest.approx(before[2])
    canvas.send_keys("n")
    chosen = "const view = etq.graph; return view.places.groups.get(view.chosen - view.places.count, 'module_path')"
    first = page.execute_script(chosen)
    canvas.send_keys("n")
    assert page.execute_script(chosen) != first
    canvas.send_keys("p", Keys.ENTER)
    assert page.execute_script(chosen) == first
    assert page.execute_script("return etq.graph.places.isOpen(etq.graph.chosen)")


def test_methods(quiet: WebDriver, tmp_path: Path) -> None:
    """Each method has its own graph; an op of another one is reached through the table."""
    with linked("multimethod") as warehouse:
        opened(quiet, graph_page(warehouse, tmp_path))
        rows = warehouse.rows("SELECT method, name FROM node_totals('run') ORDER BY graph_id, node_index")[1]
    options = texts(quiet, "#graph-method option")
    assert options == ["decode", "encode"]
    for at, method in enumerate(options):
        select(quiet, "#graph-method", at)
        press(quiet, "graph-open")
        assert sorted(boxes(quiet)) == sorted(name for each, name in rows if each == method)
    decode = next(name for method, name in rows if method == "decode")
    table = cells(quiet, "graph-ops")
    position = next(at for at, row in enumerate(table) if row[:2] == [decode, "decode"])
    quiet.find_elements(By.CSS_SELECTOR, 'table[data-name="graph-ops"] tbody tr')[position].click()
    assert quiet.execute_script("return document.getElementById('graph-method').selectedOptions[0].text") == "decode"
