"""Expectations of other tools' tests for rules that these tools share with etq, on inputs made for the purpose.

From torch-tb-profiler (0.4.3): communication between threads, memory over time, modules by their place. From
executorch's Inspector: which runs form a block. Numbers are by hand.
"""

from __future__ import annotations

from typing import Any

from etq.warehouse.warehouse import Warehouse
from tests.builders import delegated, dump, run
from tests.trace_builders import event, memory, trace


def ask(warehouse: Warehouse, query: str, *events: dict[str, Any]) -> list[tuple[Any, ...]]:
    warehouse.ingest(trace(*events), name="t")
    return warehouse.rows(query)[1]


def test_communication_comes_before_what_other_threads_compute(warehouse: Warehouse) -> None:
    """0 to 10 and 50 to 70 compute alone, 10 to 50 communicate in one thread or the other, from 70 to 80 nothing is."""
    rows = ask(
        warehouse,
        "SELECT category, time FROM step_breakdown('t') WHERE time > 0",
        event("cpu_op", "gloo:all_reduce", 10, 30, 1),
        event("cpu_op", "gloo:broadcast", 25, 50, 2),
        event("cpu_op", "aten::add", 0, 20, 3),
        event("cpu_op", "aten::mul", 40, 70, 3),
        event("cpu_op", "aten::relu", 80, 90, 3),
    )
    assert rows == [("Communication", 40.0), ("CPU Exec", 40.0), ("Other", 10.0)]


def test_memory_of_devices_goes_apart(warehouse: Warehouse) -> None:
    """Times count from the first moment of any device."""
    rows = ask(
        warehouse,
        "SELECT device, time, allocated_bytes, reserved_bytes FROM memory_timeline('t')",
        memory(3, 64, 64, 0),
        memory(5, 512, 512, 2048, type=1, device=0),
        memory(9, -64, 0, 0),
        memory(12, 256, 768, 2048, type=1, device=0),
    )
    assert rows == [("CPU", 0.0, 64, 0), ("CPU", 6.0, 0, 0), ("GPU0", 2.0, 512, 2048), ("GPU0", 9.0, 768, 2048)]


def test_modules_of_one_place_are_one(warehouse: Warehouse) -> None:
    """Two calls of a model with a layer within, and the layer's class once on its own."""
    calls = []
    for start in (0, 100):
        calls += [
            event("python_function", "nn.Module: Net", start, start + 60),
            event("python_function", "nn.Module: Linear", start + 5, start + 35),
            event("cpu_op", "aten::addmm", start + 10, start + 30),
        ]
    alone = event("python_function", "nn.Module: Linear", 200, 210)
    columns = "module_path, depth, calls, operators, host_total_time, host_self_time"
    rows = ask(warehouse, f"SELECT {columns} FROM module_tree('t')", *calls, alone)
    assert sorted(rows) == [
        ("Linear", 0, 1, 0, 10.0, 10.0),
        ("Net", 0, 2, 0, 120.0, 60.0),
        ("Net/Linear", 1, 2, 2, 60.0, 20.0),
    ]


def test_runs_of_the_same_events_are_one_block(warehouse: Warehouse) -> None:
    """One block of one event in two runs, and one of two events in one run."""
    both = run("b", delegated("x", 5, 6, 1), delegated("x", 7, 8, 2))
    warehouse.ingest(dump(run("a", delegated("x", 1, 2, 1)), run("a", delegated("x", 2, 4, 1)), both), name="d")
    assert warehouse.rows("SELECT events, runs FROM event_blocks('d')")[1] == [(1, 2), (2, 1)]
    raw = warehouse.rows("SELECT raw FROM inspector_events('d', unit := 'ns')")[1]
    assert raw == [([1.0, 2.0],), ([1.0],), ([1.0],)]
