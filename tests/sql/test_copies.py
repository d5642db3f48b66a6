"""Copies, sequences of kernels, kernels by annotation and full queues of traces, by hand."""

from __future__ import annotations

from typing import Any

import pytest

from tests.trace_builders import event
from tests.traces import Traces

PAGEABLE = "Memcpy HtoD (Pageable -> Device)"
PINNED = "Memcpy HtoD (Pinned -> Device)"


def launch(number: int, at: int, takes: int, name: str, start: int, end: int, **given: Any) -> list[dict[str, Any]]:
    """A call and the event of stream 7 that it launches."""
    kind = "gpu_memcpy" if name.startswith("Memcpy") else "gpu_memset" if name.startswith("Memset") else "kernel"
    call = {"kernel": "cudaLaunchKernel", "gpu_memcpy": "cudaMemcpyAsync", "gpu_memset": "cudaMemsetAsync"}[kind]
    return [
        event("cuda_runtime", call, at, at + takes, correlation=number),
        event(kind, name, start, end, 7, correlation=number, device=0, stream=7, **given),
    ]


def test_copies(traces: Traces) -> None:
    """The call of the first returns when it has ended. 5,000 bytes in 10 us are 0.5 GB/s."""
    traces.take(
        *launch(1, 0, 30, PAGEABLE, 10, 20, bytes=4000, **{"memory bandwidth (GB/s)": 0.4}),
        *launch(2, 40, 5, PINNED, 50, 54, bytes=1000, **{"memory bandwidth (GB/s)": 0.25}),
        *launch(3, 46, 5, PINNED, 60, 66, bytes=4000, **{"memory bandwidth (GB/s)": 0.75}),
        *launch(4, 70, 5, "Memset (Device)", 80, 82),
        event("gpu_memcpy", PINNED, 90, 95, 7, device=0, stream=7),
        *launch(5, 96, 5, "gemm", 110, 120),
    )
    columns = "event, call, start, duration, bytes, bandwidth_gb_per_s, is_pageable, is_synchronous"
    copy, fill = "cudaMemcpyAsync", "cudaMemsetAsync"
    assert traces.ask("copies", columns) == [
        (PAGEABLE, copy, 10, 10, 4000, 0.4, True, True),
        (PINNED, copy, 50, 4, 1000, 0.25, False, False),
        (PINNED, copy, 60, 6, 4000, 0.75, False, False),
        ("Memset (Device)", fill, 80, 2, None, None, False, False),
        (PINNED, None, 90, 5, None, None, False, None),
    ]
    sizes = "event, calls, bytes, min_bytes, mean_bytes, max_bytes, total, synchronous_calls"
    assert traces.ask("copy_totals", sizes) == [
        (PINNED, 3, 5000, 1000, 2500, 4000, 15, 0),
        (PAGEABLE, 1, 4000, 4000, 4000, 4000, 10, 1),
        ("Memset (Device)", 1, None, None, None, None, 2, 0),
    ]
    rates = "bandwidth_gb_per_s, min_gb_per_s, mean_gb_per_s, max_gb_per_s"
    assert traces.ask("copy_totals", rates) == [(0.5, 0.25, 0.5, 0.75), (0.4,) * 4, (None,) * 4]
    assert traces.ask("copy_totals", "steps, per_step, bytes_per_step") == [(None, None, None)] * 3


def test_copies_of_a_step(traces: Traces) -> None:
    steps = [event("user_annotation", f"ProfilerStep#{step}", 40 * step, 40 * step + 40) for step in range(2)]
    traces.take(*steps, *launch(1, 0, 30, PINNED, 10, 20, bytes=4000), *launch(2, 50, 5, PINNED, 60, 66, bytes=1000))
    assert traces.ask("copy_totals", "steps, per_step, bytes_per_step") == [(2, 8, 2500)]


