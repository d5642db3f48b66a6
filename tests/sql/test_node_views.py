"""Views of single nodes of a graph: distance from the roofline, planned memory, numeric gaps; against plain Python."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Any

import numpy as np
import pytest

import etq
from etq import EtqError
from etq.warehouse.warehouse import Warehouse
from tests.conftest import CAPTURES
from tests.records import EDGE
from tests.sampling import thinned
from tests.warehouses import empty_warehouse

NAMES = ("bf16", "convnet", "convnet_xnn", "demo_int", "mlp", "mlp_xnn", "multimethod", "scalars", "transformer")


def linked(warehouse: Warehouse, name: str) -> None:
    folder = CAPTURES / name
    warehouse.ingest(
        folder / f"{name}_100runs.etdp", name="run", etrecord=folder / f"{name}.etrecord", pte=folder / f"{name}.pte"
    )


@pytest.mark.long
@pytest.mark.parametrize("name", thinned(NAMES, ["mlp", "convnet_xnn"]))
def test_the_roofline_of_nodes(name: str) -> None:
    """Totals are those of nodes, distances those of their costs; together those of `roofline`."""
    given = "'run', peak_flops := 3e9, peak_bandwidth := 2e9, unit := 'ns', runs := 'all'"
    with empty_warehouse() as warehouse:
        linked(warehouse, name)
        rows = warehouse.rows(
            "SELECT graph_id, node_index, calls, total, roof_percent, above_roof, bound, reason "
            f"FROM node_roofline({given})"
        )[1]
        query = "SELECT graph_id, node_index, flops, bytes_read + bytes_written FROM node_costs($record)"
        costs = {row[:2]: row[2:] for row in warehouse.rows(query, record=name)[1]}
        query = "SELECT graph_id, node_index, backend, calls, self_time FROM node_totals('run', unit := 'ns', runs := 'all')"
        times = {row[:2]: row[2:] for row in warehouse.rows(query)[1]}
        checked = 0
        for *key, calls, total, percent, above, bound, reason in rows:
            # A delegate's call also has time outside of its nodes' events. Of kernels that share a debug handle, the
            # first node has all in `node_totals`, and each node its own here.
            backend, all_calls, self_time = times[tuple(key)]
            if backend is None and calls == all_calls:
                assert total == pytest.approx(self_time)
                checked += 1
            flops, size = costs[tuple(key)]
            if above is None:
                assert reason is not None and (total == 0 or None in (flops, size))
                continue
            by_flops, by_bytes = calls * flops / 3, calls * size / 2
            assert above == pytest.approx(max(total - max(by_flops, by_bytes), 0))
            if flops + size:
                assert bound == ("compute" if by_flops >= by_bytes else "memory")
                assert percent == pytest.approx(100 * max(by_flops, by_bytes) / total)
        [(whole, number)] = warehouse.rows(f"SELECT fsum(r.above_roof), count(*) FROM roofline({given}) AS r")[1]
        parts = sum(row[5] or 0 for row in rows)
        assert parts <= (whole or 0) * (1 + 1e-9)
        assert parts == pytest.approx(whole) or number != len(rows)
        assert name != "mlp" or (number, len(rows), checked) == (24, 24, 24)


@pytest.mark.long
@pytest.mark.parametrize("name", thinned(NAMES, ["transformer"]))
def test_the_planned_memory_of_nodes(name: str) -> None:
    """Each tensor belongs to the first instruction that names it; the instruction runs the node's op."""
    with empty_warehouse() as warehouse:
        linked(warehouse, name)
        rows = warehouse.rows("SELECT graph_id, node_index, method, op_type, instruction, tensors, size_bytes, "
                              "peak_size_bytes FROM node_memory('run')")[1]  # fmt: skip
        assert rows or name.endswith("xnn")
        ops: dict[str, list[tuple[str | None, str, list[int]]]] = defaultdict(list)
        for method, op, kind, arguments in warehouse.rows(
            "SELECT method, op, kind, arguments FROM instructions ORDER BY method, chain_index, instruction_id"
        )[1]:
            ops[method].append((op, kind, arguments or []))
        values = {
            row[:2]: row[2:]
            for row in warehouse.rows(
                "SELECT method, value_index, size_bytes, items, memory_id IS NOT NULL AND NOT is_input AND name IS NULL "
                "AND constant_index IS NULL FROM program_values"
            )[1]
        }
        first: dict[tuple[str, int], int] = {}
        for method, steps in ops.items():
            for step, (_, _, arguments) in enumerate(steps):
                for argument in arguments:
                    for value in (argument, *(values.get((method, argument), (0, None, False))[1] or ())):
                        first.setdefault((method, value), step)
        expected: dict[tuple[str, int], list[int]] = defaultdict(list)
        for key, step in first.items():
            if key in values and values[key][2]:
                expected[key[0], step].append(values[key][0])
        peaks = {
            (method, value): size
            for method, value, size in warehouse.rows(
                "SELECT method, value_index, size_bytes FROM planned_memory($program) WHERE is_live_at_peak",
                program=name,
            )[1]
        }
        for _, _, method, op_type, step, tensors, size, at_peak in rows:
            op, kind, _ = ops[method][step]
            if kind == "kernel":
                assert (op or "").replace("::", ".").split(".")[1] in op_type
            assert (tensors, size) == (len(expected[method, step]), sum(expected[method, step]))
            live = sum(size for key, size in peaks.items() if key[0] == method and first.get(key) == step
                       and values[key][2])  # fmt: skip
            assert at_peak == live
        assert len({row[:2] for row in rows}) == len(rows)


