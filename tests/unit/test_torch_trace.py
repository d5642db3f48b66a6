"""Traces that are damaged, hostile, old, broken JSON of PyTorch, or written by another tool; files that are none."""

from __future__ import annotations

import base64
import gzip
import json
import pickle
import sqlite3
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from etq.errors import FormatError
from etq.ingest.memory import Watch
from etq.ingest.registry import read_capture
from etq.ingest.trace import blocks, text
from etq.ingest.trace.reader import read_torch_trace
from etq.ingest.trace.repair import Repair
from etq.ingest.trace.ticks import BEYOND, NO_TIME, ticks_of
from etq.warehouse.warehouse import Warehouse
from tests.conftest import CAPTURES, shared_file
from tests.trace_builders import event, trace
from tests.warehouses import empty_warehouse

REAL = gzip.decompress((CAPTURES / "torch" / "steps_7.pt.trace.json.gz").read_bytes())
PACKED = gzip.compress(REAL, mtime=0)


def slice_of(name: str, ts: float, dur: float | None = None, tid: int | str = 1, **more: Any) -> dict[str, Any]:
    event = {"ph": "X", "cat": "cpu_op", "name": name, "pid": 7, "tid": tid, "ts": ts, **more}
    return event if dur is None else {**event, "dur": dur}


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
    assert reported["no duration"] == "1 event without a duration, which counts as 0"
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
    """The tables are those of a bare list of the events, read in one block, whatever is around the list."""
    one_by_one = tables_of(json.dumps(events).encode())
    monkeypatch.setattr(blocks, "_BLOCK", block)
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


SIZES = ((7, 50), (64, 1), (2**22, 50))