def test_sizes_of_calls(traces: Traces) -> None:
    """ROCm's copies have no bytes; the calls that launched them have their sizes, as texts."""

    def copied(number: int, at: int, size: Any, **given: Any) -> list[dict[str, Any]]:
        sizes = {} if size is None else {"size": size}
        return [
            event("cuda_runtime", "hipMemcpyWithStream", at, at + 20, correlation=number, kind="1", **sizes),
            event(
                "gpu_memcpy", PINNED, at + 5, at + 15, 0, correlation=number, device=2, stream=0, kind="HtoD", **given
            ),
        ]

    traces.take(
        *copied(1, 0, "2560"),
        *copied(2, 30, 4096),
        # Its own size goes before that of the call.
        *copied(3, 60, "70", bytes=80),
        *copied(4, 90, None),
        *copied(5, 120, "-1"),
        *copied(6, 150, "many"),
        *copied(7, 180, [1]),
        *copied(8, 210, 2**63),
        # A kernel has none, whatever its call has.
        event("cuda_runtime", "hipLaunchKernel", 240, 244, correlation=9, size="12"),
        event("kernel", "gemm", 245, 250, 0, correlation=9, device=2, stream=0),
    )
    sizes = [2560, 4096, 80, None, None, None, None, None]
    assert traces.ask("copies", "bytes") == [(size,) for size in sizes]
    assert traces.ask("copy_totals", "calls, bytes, bandwidth_gb_per_s") == [(8, 6736, pytest.approx(6736 / 30 / 1000))]
    kernels = "SELECT count(*) FROM device_events AS d WHERE d.bytes IS NOT NULL"
    assert traces.warehouse.rows(kernels)[1] == [(3,)]


def test_kernels_by_annotation(traces: Traces) -> None:
    """The innermost annotation around the launch counts, whatever ops are between; then the step, then none."""
    traces.take(
        event("user_annotation", "ProfilerStep#1", 0, 100),
        event("user_annotation", "outer", 5, 60),
        event("user_annotation", "inner", 10, 30),
        event("cpu_op", "aten::mm", 12, 28),
        *launch(1, 14, 4, "gemm", 20, 40),
        *launch(2, 40, 4, "gemm", 45, 50),
        *launch(3, 70, 4, "gemm", 75, 78),
        *launch(4, 110, 4, "gemm", 120, 121),
        event("kernel", "not_launched", 130, 132, 7, device=0, stream=7),
    )
    assert traces.ask("annotation_kernels", "annotation, event, calls, total, mean") == [
        ("inner", "gemm", 1, 20, 20),
        ("outer", "gemm", 1, 5, 5),
        ("ProfilerStep*", "gemm", 1, 3, 3),
        (None, "not_launched", 1, 2, 2),
        (None, "gemm", 1, 1, 1),
    ]
    launches = traces.ask("kernel_launches", "op, annotation, start")
    assert launches == [
        ("aten::mm", "inner", 20), (None, "outer", 45), (None, "ProfilerStep#1", 75), (None, None, 120),
    ]  # fmt: skip


def test_sequences(traces: Traces) -> None:
    """Of the outermost ops, or of those that are requested; in the order in which they ran."""
    made = []
    for number, (at, names) in enumerate(((0, "aba"), (100, "aba"), (200, "ab"))):
        made.append(event("cpu_op", "aten::linear", at, at + 50))
        made.append(event("cpu_op", "aten::addmm", at + 1, at + 20 + number))
        for place, name in enumerate(names):
            start = at + 60 + 10 * place
            made += launch(10 * number + place + 1, at + 2 + 6 * place, 4, name, start, start + 5)
    # Another thread launches meanwhile, outside of any op.
    made.append(event("cuda_runtime", "cudaLaunchKernel", 5, 9, 2, correlation=90))
    made.append(event("kernel", "other", 70, 71, 20, correlation=90, device=0, stream=20))
    traces.take(*made)
    columns = "op, sequence, length, calls, device_time, host_time"
    linear = ("aten::linear", "a | b | a", 3, 2, 30, 100)
    assert traces.ask("kernel_sequences", columns) == [linear]
    assert traces.ask("kernel_sequences", columns, min_length=2) == [linear, ("aten::linear", "a | b", 2, 1, 10, 50)]
    assert traces.ask("kernel_sequences", columns, op="aten::addmm", min_length=2) == [
        ("aten::addmm", "a | b | a", 3, 2, 30, 39),
        ("aten::addmm", "a | b", 2, 1, 10, 21),
    ]
    assert traces.ask("kernel_sequences", columns, op="aten::none") == []


def test_the_time_in_which_a_queue_is_full(traces: Traces) -> None:
    """Two events wait from 10 to 20 and from 30 to 50, three from 20 to 30."""
    traces.take(*launch(1, 0, 4, "a", 30, 40), *launch(2, 10, 4, "b", 50, 60), *launch(3, 20, 4, "c", 70, 80))
    for length, time in ((1, 70), (2, 40), (3, 10), (4, 0)):
        assert traces.ask("queue_summary", "full_time", full_length=length) == [(time,)]
    assert traces.ask("queue_summary", "full_time") == [(0,)]
