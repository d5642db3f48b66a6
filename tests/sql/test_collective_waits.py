"""Waits and transfers in collectives: of jobs whose ranks start, end and count time as planted, and by plain Python."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from statistics import mean
from typing import Any

import pytest

from etq.errors import QueryError
from etq.warehouse.warehouse import Warehouse
from tests.launch_traces import ALL_REDUCE, Machine, message
from tests.trace_builders import event, trace

H100 = "NVIDIA H100 80GB HBM3"
Write = Callable[[Machine, int], None]


def store(
    warehouse: Warehouse, ranks: Sequence[int], write: Write, *, steps: int = 1, size: int = 0,
    devices: int = 8, name: str = H100, offsets: Sequence[int] = (), job: str = "a",
) -> None:  # fmt: skip
    """A trace of each rank; `write` adds the collectives of a step, at times without the offset of the rank's clock."""
    for rank in ranks:
        made = Machine(rank, size or len(ranks), device=rank % max(devices, 1))
        offset = offsets[rank] if offsets else 0
        for step in range(steps):
            at = len(made.events)
            made.write("user_annotation", f"ProfilerStep#{step}", 10_000 * step, 10_000 * step + 9_999)
            made.write("cpu_op", "aten::mm", 10_000 * step + 1, 10_000 * step + 2)
            write(made, step)
            for each in made.events[at:]:
                each["ts"] += 10**8 + offset
        content = made.trace(deviceProperties=[{"id": number, "name": name} for number in range(devices)])
        warehouse.ingest(content, name=f"{job}{rank}", labels={"job": job, "rank": str(rank)})


def run(made: Machine, start: int, end: int, group: str = "0", size: int = 4, **given: Any) -> None:
    kind: dict[str, Any] = {"collective": "allreduce", "dtype": "Float", "sent": 1000, "received": 1000} | given
    name, dtype, *elements = kind.values()
    made.run(ALL_REDUCE, start, end, 24, **message(name, group, dtype, elements[0], elements[1], size))


def test_waits_are_as_planted(warehouse: Warehouse) -> None:
    """Four ranks on clocks that differ, in groups of a mesh and in one of all; each starts when it is ready."""
    draw = random.Random(7)
    offsets = (0, 5_000_000, -300, 120)
    groups = {"0": (0, 1, 2, 3), "1": (0, 1), "2": (2, 3)}
    times: dict[tuple[str, int, int], tuple[dict[int, int], int]] = {}
    for step in range(3):
        for number in range(2):
            for place, (group, ranks) in enumerate(groups.items()):
                base = 10_000 * step + 4_000 * number + 1_200 * place + 100
                starts = dict(zip(ranks, draw.sample(range(base, base + 500), len(ranks)), strict=True))
                times[group, step, number + 1] = starts, max(starts.values()) + draw.randrange(20, 400)

    def write(made: Machine, step: int) -> None:
        for (group, at, _), (starts, end) in times.items():
            if at == step and made.rank in starts:
                run(made, starts[made.rank], end, group, len(starts))

    store(warehouse, range(4), write, steps=3, offsets=offsets)
    # Another job with the same steps and groups changes nothing.
    store(warehouse, range(4), write, steps=2, job="b")
    columns = "process_group, step, number, rank, waited, transfer, mean_skew, last_rank, reason"
    query = f"SELECT {columns} FROM collective_waits('job=a', \"by\" := 'call') ORDER BY ALL"
    assert warehouse.rows(query)[1] == sorted(
        (
            *(*key, rank, max(starts.values()) - start, end - max(starts.values())),
            *(max(starts.values()) - min(starts.values()), max(starts, key=starts.__getitem__), None),
        )
        for key, (starts, end) in times.items()
        for rank, start in starts.items()
    )
    columns = "process_group, kernels, waited, transfer, waited_percent, mean_skew, max_skew, bus_bandwidth_gb_per_s"
    query = f"SELECT {columns} FROM collective_waits('job=a') ORDER BY process_group"
    expected = []
    for group, ranks in groups.items():
        calls = [call for key, call in times.items() if key[0] == group]
        waited = sum(max(starts.values()) - start for starts, _ in calls for start in starts.values())
        transfer = sum((end - max(starts.values())) * len(starts) for starts, end in calls)
        skews = [max(starts.values()) - min(starts.values()) for starts, _ in calls]
        bandwidth = 4000 * len(calls) * len(ranks) / (transfer * 1000) * 2 * (len(ranks) - 1) / len(ranks)
        share = 100 * waited / (waited + transfer)
        expected.append((group, len(calls) * len(ranks), waited, transfer, share, mean(skews), max(skews), bandwidth))
    assert warehouse.rows(query)[1] == [pytest.approx(row) for row in expected]


