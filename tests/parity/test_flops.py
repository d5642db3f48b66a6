"""Operations of nodes against torch's FlopCounterMode (`make_records.py`): equal for all nodes that it counts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from etq.warehouse.warehouse import Warehouse
from tests.conftest import CAPTURES
from tests.records import Node, Tensor, record
from tests.sampling import thinned

COUNTED: dict[str, Any] = json.loads((CAPTURES / "expected/flops.json").read_text())
# The formulas of the nodes that it counts.
RULES = ("product", "convolution", "transposed convolution", "attention")


@pytest.mark.parametrize("name", thinned(sorted(COUNTED["records"]), ["mlp", "convnet", "transformer", "multimethod"]))
def test_nodes_of_real_records(warehouse: Warehouse, name: str) -> None:
    """Node by node, and nothing but these is counted by the same formulas."""
    warehouse.ingest_record(CAPTURES / name / f"{name}.etrecord", name="it")
    query = """
        SELECT c.stage || '/' || c.method, c.name, c.flops
        FROM node_costs('it') AS c
        JOIN cost_formulas AS f ON starts_with(c.op_type, f.op || '.')
        WHERE list_contains($rules, f.counts)
    """
    found: dict[str, dict[str, int]] = {}
    for program, node, flops in warehouse.rows(query, rules=list(RULES))[1]:
        found.setdefault(program, {})[node] = flops
    for program, expected in COUNTED["records"][name].items():
        assert found.get(program, {}) == expected, program


def test_the_models_are_counted_at_all() -> None:
    """By eye, of the convnet: 2 * 8*32*32 * 3*3*3, 2 * 16*16*16 * 8*3*3, 2 * 32*8*8 * 16*3*3, 2 * 10 * 32."""
    counts = COUNTED["records"]["convnet"]["exported_program/forward"]
    assert list(counts.values()) == [442_368, 589_824, 589_824, 640]
    assert len(COUNTED["records"]) == 15
    assert sum(1 for programs in COUNTED["records"].values() for nodes in programs.values() if nodes) == 27


def test_calls_of_all_kinds(warehouse: Warehouse) -> None:
    """Products, convolutions of each rank (groups, strides, dilations, transposed), attention."""
    nodes = []
    for number, call in enumerate(COUNTED["calls"]):
        arguments = {
            name: Tensor(f"{name}_{number}", tuple(value["sizes"])) if isinstance(value, dict) else value
            for name, value in call["arguments"].items()
        }
        outputs = tuple(Tensor(f"out_{number}_{place}", tuple(sizes)) for place, sizes in enumerate(call["outputs"]))
        nodes.append(Node(call["target"], arguments, outputs))
    warehouse.ingest_record(record(*nodes), name="it")
    rows = warehouse.rows("SELECT c.op_type, c.flops FROM node_costs('it') AS c")[1]
    assert rows == [(call["target"], call["flops"]) for call in COUNTED["calls"]]
    assert len(rows) == 135
    assert {op.split(".")[1] for op, _ in rows} >= {"mm", "addmm", "bmm", "baddbmm", "convolution"}
