"""Ranks of a job and their collectives: bandwidths, waits, clocks, who is waited for; by hand and as planted."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod
from pathlib import Path
from statistics import mean, median
from typing import Any, Final

import pytest

import etq
from etq.errors import QueryError
from etq.warehouse.warehouse import Warehouse
from tests.batches import Labelled, ingest_all
from tests.benchmarks.make_gpu_trace import make_gpu_trace
from tests.conftest import CAPTURES
from tests.launch_traces import ALL_REDUCE, Machine, message
from tests.sampling import thinned
from tests.trace_builders import event, trace
from tests.trace_reference import load


def test_bandwidths_by_hand(warehouse: Warehouse) -> None:
    """Four processes: an all-reduce sends 2 x 3/4 of its bytes over each link, an all-gather 3/4, a broadcast all."""
    made = Machine(world_size=4)
    for collective, dtype, sent, received, times in (
        ("allreduce", "Float", 1000, 1000, (10, 30)), ("_allgather_base", "BFloat16", 1000, 4000, (8,)),
        ("_reduce_scatter_base", "Half", 4000, 1000, (9,)), ("all_to_all", "Byte", 500, 500, (6,)),
        ("broadcast", "Double", 100, 100, (5,)), ("sum", "Complex32", 100, 100, (4,)),
    ):  # fmt: skip
        for length in times:
            made.launch(ALL_REDUCE, length, 24, **message(collective, "0", dtype, sent, received, 4))
    warehouse.ingest(made.trace(), name="t")
    rows = warehouse.rows("""
        SELECT c.collective, c.message_bytes, c.calls, c.total, c.bandwidth_gb_per_s, c.bus_bandwidth_gb_per_s,
            c.best_bus_bandwidth_gb_per_s
        FROM collectives('t') AS c
    """)[1]
    assert rows == [
        ("allreduce", 4000, 2, 40, pytest.approx(0.2), pytest.approx(0.3), pytest.approx(0.6)),
        ("_reduce_scatter_base", 8000, 1, 9, *[pytest.approx(8000 / 9000 * factor) for factor in (1, 0.75, 0.75)]),
        ("_allgather_base", 8000, 1, 8, 1, 0.75, 0.75),
        ("all_to_all", 500, 1, 6, *[pytest.approx(500 / 6000 * factor) for factor in (1, 0.75, 0.75)]),
        ("broadcast", 800, 1, 5, *[pytest.approx(0.16)] * 3),
        ("sum", None, 1, 4, None, None, None),
    ]
    [(share,)] = warehouse.rows("SELECT sum(c.share_percent) FROM collectives('t') AS c")[1]
    assert share == pytest.approx(100)


def test_other_values_of_the_keys(warehouse: Warehouse) -> None:
    """Names that are numbers count as names. Lists and texts in place of numbers are NULL; other values are kept."""
    made = Machine()
    made.launch("one", 10, **(message("allreduce", "0", "Float", 5, 5, 2) | {"Process Group Name": 7}))
    made.launch("two", 10, **(message("allreduce", "0", "Float", 5, 5, 2) | {"Group size": "2", "In msg nelems": None}))
    odd: dict[str, Any] = {"Group size": 2**70, "dtype": ["float", "int"]}
    made.launch("three", 10, **odd)
    nested: Any = []
    for _ in range(900):
        nested = [nested]
    made.launch("four", 10, **{"Collective name": nested, "Process Group Name": {"a": 1}, "dtype": True})
    warehouse.ingest(made.trace(), name="t")
    rows = warehouse.rows("""
        SELECT d.device, d.stream, d.process_group, d.group_size, d.message_type, d.in_elements
        FROM device_events AS d
        ORDER BY d.event_index
    """)[1]
    assert rows == [(0, 7, "7", 2, "Float", 5), (0, 7, "0", None, "Float", None), *[(0, 7, None, None, None, None)] * 2]


def test_rank_and_world_size_are_labels(warehouse: Warehouse) -> None:
    warehouse.ingest(Machine(rank=3, world_size=8).trace(), name="t")
    labels = "SELECT l.key, l.value FROM labels AS l ORDER BY l.key"
    assert warehouse.rows(labels)[1] == [("rank", "3"), ("world_size", "8")]


COLUMNS: Final = "collective, process_group, group_description, group_size, message_bytes, calls"


def ranked(rank: int, groups: int, *events: dict[str, Any]) -> bytes:
    """A rank that is in so many groups."""
    config = [{"pg_name": str(at), "pg_desc": f"group{at}", "pg_size": 4 - at} for at in range(groups)]
    info = {"backend": "gloo", "rank": rank, "world_size": 4, "pg_config": config}
    return trace(*events, distributedInfo=info)


def reduced(start: float, end: float, elements: int, name: str = "all_reduce", dtype: str = "float") -> dict[str, Any]:
    written = {"Input type": [dtype], "Input Dims": [[elements]]}
    return event("user_annotation", f"gloo:{name}", start, end, 2, **written)


def test_collectives_are_those_of_the_file(warehouse: Warehouse) -> None:
    """By plain Python: bytes that a process sends; of an all-gather those that it receives from both."""
    path = CAPTURES / "torch_gloo" / "rank0.pt.trace.json.gz"
    warehouse.ingest(path, name="t")
    sizes = {"float": 4, "double": 8, "long int": 8, "c10::Half": 2, "c10::BFloat16": 2}
    expected: defaultdict[Any, list[float]] = defaultdict(lambda: [0, 0])
    for each in load(path):
        if each.get("name", "").startswith("gloo:"):
            name, given = each["name"][5:], each["args"]
            size = None
            if "Input Dims" in given and name != "gather":
                [dims], [dtype] = given["Input Dims"], given["Input type"]
                size = prod(dims) * sizes[dtype] * (2 if name == "all_gather" else 1)
            of = expected[name, size, "default_pg", 2]
            of[0] += 1
            of[1] += round(each["dur"] * 1000)
    columns = "collective, message_bytes, group_description, group_size, calls, total"
    rows = warehouse.rows(f"SELECT {columns} FROM collectives('t', unit := 'ns')")[1]
    assert {row[:4]: [*row[4:]] for row in rows} == dict(expected) and len(rows) == 9


def test_clocks_by_hand(warehouse: Warehouse) -> None:
    """The second rank's clock is 1000 us ahead. Its threads began two collectives in the other order."""
    large, small = reduced(100, 190, 500), reduced(101, 150, 5)
    later = [reduced(1120, 1190, 500), reduced(1119, 1150, 5)]
    rooted = reduced(200, 250, 5, "broadcast"), reduced(1200, 1999, 5, "broadcast")
    both = enumerate(([large, small, rooted[0]], [*later, rooted[1]]))
    ingest_all(warehouse, ((f"rank{rank}", ranked(rank, 1, *events)) for rank, events in both))
    query = "SELECT c.rank, c.collectives, c.clock_offset, c.spread FROM clock_offsets() AS c"
    assert warehouse.rows(query)[1] == [(0, 2, -500, 0), (1, 2, 500, 0)]


