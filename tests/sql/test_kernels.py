"""Kernels and copies of traces: families, matrix units, launches, queues; by hand and by HolisticTraceAnalysis."""

from __future__ import annotations

import statistics
from typing import Any

import pytest

from etq.errors import QueryError
from etq.warehouse.warehouse import Warehouse
from tests.launch_traces import FEW, OF_HTA, SHAPES, hta
from tests.sampling import thinned
from tests.trace_builders import event
from tests.traces import Traces

MUL = "void at::native::elementwise_kernel<128, 4, MulFunctor<float> >(int)"
ADD = "void at::native::vectorized_elementwise_kernel<4, CUDAFunctor_add<float> >(int)"
MEAN = "void at::native::reduce_kernel<512, 1, MeanOps<float> >(int)"
SGEMM = "ampere_sgemm_128x64_nn"
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


@pytest.mark.long
def test_a_share_is_unknown_if_that_of_more_than_a_tenth_is(traces: Traces) -> None:
    for length, share in ((10, 0), (12, None)):
        traces.take(*run("aten::mm", SGEMM, 0, 90, 1), *run("mine", "my_kernel", 200, length, 2), deviceProperties=H100)
        assert traces.ask("gpu_utilization", "tensor_cores_percent") == [(share,)]
        assert traces.ask("tensor_core_use", "tensor_percent, unknown_time") == [(share, length)]
        assert advises_tensor_cores(traces) == (share == 0)
        traces.warehouse.remove("t")


def advises_tensor_cores(traces: Traces) -> bool:
    return ("tensor cores",) in traces.ask("advice", "rule")


@pytest.mark.long
def test_tensor_cores_are_advised_from_a_twentieth_on(traces: Traces) -> None:
    """The op that could use them has 5 of 105 us, or 6 of 106."""
    for length, advised in ((5, False), (6, True)):
        traces.take(*run("aten::mm", SGEMM, 0, length, 1), *run("aten::mul", MUL, 20, 100, 2), deviceProperties=H100)
        assert advises_tensor_cores(traces) == advised
        traces.warehouse.remove("t")


@pytest.mark.long
def test_devices_of_amd_are_known_by_their_calls(traces: Traces) -> None:
    """Without a name, whether a device of AMD has matrix cores is unknown."""
    kernel = "Cijk_Ailk_Bljk_SB_MT64x64x16_SE_K1_TT4_4_WG16_16_1"
    for call, name, advised in (
        ("cudaLaunchKernel", "NVIDIA H100", True),
        ("hipLaunchKernel", "", False),
        ("hipLaunchKernel", "AMD Instinct MI300X", True),
        ("hipLaunchKernel", "AMD Instinct MI50", False),
    ):
        traces.take(*run("aten::mm", kernel, 0, 90, 1, call=call), deviceProperties=[NAMELESS[0] | {"name": name}])
        assert advises_tensor_cores(traces) == advised, name
        traces.warehouse.remove("t")


def test_chains_by_hand(traces: Traces) -> None:
    """A product, a copy, another stream's kernel in the middle of a stream and torch.compile's kernels end a chain."""
    traces.take(
        *run("aten::mul", MUL, 0, 10, 1),
        *run("aten::add", ADD, 20, 4, 2),
        *run("aten::mm", SGEMM, 40, 50, 3),
        *run("aten::mul", MUL, 100, 8, 4),
        *run("aten::relu", MUL, 105, 1, 5, stream=8),  # of another stream: the chain goes on
        *run("aten::add", ADD, 120, 6, 6), event("gpu_memcpy", "Memcpy DtoD", 130, 131, 7, device=0, stream=7),
        *run("aten::add", ADD, 140, 5, 7), *run("triton", "triton_poi_fused_add_0", 160, 5, 8),
        *run("aten::pow", ADD, 180, 2, 9), *run("aten::mean", MEAN, 190, 6, 10), *run("aten::mul", MUL, 200, 2, 11),
    )  # fmt: skip
    # All kernels and the copy: 10 + 4 + 50 + 8 + 1 + 6 + 1 + 5 + 5 + 2 + 6 + 2 = 100 us.
    columns = "sequence, kernels, calls, total, saves_at_most, share_percent"
    assert traces.ask("fusable_chains", columns, unit="us") == [
        ("aten::mul | aten::add", 2, 2, 28, 10, 10),
        ("aten::pow | aten::mean | aten::mul", 3, 1, 10, 4, 4),
    ]


