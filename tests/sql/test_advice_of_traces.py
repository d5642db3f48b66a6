"""Advice on traces: what a rule sees, and what it doesn't advise; small traces by hand."""

from __future__ import annotations

from typing import Any

import pytest

from etq.advice.trace_evidence import Evidence
from etq.advice.trace_setup import setup
from tests.sql.test_trace_views import PLAIN, TWO_DEVICES
from tests.trace_builders import event, memory
from tests.traces import Traces

H100 = [{"id": 0, "name": "NVIDIA H100 80GB HBM3", "computeMajor": 9, "computeMinor": 0}]
HALF = "c10::Half"
TENSOR = "sm80_xmma_gemm_f16f16_f16f32_f32_tn_n"
ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float> >(int)"
SOFTMAX = "void (anonymous namespace)::softmax_warp_forward<float, float, float, 8, false, false>(float*)"


def take(
    traces: Traces, *work: tuple[str, str, float], shapes: list[list[int]] | None = None, early: bool = True
) -> None:
    """Ops of one kernel each: their names, those of their kernels, and how long these take; without gaps if launched early."""
    events: list[dict[str, Any]] = []
    at = 1000.0
    for number, (op, kernel, length) in enumerate(work, 1):
        begin = number * 5 if early else at - 6
        made = event("cpu_op", op, begin, begin + 4)
        if shapes is not None:
            made["args"] |= {"Input Dims": shapes, "Input type": [HALF] * len(shapes)}
        events += [
            made,
            event("cuda_runtime", "cudaLaunchKernel", begin + 1, begin + 3, correlation=number),
            event("kernel", kernel, at, at + length, 7, correlation=number, device=0, stream=7),
        ]
        at += length
    traces.take(*events, deviceProperties=H100)


def advice(
    traces: Traces, rule: str, columns: str = "time_at_stake, share_percent, finding, remedy"
) -> list[tuple[Any, ...]]:
    rows = traces.warehouse.advice("t", unit="us").to_arrow_table().to_pylist()
    return [tuple(row[name] for name in columns.split(", ")) for row in rows if row["rule"] == rule]


def test_attention_in_single_ops(traces: Traces) -> None:
    """Forward 20 + 5 + 8 + 20, backward 20 + 9 + 20, of 202 us: other products and ops between leave it out."""
    take(
        traces,
        *(("aten::mm", TENSOR, 50), ("aten::bmm", TENSOR, 20), ("aten::div", ADD, 5), ("aten::_softmax", SOFTMAX, 8)),
        *(("aten::bmm", TENSOR, 20), ("aten::add", ADD, 10), ("aten::mm", TENSOR, 10), ("aten::bmm", TENSOR, 20)),
        *(("aten::_softmax_backward_data", SOFTMAX, 9), ("aten::bmm", TENSOR, 20)),
        *(("aten::mm", TENSOR, 10), ("aten::_softmax", SOFTMAX, 10), ("aten::mm", TENSOR, 10)),
    )
    [(time, share, _, remedy)] = advice(traces, "unfused attention")
    assert (time, share) == (102, pytest.approx(100 * 102 / 202))
    assert "scaled_dot_product_attention" in remedy


@pytest.mark.long
def test_products_of_odd_sizes(traces: Traces) -> None:
    names = (
        "cutlass_80_tensorop_s1688gemm_64x64_nn_align1",
        "cutlass_80_simt_sgemm_128x64_nn_align1",
        f"{TENSOR}_align8",
    )
    take(traces, *(("aten::mm", name, 30) for name in names), ("aten::mul", ADD, 10))
    assert [row[:2] for row in advice(traces, "odd sizes")] == [(30, 30)]


@pytest.mark.long
def test_a_larger_batch_where_one_operand_stays(traces: Traces) -> None:
    """Products that move 2 * (8 * 4096 + 4096**2 + 8 * 4096) bytes, in 40 us; good kernels would take them at 80 %."""
    least = 2 * (2 * 8 * 4096 + 4096**2) / 3.352e12 * 1e6
    for op, sizes in (("aten::mm", [[8, 4096], [4096, 4096]]), ("aten::bmm", [[1, 8, 4096], [1, 4096, 4096]])):
        take(traces, (op, TENSOR, 30), ("aten::mm", TENSOR, 10), shapes=sizes)
        [(time, _, _, remedy), *_] = advice(traces, "below the roof")
        assert time == pytest.approx(40 - 2 * least / 0.8, rel=1e-3)
        assert ("a larger batch" in remedy) == (op == "aten::mm") and "smaller types" not in remedy
        traces.warehouse.remove("t")


@pytest.mark.long
@pytest.mark.parametrize("name", ["Memcpy HtoD (Pinned -> Device)", "Memcpy DtoD (Device -> Device)"])
def test_copies_by_the_link_to_the_host_are_not_rated_by_memory(traces: Traces, name: str) -> None:
    """A copy of 64 MiB in 5,000 us: slow for the device's memory of 3.35 TB/s, not for the link of 64 GB/s."""
    copy = event("cpu_op", "aten::copy_", 0, 20, shapes=[[4096, 4096], [4096, 4096], []])
    copy["args"]["Input type"] = ["float", "float", "Scalar"]
    call = event("cuda_runtime", "cudaMemcpyAsync", 5, 15, correlation=1)
    moved = event("gpu_memcpy", name, 30, 5030, 7, correlation=1, device=0, stream=7, bytes=4 * 4096**2)
    traces.take(copy, call, moved, deviceProperties=H100)
    assert bool(advice(traces, "below the roof")) == ("DtoD" in name)


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
