"""Which peaks apply to the names that traces give devices, by the makers' data sheets."""

from __future__ import annotations

import pytest

from etq.errors import QueryError
from etq.warehouse.warehouse import Warehouse
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


def test_peaks_by_names(warehouse: Warehouse) -> None:
    query = "SELECT bandwidth, p.peaks.matrix_fp16 FROM _trace_peaks(NULL, NULL, NULL, $name) AS p"
    for name, known in NAMES.items():
        if known is None:
            with pytest.raises(QueryError, match=f"no device is called {name} in device_peaks"):
                warehouse.rows(query, name=name)
        else:
            assert warehouse.rows(query, name=name)[1] == [pytest.approx((known[0] * 1e12, known[1] * 1e12))], name


def test_names_of_memory(traces: Traces) -> None:
    """By c10's DeviceType: CPU, CUDA, HIP, XPU, HPU, MTIA, and none that there is."""
    kinds = {0: "CPU", 1: "GPU2", 6: "GPU3", 12: "XPU1", 15: "HPU0", 19: "MTIA1", 77: "type 77:1"}
    places = {0: -1, 1: 2, 6: 3, 12: 1, 15: 0, 19: 1, 77: 1}
    traces.take(
        event("cpu_op", "aten::empty", 0, 90),
        *(memory(at, 64, 64, type=kind, device=places[kind]) for at, kind in enumerate(kinds, 1)),
    )
    assert {device for (device,) in traces.ask("memory_timeline", "device")} == {*kinds.values()}
