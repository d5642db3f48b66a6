"""Differences from HolisticTraceAnalysis 0.5.0: both answers on the trace `differing`, with the reason.

The tests of the views in `tests/sql` compare the answers that are the same.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from etq.warehouse.warehouse import Warehouse
from tests.launch_traces import differing, hta
from tests.path_traces import OF_HTA as PATHS
from tests.warehouses import empty_warehouse


@pytest.fixture(scope="module")
def warehouse() -> Iterator[Warehouse]:
    with empty_warehouse() as opened:
        opened.ingest(differing().trace(), name="t")
        yield opened


def test_a_gap_is_not_negative(warehouse: Warehouse) -> None:
    """A kernel begins 50 us before the one before it ends: HTA counts -50 us of idle time, so that causes exceed the sum."""
    idle = {row["idle_category"]: (row["idle_time"], row["idle_time_ratio"]) for row in hta("differing")["idle"]}
    assert idle == {"host_wait": (291, 1.21), "kernel_wait": (-50, -0.21), "other": (0, 0)}
    query = "SELECT g.hta_cause, sum(g.duration) FROM device_idle('t', \"by\" := 'stream') AS g GROUP BY ALL"
    assert warehouse.rows(query)[1] == [("host_wait", 291)]
    # For the whole device, HTA counts the same as etq.
    assert hta("differing")["temporal"][0]["idle_time(us)"] == 291


def test_a_queue_is_not_shorter_than_empty(warehouse: Warehouse) -> None:
    """A kernel starts 40 us before its launch, by the clocks: HTA's queue has -1 kernels until then."""
    assert hta("differing")["queue_summary"][0]["min"] == -1
    assert [row["queue_length"] for row in hta("differing")["queues"]] == [1, 0, 1, 0, -1, 0, 1, 0]
    assert [row[0] for row in warehouse.rows("SELECT q.length FROM queue_lengths('t') AS q")[1]] == [1, 0] * 4
    assert warehouse.rows("SELECT s.min, s.max FROM queue_summary('t') AS s")[1] == [(0, 1)]


def test_a_kernel_is_one_by_its_category(warehouse: Warehouse) -> None:
    """One is named fusedMemcpyKernel: HTA takes it for neither computation nor memory, as `Memcpy` is not how it begins."""
    names = {row["name"] for row in hta("differing")["kernels"]}
    assert names == {"first", "overlaps", "early"}
    temporal = hta("differing")["temporal"][0]
    assert (temporal["compute_time(us)"], temporal["non_compute_time(us)"]) == (270, 30)
    query = "SELECT b.compute, b.non_compute FROM device_breakdown('t') AS b"
    assert warehouse.rows(query)[1] == [(300, 0)]
    assert len(warehouse.rows("FROM work_totals('t') AS w")[1]) == 4


def path_of(warehouse: Warehouse, name: str) -> list[tuple[str, str, int, int]]:
    """The critical path of a made trace."""
    warehouse.ingest(PATHS[name], name=name)
    query = "SELECT p.kind, p.name, p.start, p.duration FROM critical_path($c, step := 1) AS p"
    return warehouse.rows(query, c=name)[1]


def test_a_kernel_that_was_launched_late_waited_for_its_launch(warehouse: Warehouse) -> None:
    """A kernel starts 200 us after the previous one ended and 10 us after its launch, and after the next launch.

    HTA takes it for one that waited in its stream, because its queue isn't empty when it starts: 200 us of the path are
    a delay between kernels, although the host had launched nothing in that time.
    """
    assert ["KERNEL_KERNEL_DELAY", 110, 310] in hta("critical paths")["late launch"]
    assert path_of(warehouse, "late launch") == [
        ("annotation", "ProfilerStep#1", 0, 3), ("op", "aten::mm", 3, 2), ("call", "cudaLaunchKernel", 5, 4),
        ("op", "aten::mm", 9, 11), ("annotation", "ProfilerStep#1", 20, 275), ("op", "aten::add", 295, 5),
        ("launch_delay", "kernel_2", 300, 10), ("kernel", "kernel_2", 310, 90), ("stream_delay", "kernel_3", 400, 2),
        ("kernel", "kernel_3", 402, 68), ("synchronization", "cudaDeviceSynchronize", 470, 5),
        ("op", "aten::item", 475, 5), ("annotation", "ProfilerStep#1", 480, 20),
    ]  # fmt: skip


@pytest.mark.long
def test_calls_wait_also_if_that_is_not_recorded(warehouse: Warehouse) -> None:
    """The recording of path 0 without the category cuda_sync: etq knows waiting calls by their names, HTA does not.

    HTA's path is then on the host only; of the kernels for which the host waited, it has only the last.
    """
    found = [path_of(warehouse, name) for name in ("path 0", "without cuda_sync")]
    assert found[0] == found[1]
    kernels = [[row[2], row[2] + row[3]] for row in found[0] if row[0] == "kernel"]
    with_waits, without = (hta("critical paths")[name] for name in ("path 0", "without cuda_sync"))
    assert [each[1:] for each in with_waits if each[1:] in kernels] == kernels and len(kernels) > 20
    assert [each[1:] for each in without if each[1:] in kernels] == kernels[-1:]
    assert [sum(end - start for _, start, end in path) for path in (with_waits, without)] == [4558, 1229]
