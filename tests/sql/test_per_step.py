"""What is per step is of the steps: asked of plain Python, and no part is longer than its whole."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from random import Random
from typing import Any

import pytest

from etq.warehouse.warehouse import Warehouse
from tests.conftest import shared_file
from tests.trace_builders import event

CAPTURES = Path(__file__).parents[1] / "captures"
KERNEL = "void at::native::vectorized_elementwise_kernel<4, at::native::add>"
DEVICES = ("kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset")
GEMM = "ampere_sgemm_128x64_nn"


def report(warehouse: Warehouse, name: str) -> None:
    warehouse.ingest(shared_file(f"captures/reports/{name}.json"), name="t")


def asked(warehouse: Warehouse, query: str) -> list[tuple[Any, ...]]:
    return warehouse.rows(query)[1]


def test_kernels_before_the_steps_are_named_beside_them(warehouse: Warehouse) -> None:
    """Three kernels of 90 us before two steps, each with one of 40 us."""
    report(warehouse, "34_warmup_kernels")
    for view in ("kernel_table", "kernel_families", "work_totals"):
        query = f"SELECT total, per_step, outside_steps, steps FROM {view}('t', unit := 'us')"
        assert asked(warehouse, query) == [(350, 40, 270, 2)], view
    query = "SELECT op, per_step, outside_steps FROM op_efficiency('t', unit := 'us') ORDER BY ALL"
    assert asked(warehouse, query) == [("aten::mm", 40, 0), (None, 0, 270)]
    query = """
        SELECT name, self_device_per_step, device_outside_steps FROM key_averages('t', unit := 'us')
        WHERE self_device_time > 0 ORDER BY name
    """
    assert asked(warehouse, query) == [("(no op)", 0, 270), ("Cijk_gemm", 40, 270), ("aten::mm", 40, 0)]


@pytest.mark.long
def test_all_views_count_the_same_steps(warehouse: Warehouse) -> None:
    """The last step launched 10 kernels, the one before 13: all of them were recorded."""
    report(warehouse, "33_last_step")
    for query in (
        "SELECT DISTINCT steps FROM kernel_table('t')",
        "SELECT DISTINCT steps FROM average_step('t')",
        "SELECT DISTINCT steps FROM key_averages('t')",
        "SELECT count(*) FROM wide_steps('t')",
        "SELECT count(DISTINCT step) FROM step_breakdown('t')",
        "SELECT count(DISTINCT step) FROM device_breakdown('t', by := 'step')",
        "SELECT count(DISTINCT step) FROM tensor_core_use('t', by := 'step')",
        "SELECT count(DISTINCT run_index) FROM step_times",
    ):
        assert asked(warehouse, query) == [(4,)], query
    assert asked(warehouse, "SELECT per_step FROM kernel_table('t', unit := 'us')") == [(107.5,)]


def test_calls_without_their_kernels_are_in_no_mean(warehouse: Warehouse) -> None:
    """The kernels of the first two of four calls are missing, of 50 us each."""
    report(warehouse, "18_first_dropped")
    query = "SELECT calls, device_time_avg, self_device_per_step, steps FROM key_averages('t', unit := 'us')"
    assert asked(warehouse, f"{query} WHERE name = 'aten::mm'") == [(4, 50, 50, 2)]
    assert asked(warehouse, "SELECT step FROM wide_steps('t')") == [(2,), (3,)]
    assert asked(warehouse, "SELECT left(detail, 38) FROM findings WHERE rule = 'lost kernels'") == [
        ("2 of 4 launches of kernels have no eve",)
    ]
    assert asked(warehouse, "SELECT left(detail, 33) FROM findings WHERE rule = 'steps left out'") == [
        ("steps 0, 1 are not counted: a fif",)
    ]
    assert asked(warehouse, "SELECT rule, severity FROM advice('t')") == [("lost kernels", "high")]


@pytest.mark.long
def test_a_trace_without_any_of_its_kernels(warehouse: Warehouse) -> None:
    report(warehouse, "17_no_kernels")
    query = "SELECT device_time_avg, steps FROM key_averages('t') WHERE name = 'aten::mm'"
    assert asked(warehouse, query) == [(None, 1)]
    assert asked(warehouse, "SELECT rule FROM advice('t')") == [("lost kernels",)]


@pytest.mark.parametrize("seed", [2, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 5))])
def test_made_up_traces(warehouse: Warehouse, seed: int) -> None:
    """Steps with gaps between them, kernels and copies that are launched in them, before, between, after, or nowhere."""
    random = Random(seed)
    made: list[dict[str, Any]] = []
    truth: dict[bool, dict[str, float]] = {True: defaultdict(float), False: defaultdict(float)}
    ops = {True: 0, False: 0}
    moment, free = 1000, 1000
    count = random.randint(1, 5)
    for number in range(-1, count + 1):
        is_step = 0 <= number < count
        start = moment
        for _ in range(random.randint(1, 6)):
            correlation = len(made) + 1
            is_copy = random.random() < 0.3
            name = "Memcpy HtoD (Pageable -> Device)" if is_copy else random.choice([KERNEL, GEMM])
            is_launched = number >= 0 or random.random() < 0.5
            length = random.randint(1, 60)
            if is_launched:
                made.append(event("cpu_op", "aten::add", moment, moment + 8))
                call = "cudaMemcpyAsync" if is_copy else "cudaLaunchKernel"
                made.append(event("cuda_runtime", call, moment + 2, moment + 5, correlation=correlation))
                ops[is_step] += 8
            begin = max(free, moment + 5)
            details = {"correlation": correlation, "device": 0, "stream": 7}
            made.append(event("gpu_memcpy" if is_copy else "kernel", name, begin, begin + length, 7, **details))
            free = begin + length
            truth[is_step][name] += length
            moment += random.randint(9, 40)
        if is_step:
            made.append(event("user_annotation", f"ProfilerStep#{number}", start, moment))
        moment += random.randint(1, 30)
    warehouse.ingest(json.dumps({"traceEvents": made}).encode(), name="t")
    for view, column in (("work_totals", "event"), ("kernel_table", "kernel"), ("copy_totals", "event")):
        query = f"SELECT {column}, per_step * steps, outside_steps FROM {view}('t', unit := 'us')"
        for name, inside, outside in asked(warehouse, query):
            assert (inside, outside) == (pytest.approx(truth[True][name]), pytest.approx(truth[False][name])), view
    for view in ("kernel_families", "op_efficiency"):
        [row] = asked(warehouse, f"SELECT sum(per_step * steps), sum(outside_steps) FROM {view}('t', unit := 'us')")
        assert row == (pytest.approx(sum(truth[True].values())), pytest.approx(sum(truth[False].values()))), view
    query = "SELECT sum(cpu_per_step * steps), sum(cpu_time_total) FROM key_averages('t', unit := 'us')"
    assert asked(warehouse, f"{query} WHERE name = 'aten::add'") == [(pytest.approx(ops[True]), sum(ops.values()))]
    query = "SELECT per_execute * executes FROM time_tree('t', by := 'event', unit := 'us') WHERE name = 'aten::add'"
    assert sum(each for (each,) in asked(warehouse, query)) == pytest.approx(ops[True])
    query = "SELECT sum(t.ticks) FROM step_times AS t WHERE t.kind = 'device_total'"
    assert asked(warehouse, query) == [(1000 * sum(truth[True].values()),)]
    query = "SELECT sum(total), count(*) FROM wide_steps('t', unit := 'us')"
    [(whole, steps)] = asked(warehouse, query)
    assert steps == count and sum(truth[True].values()) <= whole


def test_a_step_lasts_as_long_as_what_is_per_step(warehouse: Warehouse) -> None:
    """A launch of another thread that ends after its step, one between a nested step and the end of the one around it,
    and work that only an external id gives to a step.
    """
    steps = [("ProfilerStep#0", 0, 100), ("ProfilerStep#1", 200, 300), ("ProfilerStep#2", 210, 240)]
    made = [event("user_annotation", name, start, end) for name, start, end in steps]
    made += [
        event("cpu_op", "aten::add", 400, 410, 2, external=9),
        event("user_annotation", "ProfilerStep#3", 390, 420),
    ]
    for number, (at, start, end) in enumerate([(95, 110, 160), (220, 240, 250), (260, 310, 350)], 1):
        made.append(event("cuda_runtime", "cudaLaunchKernel", at, at + 10, 2, correlation=number))
        made.append(event("kernel", KERNEL, start, end, 7, correlation=number, device=0))
    made.append(event("kernel", KERNEL, 430, 480, 7, correlation=4, external=9, device=0))
    warehouse.ingest(json.dumps({"traceEvents": made}).encode(), name="t")
    assert asked(warehouse, "SELECT per_step * steps FROM kernel_table('t', unit := 'us')") == [(50 + 10 + 40 + 50,)]
    query = "SELECT step, total, kernel FROM wide_steps('t', unit := 'us') ORDER BY step"
    assert asked(warehouse, query) == [(0, 160, 50), (1, 150, 50), (2, 0, 0), (3, 90, 50)]
