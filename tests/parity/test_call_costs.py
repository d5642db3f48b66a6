"""Costs of calls of ops in traces, against torch itself (`make_call_costs.py`) and against TraceLens."""

from __future__ import annotations

import csv
import gzip
import json
from collections import defaultdict
from typing import Any

import pytest

from etq.warehouse.warehouse import Warehouse
from tests.conftest import CAPTURES, shared_file
from tests.parity.oracle import read

COSTS: list[dict[str, Any]] = json.loads((CAPTURES / "torch_costs/costs.json").read_text())
TRACELENS = "captures/torch/tracelens/h100_qwen"
BY_SHAPE = "SELECT e.op, e.shapes, e.types, e.strides, e.flops, e.bytes FROM op_efficiency('it') AS e"


def test_calls_of_all_kinds(warehouse: Warehouse) -> None:
    """Operations as torch's FlopCounterMode counts them, and bytes of the tensors that went in and came out."""
    calls = read(CAPTURES / "torch_costs/calls.trace.json.gz")["traceEvents"]
    assert len(calls) == len(COSTS) == 1133
    expected: dict[tuple[Any, ...], set[tuple[int | None, int]]] = defaultdict(set)
    counted = set()
    for event, cost in zip(calls, COSTS, strict=True):
        assert event["name"] == cost["op"]
        args = event["args"]
        call = (event["name"], *(json.dumps(args[name]) for name in ("Input Dims", "Input type", "Input Strides")))
        expected[call].add((cost["flops"], cost["read"] + cost["written"]))
        counted |= {call} if cost["flops"] is not None else set()
    warehouse.ingest(CAPTURES / "torch_costs/calls.trace.json.gz", name="it")
    rows = warehouse.rows(BY_SHAPE)[1]
    found: dict[tuple[Any, ...], set[tuple[int | None, int]]] = defaultdict(set)
    for op, shapes, types, strides, flops, moved in rows:
        call = (op, *(json.dumps(json.loads(text)) for text in (shapes, types, strides)))
        found[call].add((flops if call in counted else None, moved))
    assert found == expected
    assert len({op for op, *_ in rows}) == 116


def rows_of(name: str) -> list[dict[str, str]]:
    with gzip.open(shared_file(f"{TRACELENS}/{name}.csv.gz"), "rt", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.long
def test_against_tracelens(warehouse: Warehouse) -> None:
    """Rows of the H100's trace: calls and times equal, operations and bytes but for what it counts otherwise.

    It counts the bias of an addmm, which is one of the 2 K operations of a sum of K products; it doesn't count the sums
    of exponentials that attention writes, under 1 % of its bytes; of a mean over the last dimension it counts one
    element of output instead of one for each row.
    """
    keys = ("name", "Input Dims_first", "Input type_first", "Input Strides_first")
    expected = {
        tuple(row[key].replace("'", '"') for key in keys): row | {"kind": kind}
        for kind in ("GEMM", "SDPA_fwd", "BinaryElementwise", "UnaryElementwise", "Reduce_fwd")
        for row in rows_of(kind)
    }
    warehouse.ingest(shared_file(f"{TRACELENS}/h100_qwen.pt.trace.json.gz"), name="it")
    query = """
        SELECT e.op, e.shapes, e.types, e.strides, e.calls, e.total, e.flops, e.bytes, e.flops_per_second
        FROM op_efficiency('it') AS e
        WHERE e.op IS NOT NULL
    """
    found = {
        (op, *(json.dumps(json.loads(text)) for text in (shapes, types, strides))): rest
        for op, shapes, types, strides, *rest in warehouse.rows(query)[1]
    }
    assert len(expected) == 26
    assert expected.keys() <= found.keys()
    for key, row in expected.items():
        calls, total, flops, moved, rate = found[key]
        assert calls == int(row["name_count"]), key
        assert total == pytest.approx(float(row["Kernel Time (µs)_sum"]), abs=0.01), key
        bias = 8944 * 1024 if key[0] == "aten::addmm" else 0
        if row["kind"] in ("GEMM", "SDPA_fwd"):
            assert flops == round(float(row["GFLOPS_first"]) * 1e9) - bias, key
            assert rate == pytest.approx(float(row["TFLOPS/s_mean"]) * 1e12, rel=0.002), key
        theirs = float(row["Data Moved (MB)_first"]) * 2**20
        theirs += 4 * (16 * 559 - 1) if key[0] == "aten::mean" else 0
        theirs += 4 * 16 * 16 * 559 if row["kind"] == "SDPA_fwd" else 0
        assert moved == pytest.approx(theirs, rel=1e-9), key
