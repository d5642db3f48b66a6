"""Which peaks apply to the names that traces give devices, by the makers' data sheets."""

from __future__ import annotations

import pytest

from tests.trace_builders import event, memory
from tests.traces import Traces

# TB/s, and dense Tflop/s on float16 by tensor cores.
NAMES: dict[str, tuple[float, float] | None] = {
    "NVIDIA GH200 480GB": (4.0, 990),
    "NVIDIA GH200 144G HBM3e": (4.9, 990),
    "NVIDIA GB200": (8.0, 2500),
    "NVIDIA B200": (8.0, 2250),
    "NVIDIA H200": (4.8, 989.4),
    "NVIDIA H100 80GB HBM3": (3.352, 989.4),
    "NVIDIA H20": (4.0, 148),
    "NVIDIA H20-3e": (4.8, 148),
    "NVIDIA A10": (0.6, 125),
    "NVIDIA A10G": None,
    "NVIDIA A100-SXM4-80GB": (2.039, 312),
    "NVIDIA L4": (0.3, 121),
    "NVIDIA L40S": (0.864, 362.05),
    "NVIDIA L40": None,
    "Tesla T4": (0.32, 65),
    "Tesla V100-SXM2-16GB": (0.9, 125),
    "Tesla V100-PCIE-32GB": (0.9, 112),
    "Tesla V100S-PCIE-32GB": (1.134, 130),
    "AMD Instinct MI300X": (5.325, 1307.4),
}


@pytest.mark.parametrize("name", NAMES)
def test_peaks_by_names(traces: Traces, name: str) -> None:
    """A product of 1024 x 1024 matrices, which has 2**31 operations and 6 MiB, on tensor cores in 100 us."""
    tensors = {"Input Dims": [[1024, 1024]] * 2, "Input type": ["c10::Half"] * 2}
    traces.take(
        event("cpu_op", "aten::mm", 0, 9) | {"args": tensors},
        event("cuda_runtime", "cudaLaunchKernel", 1, 2, correlation=1),
        event("kernel", "ampere_fp16_s16816gemm_fp16_128x128", 20, 120, 7, correlation=1, device=0),
        deviceProperties=[{"id": 0, "name": name}],
    )
    [(peak, roof)] = traces.ask("op_efficiency", "peak_flops / 1e12, roof_percent")
    known = NAMES[name]
    if known is None:
        assert (peak, roof) == (None, None)
        return
    bandwidth, flops = known
    assert peak == pytest.approx(flops)
    assert roof == pytest.approx(max(2**31 / (flops * 1e12), 6 * 2**20 / (bandwidth * 1e12)) * 1e6)


def test_names_of_memory(traces: Traces) -> None:
    """By c10's DeviceType: CPU, CUDA, HIP, XPU, HPU, MTIA, and none that there is."""
    kinds = {0: "CPU", 1: "GPU2", 6: "GPU3", 12: "XPU1", 15: "HPU0", 19: "MTIA1", 77: "type 77:1"}
    places = {0: -1, 1: 2, 6: 3, 12: 1, 15: 0, 19: 1, 77: 1}
    traces.take(
        event("cpu_op", "aten::empty", 0, 90),
        *(memory(at, 64, 64, type=kind, device=places[kind]) for at, kind in enumerate(kinds, 1)),
    )
    assert {device for (device,) in traces.ask("memory_timeline", "device")} == {*kinds.values()}
