"""What a trace tells of its recording: the time, labels of the process that wrote it, devices."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from etq.ingest.trace.reader import read_torch_trace
from etq.warehouse.warehouse import Warehouse
from tests.batches import Labelled, ingest_all
from tests.builders import dump, execute, run
from tests.conftest import CAPTURES
from tests.trace_builders import event, trace

TENSOR_PARALLEL = {"pg_name": "3", "pg_desc": "mesh tp", "pg_size": 2, "ranks": [0, 4]}


@pytest.mark.parametrize(
    ("groups", "label"),
    [
        ([{"pg_name": "0", "pg_desc": "default_pg", "pg_size": 8}, TENSOR_PARALLEL], "default_pg:8 mesh_tp:2"),
        ([{"pg_name": "0", "backend_config": "cuda:nccl", "ranks": [], "group_size": 4, "group_count": 1}], "0:4"),
        ([{"pg_name": "1", "pg_desc": "undefined", "pg_size": 2}, {"pg_desc": "undefined", "pg_size": 4}], "1:2 undefined:4"),
        ([{"pg_name": 7, "pg_size": 2}, {"pg_desc": "\x1b[31m", "pg_size": 2}, {"pg_size": 3}], "7:2 __31m:2"),
        ([{"pg_name": "0", "pg_size": 4}, {"pg_name": [1], "pg_size": 2}, 5, {"pg_desc": 6, "pg_size": 2}], "0:4 6:2"),
        ([{"pg_name": "007", "pg_size": 10**30}, {"pg_name": "1", "pg_size": -2}], None),
        ([{"pg_name": "007", "pg_size": "8"}], "007:8"),
        *((groups, None) for groups in ([[[{"pg_name": "0", "pg_size": 2}]]], {"pg_name": "0"}, "default_pg", [])),
    ],
)  # fmt: skip
def test_process_groups_are_a_label(groups: Any, label: str | None) -> None:
    """From current and older files; values that aren't a list of groups are left out."""
    content = json.dumps({"distributedInfo": {"rank": 1, "pg_config": groups}, "traceEvents": []}).encode()
    rows = dict(read_torch_trace(content, "made"))["labels"].to_pylist()
    found = {row["key"]: row["value"] for row in rows}
    assert found == {"rank": "1"} | ({} if label is None else {"process_groups": label})


@pytest.mark.parametrize(
    ("info", "labels"),
    [
        ({"rank": "1", "world_size": 2.0}, {"rank": "1", "world_size": "2"}),
        ({"rank": [1], "world_size": 2, "backend": 5}, {"world_size": "2"}), ({"rank": -1, "world_size": 0}, {}),
        ({"rank": 10**40, "world_size": 2**62}, {}), ({"rank": True, "world_size": 1.5}, {}), ([1], {}), ("rank", {}),
        (3, {}), (None, {}),
    ],
)  # fmt: skip
def test_a_process_of_another_type_is_left_out(info: Any, labels: dict[str, str]) -> None:
    """A trace is more than its labels, and no label has a number that can't be true."""
    content = json.dumps({"distributedInfo": info, "traceEvents": []}).encode()
    rows = dict(read_torch_trace(content, "made")).get("labels")
    assert ({} if rows is None else {row["key"]: row["value"] for row in rows.to_pylist()}) == labels


def test_details_of_a_kernel(warehouse: Warehouse) -> None:
    details = {"device": 0, "stream": 7, "grid": [2, 1, 1], "block": [64, 1, 1], "registers per thread": 16}
    warehouse.ingest(
        trace(
            event("user_annotation", "ProfilerStep#3", 0, 100),
            event("cpu_op", "aten::add", 1, 10, external=4),
            event("cuda_runtime", "cudaLaunchKernel", 2, 5, correlation=9),
            event(
                "kernel", "add_kernel", 120, 160, 7, external=4, correlation=9, blocks=0.5, occupancy=31.5, **details
            ),
        )
    )
    query = "SELECT run_index, device, stream, grid, block, blocks_per_sm, occupancy_percent FROM device_events"
    # It ran after the step that launched it.
    assert warehouse.rows(query)[1] == [(0, 0, 7, "[2, 1, 1]", "[64, 1, 1]", 0.5, 31.5)]
    rows = warehouse.rows(
        "SELECT name, self_device_time, device_time_total, self_cpu_time FROM key_averages('@latest') ORDER BY name"
    )[1]
    assert rows == [
        ("ProfilerStep*", 0, 40, 91), ("add_kernel", 40, 40, 0), ("aten::add", 40, 40, 6), ("cudaLaunchKernel", 0, 0, 3),
    ]  # fmt: skip


TORCH = CAPTURES / "torch"
# A base as Kineto writes it: the first of a quarter, in nanoseconds since 1970.
BASE = 1_790_857_026_000_000_000
# 2026-10-01T12:17:06 and 10 s.
STARTED = datetime(2026, 10, 1, 12, 17, 16)


