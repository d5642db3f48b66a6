"""Advice on traces: what a rule sees, and what it doesn't advise; small traces by hand."""

from __future__ import annotations

from typing import Any

import pytest

from etq.advice.trace_evidence import Evidence
from etq.advice.trace_setup import setup
from tests.sql.test_trace_views import PLAIN, TWO_DEVICES
from tests.trace_builders import event, memory
from tests.traces import Traces

# An op of the same name that launches, before the other: that is no first call.
LAUNCHING = event("cpu_op", "aten::mm", 0, 3)


def host(name: str, category: str = "cpu_op") -> list[dict[str, Any]]:
    """An event of the host of 900 us between two kernels of 50 us, of which the second is launched at its end."""
    launches = [
        event("cuda_runtime", "cudaLaunchKernel", at, at + 2, correlation=number) for number, at in ((1, 0), (2, 905))
    ]
    kernels = [event("kernel", "k", at, at + 50, 7, correlation=n, device=0, stream=7) for n, at in ((1, 5), (2, 910))]
    return [event(category, name, 4, 904), *launches, *kernels]


@pytest.mark.parametrize(
    ("name", "category", "is_compiled", "expected"),
    [
        ("aten::unique", "cpu_op", False, "aten::unique runs on the CPU and launches nothing"),
        pytest.param("aten::mm", "cpu_op", False, "torch.compile, CUDA graphs.", marks=pytest.mark.long),
        pytest.param("aten::mm", "cpu_op", True, "reduce-overhead", marks=pytest.mark.long),
        pytest.param("scipy.ndimage.zoom", "user_annotation", False, "other processes", marks=pytest.mark.long),
    ],
)
def test_torch_compile_is_for_ops_that_it_has_not_made(
    traces: Traces, name: str, category: str, is_compiled: bool, expected: str
) -> None:
    compiled = [event("kernel", "triton_poi_fused_add_0", 960, 961, 7, device=0, stream=7)] if is_compiled else []
    traces.take(*host(name, category), *compiled, *([LAUNCHING] if name == "aten::mm" else []))
    rows = traces.ask("advice", "rule, remedy")
    remedies = [remedy for rule, remedy in rows if rule in ("device idle", "critical path")]
    assert remedies and all(expected in remedy for remedy in remedies)


def test_one_item_for_one_cause(traces: Traces) -> None:
    """Input data: steps wait for it, the device does, and the critical path goes through it."""
    steps = [event("user_annotation", "ProfilerStep#0", 0, 990)]
    loading = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
    traces.take(*steps, *host(loading, "user_annotation"))
    rules = [rule for (rule,) in traces.ask("advice", "rule") if rule != "device time"]
    assert len(rules) == 1, rules


def rules(traces: Traces) -> list[str]:
    """The rules about a program's setup that apply now."""
    [(key,)] = traces.warehouse.connection.execute("SELECT capture_id FROM captures").fetchall()
    evidence = Evidence(traces.warehouse.connection, key)
    found = [finding.rule for finding in setup(evidence)]
    evidence.drop()
    return found


@pytest.mark.long
def test_tensor_cores_are_advised_for_devices_that_have_them(traces: Traces) -> None:
    """The plug-in can't distinguish AMD's devices."""
    traces.take(*PLAIN, deviceProperties=TWO_DEVICES)
    assert rules(traces) == ["tensor cores"]
    traces.warehouse.connection.execute("UPDATE trace_devices SET name = 'AMD Instinct MI250X'")
    assert rules(traces) == ["tensor cores"]
    traces.warehouse.connection.execute("UPDATE trace_devices SET name = 'AMD Radeon Graphics'")
    assert rules(traces) == []
    traces.warehouse.connection.execute("UPDATE trace_devices SET name = 'NVIDIA K80', compute_major = 3")
    assert rules(traces) == []


def test_parallel_training(traces: Traces) -> None:
    wrappers = [event("cpu_op", f"{name}.forward", 0, 99, 2) for name in ("DataParallel", "DistributedDataParallel")]
    traces.take(
        *PLAIN, *wrappers, event("kernel", "ampere_sgemm_64x64_nn", 20, 80, 7, device=1), deviceProperties=TWO_DEVICES
    )
    assert rules(traces) == ["data parallel", "communication backend", "tensor cores"]


@pytest.mark.long
def test_full_memory_is_that_of_devices(traces: Traces) -> None:
    """The plug-in compares the CPU's memory with the last device's: it advises the same for both traces."""
    op = event("cpu_op", "aten::empty", 0, 10)
    traces.take(op, memory(5, 950, 950, type=1, device=1), deviceProperties=TWO_DEVICES)
    assert rules(traces) == ["device memory"]
    traces.warehouse.connection.execute("UPDATE trace_memory SET device_type = 0, device = -1")
    assert rules(traces) == []
