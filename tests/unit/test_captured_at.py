"""When captures were recorded: traces have the time in the file; all captures are ordered by it."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from etq.warehouse.warehouse import Warehouse
from tests.builders import dump, execute, run
from tests.conftest import CAPTURES
from tests.warehouses import empty_warehouse

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


def test_constants_by_another_way() -> None:
    assert datetime.fromtimestamp(BASE / 1e9, UTC).replace(tzinfo=None) + timedelta(seconds=10) == STARTED


@pytest.mark.parametrize("path", sorted(TORCH.glob("*.pt.trace.json.gz")), ids=lambda path: path.name.split(".")[0])
def test_real_traces_have_the_time_at_which_their_recording_began(warehouse: Warehouse, path: Path) -> None:
    """By the standard library: the base and the instant with which Kineto marks the start."""
    content = json.loads(gzip.decompress(path.read_bytes()))
    [start] = [each["ts"] for each in content["traceEvents"] if each["name"] == "Iteration Start: PyTorch Profiler"]
    expected = datetime(1970, 1, 1) + timedelta(
        seconds=content["baseTimeNanoseconds"] // 10**9, microseconds=int(start)
    )
    assert recorded(warehouse, path.read_bytes()) == expected
    assert recorded(warehouse, gzip.decompress(path.read_bytes())) == expected
    # The recording was made for etq, whose first traces are of November 2026.
    assert datetime(2026, 11, 1) < expected < datetime(2027, 1, 1)


def test_times_that_count_from_a_base_or_from_1970(warehouse: Warehouse) -> None:
    assert recorded(warehouse, trace(10e6, BASE)) == STARTED
    assert recorded(warehouse, trace(10e6, str(BASE))) == STARTED
    assert recorded(warehouse, trace(10e6 + 0.75, BASE)) == STARTED, "nanoseconds are rounded down"
    assert recorded(warehouse, trace(BASE // 1000 + 10e6)) == STARTED
    assert recorded(warehouse, trace(BASE // 1000 + 10e6, 0)) == STARTED
    listed = trace(BASE // 1000 + 10e6)["traceEvents"]
    assert recorded(warehouse, listed) == STARTED
    assert recorded(warehouse, gzip.compress(json.dumps(trace(10e6, BASE)).encode(), mtime=0)) == STARTED
    first = {"baseTimeNanoseconds": BASE, **trace(10e6)}
    assert recorded(warehouse, first) == STARTED, "before the events"


def test_the_recording_starts_before_its_first_event_and_after_stray_ones(warehouse: Warehouse) -> None:
    """Kineto has a slice of the recording; events of devices may have any time."""
    stray = {"ph": "X", "cat": "gpu_user_annotation", "name": "lost", "pid": 0, "tid": 7, "ts": 0, "dur": 1}
    whole = {"ph": "X", "cat": "Trace", "name": "PyTorch Profiler (0)", "pid": "Spans", "tid": "PyTorch Profiler",
             "ts": 10e6, "dur": 9}  # fmt: skip
    assert recorded(warehouse, trace(10e6 + 3, BASE, stray, whole)) == STARTED
    assert recorded(warehouse, trace(10e6 + 3, BASE, stray)) == STARTED - timedelta(seconds=10)


@pytest.mark.parametrize(
    ("ts", "base"),
    [
        (10e6, None),
        (10e6, 0),
        (10e6, -BASE),
        (10e6, 10**18 - 10**11),
        (-10e6, None),
        (4.5e15, None),
        (10e6, 5 * 10**18),
        (4.5e15, BASE),
        (10e6, 2**63),
        (10e6, 10**300),
        (10e6, "soon"),
        (10e6, [BASE]),
        (10e6, {"ns": BASE}),
        (10e6, True),
        (10e6, 1.5e18),
        (1e300, BASE),
    ],
)
def test_invalid_times_are_unknown(warehouse: Warehouse, ts: Any, base: Any) -> None:
    assert recorded(warehouse, trace(ts, base)) is None


@pytest.mark.parametrize("base", [b"9" * 5000, b'"\xff"', b"1e99999", b"-0.0", b"[[3]]"])
def test_damaged_bases_are_unknown(warehouse: Warehouse, base: bytes) -> None:
    content = json.dumps(trace(10e6, BASE)).encode()
    assert recorded(warehouse, content.replace(str(BASE).encode(), base)) is None


def test_the_edges_of_the_times_that_can_be_true(warehouse: Warehouse) -> None:
    last = 4_102_444_800 * 10**6
    assert recorded(warehouse, trace(10**15)) == datetime(2001, 9, 9, 1, 46, 40)
    assert recorded(warehouse, trace(10**15 - 1)) is None
    assert recorded(warehouse, trace(last - 1)) == datetime(2099, 12, 31, 23, 59, 59, 999_999)
    assert recorded(warehouse, trace(last)) is None


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


def test_many_files_at_once_have_their_own_times(warehouse: Warehouse, tmp_path: Path) -> None:
    contents = [trace(10e6, BASE), trace(10e6), trace(11e6, BASE)]
    paths = [tmp_path / f"{number}.pt.trace.json" for number in range(3)]
    for path, content in zip(paths, contents, strict=True):
        path.write_text(json.dumps(content))
    (tmp_path / "3.etdp").write_bytes(dump(run("Execute", execute(0, 1))))
    warehouse.ingest_many([*paths, tmp_path / "3.etdp"])
    moments = warehouse.rows("SELECT s.captured_at FROM capture_summary AS s ORDER BY s.name")[1]
    assert moments == [(STARTED,), (None,), (STARTED + timedelta(seconds=1),), (None,)]


@pytest.mark.parametrize("content", [trace(10e6 + 0.25, BASE + 1), trace(10e6, BASE), trace(BASE // 1000), trace(10e6)])
def test_a_trace_that_is_exported_keeps_its_time(warehouse: Warehouse, tmp_path: Path, content: Any) -> None:
    expected = recorded(warehouse, content, name="made")
    path = tmp_path / "again.json"
    warehouse.export("made", "chrome", path)
    with empty_warehouse() as other:
        assert recorded(other, path.read_bytes()) == expected
    warehouse.label("made", captured_at=None)
    warehouse.export("made", "chrome", path)
    assert "baseTimeNanoseconds" not in json.loads(path.read_text())


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


def test_the_history_of_a_comparison_has_the_captures_recorded_last(warehouse: Warehouse) -> None:
    for number in range(36):
        moment = None if number % 3 == 0 else datetime(2024, 5, 1) + timedelta(days=number)
        ingest(warehouse, f"c{number}", moment, model="mlp")
    query = (
        "SELECT k.name FROM _comparison_captures('c30', 'c34', NULL) AS k WHERE k.side = 'history' ORDER BY k.position"
    )
    found = [name for (name,) in warehouse.rows(query)[1]]
    dated = [number for number in range(36) if number % 3 and number != 34]
    undated = [number for number in range(0, 36, 3) if number != 30]
    assert found == [f"c{number}" for number in [*dated, *undated][-30:]]