def trace_at(ts: Any, base: Any = None, *more: dict[str, Any]) -> dict[str, Any]:
    events = [{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": ts, "dur": 5}, *more]
    return {"traceEvents": events} | ({} if base is None else {"baseTimeNanoseconds": base})


def recorded(warehouse: Warehouse, content: Any, **options: Any) -> datetime | None:
    """The captured_at of a capture of this content."""
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    capture = warehouse.ingest(data, **options)
    query = "SELECT c.captured_at FROM captures AS c WHERE c.capture_id = $id"
    [(moment,)] = warehouse.rows(query, id=capture.capture_id)[1]
    assert moment is None or isinstance(moment, datetime)
    return moment


def test_a_real_trace_has_the_time_at_which_its_recording_began(warehouse: Warehouse) -> None:
    """By the standard library: the base and the instant with which Kineto marks the start."""
    packed = (TORCH / "steps_7.pt.trace.json.gz").read_bytes()
    content = json.loads(gzip.decompress(packed))
    [start] = [each["ts"] for each in content["traceEvents"] if each["name"] == "Iteration Start: PyTorch Profiler"]
    seconds = content["baseTimeNanoseconds"] // 10**9
    expected = datetime(1970, 1, 1) + timedelta(seconds=seconds, microseconds=int(start))
    assert recorded(warehouse, packed) == recorded(warehouse, gzip.decompress(packed)) == expected


LAST = 4_102_444_800 * 10**6
SINCE_1970 = BASE // 1000 + 10e6
# Kineto has a slice of the recording, before its first event; events of devices may have any time.
STRAY = {"ph": "X", "cat": "gpu_user_annotation", "name": "lost", "pid": 0, "tid": 7, "ts": 0, "dur": 1}
WHOLE = {"ph": "X", "cat": "Trace", "name": "PyTorch Profiler (0)", "pid": "Spans", "tid": "x", "ts": 10e6, "dur": 9}
KNOWN: list[tuple[Any, datetime]] = [
    (trace_at(10e6, BASE), STARTED),
    (trace_at(10e6, str(BASE)), STARTED),
    (trace_at(10e6 + 0.75, BASE), STARTED),  # nanoseconds are rounded down
    (trace_at(SINCE_1970), STARTED), (trace_at(SINCE_1970, 0), STARTED), (trace_at(SINCE_1970)["traceEvents"], STARTED),
    (gzip.compress(json.dumps(trace_at(10e6, BASE)).encode(), mtime=0), STARTED),
    ({"baseTimeNanoseconds": BASE, **trace_at(10e6)}, STARTED), (trace_at(10e6 + 3, BASE, STRAY, WHOLE), STARTED),
    (trace_at(10e6 + 3, BASE, STRAY), STARTED - timedelta(seconds=10)),
    # The edges of the times that can be true.
    (trace_at(10**15), datetime(2001, 9, 9, 1, 46, 40)),
    (trace_at(LAST - 1), datetime(2099, 12, 31, 23, 59, 59, 999_999)),
]  # fmt: skip
UNKNOWN: list[Any] = [
    *(trace_at(10e6, base) for base in (None, 0, -BASE, 10**18 - 10**11, 5 * 10**18, 2**63, 10**300)),
    *(trace_at(10e6, base) for base in ("soon", [BASE], {"ns": BASE}, True, 1.5e18)),
    *(
        trace_at(-10e6), trace_at(4.5e15), trace_at(4.5e15, BASE), trace_at(1e300, BASE), trace_at(10**15 - 1),
        trace_at(LAST),
    ),
    *(
        json.dumps(trace_at(10e6, BASE)).encode().replace(str(BASE).encode(), damaged)
        for damaged in (b"9" * 5000, b'"\xff"', b"1e99999", b"-0.0", b"[[3]]")
    ),
]  # fmt: skip


def test_times_that_count_from_a_base_or_from_1970() -> None:
    """Asked of the reader, whose row `captures` has the time."""
    for content, expected in [*KNOWN, *((each, None) for each in UNKNOWN)]:
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        [row] = dict(read_torch_trace(data, "made"))["captures"].to_pylist()
        moment = row.get("captured_at")
        assert (None if moment is None else moment.replace(tzinfo=None)) == expected, str(content)[:200]


def by_recording(warehouse: Warehouse) -> list[str]:
    """Names of the captures, the one recorded last first, as `_outdated_captures` has them."""
    return [name for (name,) in warehouse.rows("SELECT o.name FROM _outdated_captures(0) AS o ORDER BY o.age")[1]]


def test_captures_of_unknown_time_were_recorded_when_they_were_ingested(warehouse: Warehouse) -> None:
    """A trace is not newer than all ETDumps; an old capture that is ingested last is not the latest."""
    now = datetime.now(UTC).replace(tzinfo=None)
    moments = [None, datetime(2024, 5, 1), now + timedelta(days=1), None, *[datetime(2024, 5, 2)] * 2]
    made = [dump(run("Execute", execute(0, number + 1))) for number in range(6)]
    ingest_all(warehouse, (Labelled(f"c{at}", made[at], {}, moment) for at, moment in enumerate(moments)))
    assert by_recording(warehouse) == ["c2", "c3", "c0", "c5", "c4", "c1"]
    assert warehouse.capture("@latest").name == "c2"
    assert warehouse.capture("@previous").name == "c3"
    assert [each.name for each in warehouse.prune(2)] == ["c1", "c4", "c5", "c0"]
    assert warehouse.capture("@previous").name == "c3"
