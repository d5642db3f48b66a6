"""Ranks of a job: the rank that the others wait for is known from how the traces are generated."""

from __future__ import annotations

import random
from collections import defaultdict
from pathlib import Path

import pytest

from etq.errors import QueryError
from etq.warehouse.warehouse import Warehouse
from tests.launch_traces import ALL_REDUCE, Machine, message
from tests.sampling import thinned


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


def store(warehouse: Warehouse, folder: Path, made: list[Machine], name: str) -> None:
    for machine in made:
        path = folder / f"{name}{machine.rank}.pt.trace.json"
        path.write_bytes(machine.trace())
        warehouse.ingest(path, labels={"job": name, "rank": str(machine.rank)})


@pytest.mark.parametrize(("seed", "ranks", "steps"), thinned([(1, 4, 6), (2, 2, 3), (3, 1, 2)], [2]))
def test_waits_are_as_made(warehouse: Warehouse, tmp_path: Path, seed: int, ranks: int, steps: int) -> None:
    made, waits, last = job(seed, ranks, steps)
    store(warehouse, tmp_path, made, "a")
    # Another job, with steps of the same numbers, changes nothing.
    store(warehouse, tmp_path, job(seed + 10, 3, 4)[0], "b")
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


def test_what_is_no_rank_is_left_out(warehouse: Warehouse, tmp_path: Path) -> None:
    made = Machine()
    with made.frame("ProfilerStep#1", "user_annotation"):
        made.launch("k", 10)
    path = tmp_path / "alone.pt.trace.json"
    path.write_bytes(made.trace())
    warehouse.ingest(path, labels={"rank": "first"})
    assert warehouse.rows("FROM rank_steps()")[1] == []
    assert warehouse.rows("FROM stragglers()")[1] == []
    with pytest.raises(QueryError, match="unit must be ns, us, ms, s or cycles, not 'h'"):
        store(warehouse, tmp_path, job(1, 1, 1)[0], "a")
        warehouse.rows("FROM stragglers(unit := 'h')")
