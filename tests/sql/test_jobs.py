"""Views of jobs: waits, transfers and ops as planted, and by hand; which ranks are missing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from statistics import median

import pytest

from etq.errors import QueryError
from etq.warehouse.ephemeral import open_ephemeral_jobs
from tests.job_traces import END, LAYER, LAYERS, Faults, job
from tests.launch_traces import Machine
from tests.sampling import thinned
from tests.trace_builders import event, trace


@pytest.fixture
def opened() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.mark.long
@pytest.mark.parametrize("seed", thinned([1, 2, 3], [1]))
def test_waits_are_those_of_the_simulation(opened: ExitStack, seed: int) -> None:
    """Clocks are known to 3 us, and so is each wait; the generator knows whom each rank waits for, by step."""
    made = job(seed, Faults(late=1, kernel="sm90_gemm", clock=2), ranks=4, steps=3)
    warehouse = opened.enter_context(open_ephemeral_jobs({"a": made.contents()}))
    pairs: defaultdict[tuple[int, int], int] = defaultdict(int)
    for (_, rank, last), waited in made.waits.items():
        pairs[rank, last] += waited if rank != last else 0
    query = "SELECT w.rank, w.last_rank, sum(w.waited), sum(w.calls) FROM rank_waits('job=a') AS w GROUP BY ALL"
    found = {(rank, last): (waited, calls) for rank, last, waited, calls in warehouse.rows(query)[1]}
    for rank in (0, 2, 3):
        waited, calls = found[rank, 1]
        assert abs(waited - pairs[rank, 1]) <= 3 * calls
    steps = {
        (step, rank): sum(waited for (at, waits, _), waited in made.waits.items() if (at, waits) == (step, rank))
        for step in range(3)
        for rank in range(4)
    }
    calls_of_step = LAYERS + 1
    query = "SELECT r.step, r.rank, r.waited, r.waits_for, r.waited_by FROM rank_steps('job=a') AS r"
    rows = warehouse.rows(query)[1]
    assert [row[:2] for row in rows] == [*steps] and {row[3:] for row in rows} == {(1, "clocks")}
    assert all(abs(row[2] - steps[row[0], row[1]]) <= 3 * calls_of_step for row in rows)
    columns = "j.ranks, j.missing, j.missing_ranks, j.steps, j.step, j.waited_percent, j.last_rank, j.last_rank_steps"
    [row] = warehouse.rows(f"SELECT {columns} FROM jobs() AS j WHERE j.job = 'a'")[1]
    durations = sum(made.steps) * 4
    assert row[:4] == (4, 0, None, 3) and row[6:] == (1, 3)
    assert row[4] == pytest.approx(median(made.steps), abs=5)
    assert row[5] == pytest.approx(100 * sum(steps.values()) / durations, abs=1)


@pytest.mark.long
def test_what_a_rank_spends_more_on(opened: ExitStack) -> None:
    """By hand: a gemm takes 1.5 times as long at the late rank, 2 % of noise aside; parts of a step add up to it."""
    made = job(4, Faults(late=3, kernel="sm90_gemm"), ranks=4, steps=2)
    warehouse = opened.enter_context(open_ephemeral_jobs({"a": made.contents()}))
    gemm = LAYERS * dict(LAYER)["sm90_gemm"] + dict(END)["sm90_gemm"]
    query = "SELECT o.rank, o.place, o.op, o.per_step, o.others, o.excess, o.calls FROM rank_ops() AS o LIMIT 1"
    [(rank, place, op, per_step, others, excess, calls)] = warehouse.rows(query)[1]
    assert (rank, place, op, calls) == (3, "device", "sm90_gemm", 2 * (LAYERS + 1))
    assert (per_step, others, excess) == (
        pytest.approx(1.5 * gemm, rel=0.03),
        pytest.approx(gemm, rel=0.03),
        per_step - others,
    )
    query = "SELECT o.rank, sum(o.per_step) FROM rank_ops(\"by\" := 'part') AS o GROUP BY ALL ORDER BY ALL"
    steps = "SELECT s.rank, avg(s.duration) FROM rank_steps() AS s GROUP BY ALL ORDER BY ALL"
    assert warehouse.rows(query)[1] == [(rank, pytest.approx(time)) for rank, time in warehouse.rows(steps)[1]]


def test_others_are_the_median_of_the_other_ranks(opened: ExitStack) -> None:
    """By hand, in us: 10, 20, 30 and 100; an op that one rank lacks takes 0 there."""
    ranks = {}
    for rank, time in enumerate((10, 20, 30, 100)):
        events = [event("cpu_op", "aten::mm", 0, time), event("cpu_op", "aten::end", 200, 201)]
        ranks[rank] = trace(*events, *([event("cpu_op", "aten::add", 150, 158)] if rank == 3 else []))
    warehouse = opened.enter_context(open_ephemeral_jobs({"a": ranks}))
    query = "SELECT o.op, o.rank, o.per_step, o.others, o.excess FROM rank_ops() AS o WHERE o.op <> 'aten::end'"
    assert sorted(warehouse.rows(query)[1]) == [
        ("aten::add", 3, 8, 0, 8),
        ("aten::mm", 0, 10, 30, -20),
        ("aten::mm", 1, 20, 30, -10),
        ("aten::mm", 2, 30, 20, 10),
        ("aten::mm", 3, 100, 20, 80),
    ]


@pytest.mark.long
def test_broadcasts_are_no_wait(opened: ExitStack) -> None:
    """By hand: rank 1 is 20 us late to the all-reduce; the broadcast keeps rank 0 for 300 us and rank 1 for 40. Waits
    are the same by clocks, and by time in collectives where the group of the ranks isn't written.
    """
    info = {"backend": "gloo", "world_size": 2, "pg_config": [{"pg_name": "0", "pg_desc": "all", "pg_size": 2}]}
    told, untold = {}, {}
    for rank in (0, 1):
        events = [
            event("user_annotation", "ProfilerStep#1", 0, 1000),
            event("cpu_op", "aten::mm", 10, 20),
            event("user_annotation", "gloo:broadcast", 100, 400 if rank == 0 else 140, 2),
            event("user_annotation", "gloo:all_reduce", 500 + 20 * rank, 600, 2),
        ]
        told[rank] = trace(*events, distributedInfo={**info, "rank": rank})
        untold[rank] = trace(*events)
    warehouse = opened.enter_context(open_ephemeral_jobs({"told": told, "untold": untold}))
    columns = "r.rank, r.communication, r.waited, r.transfer, r.waits_for, r.waited_by"
    query = f"SELECT {columns} FROM rank_steps($job) AS r"
    assert warehouse.rows(query, job="job=told")[1] == [
        (0, 400, 20, 80, 1, "clocks"),
        (1, 120, 0, 80, 1, "clocks"),
    ]
    assert warehouse.rows(query, job="job=untold")[1] == [
        (0, 400, 20, None, 1, "communication"),
        (1, 120, 0, None, 1, "communication"),
    ]
    query = "SELECT sum(r.waited), (SELECT sum(c.waited) FROM collective_waits($job) AS c) FROM rank_steps($job) AS r"
    assert warehouse.rows(query, job="job=told")[1] == [(20, 20)]


def test_an_all_to_all_of_an_older_trace_is_a_wait(opened: ExitStack) -> None:
    """By hand: rank 1 is 500 us late to an all-to-all and 20 us early to an all-reduce, which then take 10 us. Their
    kernels have no names of collectives, and that of an all-to-all is one of messages; so is that of a single message,
    in which a rank may wait for any time. torch's annotations around the launches tell them apart.
    """
    kernels = {"send": "SendRecv", "all_to_all": "SendRecv", "all_reduce": "AllReduce"}
    lengths = {0: (700, 510, 10), 1: (5, 10, 30)}
    contents = {}
    for rank, of_rank in lengths.items():
        machine = Machine(rank, 2)
        with machine.frame("ProfilerStep#1", "user_annotation"):
            for (collective, kernel), length in zip(kernels.items(), of_rank, strict=True):
                with machine.frame(f"nccl:{collective}", "user_annotation"):
                    machine.launch(f"ncclKernel_{kernel}_RING_SIMPLE_Sum_int8_t(ncclDevComm*)", length)
            machine.now += 2000
        contents[rank] = machine.trace()
    warehouse = opened.enter_context(open_ephemeral_jobs({"older": contents}))
    query = "SELECT r.rank, r.communication, r.waited, r.waits_for, r.waited_by FROM rank_steps('job=older') AS r"
    assert warehouse.rows(query)[1] == [(0, 1220, 480, 1, "communication"), (1, 45, 0, 1, "communication")]


@pytest.mark.long
def test_two_jobs_rank_by_rank(opened: ExitStack) -> None:
    """The new job has a rank less, whose steps are those of the simulation; a rank computes what its kernels take."""
    base, new = job(7, ranks=4, steps=3), job(8, Faults(late=0, kernel="sm90_gemm"), ranks=2, steps=2)
    jobs = {"base": base.contents(), "new": new.contents()}
    warehouse = opened.enter_context(open_ephemeral_jobs(jobs))
    columns = "rank, base, new, change_percent, base_computation, new_computation, base_steps, new_steps, note"
    found = warehouse.rows(f"SELECT {columns} FROM compare_jobs('job=base', 'job=new')")[1]
    assert [(row[0], *row[6:]) for row in found] == [
        (None, 3, 2, None), (0, 3, 2, None), (1, 3, 2, None), (2, 3, 0, "not in new"), (3, 3, 0, "not in new"),
    ]  # fmt: skip
    before, after = median(base.steps), median(new.steps)
    assert found[0][1:3] == (pytest.approx(before, abs=5), pytest.approx(after, abs=5))
    assert found[0][3] == pytest.approx(100 * (found[0][2] - found[0][1]) / found[0][1])
    for number, made, of_job in ((4, base, 4), (5, new, 2)):
        for rank in range(of_job):
            kernels = [each for each in made.ranks[rank].events if each["cat"] == "kernel" and each["tid"] == 7]
            per_step = [
                kernels[at : at + len(kernels) // len(made.steps)]
                for at in range(0, len(kernels), len(kernels) // len(made.steps))
            ]
            assert found[rank + 1][number] == median(sum(each["dur"] for each in of_step) for of_step in per_step)


@pytest.mark.long
def test_an_error_about_ranks_is_about_the_first(opened: ExitStack) -> None:
    """Two jobs of four ranks without a label job: each rank has two traces."""
    made = job(1, ranks=4, steps=1).contents()
    warehouse = opened.enter_context(open_ephemeral_jobs({"a": made, "b": made}))
    warehouse.connection.execute("DELETE FROM labels WHERE key = 'job'")
    for _ in range(8):
        with pytest.raises(QueryError, match="^several traces without a label job are of rank 0: "):
            warehouse.rows("FROM jobs()")


def test_missing_ranks(opened: ExitStack) -> None:
    """Of 20 processes, ranks 1 and 18 have traces; the first 16 others are listed."""
    made = job(1, ranks=2, steps=1).contents()
    ranks = {
        rank: made[at]
        .replace(b'"world_size": 2', b'"world_size": 20')
        .replace(b'"rank": %d' % at, b'"rank": %d' % rank)
        for at, rank in ((0, 1), (1, 18))
    }
    warehouse = opened.enter_context(open_ephemeral_jobs({"a": ranks}))
    query = "SELECT j.ranks, j.world_size, j.missing, j.missing_ranks, j.waited_by FROM jobs() AS j"
    [(number, size, missing, listed, _)] = warehouse.rows(query)[1]
    assert (number, size, missing) == (2, 20, 18)
    assert listed == "0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16"
