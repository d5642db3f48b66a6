"""The graph as JSON, SVG and DOT: values of the views, well-formed whatever names hold, places without overlaps."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any
from xml.etree import ElementTree

import pytest

import etq.report
from etq.errors import EtqError, printable
from etq.render.dot import dot_of
from etq.report.graph_files import Graph, Picture
from etq.report.graph_texts import palette
from etq.report.overlays import OVERLAYS
from etq.report.placing import Places
from etq.warehouse.warehouse import Warehouse
from tests.conftest import CAPTURES
from tests.hostile import EVIL
from tests.records import EDGE
from tests.sampling import thinned
from tests.unit.test_report_graph import RECORDS, judged_warehouse, opened

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = (
    EVIL,
    "</text></svg><script>alert(1)</script>",
    "]]><!-- --><![CDATA[ &lt; &amp; &#0;",
    "\"' onload='alert(1)' \\\" \\n \\",
    '"]; n0 -> n1; "',
    "<b>{x}|</b>\\l\\r",
    "a\u2028b\u2029c\nd\re\x00\ufffe\uffff",
    "x" * 30_000,
    "\U0001f4a3 пример 例" * 30,
    "",
    "None",
)
DOT_LINE = re.compile(r'  n\d+_\d+ (\[label="(?:[^"\\]|\\.)*", fillcolor="[\d. ]+"\]|-> n\d+_\d+);')


def check_dot(text: str) -> None:
    first, _, *lines, last = text.splitlines()
    assert (first, last) == ("digraph ops {", "}")
    assert all(DOT_LINE.fullmatch(line) for line in lines)


def picture(graph: Graph, overlay: str = "time", levels: int | None = None) -> ElementTree.Element:
    text = Picture(graph, next(each for each in OVERLAYS if each.key == overlay), levels).text()
    assert printable(text.replace("\n", "")) == text.replace("\n", "")
    return ElementTree.fromstring(text)


def boxes(root: ElementTree.Element, kind: str) -> dict[str, ElementTree.Element]:
    """The groups of SVG elements of nodes (n) or modules (g), by id."""
    found = [each for each in root.iter(f"{SVG}g") if re.fullmatch(rf"{kind}\d+", each.get("id", ""))]
    assert len({each.get("id") for each in found}) == len(found)
    return {each.get("id", ""): each for each in found}


def texts(box: ElementTree.Element) -> list[str]:
    return [each.text or "" for each in box.iter(f"{SVG}text")]


def colour(box: ElementTree.Element) -> str:
    return [each.get("class", "") for each in box.iter(f"{SVG}rect")][-1].removeprefix("box ")


@pytest.mark.long
@pytest.mark.parametrize("name", thinned(RECORDS, ["multimethod"]))
def test_values_are_those_of_the_views(name: str) -> None:
    with opened(name) as warehouse:
        content = json.loads(etq.report.graph_json_of(warehouse, "run", unit="ns"))
        assert (content["capture"], content["record"], content["unit"], content["runs"]) == (
            "run",
            name,
            "ns",
            "typical",
        )
        nodes, groups = content["nodes"], content["groups"]
        assert [each["id"] for each in nodes] == [*range(len(nodes))]
        assert [each["id"] for each in groups] == [*range(len(groups))]
        query = """
            SELECT n.graph_id, n.node_index, n.name, n.backend, CASE WHEN n.calls > 0 THEN n.self_time END,
                CASE WHEN n.calls > 0 THEN n.per_execute END, c.flops
            FROM node_totals('run', unit := 'ns') AS n JOIN node_costs($record) AS c USING (graph_id, node_index)
        """
        names = ("graph_id", "node_index", "name", "backend", "self_time", "per_execute", "flops")
        rows = [tuple(each[column] for column in names) for each in nodes]
        assert rows == warehouse.rows(query, record=name)[1]
        totals = warehouse.rows(
            "SELECT method, module_path, total, per_execute FROM module_totals('run', unit := 'ns')"
        )[1]
        known = {(method, path): times for method, path, *times in totals}
        for group in groups:
            times = known.get((group["method"], group["module_path"]), [None, None])
            assert [group["total"], group["per_execute"]] == times
            assert group["parent"] is None or groups[group["parent"]]["graph_id"] == group["graph_id"]
        keys = {(each["graph_id"], each["node_index"]) for each in nodes}
        edges = warehouse.rows(
            "SELECT DISTINCT graph_id, from_node, to_node FROM op_edges JOIN graphs USING (record_id, graph_id) "
            "WHERE stage = $stage",
            stage=EDGE,
        )[1]
        ends = {(nodes[each["from"]]["graph_id"], *(nodes[each[end]]["node_index"] for end in ("from", "to")))
                for each in content["edges"]}  # fmt: skip
        assert ends == {each for each in edges if each[:2] in keys}
        for overlay in content["overlays"]:
            assert all(overlay["node"] in node for node in nodes)
            assert overlay["group"] is None or all(overlay["group"] in group for group in groups)

        graph = Graph.of(warehouse, "run", "ns", {})
        drawn = picture(graph)
        assert set(boxes(drawn, "n")) == {f"n{each['id']}" for each in nodes}
        assert set(boxes(drawn, "g")) == {f"g{each['id']}" for each in groups}
        highest = max((each["per_execute"] or 0 for each in nodes), default=0)
        for number, box in boxes(drawn, "n").items():
            value = nodes[int(number[1:])]["per_execute"] or 0
            step = (
                next((5 - at for at, part in enumerate((0.5, 0.25, 0.125, 0.0625)) if value >= highest * part), 1)
                if value
                else 0
            )
            assert colour(box) == f"heat-{step}"
        for overlay in graph.overlays:
            assert len(boxes(picture(graph, overlay=overlay.key), "n")) == len(nodes)
        closed = picture(graph, levels=0)
        roots = {each["id"] for each in groups if each["parent"] is None}
        assert set(boxes(closed, "g")) == {f"g{each['id']}" for each in groups if each["parent"] in {None, *roots}}
        assert set(boxes(closed, "n")) == {f"n{each['id']}" for each in nodes if each["group"] in roots}
        check_dot(dot_of(warehouse, "run", {}))


@pytest.fixture(scope="module")
def transformer() -> Iterator[Warehouse]:
    with opened("transformer") as warehouse:
        yield warehouse


@pytest.fixture(scope="module")
def graph(transformer: Warehouse) -> Graph:
    return Graph.of(transformer, "run", None, {})


def test_boxes_show_values_and_words(transformer: Warehouse, graph: Graph) -> None:
    drawn = picture(graph, levels=1)
    [(total,)] = transformer.rows("SELECT total / 94 FROM module_totals('run') WHERE module_path = 'layers.0.attn'")[1]
    [attention] = [box for box in boxes(drawn, "g").values() if texts(box)[0] == "+ attn"][:1]
    assert texts(attention)[1] == f"{total:.2f} µs"
    title = attention.find(f"{SVG}title")
    assert title is not None and title.text is not None and "layers.0.attn\nself time in an execute: " in title.text
    drawn = picture(graph, overlay="op")
    counts = dict(transformer.rows("SELECT op_type, count(*) FROM node_totals('run') GROUP BY ALL")[1])
    legend = [each.text for each in drawn.iter(f"{SVG}text") if each.get("class") == "key"]
    frequent = sorted(counts, key=lambda op: (-counts[op], op))
    assert legend[:5] == [f"{op}: {counts[op]} ops" for op in frequent[:5]]
    rest = sum(counts[op] for op in frequent[5:])
    assert legend[5:] == [f"{len(counts) - 5} others: {rest} ops", "several"]


def test_places_do_not_overlap(graph: Graph) -> None:
    """Children lie within their open module, next to each other, each row below the one above."""
    drawn = picture(graph)
    areas: dict[str, tuple[float, ...]] = {}
    for kind in "ng":
        for number, box in boxes(drawn, kind).items():
            x, y, wide, high = (
                float(box.findall(f"{SVG}rect")[-1].get(each, "")) for each in ("x", "y", "width", "height")
            )
            areas[number] = (x, y, x + wide, y + high)
    rows: dict[tuple[int, int], list[tuple[int, str]]] = {}
    for kind, items in (("n", graph.nodes), ("g", graph.groups)):
        for at, each in enumerate(items):
            if each["parent"] >= 0:
                rows.setdefault((each["parent"], each["rank"]), []).append((each["order"], f"{kind}{at}"))
    assert len(rows) > 50
    for (group, rank), row in rows.items():
        left, top, right, bottom = areas[f"g{group}"]
        inside = [areas[number] for _, number in sorted(row)]
        assert all(left < x0 and top < y0 and x1 < right and y1 < bottom for x0, y0, x1, y1 in inside)
        assert all(one[2] < other[0] for one, other in pairwise(inside))
        below = [areas[number] for _, number in rows.get((group, rank + 1), [])]
        assert all(upper[3] < lower[1] for upper in inside for lower in below)


@pytest.mark.long
def test_hostile_names() -> None:
    """In each format they are text: nothing ends an element, a string or a line."""
    with opened("transformer") as warehouse:
        update = "UPDATE {} SET {} WHERE (node_index + 1) % $count = $number"
        for number, name in enumerate(HOSTILE):
            parameters: dict[str, Any] = {"name": name, "count": len(HOSTILE), "number": number}
            for table, columns in (
                ("op_nodes", ("name", "op_type", "op", "module_path", "source_file", "subgraph")),
                ("node_modules", ("module_class",)),
                ("node_values", ("dtype",)),
                ("node_arguments", ("literal",)),
            ):
                values = ", ".join(f"{column} = $name" for column in columns)
                warehouse.connection.execute(update.format(table, values), parameters)
            values = "module_path = $name || module_path"
            warehouse.connection.execute(update.format("node_modules", values), parameters)
        content = json.loads(etq.report.graph_json_of(warehouse, "run"))
        assert {each["name"] for each in content["nodes"]} == set(HOSTILE)
        graph = Graph.of(warehouse, "run", None, {})
        for overlay in graph.overlays:
            for levels in (1, None):
                drawn = picture(graph, overlay.key, levels)
                tags = {each.tag.removeprefix(SVG) for each in drawn.iter()}
                assert tags == {"svg", "title", "style", "rect", "text", "g", "path"}
                assert all(not attribute.startswith("on") for each in drawn.iter() for attribute in each.attrib)
        found = {(each.text or "").split("\n", 1)[0] for each in drawn.iter(f"{SVG}title")}
        assert {
            printable(name).replace("\ufffe\uffff", "\\ufffe\\uffff") for name in HOSTILE if len(name) < 200 and name
        } <= found
        check_dot(dot_of(warehouse, "run", {}))


def test_options(transformer: Warehouse) -> None:
    text = etq.report.graph_svg_of(transformer, "run", overlay="op", levels=0)
    assert [texts(box)[0] for box in boxes(ElementTree.fromstring(text), "g").values()] == [
        "(the model)", "+ layers.0", "+ layers.1", "+ norm",
    ]  # fmt: skip
    with pytest.raises(EtqError, match="unknown overlay nix; known are time, share, calls"):
        etq.report.graph_svg_of(transformer, "run", overlay="nix")
    with pytest.raises(EtqError, match="takes no steps"):
        etq.report.graph_json_of(transformer, "run", steps="active=1")


def test_json_has_no_control_characters(transformer: Warehouse) -> None:
    transformer.connection.execute("BEGIN")
    transformer.connection.execute("UPDATE op_nodes SET stack_trace = chr(127) || chr(27) || chr(8238)")
    text = etq.report.graph_json_of(transformer, "run")
    transformer.connection.execute("ROLLBACK")
    assert printable(text.replace("\n", "")) == text.replace("\n", "")
    assert {each["stack_trace"] for each in json.loads(text)["nodes"]} == {"\x7f\x1b\u202e"}


def test_the_steps_of_any_decibels_are_numbers() -> None:
    [snr] = [each for each in OVERLAYS if each.key == "snr"]
    for value in (-1e4, -2999.0, 0.0, 2999.0, 3200.0, 6000.0):
        badness = snr.badness(value)
        assert badness >= 0
        assert badness in (0, float("inf")) or all(snr.of_badness(badness * part) > -4000 for part in snr.heat)


def test_a_graph_without_edges_is_placed() -> None:
    node = {"parent": 0, "rank": 0}
    places = Places([{**node, "order": 0}, {**node, "order": 1}], [{"parent": -1, "rank": 0, "order": 0}], [], [])
    places.open_to(None)
    places.place(2, lambda _: (100, 38))
    assert places.visible == [0, 1] and places.frames == [2] and places.lines(2) == []
    assert places.x[1] - places.x[0] == 114 and places.y[0] == places.y[1]


def test_node_data_for_model_explorer(warehouse: Warehouse) -> None:
    """Values by name, darker if worse: for decibels, lower is worse. Values that JSON lacks are texts."""
    warehouse.ingest(CAPTURES / "mlp/mlp_1run.etdp", name="run", etrecord=CAPTURES / "mlp/mlp.etrecord")
    with pytest.raises(EtqError, match="run: the overlay snr needs values of another capture"):
        etq.report.graph_node_data_of(warehouse, "run", overlay="snr")
    [(graph_id, data)] = json.loads(etq.report.graph_node_data_of(warehouse, "run", runs="all", unit="ns")).items()
    times = warehouse.rows("SELECT name, self_time FROM node_totals('run', unit := 'ns') WHERE calls > 0")[1]
    assert graph_id == "graph" and data["name"] == "run: self time in an execute (ns)"
    assert {name: each["value"] for name, each in data["results"].items()} == dict(times)
    longest = max(times, key=lambda row: row[1])[0]
    assert data["results"][longest]["bgColor"] == palette("light")["heat-5"]
    words = json.loads(etq.report.graph_node_data_of(warehouse, "run", overlay="backend"))["graph"]
    assert {each["value"] for each in words["results"].values()} == {"no delegate"}
    assert len(words["results"]) == 24 and words["showExpandedSummaryOnGroupNode"]


def test_gaps_for_model_explorer() -> None:
    with judged_warehouse() as warehouse:
        gaps = dict(warehouse.rows("SELECT name, gap FROM node_gaps('right', 'run', metric := 'snr')")[1])
        results = json.loads(etq.report.graph_node_data_of(warehouse, "run", gap="right", overlay="snr"))["graph"][
            "results"
        ]
    infinite = {math.inf: "∞", -math.inf: "-∞"}
    known = {name: gap for name, gap in gaps.items() if gap is not None}
    assert {name: each["value"] for name, each in results.items()} == {
        name: "NaN" if math.isnan(gap) else infinite.get(gap, gap) for name, gap in known.items()
    }
    finite = {name: gap for name, gap in known.items() if math.isfinite(gap)}
    worst, best = min(finite, key=finite.__getitem__), max(finite, key=finite.__getitem__)
    colours = palette("light")
    assert [results[name]["bgColor"] for name in (worst, best)] == [colours["heat-5"], colours["heat-1"]]
    assert len(finite) > 8 and finite[best] - finite[worst] > 40
    assert {results[name]["bgColor"] for name, gap in known.items() if gap == math.inf} == {colours["heat-0"]}
