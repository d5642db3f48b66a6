"""Ranks of a job: the rank that the others wait for is known from how the traces are generated."""

from __future__ import annotations

import random
from collections import defaultdict

import pytest

from etq.errors import QueryError
from etq.warehouse.warehouse import Warehouse
from tests.launch_traces import ALL_REDUCE, Machine, message
from tests.sampling import thinned
from tests.trace_builders import event, trace


def job(seed: int, ranks: int, steps: int) -> tuple[list[Machine], dict[tuple[int, int], int], dict[int, int]]:
    """Ranks whose clocks differ, with a collective in each step that ends for all at once.

    Returns the waiting time of each rank by step, and the last rank of each step.
    """
    draw = random.Random(seed)
    made = [Machine(rank, ranks, now=1000 + draw.randrange(10**6)) for rank in range(ranks)]
    waits: dict[tuple[int, int], int] = {}
    last: dict[int, int] = {}
    for step in range(steps):
        takes = draw.sample(range(100, 900), ranks)
        for rank, machine in enumerate(made):
            waits[step, rank] = max(takes) - takes[rank]
            with machine.frame(f"ProfilerStep#{step}", "user_annotation"):
                machine.launch("gemm", takes[rank], delay=10)
                sent = message("allreduce", "0", "Float", 100, 100, ranks)
                machine.launch(ALL_REDUCE, 50 + waits[step, rank], 24, after=machine.free[7] + 1, **sent)
                machine.synchronize()
        last[step] = takes.index(max(takes))
    return made, waits, last


def store(warehouse: Warehouse, made: list[Machine], name: str) -> None:
    for machine in made:
        labels = {"job": name, "rank": str(machine.rank)}
        warehouse.ingest(machine.trace(), name=f"{name}{machine.rank}", labels=labels)


def test_collectives_of_gloo_wait_as_kernels_do(warehouse: Warehouse) -> None:
    """Ranks without devices: the one with the least time in collectives is waited for; with kernels these alone count."""
    for rank, (first, second) in enumerate([(50, 90), (30, 120), (80, 70)]):
        events = [
            event("user_annotation", "ProfilerStep#0", 0, 200),
            event("user_annotation", "gloo:all_reduce", 100, 100 + first, 2),
            event("user_annotation", "ProfilerStep#1", 200, 400),
            event("user_annotation", "gloo:all_reduce", 250, 250 + second - 10, 2),
            event("user_annotation", "gloo:barrier", 380, 390, 2),
        ]
        kernel = event("kernel", "gemm", 20, 60, 7, device=0)
        for job, more in (("host", []), ("device", [kernel])):
            warehouse.ingest(trace(*events, *more), name=f"{job}{rank}", labels={"job": job, "rank": str(rank)})
    query = "SELECT r.step, r.rank, r.communication, r.waited, r.waits_for FROM rank_steps($s) AS r"
    assert warehouse.rows(query, s="job=host")[1] == [
        (0, 0, 50, 20, 1), (0, 1, 30, 0, 1), (0, 2, 80, 50, 1), (1, 0, 90, 20, 2), (1, 1, 120, 50, 2), (1, 2, 70, 0, 2),
    ]  # fmt: skip
    query = "SELECT s.rank, s.waited_for, s.waited, s.communication FROM stragglers('job=host') AS s"
    assert warehouse.rows(query)[1] == [(1, 35, 50, 150), (2, 35, 50, 150), (0, 0, 40, 140)]
    query = "SELECT sum(r.communication) FROM rank_steps($s) AS r"
    assert warehouse.rows(query, s="job=device")[1] == [(0,)]


