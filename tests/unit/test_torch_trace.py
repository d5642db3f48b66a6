"""Traces that are damaged, hostile, old, or written by another tool."""

from __future__ import annotations

import base64
import gzip
import json
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from etq import FormatError
from etq.ingest.trace import text as trace_text
from etq.ingest.trace import types as trace_entries
from etq.ingest.trace.reader import read_torch_trace
from etq.warehouse.warehouse import Warehouse
from tests.conftest import CAPTURES
from tests.sampling import examples
from tests.trace_builders import event
from tests.warehouses import empty_warehouse

REAL = gzip.decompress((CAPTURES / "torch" / "steps_7.pt.trace.json.gz").read_bytes())
PACKED = gzip.compress(REAL, mtime=0)


def slice_of(name: str, ts: float, dur: float | None = None, tid: int | str = 1, **more: Any) -> dict[str, Any]:
    event = {"ph": "X", "cat": "cpu_op", "name": name, "pid": 7, "tid": tid, "ts": ts, **more}
    return event if dur is None else {**event, "dur": dur}


def trace(*events: Any) -> bytes:
    return json.dumps({"schemaVersion": 1, "traceEvents": events}).encode()


def ingested(warehouse: Warehouse, content: bytes) -> dict[str, list[Any]]:
    """By name: start, duration, parent's name."""
    warehouse.ingest(content)
    rows = warehouse.rows(
        """
        SELECT e.label, e.start_ticks, e.duration_ticks, p.label FROM events AS e
        LEFT JOIN events AS p ON p.run_index = e.parent_run_index AND p.event_index = e.parent_index
        """
    )[1]
    return {label: row for label, *row in rows}


def findings(warehouse: Warehouse) -> dict[str, str]:
    return dict(warehouse.rows("SELECT rule, detail FROM findings")[1])


def test_nesting(warehouse: Warehouse) -> None:
    """As in torch: a partial overlap makes no child, and an event that begins where another ends is its sibling."""
    rows = ingested(
        warehouse,
        trace(
            slice_of("outer", 10, 10), slice_of("inner", 10, 4), slice_of("innermost", 11, 3), slice_of("next", 14, 6),
            slice_of("across", 18, 5), slice_of("elsewhere", 11, 1, tid=2), slice_of("empty", 15, 0),
        ),
    )  # fmt: skip
    parents = {name: row[2] for name, row in rows.items()}
    assert parents == {
        "outer": None, "inner": "outer", "innermost": "inner", "next": "outer", "across": None, "elsewhere": None,
        "empty": "next",
    }  # fmt: skip


def test_the_last_nanosecond_is_kept(warehouse: Warehouse) -> None:
    content = trace(slice_of("a", 4303857517582.359, 0.001), slice_of("b", 7.123, 1234567.891))
    assert ingested(warehouse, content) == {"a": [4303857517582359, 1, None], "b": [7123, 1234567891, None]}


def test_impossible_times(warehouse: Warehouse) -> None:
    rows = ingested(
        warehouse,
        trace(slice_of("whole", 1, 2), slice_of("unfinished", 3), slice_of("backward", 9, -4), slice_of("far", 1e300, 1),
              slice_of("long", 1, 1e200), slice_of("late end", 9.1e15, 9.1e15), slice_of("both", 1.7e308, 1.7e308), {"ph": "X", "name": "never", "pid": 1, "tid": 1}),
    )  # fmt: skip
    assert rows == {
        **{"whole": [1000, 2000, None], "unfinished": [3000, 0, None]},
        **{"backward": [9000, None, None], "long": [1000, None, None]},
    }
    reported = findings(warehouse)
    assert reported["no duration"] == "1 events have no duration, which counts as 0"
    assert reported["events left out"] == "only whole slices are read: 1 (a slice without a time)"
    assert set(reported) == {"no duration", "events left out", "impossible times"}


