"""Time in kernels with tensor cores, and in kernels without them of ops that could use them."""

from __future__ import annotations

from typing import Any

import pytest

from etq.errors import QueryError
from etq.warehouse.warehouse import Warehouse
from tests.conftest import CAPTURES
from tests.trace_builders import event
from tests.traces import Traces

COLUMNS = "kernels, kernel_time, tensor_time, tensor_percent, missed_time, missed_percent"


def launched(
    kernel: str, at: float, length: float, correlation: int, device: int = 0, wait: float = 20
) -> list[dict[str, Any]]:
    return [
        event("cuda_runtime", "cudaLaunchKernel", at, at + 1, correlation=correlation),
        event("kernel", kernel, at + wait, at + wait + length, 7, correlation=correlation, device=device),
    ]


def test_by_hand(traces: Traces) -> None:
    traces.take(
        event("user_annotation", "ProfilerStep#3", 0, 100),
        # Of the convolution's kernels, only that of the innermost op that could use tensor cores counts.
        event("cpu_op", "aten::_convolution", 1, 20),
        event("cpu_op", "aten::cudnn_convolution", 2, 10),
        *launched("cudnn_tensorop_conv", 4, 30, 1),
        *launched(
            "void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float> >(int)", 12, 5, 2, wait=42
        ),
        event("cpu_op", "aten::mm", 40, 50),
        *launched("ampere_sgemm_64x32_nn", 42, 10, 3),
        event("user_annotation", "ProfilerStep#4", 100, 200),
        event("cpu_op", "aten::mm", 101, 110),
        *launched("volta_h884gemm", 102, 40, 4, device=1),
        event("cpu_op", "aten::relu", 120, 130),
        *launched("relu_kernel", 122, 10, 5),
        # Communication and copies are not computation. A kernel that no op launched has no op.
        *launched("ncclDevKernel_AllReduce", 140, 9, 6),
        event("gpu_memcpy", "Memcpy HtoD", 180, 190, 7, device=0),
        *launched("reduce_kernel", 150, 1, 8),
    )
    assert traces.ask("tensor_core_use", f"device, step, {COLUMNS}", by="step") == [
        (0, 3, 3, 45, 30, pytest.approx(100 * 30 / 45), 10, pytest.approx(100 * 10 / 45)),
        (0, 4, 2, 11, 0, 0, 0, 0),
        (1, 4, 1, 40, 40, 100, 0, 0),
    ]
    assert traces.ask("tensor_core_use", f"device, op, {COLUMNS}") == [
        (0, None, 5, 56, 30, pytest.approx(100 * 30 / 56), 10, pytest.approx(100 * 10 / 56)),
        (1, None, 1, 40, 40, 100, 0, 0),
    ]
    assert traces.ask("tensor_core_use", "op, kernel_time, tensor_time, missed_time", by="op") == [
        ("aten::mm", 50, 40, 10),
        ("aten::cudnn_convolution", 30, 30, 0),
        ("aten::relu", 10, 0, 0),
        ("aten::_convolution", 5, 0, 0),
        (None, 1, 0, 0),
    ]
    with pytest.raises(QueryError, match="by must be device, step or op, not x"):
        traces.ask("tensor_core_use", by="x")


def test_without_devices(warehouse: Warehouse) -> None:
    warehouse.ingest(CAPTURES / "torch/steps_7.pt.trace.json.gz", name="t")
    assert warehouse.rows("FROM tensor_core_use('t')")[1] == []


def test_backward_convolutions_could_use_them(traces: Traces) -> None:
    """Of 100 us without tensor cores, 19 are a convolution's and 45 its backward's."""
    work = [("aten::cudnn_convolution", 19), ("aten::convolution_backward", 45), ("aten::mul", 36)]
    events = [
        each
        for number, (op, length) in enumerate(work, 1)
        for each in (
            event("cpu_op", op, 10 * number, 10 * number + 8),
            event("cuda_runtime", "cudaLaunchKernel", 10 * number + 1, 10 * number + 3, correlation=number),
            event(
                "kernel", "volta_sgemm_128x64_nn", 100 * number, 100 * number + length, 7, correlation=number, device=0
            ),
        )
    ]
    traces.take(*events)
    assert traces.ask("tensor_core_use", "kernel_time, missed_time, missed_percent", unit="us") == [(100, 64, 64)]
