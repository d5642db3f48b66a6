"""The page of two graphs: its values are those of `compare_graphs`, and its counterparts are mutual."""

from __future__ import annotations

import math

import pytest

import etq
import etq.report
from etq.report.graph_pair import pair_of
from etq.warehouse.warehouse import Warehouse
from tests.conftest import CAPTURES
from tests.unit.test_report_graph import dicts, line_of


def two(base: str, new: str) -> Warehouse:
    warehouse = etq.open()
    for side, name in (("base", base), ("new", new)):
        if side == "base" or base != new:
            warehouse.ingest(
                CAPTURES / name / f"{name}_100runs.etdp", name=side, etrecord=CAPTURES / name / f"{name}.etrecord"
            )
    return warehouse


@pytest.mark.long
@pytest.mark.parametrize(("base", "new"), [("convnet", "convnet_xnn"), ("mlp", "mlp")])
def test_values_are_those_of_the_view(base: str, new: str) -> None:
    with two(base, new) as warehouse:
        names = "base", "base" if base == new else "new"
        section = pair_of(warehouse, *names, unit="ns").sections[0]
        tables = {name: dicts(table) for name, table in section.tables.items()}
        columns, rows = warehouse.rows("FROM compare_graphs($base, $new, unit := 'ns')", base=names[0], new=names[1])
    pairs = [dict(zip(columns, row, strict=True)) for row in rows]
    assert sum(section.facts["counts"].values()) == len(pairs)
    for side, other in (("base", "new"), ("new", "base")):
        nodes, groups, others = tables[f"{side}_nodes"], tables[f"{side}_groups"], tables[f"{other}_nodes"]
        expected = {(pair["method"], pair[f"{side}_node"]): pair for pair in pairs if pair[f"{side}_node"] is not None}
        assert {(node["method"], node["node_index"]) for node in nodes} == set(expected)
        for number, node in enumerate(nodes):
            pair = expected[node["method"], node["node_index"]]
            assert (node["op_type"], node["shapes"]) == (pair[f"{side}_op"], pair[f"{side}_shapes"])
            assert (node["backend"], node["time"]) == (pair[f"{side}_backend"], pair[f"{side}_time"])
            assert (node["change"], node["difference"], node["score"]) == (
                pair["change"], pair["difference"], pair["score"],
            )  # fmt: skip
            if node["counterpart"] < 0:
                assert pair[f"{other}_node"] is None
            else:
                its = others[node["counterpart"]]
                assert its["node_index"] == pair[f"{other}_node"] and its["counterpart"] == number
        for at, group in enumerate(groups):
            if group["module_path"] is not None:
                inside = [node["time"] for node in nodes if at in line_of(node["parent"], groups)]
                times = [time for time in inside if time is not None]
                assert group["time"] == (pytest.approx(math.fsum(times)) if times else None)
        assert all(0 <= edge[end] < len(nodes) for edge in tables[f"{side}_edges"] for end in ("maker", "user"))
    alone = [pair for pair in pairs if pair["base_node"] is None or pair["new_node"] is None]
    changed = [pair for pair in pairs if pair["change"] == "changed"]
    grids = {grid.name: dicts(grid.rows) for grid in section.grids}
    for name, listed in (("pair-alone", alone), ("pair-changed", changed)):
        assert [{column: row[column] for column in columns} for row in grids.get(name, [])] == listed
    for row in (row for name in ("pair-alone", "pair-changed") for row in grids.get(name, [])):
        for side in ("base", "new"):
            node_name = tables[f"{side}_nodes"][row[side]]["name"] if row[side] >= 0 else None
            assert node_name == row[f"{side}_name"]
