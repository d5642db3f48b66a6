"""The critical path of a job's steps: by hand, and as plain Python walks it over the events of drawn jobs."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import pytest

from etq.warehouse.ephemeral import open_ephemeral_jobs
from etq.warehouse.warehouse import Warehouse
from tests.job_traces import H100
from tests.launch_traces import ALL_REDUCE, Machine, message

GROUPS: Final = {"0": range(3), "1": range(2)}


class Kernel(NamedTuple):
    """A kernel of a rank in us; of a collective with its group."""

    rank: int
    name: str
    start: int
    end: int
    group: str | None = None


class Made:
    """A job of three ranks: all are in group 0, ranks 0 and 1 in group 1. Collectives end together, so that clocks are
    known exactly; that of rank 2 is 1,000 us ahead.
    """

    def __init__(self) -> None:
        self.at = [1000, 1000, 1000]
        self.kernels: list[list[Kernel]] = []
        self.starts: list[list[int]] = []
        self.machines = [Machine(rank, 3, device=rank) for rank in range(3)]

    def step(self, *work: tuple[str, Sequence[int]]) -> None:
        """Run a step, whose work begins 10 us after it: of a name, kernels of each rank of that many us; of a group,
        its collective of that time, 2 us after the last kernel; of aten, an op of the host.
        """
        done, self.starts = [], [*self.starts, [*self.at]]
        self.at = [at + 10 for at in self.at]
        for name, times in work:
            ranks = GROUPS.get(name, range(3))
            end = max(self.at[rank] for rank in ranks) + 2 + times[0]
            for rank in ranks:
                if name in GROUPS:
                    done.append(Kernel(rank, ALL_REDUCE, self.at[rank] + 2, end, name))
                    self.at[rank] = end
                elif times[rank]:
                    done.append(Kernel(rank, name, self.at[rank], self.at[rank] + times[rank]))
                    self.at[rank] += times[rank]
        self.kernels.append(done)
        self.at = [at + 5 for at in self.at]
        for rank, machine in enumerate(self.machines):
            ahead = 1000 if rank == 2 else 0
            begun = self.starts[-1][rank] + ahead
            machine.write("user_annotation", f"ProfilerStep#{len(self.kernels)}", begun, self.at[rank] + ahead)
            for kernel in (each for each in done if each.rank == rank):
                machine.correlation += 1
                call, given = begun + 1, dict[str, Any](correlation=machine.correlation)
                machine.write("cuda_runtime", "cudaLaunchKernel", call, call + 1, **given)
                size = None if kernel.group is None else len(GROUPS[kernel.group])
                told = {} if size is None else message("allreduce", str(kernel.group), "Float", 64, 64, size)
                stream = 7 if size is None else 24
                if kernel.name.startswith("aten"):
                    machine.write("cpu_op", kernel.name, kernel.start + ahead, kernel.end + ahead)
                    continue
                machine.run(kernel.name, kernel.start + ahead, kernel.end + ahead, stream, **given, **told)

    def contents(self) -> dict[int, bytes]:
        return {
            rank: machine.trace(deviceProperties=[{"id": rank, "name": H100}])
            for rank, machine in enumerate(self.machines)
        }

    def path(self, step: int) -> list[tuple[Any, ...]]:
        """The path of a step, from its end backwards, one collective at a time."""
        kernels, starts = self.kernels[step], self.starts[step]
        calls = [each for each in kernels if each.group is not None]
        entered: dict[tuple[str, int], list[Kernel]] = {}
        for call in calls:
            entered.setdefault((str(call.group), call.end), []).append(call)
        ends = [
            max([start, *(each.end for each in kernels if each.rank == rank)]) + 5 for rank, start in enumerate(starts)
        ]
        rank, until, before = ends.index(max(ends)), max(ends), None
        found: list[tuple[Any, ...]] = []
        while True:
            left = max(
                (each for each in calls if each.rank == rank and each.end <= until),
                key=lambda each: each.end,
                default=None,
            )
            since = starts[rank] if left is None else left.end
            within = [
                each for each in kernels if each.rank == rank and each.group is None and since < each.end <= until
            ]
            times: dict[str, int] = {}
            for each in within:
                times[each.name] = times.get(each.name, 0) + each.end - each.start
            most = max(times.items(), key=lambda item: item[1], default=(None, None))
            found.append(("work", rank, since, until - since, None, before, sum(times.values()), *most))
            if left is None:
                if since > min(starts):
                    found.append(("late start", rank, min(starts), since - min(starts), None, None, None, None, None))
                return [(kind, at, begun - min(starts), *more) for kind, at, begun, *more in reversed(found)]
            together = entered[str(left.group), left.end]
            last = max(together, key=lambda each: (each.start, -each.rank))
            found.append(("transfer", rank, last.start, left.end - last.start, last.rank, left.group, None, None, None))
            rank, until, before = last.rank, last.start, left.group


COLUMNS: Final = "p.kind, p.rank, p.start, p.duration, p.last_rank, p.process_group, p.computation, p.op, p.op_time"


def drawn(seed: int) -> Made:
    """Three steps of up to 12 kernels and collectives each; no two ranks come to one at once."""
    dice, made = random.Random(seed), Made()
    for _ in range(3):
        work = []
        for at in range(dice.randrange(1, 7)):
            times = dice.sample(range(40, 400, 3), 3)
            work += [(f"kernel {at % 3}", times), (dice.choice("01"), (dice.randrange(20, 90),))]
        made.step(*work, ("0", (50,)), ("last", dice.sample(range(40, 400, 3), 3)))
    return made


def by_hand() -> Made:
    """Rank 2 is late to the first collective of all, rank 1 to that of two, rank 0 ends last."""
    made = Made()
    made.step(
        ("first", (100, 50, 300)), ("0", (40,)), ("second", (60, 200, 500)), ("1", (30,)), ("third", (400, 10, 1)),
    )  # fmt: skip
    made.step(("first", (30, 20, 10)), ("0", (40,)), ("second", (3, 3, 3)), ("aten::item", (5, 70, 9)))
    return made


@pytest.fixture(scope="module")
def jobs() -> Iterator[tuple[Warehouse, Mapping[str, Made]]]:
    made = {"hand": by_hand(), **{f"drawn{seed}": drawn(seed) for seed in range(3)}}
    with open_ephemeral_jobs({name: each.contents() for name, each in made.items()}) as warehouse:
        yield warehouse, made


def test_path_by_hand(jobs: tuple[Warehouse, Mapping[str, Made]]) -> None:
    """In the first step rank 2 works for 312 us, all-reduces for 40; rank 1 works for 202, which is 2 us longer than its
    kernel, reduces with rank 0 for 30; rank 0 then works for 405. Step 2 begins with the step of rank 1, the first. Its
    end is on the host.
    """
    rows = jobs[0].rows(f"SELECT p.step, {COLUMNS} FROM job_critical_path('job=hand') AS p")[1]
    assert [row[1:] for row in rows if row[0] == 1] == [
        ("work", 2, 0, 312, None, "0", 300, "first", 300), ("transfer", 1, 312, 40, 2, "0", None, None, None),
        ("work", 1, 352, 202, None, "1", 200, "second", 200), ("transfer", 0, 554, 30, 1, "1", None, None, None),
        ("work", 0, 584, 405, None, None, 400, "third", 400),
    ]  # fmt: skip
    # The ranks' first steps end at 989, 599 and 858 us; in the second, rank 0 is last to start and to come.
    assert [row[1:] for row in rows if row[0] == 2] == [
        ("late start", 0, 0, 390, None, None, None, None, None), ("work", 0, 390, 42, None, "0", 30, "first", 30),
        ("transfer", 1, 432, 40, 0, "0", None, None, None), ("work", 1, 472, 78, None, None, 3, "aten::item", 70),
    ]  # fmt: skip


def test_paths_are_those_that_python_walks(jobs: tuple[Warehouse, Mapping[str, Made]]) -> None:
    warehouse, made = jobs
    made = {name: each for name, each in made.items() if name != "hand"}
    rows = warehouse.rows(f"SELECT p.job, p.step, {COLUMNS} FROM job_critical_path() AS p WHERE p.job <> 'hand'")[1]
    expected = [
        (name, step + 1, *part)
        for name in sorted(made)
        for step in range(len(made[name].kernels))
        for part in made[name].path(step)
    ]
    assert rows == expected and len(expected) > 50