def test_names_that_are_not_utf8(warehouse: Warehouse) -> None:
    content = trace(slice_of("caf?", 1, 1), slice_of("plain", 2, 1)).replace(b"caf?", b"caf\xe9")
    assert set(ingested(warehouse, content)) == {"caf\N{REPLACEMENT CHARACTER}", "plain"}
    assert "no UTF-8" in findings(warehouse)


def test_another_tools_trace_is_plain_slices(warehouse: Warehouse) -> None:
    content = json.dumps(
        [
            {"ph": "B", "name": "work", "pid": "host", "tid": "main", "ts": 1, "args": {"device": "cuda:0"}},
            slice_of("call", 2, 1, tid="main", pid="host", args={"correlation": [1], "bytes": "many"}),
            {"ph": "E", "pid": "host", "tid": "main", "ts": 5},
            {"ph": "E", "pid": "host", "tid": "main", "ts": 6},
            {"ph": "B", "name": "open", "pid": "host", "tid": "main", "ts": 7},
            {"ph": "C", "name": "counter", "pid": 1, "ts": 1, "args": {"value": 3}},
            {"ph": "X", "name": 5},
            "nothing",
        ]
    ).encode()
    assert ingested(warehouse, content) == {"work": [1000, 4000, None], "call": [2000, 1000, "work"]}
    assert findings(warehouse)["events left out"] == (
        "only whole slices are read: 1 (a beginning without its end), 1 (an end without its beginning), "
        "2 (no event's form), 1 (phase C)"
    )


def test_numbers_that_no_column_holds_are_unknown(warehouse: Warehouse) -> None:
    far = 2**70
    memory = {"ph": "i", "name": "[memory]", "pid": 7, "tid": 1, "ts": 1}
    ingested(
        warehouse,
        trace(
            slice_of("op", 1, 1, args={"External id": far, "Sequence number": 5}),
            slice_of("of another clock", 3, 1, args={"correlation": -far}),
            slice_of(
                "far", 5, 1, cat="kernel", args={"device": 2**31, "stream": far, "bytes": 2**40, "correlation": 3}
            ),
            slice_of("no number", 7, 1, cat="kernel", args={"device": "cuda:0", "stream": "seven", "correlation": 4}),
            {**memory, "args": {"Bytes": -(2**33), "Device Type": 0, "Device Id": 2**31, "Addr": far}},
            {**memory, "args": {"Bytes": "many"}},
        ),
    )
    query = "SELECT external_id, sequence_number, correlation_id FROM trace_events ORDER BY event_index"
    assert warehouse.rows(query)[1] == [(None, None, None)] * 2 + [(None, None, 3), (None, None, 4)]
    query = "SELECT device, stream, bytes FROM device_events ORDER BY event_index"
    assert warehouse.rows(query)[1] == [(None, None, 2**40), (None, None, None)]
    query = "SELECT bytes, device_type, device, address FROM trace_memory ORDER BY event_index"
    assert warehouse.rows(query)[1] == [(-(2**33), 0, None, str(far)), (None, None, None, None)]


ODD = [
    slice_of('a }, {"ph": "X"', 1, 1),
    slice_of("b", 2, 1, args={"Input Dims": [[1], []], "parts": [{"ph": "X"}, {"ph": "X"}]}),
    slice_of('c "traceEvents": [{}]', 3, 1, args={"External id": 4}),
    slice_of("d }], [", 4, 1, cat="kernel", args={"device": 0, "grid": [1, 2, 3]}),
    5,
    {"ph": "i", "name": "[memory]", "pid": 7, "tid": 1, "ts": 1, "args": {"Bytes": 3}},
    slice_of("e", 5, 1, args=[]),
]


def tables_of(content: bytes) -> dict[str, Any]:
    return {table: getattr(rows, "rows", rows).to_pylist() for table, rows in read_torch_trace(content, "made")}


