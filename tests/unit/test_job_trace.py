"""Traces of a job's ranks as one: with clocks, processes, ids and devices as planted, and read again."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any, Final

import pytest

from etq.export import parts
from etq.warehouse.warehouse import Warehouse
from tests.launch_traces import ALL_REDUCE, message, training
from tests.trace_builders import event, trace
from tests.warehouses import empty_warehouse

OFFSETS: Final = (0, 5_000_000, -300, 121)


def ranks(folder: Path, offsets: tuple[int, ...] = OFFSETS, *, device: int | None = None) -> list[Path]:
    """Ranks that do other work, and end an all-reduce of each step at once, on clocks with these offsets."""
    paths = []
    for rank, offset in enumerate(offsets):
        made = training(rank, 2, rank, len(offsets))
        made.device = rank if device is None else device
        for step in (5, 6):
            start = 10**6 * step
            made.write("user_annotation", f"ProfilerStep#{step}", start, start + 999_000)
            sent = message("allreduce", "job", "Float", 10, 10, len(offsets))
            made.correlation += 1
            ids: dict[str, Any] = {"correlation": made.correlation}
            made.write("cuda_runtime", "cudaLaunchKernel", start + 1, start + 5, **ids)
            made.run(ALL_REDUCE, start + 100 + rank, start + 900, 24, **ids, **sent)
        for each in made.events:
            each["ts"] += offset
            each["pid"] = 4000 if "device" not in each["args"] else made.device
            if "device" in each["args"]:
                each["args"]["device"] = made.device
        paths.append(folder / f"rank{rank}.pt.trace.json")
        paths[-1].write_bytes(made.trace(deviceProperties=[{"id": number, "name": "GPU"} for number in range(8)]))
    return paths


def store(warehouse: Warehouse, paths: list[Path]) -> None:
    warehouse.ingest_many(paths, labels={"job": "a"})


def slices(content: bytes) -> list[dict[str, Any]]:
    return [each for each in json.loads(content)["traceEvents"] if each["ph"] == "X"]


def exported(warehouse: Warehouse, selector: str = "job=a", **options: Any) -> bytes:
    return "".join(parts(warehouse, selector, "chrome", **options)).encode()


@pytest.mark.long
def test_events_are_those_of_the_ranks(warehouse: Warehouse, tmp_path: Path) -> None:
    """By plain Python: names, lengths, and times less the offset of the rank's clock; ids and processes are its own."""
    paths = ranks(tmp_path)
    store(warehouse, paths)
    made = exported(warehouse)
    names = {
        each["pid"]: each["args"]["name"] for each in json.loads(made)["traceEvents"] if each["name"] == "process_name"
    }
    assert sorted(names.values()) == sorted(
        f"[rank {rank}] {of}" for rank in range(4) for of in (f"GPU {rank}", "python 4000")
    )
    found: defaultdict[str, list[Any]] = defaultdict(list)
    correlations: defaultdict[str, set[int]] = defaultdict(set)
    for each in slices(made):
        rank = names[each["pid"]].split("]")[0]
        found[rank].append((each["ts"], each["dur"], each["name"], each["cat"], each["tid"]))
        correlations[rank] |= {each["args"].get("correlation")} - {None}
    first = min(at for events in found.values() for at, *_ in events)
    expected = {
        f"[rank {rank}": [
            (each["ts"] - OFFSETS[rank], each["dur"], each["name"], each["cat"], each["tid"])
            for each in slices(path.read_bytes())
        ]
        for rank, path in enumerate(paths)
    }
    start = min(at for events in expected.values() for at, *_ in events)
    assert {rank: sorted((at - first, *of) for at, *of in events) for rank, events in found.items()} == {
        rank: sorted((at - start, *of) for at, *of in events) for rank, events in expected.items()
    }
    numbers = [number for of_rank in correlations.values() for number in of_rank]
    assert len(numbers) == len({*numbers}) > 40
    ends = {each["ts"] + each["dur"] for each in slices(made) if each["args"].get("Process Group Name") == "job"}
    assert len(ends) == 2


@pytest.mark.long
def test_the_trace_is_read_as_the_ranks_are(warehouse: Warehouse, tmp_path: Path) -> None:
    """Events by name, launches with what they launched, and what devices did, where all ranks call theirs 0."""
    store(warehouse, ranks(tmp_path, device=0))
    queries = [
        "SELECT s.label, count(*), sum(e.elapsed_ticks) FROM captures AS c JOIN event_ticks AS e USING (capture_id) "
        "JOIN signatures AS s USING (capture_id, signature_index) GROUP BY ALL ORDER BY ALL",
        "SELECT count(*), count(d.call_index), count(d.op_index), count(DISTINCT (d.capture_id, d.device)) "
        "FROM captures AS c JOIN device_events AS d USING (capture_id)",
        "SELECT s.label, count(*) FROM captures AS c JOIN device_events AS d USING (capture_id) JOIN event_ticks AS e "
        "ON e.capture_id = d.capture_id AND e.event_index = d.call_index JOIN signatures AS s "
        "ON s.capture_id = e.capture_id AND s.signature_index = e.signature_index GROUP BY ALL ORDER BY ALL",
    ]
    of_ranks = [warehouse.rows(query)[1] for query in queries]
    with empty_warehouse() as other:
        assert [capture.name for capture in other.ingest_ranks(exported(warehouse))] == [
            f"bytes.rank{rank}" for rank in range(4)
        ]
        assert [other.rows(query)[1] for query in queries] == of_ranks
        assert other.rows("SELECT DISTINCT d.device, d.name FROM trace_devices AS d ORDER BY 1")[1] == [
            (rank, "GPU") for rank in range(4)
        ]


def test_without_collectives_the_time_of_day_counts(warehouse: Warehouse, tmp_path: Path) -> None:
    """Times of the first count from 1 s, of the second from 3 s: 4 s is in 3 s and 1 s after these."""
    for rank, base in enumerate((1, 3)):
        made = json.loads(trace(event("cpu_op", "aten::add", (4 - base) * 1e6 + rank, (4 - base) * 1e6 + 7)))
        path = tmp_path / f"{rank}.json"
        path.write_text(json.dumps({**made, "baseTimeNanoseconds": 10**18 + base * 10**9}))
        warehouse.ingest(path, labels={"job": "a", "rank": str(rank)})
    made = json.loads(exported(warehouse))
    assert made["baseTimeNanoseconds"] == 10**18 + 10**9
    assert [each["ts"] for each in slices(json.dumps(made).encode())] == [3e6, 3e6 + 1]
