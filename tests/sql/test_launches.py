"""Launches without kernels: recorded into a graph, lost, or of unknown kernels."""

from __future__ import annotations

from typing import Any

import pytest

from tests.sql.test_trace_views import ops
from tests.trace_builders import event
from tests.traces import Traces

ENGINE = "autograd::engine::evaluate_function: MmBackward0"
Events = list[dict[str, Any]]


def call(name: str, at: int, number: int, thread: int = 1, category: str = "cuda_runtime") -> dict[str, Any]:
    return event(category, name, at, at + 2, thread, correlation=number)


def begin(at: int, name: str = "cudaStreamBeginCapture", thread: int = 1) -> dict[str, Any]:
    return call(name, at, 1000 + at, thread)


def end(at: int, name: str = "cudaStreamEndCapture", thread: int = 1) -> dict[str, Any]:
    return call(name, at, 1000 + at, thread)


def launch(at: int, name: str = "cudaLaunchKernel", thread: int = 1) -> Events:
    """An op that launches what is not recorded."""
    return [event("cpu_op", "aten::mm", at, at + 6, thread), call(name, at + 2, at, thread)]


def ran(at: int, thread: int = 1) -> Events:
    """An op that launches a kernel."""
    kernel = event("kernel", "gemm", at + 8, at + 18, 7, device=0, stream=7, correlation=at)
    return [*launch(at, thread=thread), kernel]


def backward(at: int) -> Events:
    """A launch of the thread of the backward pass."""
    return [event("cpu_op", ENGINE, at - 1, at + 8, 2), *launch(at, thread=2)]


def found(traces: Traces, *events: Any) -> tuple[int, int, list[str]]:
    """The launches recorded into a graph, those whose kernels are missing or unknown, and the findings' first words."""
    traces.take(*events)
    counts = """
        SELECT count(e.captured_launches), count(e.lost_launches) FROM trace_events AS e
        JOIN event_ticks USING (capture_id, run_index, event_index) JOIN signatures USING (capture_id, signature_index)
        WHERE activity = 'call'
    """
    [(captured, lost)] = traces.warehouse.rows(counts)[1]
    words = traces.warehouse.rows("SELECT left(detail, 6) FROM findings WHERE rule IN ('lost kernels', 'shared ids')")[
        1
    ]
    return captured, lost, [row[0] for row in words]


CAPTURES: dict[str, tuple[Events, int, int]] = {
    "plain": ([begin(10), *launch(20), *launch(40), end(60)], 2, 0),
    "versions": ([begin(10, "cuStreamBeginCapture_v2"), *launch(20, "cuLaunchKernelEx"), end(60, "cuStreamEndCapture")], 1, 0),
    "HIP": (
        [begin(10, "hipStreamBeginCapture"), *launch(20, "hipExtModuleLaunchKernel"), end(60, "hipStreamEndCapture")], 1, 0,
    ),
    "before and after": ([*launch(2), begin(10), *launch(20), end(60), *launch(70)], 1, 2),
    "two": ([begin(10), *launch(20), end(30), *launch(40), begin(50), *launch(60), end(70)], 2, 1),
    "nested": ([begin(10), begin(15), *launch(20), end(30), *launch(40), end(60), *launch(70)], 2, 1),
    "runtime and driver": ([begin(10), begin(11, "cuStreamBeginCapture"), *launch(20), end(60), end(61, "cuStreamEndCapture")], 1, 0),
    "unfinished": ([*launch(2), begin(10), *launch(20), *launch(40)], 2, 1),
    "end not recorded": ([begin(10), *launch(20), call("cudaGraphInstantiate", 50, 1), *launch(60)], 1, 1),
    "begin not recorded": ([*launch(2), call("cudaDeviceSynchronize", 10, 1), *launch(20), end(60), *launch(70)], 1, 2),
    "ended by another thread": ([begin(10), *launch(20), *launch(30, thread=3), end(60, thread=3), *launch(70)], 2, 1),
    "another thread": ([begin(10), *launch(20), *launch(30, thread=3), end(60)], 1, 1),
    "another thread runs on": ([begin(10), *launch(20), *ran(30, thread=3), end(60)], 1, 0),
    "backward pass": ([begin(10), *launch(20), *backward(30), end(60), *backward(70)], 2, 1),
    "another stream": ([begin(10), *launch(20), *ran(30), end(60)], 1, 0),
}  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("name", CAPTURES)
def test_launches_that_a_graph_records_are_not_lost(traces: Traces, name: str) -> None:
    events, captured, lost = CAPTURES[name]
    ran = sum(each["cat"] == "kernel" for each in events)
    assert found(traces, *events) == (captured, lost, [f"{lost} of {lost + ran}"] if lost else [])