@pytest.mark.parametrize("events", [ODD, ODD[:1], ODD[2:], ODD[3:4] * 3, [slice_of("plain", 1, 1)] * 40])
@pytest.mark.parametrize("block", [1, 100, 2**17])
def test_a_trace_read_in_blocks_is_the_same(monkeypatch: pytest.MonkeyPatch, block: int, events: list[Any]) -> None:
    """The tables are those of a bare list of the events, which is read one by one, whatever is around the list."""
    monkeypatch.setattr(trace_entries, "_BLOCK", block)
    one_by_one = tables_of(json.dumps(events).encode())
    for around in (
        {"traceEvents": events},
        {"other": {"traceEvents": [{"ph": "X"}]}, "traceEvents": events, "parts": [{"a": 1}]},
        {"distributedInfo": {"rank": 1}, "traceEvents": events, "other": {"traceEvents": [{"ph": "X"}]}},
        {"other": '"traceEvents": [{}]', "traceEvents": events, "name": "}]"},
    ):
        in_blocks = tables_of(json.dumps(around).encode())
        in_blocks.pop("labels", None)
        assert in_blocks == one_by_one
        indented = tables_of(json.dumps(around, indent=2).encode())
        assert [indented[name] == one_by_one[name] for name in ("trace_events", "signatures")] == [True, True]


SIZES = ((1, 50), (7, 2**19), (64, 1), (2**22, 50))


@pytest.mark.parametrize(("part", "packed"), SIZES)
def test_a_gzip_is_unpacked_in_parts(monkeypatch: pytest.MonkeyPatch, part: int, packed: int) -> None:
    """Blocks end anywhere: before, within and after the text that a reader searches for."""
    kernels = [slice_of(f"k{at}", at, 1, cat="kernel", args={"device": at % 3, "Input Dims": [at]}) for at in range(60)]
    content = json.dumps({"schemaVersion": 1, "traceEvents": kernels, "distributedInfo": {"rank": 2}}).encode()
    as_it_is = tables_of(content)
    for name, size in (("_BLOCK", 100), ("_CHUNK", 200), ("_AROUND", 80)):
        monkeypatch.setattr(trace_entries, name, size)
    monkeypatch.setattr(trace_text, "_PART", part)
    monkeypatch.setattr(trace_text, "PACKED", packed)
    entries = trace_entries.Entries(gzip.compress(content), "a.json.gz")
    assert sum(block.count(b"kernel") for block in entries.blocks()) == 60
    assert entries.around is not None
    assert tables_of(gzip.compress(content)) == as_it_is
    # Once all tables are there, the text is not kept; values read later are unpacked again.
    tables = dict(read_torch_trace(gzip.compress(content), "made"))
    assert tables["op_arguments"].rows.to_pylist() == as_it_is["op_arguments"]


# As `torch.cuda._memory_viz` writes it: the pickle in base64 within a script.
SNAPSHOT_PAGE = f"""
<!DOCTYPE html>
<html>
<body>
<script type="module">
import {{add_local_files}} from "https://cdn.jsdelivr.net/gh/pytorch/pytorch@main/torch/utils/viz/MemoryViz.js"
const local_files = {json.dumps([{"name": "snapshot.pickle", "base64": base64.b64encode(pickle.dumps(1)).decode()}])}
add_local_files(local_files, "Active Memory Timeline")
</script>
</body>
""".encode()
EXECUTION_TRACE = b"""{
  "schema": "1.1.1-chakra.0.0.4", "pid": 7, "time": "2025-01-01 00:00:00", "start_ts": 1,
  "nodes": [{"id": 1, "name": "[pytorch|profiler|execution_trace|process]", "ctrl_deps": 1}],
  "finish_ts": 2
}"""


