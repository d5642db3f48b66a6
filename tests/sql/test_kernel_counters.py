"""CUPTI's counters of kernels: by hand, by HolisticTraceAnalysis, by plain Python over the JSON."""

from __future__ import annotations

import gzip
import json
from typing import Any, Final

import pytest

from etq.warehouse.warehouse import Warehouse
from tests.conftest import CAPTURES
from tests.counter_traces import counted
from tests.trace_builders import event
from tests.traces import Traces

FILE: Final = CAPTURES / "torch_counters" / "counters.pt.trace.json.gz"
FFMA: Final = "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum"
HADD: Final = "smsp__sass_thread_inst_executed_op_hadd_pred_on.sum"
OPS: Final = "event, op, top_op, op_stack, counter, value"


@pytest.fixture
def kept(warehouse: Warehouse) -> Warehouse:
    warehouse.ingest(FILE, name="t")
    return warehouse


def ranged(name: str, start: float, counters: dict[str, Any], device: int = 0) -> dict[str, Any]:
    """A range that Kineto writes: it has no arguments but its counters."""
    return {**event("cuda_profiler_range", name, start, start + 10, 0), "pid": device, "args": counters}


def launched(*, calls: int = 2) -> list[dict[str, Any]]:
    """Launches in an op within another, and outside of any op."""
    written = [
        event("user_annotation", "ProfilerStep#3", 0, 100),
        event("cpu_op", "aten::linear", 10, 40),
        event("user_annotation", "part", 11, 39),
        event("cpu_op", "aten::addmm", 12, 35),
        event("cuda_runtime", "cudaLaunchKernel", 20, 30, correlation=1),
        event("cuda_runtime", "cudaMemcpyAsync", 31, 33, correlation=2),
        event("cuda_runtime", "cudaLaunchKernelExC", 50, 55, correlation=3),
    ]
    return written if calls == 2 else written[:-1]


def test_counters_of_two_kernels(traces: Traces) -> None:
    """The first was launched in two ops, the second in a step alone. A multiplication with an addition is two operations."""
    traces.take(
        *launched(), ranged("second", 60, {FFMA: 5}), ranged("first", 50, {FFMA: 100.0, HADD: 7, "x.avg": -0.5})
    )
    columns = f"place, run_index, device, {OPS}, flops, reason"
    stack = ("aten::addmm", "aten::linear", ["aten::linear", "aten::addmm"])
    assert traces.ask("kernel_counters", columns) == [
        (1, 0, 0, "first", *stack, FFMA, 100.0, 200.0, None),
        (1, 0, 0, "first", *stack, HADD, 7.0, 7.0, None),
        (1, 0, 0, "first", *stack, "x.avg", -0.5, None, None),
        (2, 0, 0, "second", None, None, [], FFMA, 5.0, 10.0, None),
    ]


def test_a_missing_launch_leaves_all_ops_unknown(traces: Traces) -> None:
    """One launch, two ranges: which was launched is not known. The values are."""
    traces.take(*launched(calls=1), ranged("first", 50, {FFMA: 1}), ranged("second", 60, {FFMA: 2}))
    reason = "2 ranges, 1 kernel launches"
    assert traces.ask("kernel_counters", f"{OPS}, run_index, reason") == [
        ("first", None, None, None, FFMA, 1.0, None, reason),
        ("second", None, None, None, FFMA, 2.0, None, reason),
    ]


def test_ranges_of_two_devices_are_in_no_order(traces: Traces) -> None:
    """Those of each device divide the same time: which was launched first is not known."""
    traces.take(*launched(), ranged("first", 50, {FFMA: 1}), ranged("other", 51, {FFMA: 2}, device=1))
    assert traces.ask("kernel_counters", "device, event, op, reason") == [
        (0, "first", None, "ranges of 2 devices"),
        (1, "other", None, "ranges of 2 devices"),
    ]


def test_values_that_are_no_counts_are_left_out(traces: Traces) -> None:
    impossible = {"text": "12", "list": [1], "object": {"a": {"b": 1}}, "null": None, "flag": True, "big": 10**30}
    traces.take(
        *launched(),
        ranged("first", 50, impossible | {FFMA: 3, "device": 0, "stream": 7, "correlation": 4}),
        ranged("second", 60, {}) | {"args": [1, 2]},
    )
    assert traces.ask("kernel_counters", "event, counter, value") == [("first", FFMA, 3.0)]
    detail = "values that are not numbers, or can't be true: 6"
    query = "SELECT f.detail FROM findings AS f WHERE f.rule = 'counters left out'"
    assert traces.warehouse.rows(query)[1] == [(detail,)]


def test_a_number_too_large_for_a_double_is_left_out(traces: Traces) -> None:
    """Neither that nor a name that is not UTF-8 costs the others."""
    content = json.dumps({"traceEvents": [*launched(calls=1), ranged("first", 50, {FFMA: 3, "a": 4})]}).encode()
    traces.path.write_bytes(content.replace(b'"a": 4', b'"a": 1e999, "\xff": 5'))
    traces.warehouse.ingest(traces.path, name="t")
    assert traces.ask("kernel_counters", "counter, value") == [(FFMA, 3.0), ("\N{REPLACEMENT CHARACTER}", 5.0)]


def test_counters_are_those_of_holistictraceanalysis(kept: Warehouse) -> None:
    answer = json.loads(gzip.decompress((FILE.parent / "counters.hta.json.gz").read_bytes()))
    found: dict[int, dict[str, Any]] = {}
    for place, *ops, counter, value in kept.rows(f"SELECT place, {OPS} FROM kernel_counters('t')")[1]:
        names = ("name", "bottom_level_op", "top_level_op", "op_stack")
        found.setdefault(place, dict(zip(names, ops, strict=True)))[counter] = value
    assert list(found.values()) == answer
    assert len({tuple(row["op_stack"]) for row in answer}) > 10


@pytest.mark.long
def test_ranges_are_not_kernels(kept: Warehouse) -> None:
    """Their times are not those of kernels: no view of the time of devices counts them."""
    for view in (
        "kernel_table", "gpu_utilization", "device_breakdown", "device_idle", "kernel_launches", "work_totals",
    ):  # fmt: skip
        assert kept.rows(f"FROM {view}('t')")[1] == [], view
    assert kept.rows("SELECT sum(k.device_time_total) FROM key_averages('t') AS k WHERE NOT k.is_device")[1] == [
        (None,)
    ]


def test_the_kept_trace_is_that_of_the_generator() -> None:
    assert gzip.decompress(FILE.read_bytes()) == counted()


def test_other_traces_have_no_counters(traces: Traces) -> None:
    traces.take(*launched(), event("kernel", "gemm", 40, 60, 7, correlation=1, device=0, stream=7))
    assert traces.ask("kernel_counters") == []
    assert traces.warehouse.rows("FROM event_counters")[1] == []
