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
from tests.unit.test_report_graph import tables_of


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


@pytest.mark.parametrize("name", ["causal", pytest.param("two_methods", marks=pytest.mark.long)])
def test_ops_and_edges_of_delegates(name: str) -> None:
    with linked(name) as warehouse:
        tables = tables_of(warehouse)
        columns = "method, instruction_id, op_index, op, event_name, self_time, graph_id, node_index"
        rows = warehouse.rows(f"SELECT {columns} FROM delegate_graph('run')")[1]
        query = "SELECT method, instruction_id, delegate_index FROM instructions WHERE kind = 'delegate' ORDER BY ALL"
        calls = warehouse.rows(query)[1]
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
