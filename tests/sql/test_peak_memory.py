"""Memory held at the peak: numbers by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from etq.errors import QueryError
from etq.warehouse.warehouse import Warehouse
from tests.trace_builders import event, memory
from tests.traces import Traces


def at(address: int, moment: float, size: int, allocated: int, **others: int) -> dict[str, Any]:
    found = memory(moment, size, allocated, **others)
    found["args"]["Addr"] = address
    return found


def test_by_hand(warehouse: Warehouse, tmp_path: Path) -> None:
    """64 bytes are in use from before; of three allocations one is released, and one address is seen twice."""
    traces = Traces(warehouse, tmp_path)
    gpu = {"type": 1, "device": 0}
    traces.take(
        event("user_annotation", "ProfilerStep#7", 0, 50), event("cpu_op", "aten::linear", 5, 40),
        event("cpu_op", "aten::mm", 10, 20), at(1, 12, 100, 164, **gpu), at(2, 30, 50, 214, **gpu),
        at(1, 45, -100, 114, **gpu), event("cpu_op", "aten::relu", 60, 90), at(3, 70, 200, 314, **gpu),
        at(2, 75, 30, 294, **gpu),  # the release of its 50 bytes was not recorded
        at(4, 80, 400, 694, **gpu),
        at(4, 85, -400, 294, **gpu),
        at(9, 95, 300, 594, **gpu),
        at(1, 12, 8, 8),  # of the CPU
    )  # fmt: skip
    columns = "device, op, step, peak_bytes, peak_time, allocations, held_bytes"
    assert traces.ask("peak_memory", columns) == [
        ("CPU", "aten::mm", 7, 8, 12, 1, 8),
        ("GPU0", "aten::relu", None, 694, 80, 3, 630),
        ("GPU0", "(before the recording)", None, 694, 80, None, 64),
    ]
    shares = traces.ask("peak_memory", "sum(share_percent)")
    assert shares == [(pytest.approx(200),)]


def test_the_first_of_equal_peaks(warehouse: Warehouse, tmp_path: Path) -> None:
    traces = Traces(warehouse, tmp_path)
    traces.take(event("cpu_op", "aten::mm", 0, 90), at(1, 10, 64, 64), at(1, 20, -64, 0), at(2, 30, 64, 64))
    assert traces.ask("peak_memory", "op, peak_time, held_bytes") == [("aten::mm", 10, 64)]


def test_most_is_in_use_when_the_recording_starts(warehouse: Warehouse, tmp_path: Path) -> None:
    """160 bytes are in use until the first event, the release of 100 of them."""
    traces = Traces(warehouse, tmp_path)
    traces.take(event("cpu_op", "aten::mm", 0, 90), at(1, 10, -100, 60), at(2, 20, 64, 124))
    columns = "op, peak_bytes, peak_time, allocations, held_bytes"
    assert traces.ask("peak_memory", columns) == [("(before the recording)", 160, 0, None, 160)]
    assert traces.ask("memory_timeline", "allocated_bytes, peak_bytes") == [(60, 160), (124, 160)]


def test_modules(warehouse: Warehouse, tmp_path: Path) -> None:
    """By the modules around the op: one in another, and the call of the outer one itself."""
    traces = Traces(warehouse, tmp_path)
    names = ["nn.Module: Net_0", "nn.Module: Linear_1"]
    traces.take(
        event("python_function", names[0], 0, 80), event("python_function", names[1], 10, 40),
        event("cpu_op", "aten::mm", 20, 30), at(1, 25, 100, 100), at(2, 35, 7, 107), at(3, 60, 50, 157),
        event("cpu_op", "aten::relu", 85, 95), at(4, 90, 5, 162),
    )  # fmt: skip
    rows = traces.ask("peak_memory", "module, op, source, allocations, held_bytes", by="module")
    assert rows == [
        ("Net_0/Linear_1", None, None, 2, 107), ("Net_0", None, None, 1, 50), ("(no module)", None, None, 1, 5)
    ]  # fmt: skip
    with pytest.raises(QueryError, match="by must be op, source or module, not line"):
        traces.ask("peak_memory", by="line")
