"""Whose time work of a device is, where processes, ranks and threads of the host are several; by hand."""

from __future__ import annotations

import json
from typing import Any

import pytest

from etq.warehouse.warehouse import Warehouse
from tests.conftest import shared_file
from tests.trace_builders import event
from tests.traces import Traces

OF_OPS = "SELECT k.name, k.self_device_time FROM key_averages($c) AS k WHERE starts_with(k.name, 'aten::') ORDER BY 1"


def launched(op: str, at: float, length: float, number: int, host: Any, device: Any) -> list[dict[str, Any]]:
    """An op of one kernel; `host` and `device` are the processes that the file names."""
    return [
        event("cpu_op", op, at, at + 8, external=number) | {"pid": host},
        event("cuda_runtime", "cudaLaunchKernel", at + 2, at + 6, external=number, correlation=number) | {"pid": host},
        event("kernel", f"kernel of {op}", at + 9, at + 9 + length, 7, external=number, correlation=number, device=0)
        | {"pid": device},
    ]


def ops(traces: Traces) -> dict[str, float]:
    return dict(traces.warehouse.rows(OF_OPS, c="t")[1])


def test_merged_ranks_are_as_their_files(warehouse: Warehouse) -> None:
    names = ("20_rank0", "20_rank1", "20_merged_ranks")
    for name in names:
        warehouse.ingest(shared_file(f"captures/reports/{name}.json"), name=name)
    first, second, merged = (dict(warehouse.rows(OF_OPS, c=name)[1]) for name in names)
    assert merged == first | second == {"aten::mm": 20, "aten::conv2d": 22}


@pytest.mark.parametrize("name", ["[TP00-DP0{}] {}", "rank{}/{}", "rank_{}_{}"])
@pytest.mark.parametrize("has_calls", [True, False])
def test_ids_are_of_a_rank(traces: Traces, name: str, has_calls: bool) -> None:
    """Ids repeat; without calls, external ids tell whose time a kernel is. A kernel without a call takes no other's."""
    events: list[dict[str, Any]] = []
    for rank, op in enumerate(("aten::mm", "aten::mul")):
        events += launched(op, 10 + rank, 5 + rank, 3, name.format(rank, 500 + rank), name.format(rank, 0))
    if has_calls:
        events += launched("aten::add", 50, 9, 4, name.format(0, 500), name.format(1, 0))
    else:
        events = [
            each | {"args": {key: value for key, value in each["args"].items() if key != "correlation"}}
            for each in events if each["cat"] != "cuda_runtime"
        ]  # fmt: skip
    traces.take(*events)
    assert ops(traces) == {"aten::mm": 5, "aten::mul": 6} | ({"aten::add": 0} if has_calls else {})


def test_a_process_of_a_device_may_have_calls(traces: Traces) -> None:
    """Calls that wait, in the process of the device, don't launch what others launched."""
    waits = [event("mtia_runtime", "synchronize", at, at + 2, 3, correlation=900 + at) | {"pid": 0} for at in (5, 40)]
    traces.take(*launched("aten::mm", 10, 7, 1, 100, 0), *launched("aten::mul", 60, 4, 2, 100, 0), *waits)
    assert ops(traces) == {"aten::mm": 7, "aten::mul": 4}


def test_processes_that_launch_their_own(traces: Traces) -> None:
    """Events of a device that name the process that launched them; the call of the last one is missing."""
    first = [*launched("aten::mm", 10, 7, 1, 100, 100), *launched("aten::mm", 60, 7, 2, 100, 100)]
    second = [*launched("aten::mul", 11, 4, 1, 200, 200), *launched("aten::mul", 80, 4, 3, 200, 200)]
    lost = event("kernel", "lost", 70, 75, 7, correlation=3, device=0) | {"pid": 100}
    traces.take(*first, *second, lost)
    assert ops(traces) == {"aten::mm": 14, "aten::mul": 8}


