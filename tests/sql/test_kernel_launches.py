"""Launches and queues: against plain Python over the JSON, numbers by hand, and HolisticTraceAnalysis's answers."""

from __future__ import annotations

import statistics

import pytest

from etq.warehouse.warehouse import Warehouse
from tests.hta import hta
from tests.launch_traces import FEW, OF_HTA, SHAPES
from tests.sampling import thinned

# The launches that HolisticTraceAnalysis counts.
OF_STATISTICS = ("cudaLaunchKernel", "cudaLaunchKernelExC", "cudaMemcpyAsync", "cudaMemsetAsync")
WITHOUT_GRAPHS = [name for name in OF_HTA if name not in ("training 0", "training 1")]


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
