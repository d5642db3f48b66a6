"""The graphs of delegates in a report: ops, edges, modules and times, by the view and by flatc's graphs."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from typing import Any

import pytest

import etq
import etq.report
from tests.conftest import CAPTURES
from tests.sampling import thinned
from tests.unit.test_report_graph import tables_of

NAMES = ("convnet_xnn", "mlp_xnn", "causal", "conv_two_backends", "lstm", "two_methods")
NO_VALUE = 2**32 - 1


def linked(name: str) -> Any:
    [program] = CAPTURES.glob(f"**/{name}.pte")
    warehouse = etq.open()
    warehouse.ingest(program.with_suffix(".etdp"), name="run", etrecord=program.with_suffix(".etrecord"), pte=program)
    return warehouse


def edges_by_flatc(name: str) -> dict[tuple[str, int], set[tuple[int, int]]]:
    """By method and delegate: ops, of which the second takes a value that the first makes."""
    graphs = json.loads(gzip.decompress((CAPTURES / "expected" / "xnnpack_graphs.json.gz").read_bytes()))[name]
    found = {}
    for place, graph in graphs.items():
        method, _, index = place.rpartition("/")
        fields = [node["xnode_union"] for node in graph["xnodes"]]
        makers = {
            value: at for at, each in enumerate(fields) for key, value in each.items() if key.startswith("output")
        }
        found[method, int(index)] = {
            (makers[value], at)
            for at, each in enumerate(fields)
            for key, value in each.items()
            if key.endswith("_id") and not key.startswith("output") and value in makers
        }
    return found


@pytest.mark.parametrize("name", thinned(NAMES, ["causal"]))
def test_ops_and_edges_of_delegates(name: str) -> None:
    with linked(name) as warehouse:
        tables = tables_of(warehouse)
        columns = "method, instruction_id, op_index, op, event_name, self_time, graph_id, node_index"
        rows = warehouse.rows(f"SELECT {columns} FROM delegate_graph('run')")[1]
        calls = warehouse.rows(
            "SELECT method, instruction_id, delegate_index FROM instructions WHERE kind = 'delegate' ORDER BY ALL"
        )[1]
    nodes = tables["nodes"]
    inner = [each for each in nodes if each["graph_id"] < 0]
    shown = [(each["method"], each["node_index"], each["op"], each["events"], each["self_time"]) for each in inner]
    title = "{}: XnnpackBackend, instruction {}".format
    assert shown == [(title(*row[:2]), *row[2:6]) for row in rows]
    # From a node to the first op that was made from it, and back.
    numbers = {(each["graph_id"], each["node_index"]): at for at, each in enumerate(nodes)}
    first = len(nodes) - len(inner)
    assert [each["counterpart"] for each in inner] == [numbers.get(row[6:]) for row in rows]
    became = defaultdict(list)
    for at, row in enumerate(rows, first):
        became[row[6:]].append((at, row[3]))
    for each in nodes[:first]:
        made = became[each["graph_id"], each["node_index"]]
        assert each["counterpart"] == (made[0][0] if made else None)
        assert each["delegate_ops"] == (", ".join(op for _, op in made) or None)
    graphs = {each["method"]: each["graph_id"] for each in inner}
    expected = edges_by_flatc(name)
    for method, instruction_id, index in calls:
        if (method, index) not in expected or title(method, instruction_id) not in graphs:
            continue
        graph = graphs.pop(title(method, instruction_id))
        found = {
            (nodes[edge["maker"]]["node_index"], nodes[edge["user"]]["node_index"])
            for edge in tables["edges"]
            if nodes[edge["maker"]]["graph_id"] == nodes[edge["user"]]["graph_id"] == graph
        }
        assert found == expected[method, index]
    assert not graphs
    assert all(nodes[edge["maker"]]["graph_id"] == nodes[edge["user"]]["graph_id"] for edge in tables["edges"])


@pytest.mark.parametrize("name", thinned(NAMES, ["convnet_xnn"]))
def test_modules_of_delegates(name: str) -> None:
    """A module has the sum of the ops in it: those whose path it is, or begins."""
    with linked(name) as warehouse:
        tables = tables_of(warehouse)
    inner = [each for each in tables["nodes"] if each["graph_id"] < 0]
    groups = [each for each in tables["groups"] if each["graph_id"] < 0]
    assert {each["graph_id"] for each in groups} == {each["graph_id"] for each in inner}
    for group in groups:
        path = group["module_path"]
        within = [
            each
            for each in inner
            if each["graph_id"] == group["graph_id"]
            and (path == "" or each["module_path"] == path or (each["module_path"] or "").startswith(f"{path}."))
        ]
        assert group["nodes"] == len(within) > 0
        assert (group["total"] or 0) == pytest.approx(sum(each["self_time"] or 0 for each in within))
        own = [each["self_time"] or 0 for each in within if (each["module_path"] or "") == path]
        assert (group["self_time"] or 0) == pytest.approx(sum(own))
        assert (group["calls"] or 0) == sum(each["calls"] or 0 for each in within)


def test_where_delegates_have_graphs() -> None:
    with linked("convnet_xnn") as warehouse:
        graph = json.loads(etq.report.graph_json_of(warehouse, "run"))
        assert len([each for each in graph["nodes"] if each["graph_id"] < 0]) == 11
        # A picture and node data are of the record's graphs alone.
        assert "StaticTranspose" not in etq.report.graph_svg_of(warehouse, "run")
        assert "StaticTranspose" not in etq.report.graph_node_data_of(warehouse, "run")
    with linked("demo_int") as warehouse:
        tables = tables_of(warehouse)
        assert all(each["graph_id"] >= 0 and "counterpart" not in each for each in tables["nodes"])