def test_the_nearest_op_says_what_communicates(traces: Traces) -> None:
    """A collective's annotation around a concatenation and its own kernel; the names of kernels tell nothing."""
    traces.take(
        event("user_annotation", "nccl:all_gather", 0, 60),
        *launched("aten::cat", 10, 30, 1, 100, 0),
        event("cuda_runtime", "cudaLaunchKernel", 50, 54, correlation=2),
        event("kernel", "mystery", 60, 80, 8, correlation=2, device=0, stream=8),
    )
    assert traces.ask("device_breakdown", "compute, communication, exposed", unit="us") == [(30, 20, 20)]


def test_a_thread_that_polls_is_not_on_the_path(traces: Traces) -> None:
    """A watchdog asks until after the last op, the optimizer's."""
    polls = [event("cuda_runtime", "cudaEventQuery", at, at + 1, 2) for at in range(0, 200, 20)]
    traces.take(*launched("aten::mm", 10, 7, 1, 100, 0), event("cpu_op", "Optimizer.step#SGD.step", 30, 150), *polls)
    rows = traces.ask("critical_path", "thread, name, start, duration", unit="us")
    assert {thread for thread, *_ in rows if thread is not None} == {"1"}
    assert rows[-1][1] == "Optimizer.step#SGD.step"
    assert rows[-1][2] + rows[-1][3] == 150
    assert json.dumps(rows).count("cudaEventQuery") == 0


FRAMES = (
    "SELECT e.label, e.start_ticks // 1000, e.duration_ticks // 1000 FROM events AS e ORDER BY e.start_ticks, 3 DESC"
)


def test_an_open_frame_of_the_report(warehouse: Warehouse) -> None:
    """Its own time in two steps: 50 - 20 of the first call, which ends with its caller, and 10 of the second."""
    warehouse.ingest(shared_file("captures/reports/16_python_overrun.json"), name="t")
    rows = warehouse.rows(
        "SELECT t.calls, t.self_time, t.self_per_execute FROM time_tree('t') AS t WHERE t.name LIKE '%lock'"
    )
    assert rows[1] == [(2, 40, 20)]
    assert warehouse.rows("SELECT f.rule, f.detail FROM findings AS f")[1] == [
        ("open frames", "Python frames that last longer than their callers end with these: 1")
    ]


def test_open_frames(traces: Traces) -> None:
    """A frame in an open frame, open too; an open frame beside another; frames without ids, and of another thread."""
    frames = [
        (1, "main", 0, 300, 1, None), (1, "train", 10, 60, 2, 1), (1, "lock", 20, 300, 3, 2), (1, "wait", 30, 300, 4, 3),
        (1, "log", 50, 300, 5, 2), (1, "save", 100, 120, 6, 1), (1, "foreign", 110, 130, 7, 99),
        (2, "other", 15, 300, 8, 2), (3, "a", 0, 20, None, None), (3, "b", 10, 30, None, None),
    ]  # fmt: skip
    traces.take(
        *(
            event("python_function", name, start, end, thread) | {
                "args": {key: value for key, value in (("Python id", own), ("Python parent id", caller)) if value}
            }
            for thread, name, start, end, own, caller in frames
        )
    )  # fmt: skip
    found = {name: start + length for name, start, length in traces.warehouse.rows(FRAMES)[1]}
    assert found == {name: end for _, name, _, end, *_ in frames} | {"lock": 60, "wait": 60, "log": 60}


def test_lost_launches_are_of_a_rank(traces: Traces) -> None:
    """Of two launches of rank 0, the second has no kernel; rank 1 has kernels of both ids, and one without its call."""
    events: list[dict[str, Any]] = []
    for rank, op in enumerate(("aten::mm", "aten::mul")):
        for number in (3, 4):
            host, device = f"[TP0{rank}] {500 + rank}", f"[TP0{rank}] 0"
            events += launched(op, 50 * number + rank, 5 + rank, number, host, device)
    del events[5]
    alone = event("kernel", "early", 10, 15, 7, correlation=1, device=0) | {"pid": "[TP01] 0"}
    traces.take(*events, alone)
    found = traces.warehouse.rows("SELECT left(detail, 26) FROM findings WHERE rule = 'lost kernels'")[1]
    assert found == [("1 of 4 launches of kernels",)]
