"""Findings about a trace's run that slow it down."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest

from etq.warehouse.warehouse import Warehouse
from tests.conftest import CAPTURES
from tests.sql.test_trace_views import PLAIN, TWO_DEVICES
from tests.trace_builders import event, memory, two_steps
from tests.traces import Traces


def rules(traces: Traces, **arguments: Any) -> list[tuple[Any, ...]]:
    return traces.ask("trace_recommendations", "rule, device", **arguments)


def test_recommendations(traces: Traces) -> None:
    traces.take(*two_steps())
    assert traces.ask("trace_recommendations", "rule, device, evidence") == [
        ("gpu_utilization", 0, "a kernel ran in 36.36 % of the steps")
    ]
    limits = {"data_loader_percent": 3, "utilization_percent": 36}
    assert traces.ask("trace_recommendations", "rule, device, evidence", **limits) == [
        ("data_loader", None, "3.6 % of the step time is in DataLoader")
    ]


@pytest.mark.long
def test_advice_on_a_trace(traces: Traces) -> None:
    traces.take(*two_steps())
    waits = "in 1 gap of 60.0 us; the host was mostly in aten::relu; etq gaps lists them"
    host = "in 4 parts, the longest 60.0 us, 0.0 % of it on devices, 100 % on the host; etq critical-path lists the ops"
    relu = "in 5 parts, the longest 40.0 us, 67 % of it on devices, 17 % on the host; mostly the kernel relu_kernel; etq critical-path lists the ops"
    assert traces.ask("advice", "rule, severity, evidence, time_at_stake, unit") == [
        ("critical path", "high", host, 82, "us"),
        ("device idle", "high", waits, 60, "us"),
        ("critical path", "high", relu, 60, "us"),
        ("gpu utilization", "medium", "a kernel ran in 36.36 % of the steps", None, None),
        ("device idle", "medium", "in 1 gap of 10.0 us; etq gaps lists them", 10, "us"),
        (
            "device time",
            "low",
            "1 call of GEMM, most time in volta_h884gemm; etq kernels --by family lists them",
            40,
            "us",
        ),
    ]
    # 60 of the path's 82 us on the host, and the gap of 60 us; but not a gap of 10 us, which is short.
    is_single = "contains(remedy, 'record steps after a warm-up')"
    assert [row[0] for row in traces.ask("advice", is_single)] == [True, True, False, False, False, False]


@pytest.mark.parametrize("name", ["torch_gpu/rank0", "torch_gpu/rank1"])
def test_advice_has_the_causes_of_idle_devices(warehouse: Warehouse, name: str) -> None:
    """Those that take a twentieth of the device's time, which is counted from the file's own events."""
    path = CAPTURES / f"{name}.pt.trace.json.gz"
    warehouse.ingest(path, name="run")
    spans: dict[int, list[float]] = {}
    for each in json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]:
        if each.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset"):
            spans.setdefault(each["pid"], []).extend((each["ts"], each["ts"] + each["dur"]))
    causes = warehouse.rows("SELECT device, cause, total FROM device_idle_causes('run', unit := 'us')")[1]
    expected = []
    for device, cause, total in causes:
        share = 100 * total / (max(spans[device]) - min(spans[device]))
        if cause not in ("unknown", "unknown_wait", "call") and share >= 5:
            expected.append(("high" if share >= 20 else "medium", pytest.approx(total), pytest.approx(share), "us"))
    assert expected
    query = "SELECT severity, time_at_stake, share_percent, unit FROM advice('run') WHERE rule = 'device idle'"
    assert warehouse.rows(query)[1] == sorted(expected, key=lambda row: -row[1].expected)


def test_each_idle_device_has_a_row(traces: Traces) -> None:
    """The plug-in has one text for both: GPU 0and 1 have low utilization."""
    traces.take(*two_steps(), event("kernel", "relu_kernel", 50, 60, 8, device=1))
    assert rules(traces) == [("gpu_utilization", 0), ("gpu_utilization", 1)]


@pytest.mark.long
def test_tensor_cores_are_recommended_for_devices_that_have_them(traces: Traces) -> None:
    """The plug-in can't distinguish AMD's devices."""
    traces.take(*PLAIN, deviceProperties=TWO_DEVICES)
    assert rules(traces) == [("tensor_cores", None)]
    traces.warehouse.connection.execute("UPDATE trace_devices SET name = 'AMD Instinct MI250X'")
    assert rules(traces) == [("tensor_cores", None)]
    traces.warehouse.connection.execute("UPDATE trace_devices SET name = 'AMD Radeon Graphics'")
    assert rules(traces) == []
    traces.warehouse.connection.execute("UPDATE trace_devices SET name = 'NVIDIA K80', compute_major = 3")
    assert rules(traces) == []


def test_parallel_training(traces: Traces) -> None:
    wrappers = [event("cpu_op", f"{name}.forward", 0, 99, 2) for name in ("DataParallel", "DistributedDataParallel")]
    traces.take(
        *PLAIN, *wrappers, event("kernel", "ampere_sgemm_64x64_nn", 20, 80, 7, device=1), deviceProperties=TWO_DEVICES
    )
    assert rules(traces) == [("data_parallel", None), ("communication_backend", None), ("tensor_cores", None)]


@pytest.mark.long
def test_full_memory_is_that_of_devices(traces: Traces) -> None:
    """The plug-in compares the CPU's memory with the last device's: it recommends the same for both traces."""
    op = event("cpu_op", "aten::empty", 0, 10)
    traces.take(op, memory(5, 950, 950, type=1, device=1), deviceProperties=TWO_DEVICES)
    assert rules(traces) == [("device_memory", 1)]
    assert rules(traces, memory_percent=95) == []
    traces.warehouse.connection.execute("UPDATE trace_memory SET device_type = 0, device = -1")
    assert rules(traces) == []
