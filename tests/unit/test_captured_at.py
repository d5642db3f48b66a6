"""When captures were recorded: traces have the time in the file; all captures are ordered by it."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from etq.ingest.trace.reader import read_torch_trace
from etq.warehouse.warehouse import Warehouse
from tests.builders import dump, execute, run
from tests.conftest import CAPTURES

TORCH = CAPTURES / "torch"
# A base as Kineto writes it: the first of a quarter, in nanoseconds since 1970.
BASE = 1_790_857_026_000_000_000
# 2026-10-01T12:17:06 and 10 s.
STARTED = datetime(2026, 10, 1, 12, 17, 16)


def trace(ts: Any, base: Any = None, *more: dict[str, Any]) -> dict[str, Any]:
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
    (trace(10e6, BASE), STARTED),
    (trace(10e6, str(BASE)), STARTED),
    (trace(10e6 + 0.75, BASE), STARTED),  # nanoseconds are rounded down
    (trace(SINCE_1970), STARTED),
    (trace(SINCE_1970, 0), STARTED),
    (trace(SINCE_1970)["traceEvents"], STARTED),
    (gzip.compress(json.dumps(trace(10e6, BASE)).encode(), mtime=0), STARTED),
    ({"baseTimeNanoseconds": BASE, **trace(10e6)}, STARTED),
    (trace(10e6 + 3, BASE, STRAY, WHOLE), STARTED),
    (trace(10e6 + 3, BASE, STRAY), STARTED - timedelta(seconds=10)),
    # The edges of the times that can be true.
    (trace(10**15), datetime(2001, 9, 9, 1, 46, 40)),
    (trace(LAST - 1), datetime(2099, 12, 31, 23, 59, 59, 999_999)),
]
UNKNOWN: list[Any] = [
    *(trace(10e6, base) for base in (None, 0, -BASE, 10**18 - 10**11, 5 * 10**18, 2**63, 10**300)),
    *(trace(10e6, base) for base in ("soon", [BASE], {"ns": BASE}, True, 1.5e18)),
    *(trace(-10e6), trace(4.5e15), trace(4.5e15, BASE), trace(1e300, BASE), trace(10**15 - 1), trace(LAST)),
    *(
        json.dumps(trace(10e6, BASE)).encode().replace(str(BASE).encode(), damaged)
        for damaged in (b"9" * 5000, b'"\xff"', b"1e99999", b"-0.0", b"[[3]]")
    ),
]


def test_times_that_count_from_a_base_or_from_1970() -> None:
    """Asked of the reader, whose row `captures` has the time."""
    for content, expected in [*KNOWN, *((each, None) for each in UNKNOWN)]:
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        [row] = dict(read_torch_trace(data, "made"))["captures"].to_pylist()
        moment = row.get("captured_at")
        assert (None if moment is None else moment.replace(tzinfo=None)) == expected, str(content)[:200]


def test_a_given_time_has_precedence(warehouse: Warehouse, tmp_path: Path) -> None:
    given = datetime(2024, 5, 1)
    assert recorded(warehouse, trace(10e6, BASE), captured_at=given) == given
    assert recorded(warehouse, trace(11e6, BASE), labels={"captured_at": "2024-05-01"}) == given
    path = tmp_path / "made.pt.trace.json"
    path.write_text(json.dumps(trace(12e6, BASE)))
    path.with_name(f"{path.name}.json").write_text('{"captured_at": "2024-05-01"}')
    capture = warehouse.ingest(path)
    assert warehouse.label(capture) == {"captured_at": "2024-05-01T00:00:00.000000Z"}
    # What is removed stays so: the file's content is known.
    assert warehouse.label(capture, captured_at=None) == {}
    assert warehouse.label(warehouse.ingest(path, sidecar=False)) == {}


def ingest(warehouse: Warehouse, name: str, moment: datetime | None, **labels: str) -> None:
    number = int(name[1:])
    content = dump(run("Execute", execute(0, number + 1)))
    warehouse.ingest(content, name=name, labels=labels, captured_at=moment)


def by_recording(warehouse: Warehouse) -> list[str]:
    """Names of the captures, the one recorded last first, as `_outdated_captures` has them."""
    return [name for (name,) in warehouse.rows("SELECT o.name FROM _outdated_captures(0) AS o ORDER BY o.age")[1]]


def test_captures_of_unknown_time_were_recorded_when_they_were_ingested(warehouse: Warehouse) -> None:
    """A trace is not newer than all ETDumps; an old capture that is ingested last is not the latest."""
    now = datetime.now(UTC).replace(tzinfo=None)
    ingest(warehouse, "c0", None)
    ingest(warehouse, "c1", datetime(2024, 5, 1))
    ingest(warehouse, "c2", now + timedelta(days=1))
    ingest(warehouse, "c3", None)
    ingest(warehouse, "c4", datetime(2024, 5, 2))
    ingest(warehouse, "c5", datetime(2024, 5, 2))
    assert by_recording(warehouse) == ["c2", "c3", "c0", "c5", "c4", "c1"]
    assert warehouse.capture("@latest").name == "c2"
    assert warehouse.capture("@previous").name == "c3"
    assert [each.name for each in warehouse.prune(2)] == ["c1", "c4", "c5", "c0"]
    assert warehouse.capture("@previous").name == "c3"


def test_series_have_captures_of_a_build_in_the_order_of_recording(warehouse: Warehouse) -> None:
    ingest(warehouse, "c0", None, build="2")
    ingest(warehouse, "c1", datetime(2024, 5, 2), build="2")
    ingest(warehouse, "c2", datetime(2024, 5, 1), build="2")
    ingest(warehouse, "c3", None, build="1")
    rows = warehouse.rows("SELECT t.capture FROM trend() AS t ORDER BY t.position")[1]
    assert rows == [("c3",), ("c2",), ("c1",), ("c0",)]
