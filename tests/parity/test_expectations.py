"""Expectations of other tools' tests for rules that these tools share with etq, on inputs made for the purpose.

From torch-tb-profiler (0.4.3): communication between threads, memory over time. Numbers are by hand.
"""

from __future__ import annotations

from typing import Any

from etq.warehouse.warehouse import Warehouse
from tests.trace_builders import event, memory, trace


def ask(warehouse: Warehouse, query: str, *events: dict[str, Any]) -> list[tuple[Any, ...]]:
    warehouse.ingest(trace(*events), name="t")
    return warehouse.rows(query)[1]


def test_communication_comes_before_what_other_threads_compute(warehouse: Warehouse) -> None:
    """0 to 10 and 50 to 70 compute alone, 10 to 50 communicate in one thread or the other, from 70 to 80 nothing is."""
    rows = ask(
        warehouse, "SELECT category, time FROM step_breakdown('t') WHERE time > 0",
        event("cpu_op", "gloo:all_reduce", 10, 30, 1), event("cpu_op", "gloo:broadcast", 25, 50, 2),
        event("cpu_op", "aten::add", 0, 20, 3), event("cpu_op", "aten::mul", 40, 70, 3),
        event("cpu_op", "aten::relu", 80, 90, 3),
    )  # fmt: skip
    assert rows == [("Communication", 40.0), ("CPU Exec", 40.0), ("Other", 10.0)]


def test_memory_of_devices_goes_apart(warehouse: Warehouse) -> None:
    """Times count from the first moment of any device."""
    rows = ask(
        warehouse, "SELECT device, time, allocated_bytes, reserved_bytes FROM memory_timeline('t')",
        memory(3, 64, 64, 0), memory(5, 512, 512, 2048, type=1, device=0), memory(9, -64, 0, 0),
        memory(12, 256, 768, 2048, type=1, device=0),
    )  # fmt: skip
    assert rows == [("CPU", 0.0, 64, 0), ("CPU", 6.0, 0, 0), ("GPU0", 2.0, 512, 2048), ("GPU0", 9.0, 768, 2048)]
