"""What devices' time is spent on: families of kernels, matrix units, chains that could be fused; worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from tests.trace_builders import event
from tests.traces import Traces

MUL = "void at::native::elementwise_kernel<128, 4, MulFunctor<float> >(int)"
ADD = "void at::native::vectorized_elementwise_kernel<4, CUDAFunctor_add<float> >(int)"
MEAN = "void at::native::reduce_kernel<512, 1, MeanOps<float> >(int)"
SGEMM = "ampere_sgemm_128x64_nn"
FLASH = "void flash::flash_fwd_kernel<Traits<cutlass::bfloat16_t> >(P)"
H100 = [{"id": 0, "name": "NVIDIA H100", "computeMajor": 9, "computeMinor": 0, "totalGlobalMem": 10**9}]
NAMELESS = [{"id": 0, "name": "", "computeMajor": 9, "computeMinor": 4, "totalGlobalMem": 10**9}]


def run(op: str, kernel: str, at: float, length: float, correlation: int, **arguments: Any) -> list[dict[str, Any]]:
    """An op of 2 us that launches a kernel, which starts 3 us after it."""
    call = arguments.pop("call", "cudaLaunchKernel")
    stream = arguments.pop("stream", 7)
    return [
        event("cpu_op", op, at, at + 2),
        event("cuda_runtime", call, at + 0.5, at + 1.5, correlation=correlation),
        event("kernel", kernel, at + 3, at + 3 + length, stream, correlation=correlation, device=0, stream=stream),
    ]


def test_families_by_hand(traces: Traces) -> None:
    traces.take(
        *run("aten::mul", MUL, 0, 10, 1),
        *run("aten::mm", SGEMM, 20, 30, 2),
        *run("aten::mm", "sm90_xmma_gemm_f16f16", 60, 10, 3),
        *run("mine", "my_kernel", 80, 5, 4),
        event("gpu_memcpy", "Memcpy HtoD", 90, 135, 7, device=0, stream=7),
    )
    columns = "family, names, calls, total, share_percent, tensor_percent, top_event"
    assert traces.ask("kernel_families", columns, unit="us") == [
        ("memcpy", 1, 1, 45, 45, 0, "Memcpy HtoD"),
        ("GEMM", 2, 2, 40, 40, 25, SGEMM),
        ("elementwise", 1, 1, 10, 10, 0, MUL),
        (None, 1, 1, 5, 5, None, "my_kernel"),
    ]


def test_the_share_of_tensor_cores_is_of_all_kernels(traces: Traces) -> None:
    """A graph's kernels have no op. Of 100 us, an op launched 10 us, which use tensor cores; those of 90 us don't."""
    graph = event("cuda_runtime", "cudaGraphLaunch", 20, 25, correlation=2)
    nodes = [event("kernel", MUL, at, at + 45, 7, correlation=2, device=0, stream=7) for at in (30, 80)]
    traces.take(*run("aten::mm", "sm90_xmma_gemm_f16f16", 0, 10, 1), graph, *nodes)
    assert traces.ask("gpu_utilization", "tensor_cores_percent") == [(10,)]
    assert traces.ask("tensor_core_use", "tensor_percent, unknown_time") == [(10, 0)]


@pytest.mark.parametrize(("length", "known"), [(10, True), (12, False)])
def test_a_share_is_unknown_if_that_of_more_than_a_tenth_is(traces: Traces, length: float, known: bool) -> None:
    traces.take(*run("aten::mm", SGEMM, 0, 90, 1), *run("mine", "my_kernel", 200, length, 2), deviceProperties=H100)
    assert traces.ask("gpu_utilization", "tensor_cores_percent") == [(0 if known else None,)]
    assert traces.ask("tensor_core_use", "tensor_percent, unknown_time") == [(0 if known else None, length)]
    rules = [rule for (rule,) in traces.ask("trace_recommendations", "rule")]
    assert ("tensor_cores" in rules) == known


@pytest.mark.parametrize(("length", "advised"), [(5, False), (6, True)])
def test_tensor_cores_are_advised_from_a_twentieth_on(traces: Traces, length: float, advised: bool) -> None:
    """The op that could use them has 5 of 105 us, or 6 of 106."""
    traces.take(*run("aten::mm", SGEMM, 0, length, 1), *run("aten::mul", MUL, 20, 100, 2), deviceProperties=H100)
    assert ("tensor_cores" in [rule for (rule,) in traces.ask("trace_recommendations", "rule")]) == advised


@pytest.mark.parametrize(
    ("call", "name", "advised"),
    [
        ("cudaLaunchKernel", "NVIDIA H100", True),
        ("hipLaunchKernel", "", False),  # whether the device has matrix cores is unknown
        ("hipLaunchKernel", "AMD Instinct MI300X", True),
        ("hipLaunchKernel", "AMD Instinct MI50", False),
    ],
)
def test_devices_of_amd_are_known_by_their_calls(traces: Traces, call: str, name: str, advised: bool) -> None:
    kernel = "Cijk_Ailk_Bljk_SB_MT64x64x16_SE_K1_TT4_4_WG16_16_1"
    traces.take(*run("aten::mm", kernel, 0, 90, 1, call=call), deviceProperties=[NAMELESS[0] | {"name": name}])
    assert ("tensor_cores" in [rule for (rule,) in traces.ask("trace_recommendations", "rule")]) == advised


def test_chains_by_hand(traces: Traces) -> None:
    """A product, a copy, another stream's kernel in the middle of a stream and torch.compile's kernels end a chain."""
    traces.take(
        *run("aten::mul", MUL, 0, 10, 1),
        *run("aten::add", ADD, 20, 4, 2),
        *run("aten::mm", SGEMM, 40, 50, 3),
        *run("aten::mul", MUL, 100, 8, 4),
        *run("aten::relu", MUL, 105, 1, 5, stream=8),  # of another stream: the chain goes on
        *run("aten::add", ADD, 120, 6, 6),
        event("gpu_memcpy", "Memcpy DtoD", 130, 131, 7, device=0, stream=7),
        *run("aten::add", ADD, 140, 5, 7),
        *run("triton", "triton_poi_fused_add_0", 160, 5, 8),
        *run("aten::pow", ADD, 180, 2, 9),
        *run("aten::mean", MEAN, 190, 6, 10),
        *run("aten::mul", MUL, 200, 2, 11),
    )
    # All kernels and the copy: 10 + 4 + 50 + 8 + 1 + 6 + 1 + 5 + 5 + 2 + 6 + 2 = 100 us.
    columns = "sequence, kernels, calls, total, saves_at_most, share_percent"
    assert traces.ask("fusable_chains", columns, unit="us") == [
        ("aten::mul | aten::add", 2, 2, 28, 10, 10),
        ("aten::pow | aten::mean | aten::mul", 3, 1, 10, 4, 4),
    ]


def test_a_chain_ends_with_its_step(traces: Traces) -> None:
    steps = [event("user_annotation", f"ProfilerStep#{i}", 100 * i, 100 * i + 90) for i in range(2)]
    traces.take(*steps, *run("aten::mul", MUL, 70, 5, 1), *run("aten::add", ADD, 110, 5, 2))
    assert traces.ask("fusable_chains") == []


def test_advice_of_a_plain_case(traces: Traces) -> None:
    """Nothing idle: the families, and the chains of ops. Of 100 us, 54 are elementwise; fusing saves 20."""
    events: list[dict[str, Any]] = []
    ticks = [
        ("aten::mul", MUL, 24),
        ("aten::add", ADD, 10),
        ("aten::add", ADD, 10),
        ("aten::mm", "nvjet_hsh_1", 46),
        ("aten::mul", MUL, 10),
    ]
    at = 100.0
    for number, (op, kernel, length) in enumerate(ticks, 1):
        op_event, call, device = run(op, kernel, number * 5, length, number)
        events += [op_event, call, device | {"ts": at}]
        at += length
    traces.take(*events)
    rows = {
        rule: rest
        for rule, *rest in traces.ask(
            "advice", "rule, severity, finding, time_at_stake, share_percent, remedy", unit="us"
        )
    }
    assert rows["device time"][:4] == ["low", "Time of devices: 54 % elementwise, 46 % GEMM.", 54, 54]
    severity, finding, saved, share, remedy = rows["fusable kernels"]
    assert (severity, saved, share) == ("high", 20, 20)
    assert finding == "Kernels that compute element by element or reduce follow each other: 3 kernels in 1 chain."
    assert "torch.compile" in remedy
    assert "20.0 us" in remedy


@pytest.mark.parametrize(
    "name",
    [
        "multimem_all_reduce_kernel",
        "ncclDevKernel_AllReduce",
        "void vllm::cross_device_reduce_2stage<half>(P)",
        "rcclGeneric",
    ],
)
def test_communication_is_what_overlap_calls_exposed(traces: Traces, name: str) -> None:
    """By hand: of 40 us of communication, a product covers 10; a copy covers 5 of the rest, which are exposed, too."""
    traces.take(
        event("user_annotation", "ProfilerStep#0", 0, 100),
        event("user_annotation", "nccl:all_reduce", 1, 20),  # on the host: not counted, as there are kernels
        *run("aten::mm", SGEMM, 7, 20, 1),  # 10 to 30
        *run("comm", name, 17, 40, 2, stream=8),  # 20 to 60
        event("gpu_memcpy", "Memcpy HtoD", 50, 55, 9, device=0, stream=9),
    )
    assert traces.ask("device_breakdown", "communication, exposed, overlapped", by="step", unit="us") == [(40, 30, 10)]
    assert traces.ask("wide_steps", "communication", unit="us") == [(30,)]
    assert traces.ask("work_totals", "type, total", unit="us")[0] == ("communication", 40)