@pytest.mark.parametrize(("part", "packed"), SIZES)
def test_a_gzip_is_unpacked_in_parts(monkeypatch: pytest.MonkeyPatch, part: int, packed: int) -> None:
    """Blocks end anywhere: before, within and after the text that a reader searches for."""
    kernels = [slice_of(f"k{at}", at, 1, cat="kernel", args={"device": at % 3, "Input Dims": [at]}) for at in range(60)]
    content = json.dumps({"schemaVersion": 1, "traceEvents": kernels, "distributedInfo": {"rank": 2}}).encode()
    as_it_is = tables_of(content)
    monkeypatch.setattr(blocks, "_BLOCK", 100)
    monkeypatch.setattr(blocks, "_CHUNK", 200)
    monkeypatch.setattr(text, "_PART", part)
    monkeypatch.setattr(text, "PACKED", packed)
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
    (REAL[: len(REAL) // 2], "; the file breaks off: copy it again"),
    *((content, NO_TRACE) for content in (b"{", b'{"traceEvents": 3}', b'{"other": []}', REAL[: len(REAL) // 2])),
    (PACKED[:500], "the gzip is truncated"),
    (PACKED[:300] + bytes(400), "the gzip is"),
    (b"\x1f\x8b\x08", "the gzip is truncated"),
    (gzip.compress(b"[" + b" " * 40_000_000, mtime=0), "would unpack to more than"),
    (
        pickle.dumps({"parts": [], "traces": []}),
        "^bytes: this is a pickle, but no memory snapshot.* reads no other pickles",
    ),
    (gzip.compress(pickle.dumps([1], protocol=2), mtime=0), "this is a pickle"),
    (SNAPSHOT_PAGE, "the page of a memory snapshot.*; give the snapshot, as _dump_snapshot writes it"),
    (
        b'{"segments": [{"device": 0}], "device_traces": [[]]}',
        "as JSON; give the snapshot, as _dump_snapshot writes it",
    ),
    (b'{"allocator_settings": {"a": 1}, "device_traces": [[]]}', "a memory snapshot of torch.cuda as JSON"),
    (
        b'<html><head><meta charset="utf-8" /><title>GPU Memory Timeline HTML</title></head></html>',
        "is an image; export it as .raw.json.gz",
    ),
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
    assert warehouse.rows("SELECT DISTINCT rule FROM findings")[1] == [("no events",)]
    assert warehouse.key_averages(capture).fetchall() == []


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


NAME = b"torch/x.py(1): f"
PLAIN = trace(event("cpu_op", "aten::mm", 10, 40), event("python_function", NAME.decode(), 50, 60, bandwidth=77))
BROKEN = {
    b"a\nb\tc\x01": ("a\nb\tc\x01", "control characters in texts (1)"),
    rb"torch\cuda\__init__.py(219): f": (r"torch\cuda\__init__.py(219): f", "single backslashes (1)"),
    # Each escape is one of JSON, apart from the first.
    rb"C:\x\nn\functional.py(1): f": (r"C:\x\nn\functional.py(1): f", "single backslashes (1)"),
    rb"a\\b \"c\" \q": ('a\\b "c" \\q', "single backslashes (1)"),
    b"torch\\nn\\modules.py(1):\nf": ("torch\\nn\\modules.py(1):\nf", "single backslashes (1), control characters"),
}


def _rows(content: bytes, table: str) -> list[dict[str, object]]:
    found = [rows for name, rows in read_capture(content, "t") if name == table]
    return [row for rows in found for row in getattr(rows, "rows", rows).to_pylist()]


@pytest.mark.parametrize("name", BROKEN, ids=repr)
def test_broken_names_are_read(name: bytes) -> None:
    expected, what = BROKEN[name]
    content = PLAIN.replace(NAME, name)
    assert [each["name"] for each in _rows(content, "signatures")] == ["aten::mm", expected]
    [finding] = _rows(content, "findings")
    assert finding["rule"] == "broken JSON"
    assert all(part.split(" (")[0] in str(finding["detail"]) for part in what.split(", "))


def test_json_as_long_as_a_packet_is_json() -> None:
    """An empty line and {, as the head of a packet of Protocol Buffers: field 1, of 123 bytes."""
    content = b'\n{"traceEvents":[{"ph":"X","name":"a","ts":1,"dur":2}]}'.ljust(125)
    assert [each["name"] for each in _rows(content, "signatures")] == ["a"]


@pytest.mark.parametrize(
    "number", ["inf", "-inf", "nan", "-nan", "-nan(ind)", "Infinity", "-Infinity", "NaN", "1.#INF"]
)
def test_numbers_that_are_none_are_null(number: str) -> None:
    kernel = event("kernel", "nan, inf", 10, 40, 7, device=0, stream=7, **{"memory bandwidth (GB/s)": 77})
    content = trace(kernel, event("cpu_op", "inf", 0, 8))
    broken = content.replace(b": 77", b": " + number.encode()).replace(b'"ts": 0', b'"ts": 0, "x": [1, inf]')
    [row] = _rows(broken, "device_events")
    assert row["bandwidth_gb_per_s"] is None
    assert [each["name"] for each in _rows(broken, "signatures")] == ["nan, inf", "inf"]
    assert [each["detail"] for each in _rows(broken, "findings") if each["rule"] == "broken JSON"] == [
        "the profiler wrote invalid JSON, which was repaired: inf or nan (2)"
    ]


def test_a_time_that_is_none_is_no_time(number: str = "NaN") -> None:
    content = PLAIN.replace(b'"ts": 50', b'"ts": ' + number.encode())
    assert [each["event_index"] for each in _rows(content, "event_ticks")] == [0]


def test_files_that_are_not_read_are_named(tmp_path: Path) -> None:
    database = tmp_path / "r.db"
    with sqlite3.connect(database) as connection:
        connection.execute("CREATE TABLE rocpd_kernel (id INTEGER)")
    connection.close()
    # Packets of Perfetto: field 1, the length, and what they have.
    packets = b"".join(bytes([0x0A, len(each)]) + each for each in (b"\x08\x01\x12\x04gemm", b"\x40\x05", b"\x58\x02"))
    for content, what in (
        (PLAIN + PLAIN, "several traces, one after another: split it"),
        (PLAIN + b"\n" + PLAIN, "several traces, one after another: split it"),
        (PLAIN.replace(NAME, b'{"device": "cpu"}(12): run'), "quotation marks that the profiler did not escape"),
        (packets, "a trace of Protocol Buffers, as Perfetto"),
        (gzip.compress(packets), "a trace of Protocol Buffers, as Perfetto"),
        (gzip.compress(b"\x12\x05 plain"), "the gzip has no JSON"),
        (
            gzip.compress((CAPTURES / "mlp/mlp.etdp").read_bytes()),
            "an ETDump packed as gzip; unpack it first: gunzip FILE",
        ),
        (gzip.compress(bytes(257) + b"ustar\0" + bytes(250)), "an archive; unpack it first: tar xzf FILE"),
        (database.read_bytes(), "an SQLite database, as rocprofv3"),
        (bytes(8) + b"DUCK", "a DuckDB database, not a profiling file; name a warehouse with --db"),
    ):
        with pytest.raises(FormatError, match=what):
            _rows(content, "events")


@pytest.mark.long
def test_a_value_larger_than_any_is_refused_before_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "LARGEST_VALUE", 2**23)
    monkeypatch.setattr(text, "LARGEST_RATIO", 2000)
    read: list[int] = []
    monkeypatch.setattr(Watch, "check", lambda self, size, needed: read.append(size))
    for large in (
        PLAIN.replace(NAME, b"a" * 2**26),
        PLAIN.replace(NAME, b'\\"' * 2**25),
        PLAIN.replace(b"77", b"7" * 2**26),
        b"[" + b" " * 2**26 + PLAIN,
    ):
        for content in (large, gzip.compress(large, 1)):
            read.clear()
            with pytest.raises(FormatError, match=r"a value of more than 8\.4 MB, which is refused"):
                _rows(content, "events")
            # Not much more than the largest value was read.
            assert len(read) <= 4
    assert len(_rows(PLAIN.replace(NAME, b"a" * 2**22), "event_ticks")) == 2


def test_a_path_that_ends_with_a_backslash() -> None:
    broken = rb'{"traceEvents": [{"ph": "X", "name": "C:\dir\", "ts": 1, "dur": 2, "args": {"at": "D:\temp\"}}]}'
    assert json.loads(b"".join(Repair().parts(iter([broken]))))["traceEvents"][0] == {
        **{"ph": "X", "name": "C:\\dir\\", "ts": 1, "dur": 2},
        "args": {"at": "D:\\temp\\"},
    }


@pytest.mark.parametrize(
    ("content", "cause"),
    [
        (b'{"traceEvents": [{"name": "a\tb"}]}\n{"traceEvents": []}', "several traces"),
        (b'{"traceEvents": [{"name": "a\t"b" c"}]}', "quotation marks"),
        (b'{"traceEvents": [{"name": "a\tb", "dur": inf}, {"na', "truncated"),
    ],
)
def test_the_error_is_of_what_could_not_be_put_right(content: bytes, cause: str) -> None:
    with pytest.raises(FormatError, match=cause):
        [*read_torch_trace(content, "made")]


PUBLISHED = (
    "torch/cpu/mlp_train.pt.trace.json", "torch/gpu/b200_eager.pt.trace.json.gz", "torch/gpu/mi250_rocm.pt.trace.json.gz",
    "torch/gpu/triton.pt.trace.json.gz",
)  # fmt: skip
# Microseconds, and the ticks that they are.
WRITTEN = {
    "1719000000000000.123": 1_719_000_000_000_000_123, "1719000000000000": 1_719_000_000_000_000_000,
    "1719000000000000.5": 1_719_000_000_000_000_500, "0": 0, "0.001": 1, "-0.001": -1, "-12.5": -12_500,
    "1e3": 1_000_000, "1.5E-2": 15, "0.0004999999": 0, "0.0005": 1, "0.30000000000000004": 300,
    "1.23456789012345678901234567890": 1_235, "0." + "3" * 100_000: 333, '"12.25"': 12_250,
    "1e-99999999999999999999": 0, "1" * 100_000: BEYOND, "-1e30": BEYOND, "1e99999999999999999999": BEYOND,
    "null": NO_TIME, "true": NO_TIME, '"soon"': NO_TIME, "[1]": NO_TIME,
}  # fmt: skip


@pytest.mark.parametrize("path", PUBLISHED)
def test_times_have_all_digits_of_the_file(path: str) -> None:
    content = shared_file(f"captures/{path}").read_bytes()
    text = gzip.decompress(content) if path.endswith(".gz") else content
    read = json.loads(text, parse_float=Decimal, parse_int=Decimal)
    entries = read["traceEvents"] if isinstance(read, dict) else read
    expected = {
        at: (int(each["ts"] * 1000), int(each["dur"] * 1000)) for at, each in enumerate(entries) if each["ph"] == "X"
    }
    assert expected
    assert ticks_in(content, path) == expected


def test_what_is_written_becomes_ticks() -> None:
    """Alone, and beside values of another form."""
    for written, ticks in WRITTEN.items():
        assert ticks_of([written.encode()]).tolist() == [ticks], written[:30]
        beside = [b"1.250", written.encode(), b"7", b"8.1"]
        assert ticks_of(beside).tolist() == [1_250, ticks, 7_000, 8_100], written[:30]


def test_beginnings_ends_and_memory_have_all_digits() -> None:
    entries = (
        '{"ph": "B", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "ts": 1719000000000000.123}',
        '{"ph": "i", "name": "[memory]", "pid": 1, "tid": 1, "ts": 1719000000000001.457, "args": {"Bytes": 8}}',
        '{"ph": "E", "pid": 1, "tid": 1, "ts": 1719000000000002.124}',
    )
    content = f'{{"traceEvents": [{", ".join(entries)}]}}'.encode()
    assert ticks_in(content, "t") == {0: (1_719_000_000_000_000_123, 2_001)}
    tables = dict(read_capture(content, "t"))
    assert tables["trace_memory"].column("at_ticks").to_pylist() == [1_719_000_000_000_001_457]


def ticks_in(content: bytes, path: str) -> dict[int, tuple[int, int]]:
    """Return start and ticks of each slice, by its place in the file."""
    rows = [
        row
        for name, each in read_capture(content, Path(path).name)
        if name == "event_ticks"
        for row in getattr(each, "rows", each).to_pylist()
    ]
    return {
        each["event_index"]: (each["start_ticks"], each["elapsed_ticks"])
        for each in sorted(rows, key=lambda row: row["event_index"])
    }


def foreign(*slices: dict[str, Any], processes: dict[int, str] | None = None, **top: Any) -> bytes:
    """A trace of another tool: slices without what PyTorch writes."""
    names = [
        {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}}
        for pid, name in (processes or {}).items()
    ]
    whole = [*names, *({"ph": "X", "ts": 10, "dur": 5, "pid": 1, "tid": 1, "name": "work", **each} for each in slices)]
    return json.dumps({**top, "traceEvents": whole} if top or processes else whole).encode()


FOREIGN = {
    "EventList.export_chrome_trace": foreign(
        {"name": "aten::mm", "pid": "CPU functions"}, {"ph": "s", "cat": "cpu_to_cuda"}
    ),
    "Arm's FVP": foreign(
        {"name": "npu_active", "pid": "NPU", "ts": "1029", "dur": "14"}, {"name": "axi_beats", "pid": "DMA"}
    ),
    "XLA": foreign({"name": "fusion.1"}, processes={1: "/device:TPU:0", 9: "/host:CPU"}),
    "VizTracer": foreign({"cat": "FEE"}, viztracer_metadata={"version": "1"}),
    "DevTools": foreign({"cat": "devtools.timeline,v8", "name": "RunTask"}),
    "Nsight Systems": foreign({"cat": "cuda"}, {"cat": "nvtx"}),
    "rocprof": foreign({"name": "hipLaunchKernel"}, processes={1: "CPU HIP API"}),
    r"another tool, whose first event is 'work' of category app process 1": foreign(
        {"cat": "app"}, displayTimeUnit="ms"
    ),
}


@pytest.mark.parametrize("tool", FOREIGN)
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_traces_of_other_tools_are_refused_by_name(tool: str, pack: Callable[[bytes], bytes]) -> None:
    with pytest.raises(FormatError, match=f"not a PyTorch trace: .*{tool}"):
        _rows(pack(FOREIGN[tool]), "events")


@pytest.mark.parametrize(
    "content",
    [
        foreign({"cat": "my_accelerator"}, schemaVersion=1),
        foreign({}, {"cat": "Operator"}),
        foreign({"cat": "app"}, {"cat": "python_function"}),
        foreign({}, deviceProperties=[]),
        foreign({"cat": "npu_op", "args": {"device": 0, "stream": 3}}),
        foreign({"cat": "run"}, otherData={"made_by": "etq 1.0"}),
        b"[]",
    ],
    ids=["Kineto's", "one op", "only Python", "without categories", "unknown device", "etq's", "empty"],
)
def test_traces_of_pytorch_are_read(content: bytes) -> None:
    assert len(_rows(content, "event_ticks")) == content.count(b'"X"')