def test_an_op_in_place_begins_another_chain(traces: Traces) -> None:
    """Where it runs again: gradients of several parameters are accumulated, and each is updated, for itself."""
    ops = ("add_",) * 3 + ("sum",) + ("mul_", "add_", "mul_", "add_")
    made = [run(f"aten::{op}", ADD, 20 * at, 4, at + 1) for at, op in enumerate(ops)]
    traces.take(*(each for one in made for each in one))
    assert traces.ask("fusable_chains", "sequence, calls") == [
        ("aten::add_ | aten::sum | aten::mul_", 1),
        ("aten::add_ | aten::mul_", 1),
    ]


def test_a_chain_ends_with_its_step(traces: Traces) -> None:
    steps = [event("user_annotation", f"ProfilerStep#{i}", 100 * i, 100 * i + 90) for i in range(2)]
    traces.take(*steps, *run("aten::mul", MUL, 70, 5, 1), *run("aten::add", ADD, 110, 5, 2))
    assert traces.ask("fusable_chains") == []


@pytest.mark.long
def test_advice_of_a_plain_case(traces: Traces) -> None:
    """Nothing idle: the families, and the chains of ops. Of 100 us, 54 are elementwise; fusing saves 20. An annotation of
    the stream isn't work of a device.
    """
    work = [("aten::mul", MUL, 24), ("aten::add", ADD, 10), ("aten::add", ADD, 10), ("aten::mm", "nvjet_hsh_1", 46)]
    events: list[dict[str, Any]] = []
    at = 100.0
    for number, (op, kernel, length) in enumerate([*work, ("aten::mul", MUL, 10)], 1):
        op_event, call, device = run(op, kernel, number * 5, length, number)
        events += [op_event, call, device | {"ts": at}]
        at += length
    traces.take(*events, event("gpu_user_annotation", "forward", 100, 200, 7))
    columns = "rule, severity, finding, time_at_stake, share_percent, remedy"
    rows = {rule: rest for rule, *rest in traces.ask("advice", columns, unit="us")}
    assert rows["device time"][:4] == ["low", "Time of devices: 54 % elementwise, 46 % GEMM.", 54, 54]
    found = "Kernels that compute element by element or reduce follow each other: 3 kernels in 1 chain."
    assert rows["fusable kernels"][:4] == ["high", found, 20, 20]
    assert "torch.compile" in rows["fusable kernels"][4] and "20.0 us" in rows["fusable kernels"][4]


@pytest.mark.parametrize("name", ["multimem_all_reduce_kernel", "void vllm::cross_device_reduce_2stage<half>(P)"])
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


# The launches that HolisticTraceAnalysis counts.
OF_STATISTICS = ("cudaLaunchKernel", "cudaLaunchKernelExC", "cudaMemcpyAsync", "cudaMemsetAsync")
WITHOUT_GRAPHS = [name for name in OF_HTA if name not in ("training 0", "training 1")]


def test_launches_by_hand(launch_traces: Warehouse) -> None:
    """In the planted trace: the first kernel, the one that takes 5 ms to launch, and the queue of the first two."""
    rows = launch_traces.rows("""
        SELECT l.event, l.start, l.call_duration, l.launch_delay, l.latency, l.duration, l.is_short
        FROM kernel_launches('planted') AS l
        WHERE l.event IN ('first', 'lazy')
    """)[1]
    assert rows == [("first", 7, 4, 2, 6, 100, False), ("lazy", 10578, 5000, 5, 5005, 20, True)]
    lengths = "SELECT q.at, q.change, q.length FROM queue_lengths('planted') AS q WHERE q.stream = 7 LIMIT 4"
    assert launch_traces.rows(lengths)[1] == [(1, 1, 1), (6, 1, 2), (7, -1, 1), (108, -1, 0)]


