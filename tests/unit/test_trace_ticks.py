"""Times of traces in ticks, by the digits that the file has: against decimals over the same JSON."""

from __future__ import annotations

import gzip
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from etq.ingest.registry import read_capture
from etq.ingest.trace.ticks import BEYOND, NO_TIME, ticks_of
from tests.conftest import shared_file
from tests.trace_builders import event, trace

REAL = (
    "torch/cpu/mlp_train.pt.trace.json", "torch/gpu/b200_eager.pt.trace.json.gz", "torch/gpu/mi250_rocm.pt.trace.json.gz",
    "torch/gpu/resnet50_list_format.pt.trace.json.gz", "torch/gpu/triton.pt.trace.json.gz",
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


@pytest.mark.parametrize("path", REAL)
def test_times_have_all_digits_of_the_file(path: str) -> None:
    content = shared_file(f"captures/{path}").read_bytes()
    text = gzip.decompress(content) if path.endswith(".gz") else content
    read = json.loads(text, parse_float=Decimal, parse_int=Decimal)
    entries = read["traceEvents"] if isinstance(read, dict) else read
    expected = {
        at: (int(each["ts"] * 1000), int(each["dur"] * 1000)) for at, each in enumerate(entries) if each["ph"] == "X"
    }
    assert expected
    assert _ticks(content, path) == expected


def test_what_is_written_becomes_ticks() -> None:
    """Alone, and beside values of another form."""
    for written, ticks in WRITTEN.items():
        assert ticks_of([written.encode()]).tolist() == [ticks], written[:30]
        beside = [b"1.250", written.encode(), b"7", b"8.1"]
        assert ticks_of(beside).tolist() == [1_250, ticks, 7_000, 8_100], written[:30]


def test_larger_times_than_any_are_beyond() -> None:
    for large in (b"4600000000000000.000", b"99999999999999999999.999", b"99999999999999999999", b"5e15"):
        assert (ticks_of([large, b"1.000"])[0] >= BEYOND) and ticks_of([large, b"1.000"])[1] == 1_000


def test_slices_without_times_are_left_out() -> None:
    spans: list[dict[str, Any]] = [event("cpu_op", name, 0, 10) for name in ("a", "b", "c", "d")]
    spans[0]["ts"], spans[1]["ts"], spans[2]["dur"] = None, "soon", None
    content = trace(*spans)
    assert _ticks(content, "t") == {2: (0, 0), 3: (0, 10_000)}
    findings = [row for name, rows in read_capture(content, "t") if name == "findings" for row in rows.to_pylist()]
    assert {each["rule"]: each["detail"] for each in findings} == {
        "events left out": "only whole slices are read: 2 (a slice without a time)",
        "no duration": "1 events have no duration, which counts as 0",
    }


def test_beginnings_ends_and_memory_have_all_digits() -> None:
    entries = (
        '{"ph": "B", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "ts": 1719000000000000.123}',
        '{"ph": "i", "name": "[memory]", "pid": 1, "tid": 1, "ts": 1719000000000001.457, "args": {"Bytes": 8}}',
        '{"ph": "E", "pid": 1, "tid": 1, "ts": 1719000000000002.124}',
    )
    content = f'{{"traceEvents": [{", ".join(entries)}]}}'.encode()
    assert _ticks(content, "t") == {0: (1_719_000_000_000_000_123, 2_001)}
    tables = dict(read_capture(content, "t"))
    assert tables["trace_memory"].column("at_ticks").to_pylist() == [1_719_000_000_000_001_457]


def _ticks(content: bytes, path: str) -> dict[int, tuple[int, int]]:
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
