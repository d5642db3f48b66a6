"""Ranks in time: what is planted, at its place on one clock, and no more rows than cells."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from etq.warehouse.warehouse import Warehouse
from tests.batches import Labelled, ingest_all
from tests.job_traces import Faults, Job, job
from tests.warehouses import empty_warehouse

FINE = 4000


class Piece(NamedTuple):
    step: int
    rank: int
    kind: str
    first_cell: int
    end_cell: int
    first: float
    ticks: float
    span: int


def lanes(made: Job, cells: int = FINE, ranks: range = range(8)) -> list[Piece]:
    with empty_warehouse() as warehouse:
        ingest(warehouse, made)
        return asked(warehouse, cells, 100, ranks)


def asked(warehouse: Warehouse, cells: int = FINE, steps: int = 100, ranks: range = range(8)) -> list[Piece]:
    query = f"SELECT {', '.join(Piece._fields)} FROM _rank_lanes('job=ddp', $ranks::BIGINT[], $steps, $cells)"
    return [Piece(*row) for row in warehouse.rows(query, ranks=[*ranks], steps=steps, cells=cells)[1]]


def ingest(warehouse: Warehouse, made: Job) -> None:
    ingest_all(warehouse, [Labelled(f"rank{rank}", each, {"job": "ddp"}) for rank, each in made.contents().items()])


PLANTED = Faults(late=3, slow_pair=4)


@pytest.fixture(scope="module")
def warehouse() -> Iterator[Warehouse]:
    """The job with these faults; not to be written to."""
    with empty_warehouse() as opened:
        ingest(opened, job(1, PLANTED))
        yield opened


@pytest.mark.long
def test_waits_are_those_that_are_planted(warehouse: Warehouse) -> None:
    """In each step, for each rank: all but those shorter than a cell, and less than two cells each."""
    made = job(1, PLANTED)
    found: defaultdict[tuple[int, int], float] = defaultdict(float)
    pieces: defaultdict[tuple[int, int], int] = defaultdict(int)
    rows = asked(warehouse)
    for row in rows:
        if row.kind == "wait":
            found[row.step, row.rank] += row.ticks / 1000
            pieces[row.step, row.rank] += 1
    assert len({row.step for row in rows}) == 8
    planted: defaultdict[tuple[int, int], float] = defaultdict(float)
    numbers = sorted({row.step for row in rows})
    for (step, rank, last), waited in made.waits.items():
        if rank != last:
            planted[numbers[step], rank] += waited
    size = max(row.span for row in rows) / FINE / 1000
    for place, time in planted.items():
        assert abs(found[place] - time) <= 2 * size * (pieces[place] + 5) + 10, place
    # Rank 3 waits for nobody for long, and computes longest.
    assert sum(found[step, 3] for step in numbers) < 0.05 * sum(found[step, 0] for step in numbers)


@pytest.mark.long
def test_lanes_are_on_one_clock() -> None:
    """The same job, of which a clock is 700 us behind: what ranks wait and transfer is where it was, to the 3 us to which
    clocks agree, and the cells at its ends.
    """
    plain, behind = (lanes(job(1, Faults(late=3, clock=clock, ahead=-700)), 1000) for clock in (None, 6))
    at: defaultdict[tuple[int, int, str], list[float]] = defaultdict(list)
    for row in behind:
        at[row.step, row.rank, row.kind].append(row.first)
    long = [row for row in plain if row.end_cell - row.first_cell > 20 and row.kind in ("wait", "transfer")]
    assert len({(row.step, row.rank) for row in long}) == 8 * 8
    for row in long:
        nearest = min(abs(first - row.first) for first in at[row.step, row.rank, row.kind])
        assert nearest <= 3_000 + 2 * row.span / 1000


@pytest.mark.long
def test_a_step_has_no_more_rows_than_cells(warehouse: Warehouse) -> None:
    """Of 8 ranks and 8 steps, those that are asked for: three ranks, and the two steps in which these wait longest."""
    rows = asked(warehouse, cells=10, steps=2, ranks=range(3))
    assert {row.rank for row in rows} == {0, 1, 2} and len({row.step for row in rows}) == 2
    assert len(rows) <= 2 * 3 * (10 + 1) and all(0 <= row.first_cell < row.end_cell <= 10 for row in rows)
    waited: defaultdict[int, int] = defaultdict(int)
    for (step, rank, _), time in job(1, PLANTED).waits.items():
        waited[step] += time if rank < 3 else 0
    numbers = sorted({row.step for row in asked(warehouse)})
    most = sorted(waited, key=lambda step: -waited[step])[:2]
    assert {row.step for row in rows} == {numbers[step] for step in most}
    for place in {(row.step, row.rank) for row in rows}:
        cells = [
            cell
            for row in rows
            if (row.step, row.rank) == place and row.kind != "step"
            for cell in range(row.first_cell, row.end_cell)
        ]
        assert len(cells) == len({*cells})


@pytest.mark.long
def test_a_wait_that_is_not_known_is_told_from_others() -> None:
    """Of two of eight ranks, the waits for each other are known, those for the others are not."""
    made = job(1)
    two = Job({rank: made.ranks[rank] for rank in (0, 1)})
    kinds = {row.kind for row in lanes(two)}
    assert kinds >= {"step", "computation", "transfer", "collective"}


def test_a_rank_without_a_clock_has_no_lane() -> None:
    assert lanes(Job({0: job(1).ranks[0]})) == []


@pytest.mark.long
def test_of_many_ranks_some_are_drawn() -> None:
    from etq.report.jobs import job_of

    with empty_warehouse() as warehouse:
        ingest(warehouse, job(2, Faults(late=3), ranks=18, steps=5))
        [section] = [each for each in job_of(warehouse, "job=ddp", "ddp").sections if each.kind == "lanes"]
        table = section.tables["lanes"]
        assert len({*table.list("rank")}) == 16 and len({*table.list("step")}) == 4 and 3 in table.list("rank")
        assert section.note == (
            "4 of 5 steps are drawn, those in which ranks wait longest. "
            "16 of 18 ranks are drawn: those that wait or are waited for longest."
        )


def test_kernels_of_several_streams_count_once() -> None:
    """Each kernel again on another stream: a rank does nothing for longer than the cells of it take."""
    made = job(1, Faults(late=3), ranks=2, steps=2)
    for rank in made.ranks.values():
        kernels = [each for each in rank.events if each.get("cat") == "kernel" and "nccl" not in each["name"]]
        assert kernels
        rank.events.extend({**each, "args": {**each["args"], "stream": 77}} for each in kernels)
    rows = [row for row in lanes(made, ranks=range(2)) if row.kind != "step"]
    assert "computation" in {row.kind for row in rows}
    assert [row for row in rows if row.ticks > (row.end_cell - row.first_cell) * row.span / FINE + 1] == []