@pytest.mark.long
def test_the_group_of_a_process_in_several_is_unknown(warehouse: Warehouse) -> None:
    """Events of gloo don't name their groups: their collectives are not matched among ranks."""
    events = reduced(100, 190, 500), reduced(200, 210, 8, "all_gather")
    ingest_all(warehouse, ((f"rank{rank}", ranked(rank, 2, *events)) for rank in range(2)))
    assert warehouse.rows(f"SELECT {COLUMNS} FROM collectives('rank0')")[1] == [
        ("all_reduce", None, None, None, 2000, 1),
        ("all_gather", None, None, None, None, 1),
    ]
    assert warehouse.rows("SELECT c.collectives, c.clock_offset FROM clock_offsets() AS c")[1] == [(0, None)] * 2


def test_messages_of_impossible_sizes_are_unknown(warehouse: Warehouse) -> None:
    written: list[dict[str, Any]] = [{"Input Dims": dims} for dims in ([[2**62] * 40], [[-4]], [[3], [4]], ["x"])]
    events = [
        event("user_annotation", "gloo:all_reduce", 10 * at, 10 * at + 5, 2, **given, **{"Input type": ["float"]})
        for at, given in enumerate([*written, {}])
    ]
    warehouse.ingest(trace(*events), name="t")
    query = "SELECT message_bytes, sum(calls) FROM collectives('t') GROUP BY ALL"
    assert warehouse.rows(query)[1] == [(None, 5)]