NO_TRACE = "not a PyTorch trace: expected JSON with traceEvents"
REFUSED = [
    *((content, NO_TRACE) for content in (b"{", b'{"traceEvents": 3}', b'{"other": []}', REAL[: len(REAL) // 2])),
    (PACKED[:500], "the gzip is truncated"),
    (PACKED[:300] + bytes(400), "the gzip is"),
    (b"\x1f\x8b\x08", "the gzip is truncated"),
    (gzip.compress(b"[" + b" " * 40_000_000, mtime=0), "would unpack to more than"),
    (pickle.dumps({"segments": [], "device_traces": []}), "^bytes: this is a pickle.* never reads pickles"),
    (gzip.compress(pickle.dumps([1], protocol=2), mtime=0), "this is a pickle"),
    (SNAPSHOT_PAGE, "the page of a memory snapshot.*, whose data is a pickle within; etq never reads pickles"),
    (b'{"segments": [{"device": 0}], "device_traces": [[]]}', "a memory snapshot of torch.cuda as JSON"),
    (b'{"allocator_settings": {"a": 1}, "device_traces": [[]]}', "a memory snapshot of torch.cuda as JSON"),
    (b"[[0, 1000], [[0, 16, 32], [0, 64, 32]]]", "a memory timeline"),
    (gzip.compress(b"[[12, 1, 4096, 3]]", mtime=0), "a memory timeline"),
    (b'<html><head><meta charset="utf-8" /><title>GPU Memory Timeline HTML</title></head></html>', "is an image"),
    (b"\n<!DOCTYPE html>\n<html></html>", "this is an HTML page, not a profiling file"),
    (EXECUTION_TRACE, "an execution trace .*, which has no times; give the profiler's trace"),
]


def test_files_that_are_not_traces_are_refused(warehouse: Warehouse) -> None:
    for content, message in REFUSED:
        with pytest.raises(FormatError, match=message):
            warehouse.ingest(content)
    assert warehouse.rows("SELECT count(*) FROM captures")[1] == [(0,)]


def test_an_empty_trace_is_one(warehouse: Warehouse) -> None:
    for content in (b"[]", b'{"traceEvents": []}', b"\xef\xbb\xbf[]", gzip.compress(b"[]", mtime=0)):
        capture = warehouse.ingest(content)
        assert capture.format == "torch_trace"
    assert warehouse.key_averages(capture).fetchall() == []


@examples(60)
@given(at=st.integers(0, len(REAL) - 1), bit=st.integers(0, 7))
def test_a_changed_bit_is_read_or_refused(at: int, bit: int) -> None:
    content = bytearray(REAL)
    content[at] ^= 1 << bit
    try:
        tables = dict(read_torch_trace(bytes(content), "made"))
    except FormatError:
        return
    assert tables["event_ticks"].num_rows == tables["trace_events"].num_rows


def test_an_error_has_the_text_that_is_not_json() -> None:
    """record_function('quo"te'), as PyTorch 2.13 writes it."""
    events = json.dumps([event("cpu_op", "op", at, at + 1) for at in range(1000)])
    content = b"\xef\xbb\xbf" + f'{{"traceEvents": {events.replace("op", "quo$te", 700)}}}'.encode().replace(
        b"quo$te", b'quo"te'
    )
    with (
        pytest.raises(FormatError, match=r"expected ',' or '\}' \(byte \d+\), at '[^']*\"name\": \"quo\"te\", "),
        empty_warehouse() as warehouse,
    ):
        warehouse.ingest(content)


@pytest.mark.parametrize(("first", "second"), [(1, 1), (0, 1), (3, 0)])
def test_a_second_list_of_events_is_refused(first: int, second: int) -> None:
    """JSON readers use the last list and ignore the events of the others."""
    lists = [json.dumps([event("cpu_op", f"op{at}", at, at + 1) for at in range(number)]) for number in (first, second)]
    text = f'{{"schemaVersion": 1, "traceEvents": {lists[0]}, "other": 1, "traceEvents" : {lists[1]}}}'
    with (
        pytest.raises(FormatError, match="^bytes: not a PyTorch trace: it has several lists traceEvents$"),
        empty_warehouse() as warehouse,
    ):
        warehouse.ingest(text.encode())
