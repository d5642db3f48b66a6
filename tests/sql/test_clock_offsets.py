"""Clocks of ranks: the offsets found are those planted, in traces whose collectives end at (nearly) the same time."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from statistics import median

import pytest

from etq.warehouse.warehouse import Warehouse
from tests.launch_traces import ALL_REDUCE, Machine, message

OFFSETS = "SELECT c.rank, c.collectives, c.clock_offset, c.spread FROM clock_offsets('job=a') AS c"


def store(warehouse: Warehouse, made: Sequence[Machine], job: str = "a") -> None:
    for machine in made:
        labels = {"job": job, "rank": str(machine.rank)}
        warehouse.ingest(machine.trace(), name=f"{job}{machine.rank}", labels=labels)


def collective(made: Machine, start: int, end: int, group: str = "0", name: str = "allreduce", size: int = 4) -> None:
    sent = message(name, group, "Float", 100, 100, size)
    made.run(ALL_REDUCE, start, end, 24, **sent)


def machines(offsets: Sequence[int], steps: int, write: Callable[[Machine, int, int], None]) -> list[Machine]:
    """Ranks with `steps` profiler steps of 1000 us each, on clocks with these offsets; `write` adds events to each."""
    made = []
    for rank, offset in enumerate(offsets):
        machine = Machine(rank, len(offsets))
        for step in range(steps):
            start = 10**7 + 1000 * step + offset
            machine.write("user_annotation", f"ProfilerStep#{step}", start, start + 999)
            machine.write("cpu_op", "aten::mm", start + 1, start + 2)
            write(machine, step, start)
        made.append(machine)
    return made


def test_exact_offsets(warehouse: Warehouse) -> None:
    """Ends agree exactly; the median of four ranks is between the middle two. Another job has other clocks."""
    offsets = (0, 5_000_000, -300, 120)

    def write(machine: Machine, step: int, start: int) -> None:
        # Each rank begins when it is ready. A collective with a root ends early on that rank.
        collective(machine, start + 100 + 7 * machine.rank, start + 400)
        collective(machine, start + 500, start + 600 + 50 * machine.rank, name="broadcast")
        collective(machine, start + 700 + step, start + 800, name="_allgather_base")

    store(warehouse, machines(offsets, 3, write))
    store(warehouse, machines((9, 0), 3, write), "b")
    middle = median(offsets)
    assert warehouse.rows(OFFSETS)[1] == [(rank, 6, offset - middle, 0) for rank, offset in enumerate(offsets)]
    columns = "c.rank, c.clock_offset, c.unit"
    rows = warehouse.rows(f"SELECT {columns} FROM clock_offsets('job=b', unit := 'ms') AS c")[1]
    assert rows == [(0, 0.0045, "ms"), (1, -0.0045, "ms")]


def test_spread_by_plain_python(warehouse: Warehouse) -> None:
    """Ends differ by noise: the offset is the median over collectives, the spread is the median distance from it."""
    draw = random.Random(5)
    offsets = [draw.randrange(-9_000, 9_000) for _ in range(5)]
    ends: defaultdict[int, list[int]] = defaultdict(list)

    def write(machine: Machine, step: int, start: int) -> None:
        for place in range(3):
            end = start + 200 * (place + 1) + draw.randrange(40)
            ends[machine.rank].append(end)
            collective(machine, end - 50, end, size=5)

    store(warehouse, machines(offsets, 4, write))
    middles = [median(column) for column in zip(*ends.values(), strict=True)]
    distances = {
        rank: [end - middle for end, middle in zip(row, middles, strict=True)] for rank, row in ends.items()
    }  # fmt: skip
    estimates = {rank: median(row) for rank, row in distances.items()}
    job = median(estimates.values())
    expected = [
        (rank, 12, estimates[rank] - job, median(abs(each - estimates[rank]) for each in row))
        for rank, row in distances.items()
    ]
    assert warehouse.rows(OFFSETS)[1] == [pytest.approx(row) for row in expected]
    # The noise is at most 40 us per end, so each estimate is at most 80 us from the truth.
    truth = median(offsets)
    assert all(abs(row[2] - (offsets[row[0]] - truth)) <= 80 for row in expected)


def test_what_does_not_match(warehouse: Warehouse) -> None:
    """Sibling groups with one name, counts that differ among ranks, and a rank without collectives give no offset."""
    offsets = (0, 10, 20, 30)

    def write(machine: Machine, step: int, start: int) -> None:
        if machine.rank < 3:
            collective(machine, start + 10, start + 20, "same name", size=2)
            for number in range(1 + (machine.rank == 1)):
                collective(machine, start + 30 + 40 * number, start + 50 + 40 * number, "unequal", size=3)

    store(warehouse, machines(offsets, 2, write))
    assert warehouse.rows(OFFSETS)[1] == [(rank, 0, None, None) for rank in range(4)]


def test_a_step_that_a_rank_lacks(warehouse: Warehouse) -> None:
    """A step that one rank lacks is used for no rank, because medians of fewer ranks would differ."""
    offsets = (0, 100, 1000)

    def write(machine: Machine, step: int, start: int) -> None:
        if (machine.rank, step) != (2, 1):
            collective(machine, start + 10, start + 20, size=3)

    store(warehouse, machines(offsets, 3, write))
    assert warehouse.rows(OFFSETS)[1] == [(0, 2, -100, 0), (1, 2, 0, 0), (2, 2, 900, 0)]
