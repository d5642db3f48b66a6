"""The graph as JSON, SVG and DOT: values of the views, well-formed whatever names hold, places without overlaps."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

import etq.report
from etq.errors import printable
from etq.render.dot import dot_of
from tests.hostile import EVIL
from tests.records import EDGE
from tests.unit.test_report_graph import opened

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


@pytest.mark.long
def test_values_are_those_of_the_views() -> None:
    name = "multimethod"
    with opened(name) as warehouse:
        content = json.loads(etq.report.graph_json_of(warehouse, "run", unit="ns"))
        described = [content[key] for key in ("capture", "record", "unit", "runs")]
        assert described == ["run", name, "ns", "typical"]
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
        check_dot(dot_of(warehouse, "run", {}))


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
        text = etq.report.graph_json_of(warehouse, "run").replace("\n", "")
        assert printable(text) == text, "it has no control characters"
        assert {each["name"] for each in json.loads(text)["nodes"]} == set(HOSTILE)
        check_dot(dot_of(warehouse, "run", {}))