def test_only_kernels_count_where_there_are_kernels(warehouse: Warehouse) -> None:
    """As in rank_steps: times of the host and of devices don't add up."""
    warehouse.ingest(trace(reduced(100, 190, 500), event("kernel", "gemm", 0, 9, 7, device=0, stream=7)), name="t")
    assert warehouse.rows("FROM collectives('t')")[1] == []


OFFSETS = "SELECT c.rank, c.collectives, c.clock_offset, c.spread FROM clock_offsets('job=a') AS c"


def store(warehouse: Warehouse, made: Sequence[Machine], job: str = "a") -> None:
    store_ranks(warehouse, {machine.rank: machine.trace() for machine in made}, job)


def store_ranks(warehouse: Warehouse, ranks: Mapping[int, bytes], job: str) -> None:
    labelled = (Labelled(f"{job}{rank}", of, {"job": job, "rank": str(rank)}) for rank, of in ranks.items())
    ingest_all(warehouse, labelled)


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


@pytest.mark.long
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


@pytest.mark.long
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


@pytest.mark.long
def test_groups_of_a_mesh(warehouse: Warehouse) -> None:
    """No group has all ranks: 0 and 1, 2 and 3 by tensor, 0 and 2, 1 and 3 by data."""
    offsets = (0, 40, -2_000, 70_000)
    groups = {0: ("1", "3"), 1: ("1", "4"), 2: ("2", "3"), 3: ("2", "4")}

    def write(machine: Machine, step: int, start: int) -> None:
        for place, group in enumerate(groups[machine.rank]):
            collective(machine, start + 100 * place, start + 100 * place + 90, group, size=2)

    store(warehouse, machines(offsets, 2, write))
    middle = median(offsets)
    rows = warehouse.rows(OFFSETS)[1]
    assert [(row[0], row[2], row[3]) for row in rows] == [(rank, at - middle, 0) for rank, at in enumerate(offsets)]


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


H100 = "NVIDIA H100 80GB HBM3"
Write = Callable[[Machine, int], None]


def ingest_job(
    warehouse: Warehouse, ranks: Sequence[int], write: Write, *, steps: int = 1, size: int = 0,
    devices: int = 8, name: str = H100, offsets: Sequence[float] = (), job: str = "a",
) -> None:  # fmt: skip
    """A trace of each rank; `write` adds the collectives of a step, at times without the offset of the rank's clock."""
    contents = {}
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
        contents[rank] = made.trace(deviceProperties=[{"id": number, "name": name} for number in range(devices)])
    store_ranks(warehouse, contents, job)


def run(made: Machine, start: int, end: int, group: str = "0", size: int = 4, **given: Any) -> None:
    kind: dict[str, Any] = {"collective": "allreduce", "dtype": "Float", "sent": 1000, "received": 1000} | given
    name, dtype, *elements = kind.values()
    made.run(ALL_REDUCE, start, end, 24, **message(name, group, dtype, elements[0], elements[1], size))


@pytest.mark.long
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

    ingest_job(warehouse, range(4), write, steps=3, offsets=offsets)
    # Another job with the same steps and groups changes nothing.
    ingest_job(warehouse, range(4), write, steps=2, job="b")
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


def test_steps_whose_waits_are_unknown_are_no_part_of_the_whole(warehouse: Warehouse) -> None:
    """Rank 0 waits 50 us in step 0. In step 1, rank 1 has no collective, so how long rank 0 waits there is unknown; in
    step 2, no rank has one.
    """

    def write(made: Machine, step: int) -> None:
        if step + made.rank < 2 and step < 2:
            start = 10_000 * step + 100 + 50 * made.rank
            run(made, start, 10_000 * step + 200, size=2)

    ingest_job(warehouse, range(2), write, steps=3)
    query = "SELECT step, rank, waited, transfer FROM rank_steps('job=a') ORDER BY ALL"
    known = [(0, 0, 50, 50), (0, 1, 0, 50), (1, 0, None, None), (1, 1, 0, 0), (2, 0, 0, 0), (2, 1, 0, 0)]
    assert warehouse.rows(query)[1] == known
    [(waited, part, steps)] = warehouse.rows("SELECT waited_percent, last_rank_percent, steps FROM jobs('job=a')")[1]
    assert (waited, part, steps) == (pytest.approx(100 * 50 / (5 * 9999)), 100, 3)