@pytest.mark.parametrize(
    ("category", "name"),
    [
        ("xpu_runtime", "urEnqueueKernelLaunch"),
        ("xpu_runtime", "urEnqueueKernelLaunchWithArgsExp"),
        ("xpu_driver", "zeCommandListAppendLaunchKernelIndirect"),
        ("mtia_runtime", "runFunction - job_prep_and_submit_for_execution"),
        ("privateuse1_runtime", "aclrtLaunchKernelWithConfig"),
        ("hpu_runtime", "synLaunchExt"),
    ],
)
def test_launches_of_any_runtime_may_be_lost(traces: Traces, category: str, name: str) -> None:
    """Of an op nothing but a copy was recorded; what only prepares a launch is none."""
    events = [
        event("cpu_op", "aten::mm", 0, 50),
        call(name, 5, 3, category=category),
        call("urKernelGetLaunchInfo", 20, 5, category=category),
        call("urEnqueueUSMMemcpy", 30, 4, category=category),
        event("gpu_memcpy", "Memcpy M2D", 40, 60, 7, device=0, stream=7, correlation=4),
    ]
    assert found(traces, *events) == (0, 1, ["1 of 1"])


def shared(ids: tuple[int, int], kernels: tuple[int, int], hosts: tuple[int, int] = (100, 100)) -> Events:
    """Two launches, and two kernels of 30 and 10 us; all with an id and the external id of the first op."""
    made: Events = []
    for op, at, number, host in zip(("aten::mm", "aten::relu"), (10, 40), ids, hosts, strict=True):
        made.append(event("cpu_op", op, at, at + 9, external=at))
        made.append(event("cuda_runtime", "hipLaunchKernel", at + 2, at + 4, external=at, correlation=number))
        made[-2]["pid"] = made[-1]["pid"] = host
    for number, (start, length, stream) in zip(kernels, ((50, 30, 7), (55, 10, 8)), strict=True):
        ids_of = {"external": 10, "correlation": number, "device": 0, "stream": stream}
        made.append(event("kernel", f"kernel_{stream}", start, start + length, stream, **ids_of))
    return made


@pytest.mark.long
@pytest.mark.parametrize(
    "events",
    [shared((1, 2), (1, 1)), shared((1, 1), (1, 1)), shared((2, 1), (1, 1)), shared((1, 1), (1, 1), (100, 101))],
    ids=["one of two", "repeated", "the other", "of two processes"],
)
@pytest.mark.parametrize("order", [1, -1])
def test_kernels_of_one_id_are_of_no_op(traces: Traces, events: Events, order: int) -> None:
    """Which of the two launched which is unknown, but neither is lost, and the time stays in the trace."""
    assert found(traces, *events[::order]) == (0, 2, ["2 kern"])
    assert {name: time for name, time in ops(traces).items() if name != "kernel"} == {
        "aten::mm": None,
        "aten::relu": None,
    }
    assert traces.ask("kernel_table", "sum(total)") == [(40,)]


@pytest.mark.parametrize(("name", "ids"), [("hipLaunchKernel", (1, 2)), ("hipGraphLaunch", (1, 1))])
def test_ids_that_tell_are_used(traces: Traces, name: str, ids: tuple[int, int]) -> None:
    """Each kernel has its launch; the launch of a graph has many kernels."""
    made = [each | {"name": name} if each["name"].startswith("hip") else each for each in shared(ids, ids)]
    assert found(traces, *made) == (0, 0, [])
    assert ops(traces) == ({"aten::mm": 30, "aten::relu": 10} if ids == (1, 2) else {"aten::mm": 0, "aten::relu": 40})


def of_process(process: int, *events: dict[str, Any]) -> Events:
    return [{**each, "pid": process} for each in events]


def work(category: str, at: int, number: int) -> dict[str, Any]:
    return event(category, category, at, at + 10, 7, device=0, stream=7, correlation=number)


LATER = of_process(200, event("cpu_op", "aten::relu", 10, 20), call("cudaLaunchKernel", 12, 3))
SHARED: dict[str, tuple[Events, list[str | None]]] = {
    "a kernel and a copy": ([*launch(3), work("kernel", 30, 3), work("gpu_memcpy", 50, 3)], [None, None]),
    "a copy's own": (
        [event("cpu_op", "aten::copy_", 0, 9), call("cudaMemcpyAsync", 2, 3), work("gpu_memcpy", 20, 3), work("kernel", 40, 3)],
        ["aten::copy_", None],
    ),
    "two processes, one kernel": ([*of_process(100, *launch(3)), *LATER, *of_process(0, work("kernel", 30, 3))], [None]),
    "before the other's launch": ([*of_process(100, *launch(3)), *LATER, *of_process(0, work("kernel", 7, 3))], ["aten::mm"]),
    "two processes, two kernels": (
        [*of_process(100, *launch(3)), *LATER, *of_process(0, work("kernel", 7, 3), work("kernel", 30, 3))],
        ["aten::mm", "aten::relu"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SHARED)
def test_work_whose_id_is_of_several_is_of_no_op(traces: Traces, name: str) -> None:
    events, owners = SHARED[name]
    traces.take(*events)
    query = """
        SELECT o.name FROM device_events AS d
        JOIN event_ticks AS e USING (capture_id, run_index, event_index)
        JOIN signatures AS s USING (capture_id, signature_index)
        LEFT JOIN event_ticks AS p ON p.event_index = d.op_index LEFT JOIN signatures AS o ON o.signature_index = p.signature_index
        WHERE s.activity IN ('kernel', 'copy') ORDER BY e.start_ticks
    """
    assert [row[0] for row in traces.warehouse.rows(query)[1]] == owners