def test_why_waits_are_unknown(warehouse: Warehouse) -> None:
    def write(made: Machine, step: int) -> None:
        rank = made.rank
        run(made, 100 + rank, 200, "broadcast", 3, collective="broadcast")
        run(made, 300 + rank, 400, "large", 5)
        run(made, 500 + rank, 600, "double", 2)
        for number in range(1 + (rank == 1)):
            run(made, 700 + 50 * number, 740 + 50 * number, "uneven", 3)
        run(made, 900 + rank, 950, f"alone {rank}", 1)
        # Ends differ by more than the last one takes, so that it would take less than no time on aligned clocks.
        run(made, 1000 + 100 * rank, 1010 + 100 * rank, "apart", 3)
        run(made, 2000 + rank, 2100, "all", 3)
        run(made, 2200 + rank, 2300, "all", 3)

    store(warehouse, range(3), write)
    query = """
        SELECT process_group, number, bool_and(waited IS NULL), bool_or(waited IS NULL), string_agg(DISTINCT reason)
        FROM collective_waits("by" := 'call') GROUP BY ALL ORDER BY ALL
    """
    missing = "no traces of some ranks, or these have fewer of it in a step"
    assert warehouse.rows(query)[1] == [
        ("all", 1, False, False, None),
        ("all", 2, False, False, None),
        *((f"alone {rank}", 1, True, True, "the group has a single rank") for rank in range(3)),
        ("apart", 1, True, True, "clocks of ranks not known precisely enough"),
        ("broadcast", 1, True, True, "ranks need not end it together"),
        ("double", 1, True, True, "several groups of that name, or several traces of a rank"),
        ("large", 1, True, True, missing),
        ("uneven", 1, True, True, "ranks have different numbers of it in a step"),
        ("uneven", 2, True, True, missing),
    ]
    rows = warehouse.rows("SELECT kernels, known, waited, transfer, last_rank FROM collective_waits() WHERE process_group = 'apart'")  # fmt: skip
    assert rows[1] == [(3, 0, None, None, None)]


def test_ranks_whose_clocks_no_collective_tells(warehouse: Warehouse) -> None:
    """All ranks of a group are there, but each in another number of calls over the steps: no clock is known."""

    def write(made: Machine, step: int) -> None:
        for number in range(1 + (step + made.rank) % 2):
            run(made, 10_000 * step + 100 * number, 10_000 * step + 100 * number + 50, size=2)

    store(warehouse, range(2), write, steps=2)
    assert warehouse.rows("SELECT known, waited FROM collective_waits()")[1] == [(0, None)]
    [(job,)] = warehouse.rows("SELECT DISTINCT clock_offset FROM clock_offsets()")[1]
    assert job is None


# Devices of a machine, their name, ranks of the job, the links' bandwidth if given, the share of it and why there is none.
LINKS: list[tuple[int, str, int, float | None, float | None, str | None]] = [
    # 2 ranks on a machine of 2: all-gather of 4500 kB in 20 us, half of which cross a link: 112.5 of 450 GB/s.
    (2, H100, 2, None, 25, None),
    (8, H100, 2, 225e9, 50, None),
    # Ranks 0 and 1 of 16 are on one machine if ranks are counted machine by machine.
    (8, H100, 16, None, 25, None),
    (1, H100, 2, None, None, "more ranks in the group than devices in the machine"),
    (1, H100, 2, 225e9, 50, None),
    (8, "Some GPU", 2, None, None, "bandwidth of the links unknown"),
    (8, "NVIDIA L4", 2, None, None, "bandwidth of the links unknown"),
    (0, H100, 2, None, None, "bandwidth of the links unknown"),
    (0, H100, 2, 225e9, 50, None),
]