@pytest.mark.parametrize(("seed", "ranks", "steps"), thinned([(1, 4, 6), (2, 2, 3), (3, 1, 2)], [2]))
def test_waits_are_as_made(warehouse: Warehouse, seed: int, ranks: int, steps: int) -> None:
    made, waits, last = job(seed, ranks, steps)
    store(warehouse, made, "a")
    # Another job, with steps of the same numbers, changes nothing.
    store(warehouse, job(seed + 10, 3, 4)[0], "b")
    query = "SELECT r.step, r.rank, r.waited, r.waits_for, r.communication FROM rank_steps($s) AS r"
    expected = [
        (step, rank, waits[step, rank], last[step] if ranks > 1 else None, 50 + waits[step, rank])
        for step in range(steps)
        for rank in range(ranks)
    ]
    assert warehouse.rows(query, s="job=a")[1] == expected
    assert len(warehouse.rows("FROM rank_steps()")[1]) == ranks * steps + 12
    waited_for: dict[int, list[float]] = defaultdict(list)
    for step, rank in last.items():
        if ranks > 1:
            waited_for[rank].append(sum(waits[step, other] for other in range(ranks)) / (ranks - 1))
    totals = warehouse.rows(
        "SELECT s.rank, s.steps, s.waited_for_steps, s.waited_for, s.waited FROM stragglers($s) AS s", s="job=a"
    )[1]
    assert {row[0]: row[1:] for row in totals} == {
        rank: (
            *(steps, len(waited_for[rank]), pytest.approx(sum(waited_for[rank]))),
            sum(waits[step, rank] for step in range(steps)),
        )
        for rank in range(ranks)
    }
    assert [row[3] for row in totals] == sorted((row[3] for row in totals), reverse=True)


def test_a_trace_without_steps_is_one_step(warehouse: Warehouse) -> None:
    """By hand: of 300 us, the ranks are 40, 90 and 10 in collectives; a job with steps has those alone."""
    for rank, ends in enumerate([(110, 280), (150, 290), (105, 255)]):
        events = [
            event("cpu_op", "aten::add", 0, 5),
            event("user_annotation", "gloo:all_reduce", 100, ends[0], 2),
            event("user_annotation", "gloo:all_reduce", 250, ends[1], 2),
            event("cpu_op", "aten::add", 295, 300 + rank),
        ]
        step = event("user_annotation", "ProfilerStep#3", 240, 300)
        for job, more in (("whole", []), ("some", [step] if rank else [event("cpu_op", "aten::mul", 6, 7)])):
            warehouse.ingest(trace(*events, *more), name=f"{job}{rank}", labels={"job": job, "rank": str(rank)})
    columns = "r.step, r.rank, r.duration, r.communication, r.waited, r.waits_for"
    query = f"SELECT {columns} FROM rank_steps($s) AS r"
    assert warehouse.rows(query, s="job=whole")[1] == [
        (None, 0, 300, 40, 30, 2), (None, 1, 301, 90, 80, 2), (None, 2, 302, 10, 0, 2),
    ]  # fmt: skip
    query = "SELECT s.rank, s.steps, s.waited_for_steps, s.waited_for, s.waited FROM stragglers($s) AS s"
    assert warehouse.rows(query, s="job=whole")[1] == [(2, 1, 1, 55, 0), (0, 1, 0, 0, 30), (1, 1, 0, 0, 80)]
    assert warehouse.rows(query, s="job=some")[1] == [(2, 1, 1, 35, 0), (1, 1, 0, 0, 35)]


def test_without_collectives_nothing_is_known_of_waits(warehouse: Warehouse) -> None:
    for rank in range(2):
        warehouse.ingest(trace(event("cpu_op", "aten::add", 0, 5 + rank)), name=f"{rank}", labels={"rank": str(rank)})
    query = "SELECT s.rank, s.waited_for, s.waited, s.mean_duration FROM stragglers() AS s"
    assert warehouse.rows(query)[1] == [(0, None, None, 5), (1, None, None, 6)]
    query = "SELECT c.rank, c.collectives, c.clock_offset, c.spread FROM clock_offsets() AS c"
    assert warehouse.rows(query)[1] == [(0, 0, None, None), (1, 0, None, None)]


def test_invalid_ranks_are_left_out(warehouse: Warehouse) -> None:
    made = Machine()
    with made.frame("ProfilerStep#1", "user_annotation"):
        made.launch("k", 10)
    warehouse.ingest(made.trace(), name="alone", labels={"rank": "first"})
    assert warehouse.rows("FROM rank_steps()")[1] == []
    assert warehouse.rows("FROM stragglers()")[1] == []
    with pytest.raises(QueryError, match="unit must be ns, us, ms, s or cycles, not 'h'"):
        store(warehouse, job(1, 1, 1)[0], "a")
        warehouse.rows("FROM stragglers(unit := 'h')")