def test_a_graph_is_one_call_of_many_events(launch_traces: Warehouse) -> None:
    """A kernel of a graph is short where it takes less than its part of the call."""
    events = SHAPES["training 0"]().events
    calls = [each for each in events if each["name"] == "cudaGraphLaunch"]
    kernels = [
        [each for each in events if each["args"].get("correlation") == call["args"]["correlation"] and each is not call]
        for call in calls
    ]
    short = sum(each["dur"] * len(of) < call["dur"] for call, of in zip(calls, kernels, strict=True) for each in of)
    row = (len(calls), sum(map(len, kernels)), sum(each["dur"] for each in calls), short)
    columns = "t.calls, t.events, t.call_time, t.short_events"
    query = f"SELECT {columns} FROM launch_totals('training 0') AS t WHERE t.call = 'cudaGraphLaunch'"
    assert launch_traces.rows(query)[1] == [row]
    query = "SELECT l.is_short FROM kernel_launches('training 0') AS l WHERE l.call = 'cudaGraphLaunch'"
    assert sum(is_short for (is_short,) in launch_traces.rows(query)[1]) == short
    assert row[1] > row[0] == 3


@pytest.mark.parametrize("name", thinned(OF_HTA, FEW))
def test_launches_equal_hta(launch_traces: Warehouse, name: str) -> None:
    query = "SELECT l.call, l.correlation_id, l.call_duration, l.duration, l.launch_delay FROM kernel_launches($c) AS l"
    found = [row[1:] for row in launch_traces.rows(query, c=name)[1] if row[0] in OF_STATISTICS]
    expected = [
        (each["correlation"], each["cpu_duration"], each["gpu_duration"], each["launch_delay"])
        for each in hta(name)["launches"]
    ]
    assert sorted(found) == sorted(expected)


@pytest.mark.parametrize("name", thinned(WITHOUT_GRAPHS, FEW))
def test_queues_equal_hta(launch_traces: Warehouse, name: str) -> None:
    """The summary, too. HTA doesn't count the launches of graphs, and orders simultaneous changes at random."""
    query = "SELECT q.stream, q.at, q.length FROM queue_lengths($c) AS q"
    expected = [(each["stream"], each["ts"], each["queue_length"]) for each in hta(name)["queues"]]
    found = launch_traces.rows(query, c=name)[1]
    assert {row[:2]: row[2] for row in found} == {row[:2]: row[2] for row in expected}
    if len({row[:2] for row in expected}) < len(expected):
        return
    assert found == expected
    summary = """
        SELECT s.stream, s.changes, s.mean, s.stddev, s.min, s.p25, s.p50, s.p75, s.max
        FROM queue_summary($c) AS s
    """
    columns = ("stream", "count", "mean", "std", "min", "25%", "50%", "75%", "max")
    summaries = launch_traces.rows(summary, c=name)[1]
    # It is stored with ten digits.
    assert [*map(list, summaries)] == [
        [pytest.approx(each[column], rel=1e-9, abs=1e-9) for column in columns] for each in hta(name)["queue_summary"]
    ]
    for stream, *_, deviation in (row[:4] for row in summaries):
        lengths = [length for each, _, length in expected if each == stream]
        assert deviation == pytest.approx(statistics.stdev(lengths), rel=1e-12)


COLUMNS = "kernels, kernel_time, tensor_time, tensor_percent, missed_time, missed_percent"


def launched_on(
    kernel: str, at: float, length: float, correlation: int, device: int = 0, wait: float = 20
) -> list[dict[str, Any]]:
    return [
        event("cuda_runtime", "cudaLaunchKernel", at, at + 1, correlation=correlation),
        event("kernel", kernel, at + wait, at + wait + length, 7, correlation=correlation, device=device),
    ]