@pytest.mark.parametrize(("devices", "name", "size", "given", "percent", "reason"), LINKS)
def test_bandwidths_against_links(
    warehouse: Warehouse, devices: int, name: str, size: int, given: float | None, percent: float | None, reason: str
) -> None:
    sent: dict[str, Any] = {"collective": "_allgather_base", "dtype": "Byte", "sent": 2_250_000, "received": 4_500_000}
    store(
        warehouse, range(2), lambda made, _: run(made, 100 + 10 * made.rank, 130, size=2, **sent),
        size=size, devices=devices, name=name,
    )  # fmt: skip
    columns = "bus_bandwidth_gb_per_s, link_percent, reason"
    query = f"SELECT bandwidth_gb_per_s, {columns} FROM collective_waits(link_bandwidth := $given)"
    assert warehouse.rows(query, given=given)[1] == [(225, 112.5, percent and pytest.approx(percent), reason)]
    # One trace has no ranks of the group; its kernel of 20 us waited for none.
    if size == 16:
        percent, reason = None, "ranks of the group may be on several machines"
    query = f"SELECT {columns} FROM collectives('a1', link_bandwidth := $given)"
    assert warehouse.rows(query, given=given)[1] == [(112.5, percent and pytest.approx(percent), reason)]


def test_groups_over_machines(warehouse: Warehouse) -> None:
    """Ranks 0 and 1 are on one machine of two devices, 2 and 3 on another."""

    def write(made: Machine, step: int) -> None:
        rank = made.rank
        run(made, 100 + rank, 200, f"{rank // 2} within", 2)
        run(made, 300 + rank, 400, f"{rank % 2} over", 2)

    store(warehouse, range(4), write, devices=2)
    query = "SELECT process_group, link_percent IS NULL, reason FROM collective_waits() ORDER BY ALL"
    over = (True, "ranks of the group may be on several machines")
    expected = [("0 over", *over), ("0 within", False, None), ("1 over", *over), ("1 within", False, None)]
    assert warehouse.rows(query)[1] == expected
    assert [row[1:] for row in warehouse.rows(query.replace("()", "(link_bandwidth := 1e9)"))[1]] == [(False, None)] * 4


def test_gloo_waits_as_kernels_do(warehouse: Warehouse) -> None:
    """By hand: both end at 150 us of the first rank's clock, which is 40 us behind; the second starts 30 us later."""
    for rank, offset in enumerate((0, 40)):
        info = {"backend": "gloo", "rank": rank, "world_size": 2}
        info["pg_config"] = [{"pg_name": "0", "pg_desc": "default_pg", "pg_size": 2}]
        written = {"Input type": ["float"], "Input Dims": [[100]]}
        reduced = event("user_annotation", "gloo:all_reduce", 100 + 30 * rank + offset, 150 + offset, 2, **written)
        warehouse.ingest(trace(event("cpu_op", "aten::add", 0, 5), reduced, distributedInfo=info), name=f"rank{rank}")
    columns = "rank, collective, message_bytes, waited, transfer, mean_skew, last_rank, bus_bandwidth_gb_per_s, reason"
    query = f"SELECT {columns} FROM collective_waits(\"by\" := 'rank', unit := 'us') ORDER BY rank"
    same = (20, 30, 1, pytest.approx(0.02), "bandwidth of the links unknown")
    assert warehouse.rows(query)[1] == [(0, "all_reduce", 400, 30, *same), (1, "all_reduce", 400, 0, *same)]


def test_invalid_arguments(warehouse: Warehouse) -> None:
    with pytest.raises(QueryError, match="by must be collective, rank or call, not step"):
        warehouse.rows("FROM collective_waits(\"by\" := 'step')")
    for rate in ("0", "-1", "'nan'::DOUBLE", "'inf'::DOUBLE"):
        with pytest.raises(QueryError, match="link_bandwidth must be a number above 0, in B/s"):
            warehouse.rows(f"FROM collective_waits(link_bandwidth := {rate})")