def test_memory_without_a_program(warehouse: Warehouse) -> None:
    warehouse.ingest(CAPTURES / "mlp/mlp.etdp", name="run", etrecord=CAPTURES / "mlp/mlp.etrecord")
    assert warehouse.rows("FROM node_memory('run')")[1] == []


@pytest.mark.long
@pytest.mark.parametrize("metric", ["mse", "snr"])
def test_the_gaps_of_nodes(warehouse: Warehouse, metric: str) -> None:
    """A gap belongs to the last node of its handle; of several values, the worst one counts, NaN before all."""
    record = warehouse.ingest_record(CAPTURES / "mlp/mlp.etrecord")
    names = [name for (name,) in warehouse.rows(
        "SELECT name FROM op_nodes JOIN graphs USING (record_id, graph_id) WHERE stage = 'exported_program' "
        "AND starts_with(op_type, 'aten') ORDER BY node_index"
    )[1]]  # fmt: skip
    base: dict[str, list[Any]] = {name: [np.array([1.0, 2.0]), np.array([3.0])] for name in names}
    new = {name: [np.array([1.0, 2.0 + at / 8]), np.array([3.0 - at])] for at, name in enumerate(names)}
    new[names[2]][0] = np.array([1.0, math.nan])
    new[names[3]] = [np.array([1.0, 2.0, 3.0]), np.array([3.0])]
    for name, values in (("right", base), ("judged", new)):
        warehouse.ingest_reference(record, values, name=name)
    nodes: dict[int, tuple[int, int]] = {}
    for graph_id, node_index, handle in warehouse.rows(
        "SELECT graph_id, node_index, debug_handle FROM node_debug_handles JOIN graphs USING (record_id, graph_id) "
        "WHERE stage = $stage ORDER BY node_index",
        stage=EDGE,
    )[1]:
        nodes[handle] = graph_id, node_index
    gaps: dict[tuple[int, int], list[tuple[float | None, str | None]]] = defaultdict(list)
    query = "SELECT debug_handle, gap, problem FROM numeric_gap('right', 'judged', metric := $metric)"
    for handle, gap, problem in warehouse.rows(query, metric=metric)[1]:
        gaps[nodes[handle]].append((gap, problem))
    sign = -1 if metric == "snr" else 1

    def badness(value: tuple[float | None, str | None]) -> tuple[bool, bool, float]:
        gap = value[0]
        return gap is not None, gap is not None and math.isnan(gap), sign * (gap or 0)

    rows = warehouse.rows(
        "SELECT graph_id, node_index, gap, problem, grows FROM node_gaps('right', 'judged', metric := $metric)",
        metric=metric,
    )[1]
    assert len(rows) == len(gaps) > 10
    seen = set()
    for graph_id, node_index, gap, problem, _ in rows:
        worst = max(gaps[graph_id, node_index], key=badness)
        assert (gap, problem) == worst or (math.isnan(gap) and math.isnan(worst[0] or 0) and problem == worst[1])
        seen.add(problem)
    assert {"1 elements are NaN on one side only"} < seen
    # NaN is the worst, so the gap grows from the one node that has it.
    assert [math.isnan(gap) for _, _, gap, _, grows in rows if grows] == [True]
    assert all((gap is None) == (grows is None) for _, _, gap, _, grows in rows)
    with etq.open() as empty, pytest.raises(EtqError):
        empty.rows("FROM node_gaps('right', 'judged')")


@pytest.mark.long
def test_the_node_from_which_the_gap_grows(warehouse: Warehouse) -> None:
    """The first whose largest difference is at least a tenth of the worst, 1."""
    record = warehouse.ingest_record(CAPTURES / "mlp/mlp.etrecord")
    differences = {"relu_1": 0.0, "relu_2": 0.0625, "relu_3": 0.25, "relu_4": 1.0, "relu_5": 0.5}
    for name, scale in (("right", 0), ("far", 1)):
        values = {node: [np.array([1.0, 2.0 + scale * far])] for node, far in differences.items()}
        warehouse.ingest_reference(record, values, name=name)
    query = "SELECT name, gap FROM node_gaps('right', 'far', metric := 'max_abs') WHERE grows"
    assert warehouse.rows(query)[1] == [("aten_relu_default_3", 0.25)]
    query = (
        "SELECT new_name, new_gap, base_grows FROM compare_graphs('right', 'far', metric := 'max_abs') WHERE new_grows"
    )
    assert warehouse.rows(query)[1] == [("aten_relu_default_3", 0.25, None)]
    assert warehouse.rows("SELECT count(*) FROM node_gaps('right', 'right') WHERE grows")[1] == [(0,)]