def test_waits_on_clocks_an_odd_nanosecond_apart(warehouse: Warehouse) -> None:
    """The median of two clocks is between ticks: both are shifted by it alike."""
    ingest_job(warehouse, range(2), lambda made, _: run(made, 100 + 50 * made.rank, 200, size=2), offsets=(0, 0.001))
    rows = warehouse.rows("SELECT rank, waited, transfer FROM collective_waits(\"by\" := 'rank', unit := 'ns')")[1]
    assert rows == [(0, 50_000, 50_000), (1, 0, 50_000)]


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

    ingest_job(warehouse, range(3), write)
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

    ingest_job(warehouse, range(2), write, steps=2)
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


@pytest.mark.parametrize(
    ("devices", "name", "size", "given", "percent", "reason"),
    [*LINKS[:4], *(pytest.param(*each, marks=pytest.mark.long) for each in LINKS[4:])],
)
def test_bandwidths_against_links(
    warehouse: Warehouse, devices: int, name: str, size: int, given: float | None, percent: float | None, reason: str
) -> None:
    sent: dict[str, Any] = {"collective": "_allgather_base", "dtype": "Byte", "sent": 2_250_000, "received": 4_500_000}
    ingest_job(
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


@pytest.mark.long
def test_groups_over_machines(warehouse: Warehouse) -> None:
    """Ranks 0 and 1 are on one machine of two devices, 2 and 3 on another."""

    def write(made: Machine, step: int) -> None:
        rank = made.rank
        run(made, 100 + rank, 200, f"{rank // 2} within", 2)
        run(made, 300 + rank, 400, f"{rank % 2} over", 2)

    ingest_job(warehouse, range(4), write, devices=2)
    query = "SELECT process_group, link_percent IS NULL, reason FROM collective_waits() ORDER BY ALL"
    over = (True, "ranks of the group may be on several machines")
    expected = [("0 over", *over), ("0 within", False, None), ("1 over", *over), ("1 within", False, None)]
    assert warehouse.rows(query)[1] == expected
    assert [row[1:] for row in warehouse.rows(query.replace("()", "(link_bandwidth := 1e9)"))[1]] == [(False, None)] * 4


def test_invalid_arguments(warehouse: Warehouse) -> None:
    with pytest.raises(QueryError, match="by must be collective, rank or call, not step"):
        warehouse.rows("FROM collective_waits(\"by\" := 'step')")
    for rate in ("0", "-1", "'nan'::DOUBLE", "'inf'::DOUBLE"):
        with pytest.raises(QueryError, match="link_bandwidth must be a number above 0, in B/s"):
            warehouse.rows(f"FROM collective_waits(link_bandwidth := {rate})")


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


@pytest.mark.long
def test_collectives_of_gloo_wait_as_kernels_do(warehouse: Warehouse) -> None:
    """Ranks without devices: the one with the least time in collectives is waited for; with kernels these alone count."""
    host, device = {}, {}
    for rank, (first, second) in enumerate([(50, 90), (30, 120), (80, 70)]):
        events = [
            event("user_annotation", "ProfilerStep#0", 0, 200),
            event("user_annotation", "gloo:all_reduce", 100, 100 + first, 2),
            event("user_annotation", "ProfilerStep#1", 200, 400),
            event("user_annotation", "gloo:all_reduce", 250, 250 + second - 10, 2),
            event("user_annotation", "gloo:barrier", 380, 390, 2),
        ]
        host[rank] = trace(*events)
        device[rank] = trace(*events, event("kernel", "gemm", 20, 60, 7, device=0))
    store_ranks(warehouse, host, "host")
    store_ranks(warehouse, device, "device")
    query = "SELECT r.step, r.rank, r.communication, r.waited, r.waits_for FROM rank_steps($s) AS r"
    assert warehouse.rows(query, s="job=host")[1] == [
        (0, 0, 50, 20, 1), (0, 1, 30, 0, 1), (0, 2, 80, 50, 1), (1, 0, 90, 20, 2), (1, 1, 120, 50, 2), (1, 2, 70, 0, 2),
    ]  # fmt: skip
    query = "SELECT s.rank, s.waited_for, s.waited, s.communication FROM stragglers('job=host') AS s"
    assert warehouse.rows(query)[1] == [(1, 35, 50, 150), (2, 35, 50, 150), (0, 0, 40, 140)]
    query = "SELECT sum(r.communication) FROM rank_steps($s) AS r"
    assert warehouse.rows(query, s="job=device")[1] == [(0,)]


@pytest.mark.long
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


@pytest.mark.long
def test_a_trace_without_steps_is_one_step(warehouse: Warehouse) -> None:
    """By hand: of 300 us, the ranks are 40, 90 and 10 in collectives; a job with steps has those alone."""
    whole, some = {}, {}
    for rank, ends in enumerate([(110, 280), (150, 290), (105, 255)]):
        events = [
            event("cpu_op", "aten::add", 0, 5),
            event("user_annotation", "gloo:all_reduce", 100, ends[0], 2),
            event("user_annotation", "gloo:all_reduce", 250, ends[1], 2),
            event("cpu_op", "aten::add", 295, 300 + rank),
        ]
        step = event("user_annotation", "ProfilerStep#3", 240, 300)
        whole[rank] = trace(*events)
        some[rank] = trace(*events, step if rank else event("cpu_op", "aten::mul", 6, 7))
    store_ranks(warehouse, whole, "whole")
    store_ranks(warehouse, some, "some")
    columns = "r.step, r.rank, r.duration, r.communication, r.waited, r.waits_for"
    query = f"SELECT {columns} FROM rank_steps($s) AS r"
    assert warehouse.rows(query, s="job=whole")[1] == [
        (None, 0, 300, 40, 30, 2), (None, 1, 301, 90, 80, 2), (None, 2, 302, 10, 0, 2),
    ]  # fmt: skip
    query = "SELECT s.rank, s.steps, s.waited_for_steps, s.waited_for, s.waited FROM stragglers($s) AS s"
    assert warehouse.rows(query, s="job=whole")[1] == [(2, 1, 1, 55, 0), (0, 1, 0, 0, 30), (1, 1, 0, 0, 80)]
    assert warehouse.rows(query, s="job=some")[1] == [(2, 1, 1, 35, 0), (1, 1, 0, 0, 35)]


def test_without_collectives_nothing_is_known_of_waits(warehouse: Warehouse) -> None:
    store_ranks(warehouse, {rank: trace(event("cpu_op", "aten::add", 0, 5 + rank)) for rank in range(2)}, "a")
    query = "SELECT s.rank, s.waited_for, s.waited, s.duration FROM stragglers() AS s"
    assert warehouse.rows(query)[1] == [(0, None, None, 5), (1, None, None, 6)]
    query = "SELECT c.rank, c.collectives, c.clock_offset, c.spread FROM clock_offsets() AS c"
    assert warehouse.rows(query)[1] == [(0, 0, None, None), (1, 0, None, None)]


@pytest.mark.long
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


RANKS = 3
EVENTS = ("trace_events", "event_ticks", "device_events", "device_gaps")


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Warehouse, dict[str, int]]]:
    """A warehouse of ranks with different events, and the most rows that one has in each table of events."""
    folder: Path = tmp_path_factory.mktemp("ranks")
    with etq.open(folder / "ranks.duckdb") as warehouse:
        for rank in range(RANKS):
            make_gpu_trace(folder / f"{rank}.json", 3_000, rank + 1, rank, RANKS)
        ingest_all(warehouse, ((f"rank{rank}", folder / f"{rank}.json") for rank in range(RANKS)))
        counts = " UNION ALL ".join(f"SELECT '{name}', count(*) FROM {name} GROUP BY capture_id" for name in EVENTS)
        yield warehouse, dict(sorted(warehouse.rows(counts)[1]))


def operators(plan: Any) -> Iterator[dict[str, Any]]:
    for each in plan:
        yield each
        yield from operators(each["children"]) if "children" in each else ()


@pytest.mark.long
@pytest.mark.parametrize(
    "view",
    ["kernel_launches", "device_idle_causes"],
)
def test_events_of_other_ranks_are_not_read(ranks: tuple[Warehouse, dict[str, int]], view: str) -> None:
    warehouse, most = ranks
    query = f"EXPLAIN (ANALYZE, FORMAT JSON) FROM {view}('rank0')"
    plan = json.loads(warehouse.connection.execute(query).fetchall()[0][1])
    read = [
        (each["intermediate_rows"], most[table])
        for each in operators(plan["operator"])
        if (table := str(each["extra_info"].get("Table")).split(".")[-1]) in most
    ]
    assert [(rows, rank) for rows, rank in read if rows > rank] == []
    assert max(rows / rank for rows, rank in read) > 0.5