@pytest.mark.long
def test_tensor_core_use(traces: Traces) -> None:
    traces.take(
        event("user_annotation", "ProfilerStep#3", 0, 100),
        # Of the convolution's kernels, only that of the innermost op that could use tensor cores counts.
        event("cpu_op", "aten::_convolution", 1, 20),
        event("cpu_op", "aten::cudnn_convolution", 2, 10),
        *launched_on("cudnn_tensorop_conv", 4, 30, 1),
        *launched_on(
            "void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float> >(int)", 12, 5, 2, wait=42
        ),
        event("cpu_op", "aten::mm", 40, 50), *launched_on("ampere_sgemm_64x32_nn", 42, 10, 3),
        event("user_annotation", "ProfilerStep#4", 100, 200), event("cpu_op", "aten::mm", 101, 110),
        *launched_on("volta_h884gemm", 102, 40, 4, device=1), event("cpu_op", "aten::relu", 120, 130),
        *launched_on("relu_kernel", 122, 10, 5),
        # Communication and copies are not computation. A kernel that no op launched has no op.
        *launched_on("ncclDevKernel_AllReduce", 140, 9, 6),
        event("gpu_memcpy", "Memcpy HtoD", 180, 190, 7, device=0),
        *launched_on("reduce_kernel", 150, 1, 8),
    )  # fmt: skip
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
        ("aten::mm", 50, 40, 10), ("aten::cudnn_convolution", 30, 30, 0), ("aten::relu", 10, 0, 0),
        ("aten::_convolution", 5, 0, 0), (None, 1, 0, 0),
    ]  # fmt: skip
    with pytest.raises(QueryError, match="by must be device, step or op, not x"):
        traces.ask("tensor_core_use", by="x")


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


@pytest.mark.long
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
        *copied(4, 90, None), *copied(5, 120, "-1"), *copied(6, 150, "many"), *copied(7, 180, [1]), *copied(8, 210, 2**63),
        # A kernel has none, whatever its call has.
        event("cuda_runtime", "hipLaunchKernel", 240, 244, correlation=9, size="12"),
        event("kernel", "gemm", 245, 250, 0, correlation=9, device=2, stream=0),
    )  # fmt: skip
    sizes = [2560, 4096, 80, None, None, None, None, None]
    assert traces.ask("copies", "bytes") == [(size,) for size in sizes]
    assert traces.ask("copy_totals", "calls, bytes, bandwidth_gb_per_s") == [(8, 6736, pytest.approx(6736 / 30 / 1000))]
    kernels = "SELECT count(*) FROM device_events AS d WHERE d.bytes IS NOT NULL"
    assert traces.warehouse.rows(kernels)[1] == [(3,)]


def test_kernels_by_annotation(traces: Traces) -> None:
    """The innermost annotation around the launch counts, whatever ops are between; then the step, then none."""
    traces.take(
        event("user_annotation", "ProfilerStep#1", 0, 100), event("user_annotation", "outer", 5, 60),
        event("user_annotation", "inner", 10, 30), event("cpu_op", "aten::mm", 12, 28),
        *launch(1, 14, 4, "gemm", 20, 40), *launch(2, 40, 4, "gemm", 45, 50), *launch(3, 70, 4, "gemm", 75, 78),
        *launch(4, 110, 4, "gemm", 120, 121), event("kernel", "not_launched", 130, 132, 7, device=0, stream=7),
    )  # fmt: skip
    assert traces.ask("annotation_kernels", "annotation, event, calls, total, per_call") == [
        ("inner", "gemm", 1, 20, 20), ("outer", "gemm", 1, 5, 5), ("ProfilerStep*", "gemm", 1, 3, 3),
        (None, "not_launched", 1, 2, 2), (None, "gemm", 1, 1, 1),
    ]  # fmt: skip
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


def test_the_time_in_which_a_queue_is_full_or_empty(traces: Traces) -> None:
    """One event waits from 0 to 10, from 50 to 70 and from 100 to 110, two to 20 and from 30 to 50, three from 20 to 30."""
    work = ((0, 30), (10, 50), (20, 70), (100, 110))
    traces.take(*(each for n, (at, start) in enumerate(work, 1) for each in launch(n, at, 4, "a", start, start + 5)))
    columns = "full_time, empty_time, empty_percent, time_mean"
    for length, time in ((1, 80), (2, 40), (3, 10), (4, 0)):
        [row] = traces.ask("queue_summary", columns, full_length=length)
        assert row == (time, 30, pytest.approx(100 * 30 / 110), pytest.approx(130 / 110))
