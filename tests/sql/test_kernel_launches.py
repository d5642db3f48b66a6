"""Launches and queues: against plain Python over the JSON, numbers by hand, and HolisticTraceAnalysis's answers."""

from __future__ import annotations

import json
import statistics
from collections import Counter, defaultdict
from typing import Any

import pytest

from etq.warehouse.warehouse import Warehouse
from tests.conftest import shared_file
from tests.hta import hta
from tests.launch_reference import launch_rows, queues
from tests.launch_traces import FEW, OF_HTA, SHAPES
from tests.sampling import thinned
from tests.trace_corpus import SHAPES as PROGRAMS
from tests.trace_corpus import Style
from tests.trace_reference import load

# The launches that HolisticTraceAnalysis counts.
OF_STATISTICS = ("cudaLaunchKernel", "cudaLaunchKernelExC", "cudaMemcpyAsync", "cudaMemsetAsync")
WITHOUT_GRAPHS = [name for name in OF_HTA if name not in ("training 0", "training 1")]
COLUMNS = (
    "l.device, l.stream, l.event, l.call, l.op, l.launched, l.call_duration, l.launch_delay, l.latency, l.duration"
)


def check(warehouse: Warehouse, capture: str, events: list[dict[str, Any]]) -> None:
    view = f"SELECT {COLUMNS}, l.is_short FROM kernel_launches($c, unit := 'ns') AS l"
    expected = launch_rows(events)
    assert Counter(warehouse.rows(view, c=capture)[1]) == expected
    found: dict[tuple[Any, Any], list[tuple[int, float]]] = defaultdict(list)
    lengths = "SELECT q.device, q.stream, q.length, q.duration FROM queue_lengths($c, unit := 'ns') AS q"
    for device, stream, length, time in warehouse.rows(lengths, c=capture)[1]:
        found[device, stream].append((length, time))
    assert found == queues(events)
    summary = "SELECT s.* EXCLUDE (full_time) FROM queue_summary($c, unit := 'ns') AS s"
    for row in warehouse.rows(summary, c=capture)[1]:
        held = found[row[0], row[1]]
        total = sum(time for _, time in held)
        empty = sum(time for length, time in held if length == 0)
        mean = sum(length * time for length, time in held) / total if total else None
        assert row[2:7] == pytest.approx(
            (len(held) // 2, empty, 100 * empty / total if total else None, mean, len(held)), rel=1e-12
        )
        assert min(length for length, _ in held) == 0 == held[-1][0]
    totals: dict[str, list[float]] = defaultdict(lambda: [0, 0, 0, 0.0])
    for row, times in expected.items():
        summed = totals[row[3]]
        for index, value in enumerate((1, row[9], row[10], 1 / row[5])):
            summed[index] += times * value
    by_call = (
        "SELECT t.call, t.events, t.device_time, t.short_events, t.calls FROM launch_totals($c, unit := 'ns') AS t"
    )
    assert {row[0]: [*row[1:4], pytest.approx(row[4])] for row in warehouse.rows(by_call, c=capture)[1]} == totals


@pytest.mark.parametrize("name", thinned(SHAPES, FEW[:1]))
def test_made_traces(launch_traces: Warehouse, name: str) -> None:
    check(launch_traces, name, SHAPES[name]().events)


@pytest.mark.parametrize("name", thinned(PROGRAMS, FEW))
def test_traces_of_programs(launch_traces: Warehouse, name: str) -> None:
    check(launch_traces, name, json.loads(PROGRAMS[name](Style())[0])["traceEvents"])


OTHERS = ["triton", "mi250_rocm", "alexnet", "resnet50_dataloader"]


@pytest.mark.parametrize("name", thinned(OTHERS, OTHERS[:1]))
def test_traces_that_others_published(warehouse: Warehouse, name: str) -> None:
    path = shared_file(f"captures/torch/gpu/{name}.pt.trace.json.gz")
    warehouse.ingest(path, name="t")
    check(warehouse, "t", load(path))


def test_by_hand(launch_traces: Warehouse) -> None:
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
    kernels = [each for each in SHAPES["training 0"]().events if each["name"].startswith("graph_kernel_")]
    calls = [each for each in SHAPES["training 0"]().events if each["name"] == "cudaGraphLaunch"]
    query = (
        "SELECT t.calls, t.events, t.call_time FROM launch_totals('training 0') AS t WHERE t.call = 'cudaGraphLaunch'"
    )
    assert launch_traces.rows(query)[1] == [(len(calls), len(kernels), sum(each["dur"] for each in calls))]
    assert len(kernels) > len(calls) == 3


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
