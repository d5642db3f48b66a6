"""Traces that PyTorch writes as broken JSON are read; other files are refused by what they are."""

from __future__ import annotations

import gzip
import json
import sqlite3
from pathlib import Path

import pytest

from etq.errors import FormatError
from etq.ingest.memory import Watch
from etq.ingest.registry import read_capture
from etq.ingest.trace import text
from etq.ingest.trace.reader import read_torch_trace
from etq.ingest.trace.repair import repaired
from tests.conftest import shared_file
from tests.trace_builders import event, trace

NAME = b"torch/x.py(1): f"
PLAIN = trace(event("cpu_op", "aten::mm", 10, 40), event("python_function", NAME.decode(), 50, 60, bandwidth=77))
READ = {
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


@pytest.mark.parametrize("name", READ, ids=repr)
def test_broken_names_are_read(name: bytes) -> None:
    expected, what = READ[name]
    content = PLAIN.replace(NAME, name)
    assert [each["name"] for each in _rows(content, "signatures")] == ["aten::mm", expected]
    [finding] = _rows(content, "findings")
    assert finding["rule"] == "broken JSON"
    assert all(part.split(" (")[0] in str(finding["detail"]) for part in what.split(", "))


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
        "the profiler wrote what JSON hasn't, which was put right: inf or nan (2)"
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
        (database.read_bytes(), "an SQLite database, as rocprofv3"),
    ):
        with pytest.raises(FormatError, match=what):
            _rows(content, "events")


def test_a_value_larger_than_any_is_refused_before_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "LARGEST_VALUE", 2**23)
    read: list[int] = []
    monkeypatch.setattr(Watch, "check", lambda self, size: read.append(size))
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


@pytest.mark.parametrize("name", ["01_newline_name", "02_backslash", "05_inf", "05b_nan"])
def test_reported_traces_are_read(name: str) -> None:
    content = shared_file(f"captures/reports/{name}.json").read_bytes()
    assert len(_rows(content, "event_ticks")) == 3
    assert [each["rule"] for each in _rows(content, "findings")] == ["broken JSON"]


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("04_dictname.json", "put a backslash before each, or record without with_stack"),
        ("40_trace.pftrace", "Perfetto .*; give the profiler's own file"),
    ],
)
def test_reported_files_are_refused(name: str, what: str) -> None:
    with pytest.raises(FormatError, match=what):
        _rows(shared_file(f"captures/reports/{name}").read_bytes(), "events")


def test_a_path_that_ends_with_a_backslash() -> None:
    broken = rb'{"traceEvents": [{"ph": "X", "name": "C:\dir\", "ts": 1, "dur": 2, "args": {"at": "D:\temp\"}}]}'
    assert json.loads(repaired(broken)[0])["traceEvents"][0] == {
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
