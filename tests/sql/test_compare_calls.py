"""What is called more or less often: numbers of calls, counted by hand, of traces with and without steps and of dumps."""

from __future__ import annotations

from typing import Any

from etq.warehouse.warehouse import Warehouse
from tests.batches import Labelled, ingest_all
from tests.builders import dump, execute, kernel, run
from tests.trace_builders import event, trace

COLUMNS = "name, kind, method, change, base_calls, new_calls, calls_difference"


def launched(name: str, at: int, correlation: int) -> list[dict[str, Any]]:
    return [
        event("cuda_runtime", "cudaLaunchKernel", at, at + 1, correlation=correlation),
        event("kernel", name, at + 1000, at + 1005, 7, device=0, correlation=correlation),
    ]


def op(name: str, at: int, kernel: str | None = None) -> list[dict[str, Any]]:
    return [event("cpu_op", name, at, at + 9), *(launched(kernel, at + 2, at + 1) if kernel is not None else [])]


def changed(warehouse: Warehouse, base: str = "base", new: str = "new") -> list[tuple[Any, ...]]:
    return warehouse.rows(f"SELECT {COLUMNS} FROM compare_calls($base, $new)", base=base, new=new)[1]


BASE = [*op("aten::add", 0, "add_kernel"), *op("aten::mul", 10), *op("aten::neg", 20), *op("aten::neg", 30)]
NEW = [
    *op("aten::add", 0, "add_kernel"), *op("aten::add", 10), *op("aten::relu", 20, "relu_kernel"), *op("aten::neg", 40),
]  # fmt: skip


def test_two_traces_without_steps(warehouse: Warehouse) -> None:
    ingest_all(warehouse, (("base", trace(*BASE)), ("new", trace(*NEW))))
    assert changed(warehouse) == [
        ("relu_kernel", "device_kernel", "Trace", "added", 0, 1, 1),
        ("aten::relu", "op", "Trace", "added", 0, 1, 1),
        ("aten::mul", "op", "Trace", "removed", 1, 0, -1),
        ("aten::add", "op", "Trace", "more calls", 1, 2, 1),
        ("cudaLaunchKernel", "runtime", "Trace", "more calls", 1, 2, 1),
        ("aten::neg", "op", "Trace", "fewer calls", 2, 1, -1),
    ]
    assert changed(warehouse, "new", "new") == []


def test_calls_count_by_step(warehouse: Warehouse) -> None:
    """Twice as many steps with the same calls each: nothing differs but an op in half of the steps."""
    for name, steps in (("base", 2), ("new", 4)):
        events = []
        for step in range(steps):
            at = 100 * step
            events += [event("user_annotation", f"ProfilerStep#{step}", at, at + 99), *op("aten::add", at + 10)]
            events += op("aten::relu", at + 30) if name == "new" and step % 2 else []
        warehouse.ingest(trace(*events), name=name)
    assert changed(warehouse) == [("aten::relu", "op", "ProfilerStep", "added", 0, 0.5, 0.5)]


def test_verdicts_on_ops_of_dumps_note_their_calls(warehouse: Warehouse) -> None:
    """A loop calls add twice in base and three times in new, 100 us each."""
    captures = []
    for number in range(10):
        calls = 2 + number % 2
        kernels = [kernel("add", 110_000 * at, 110_000 * at + 100_000 + number // 2, 0) for at in range(calls)]
        logged = run("Execute", *kernels, kernel("mul", 400_000, 450_000 + number // 2, 1), execute(0, 500_000))
        side = "new" if number % 2 else "base"
        captures.append(Labelled(f"made {number}", dump(logged, logged, logged), {"side": side}))
    ingest_all(warehouse, captures)
    query = "SELECT op, verdict, note FROM compare_ops('side=base', 'side=new')"
    assert warehouse.rows(query)[1] == [("add", "slower", "calls per execute 2 to 3"), ("mul", "~", None)]


def test_what_varies_within_a_side_has_no_row(warehouse: Warehouse) -> None:
    """Of two captures per side: `a` is in all of new, `b` in one; `c` overlaps, `d` doesn't."""
    counts = {
        "base": ({"c": 1, "d": 2, "e": 1}, {"c": 3, "d": 3, "e": 1}),
        "new": ({"a": 1, "b": 1, "c": 2, "d": 4}, {"a": 2, "c": 4, "d": 6}),
    }
    made = []
    for side, captures in counts.items():
        for number, calls in enumerate(captures):
            names = [name for name, count in calls.items() for _ in range(count)]
            events = [each for at, name in enumerate(names) for each in op(name, 10 * at)]
            made.append(Labelled(f"{side}{number}", trace(*events), {"side": side}))
    ingest_all(warehouse, made)
    assert changed(warehouse, "side=base", "side=new") == [
        ("a", "op", "Trace", "added", 0, 1.5, 1.5),
        ("e", "op", "Trace", "removed", 1, 0, -1),
        ("d", "op", "Trace", "more calls", 2.5, 5, 2.5),
    ]


def test_other_steps_are_not_compared(warehouse: Warehouse) -> None:
    warehouse.ingest(trace(*BASE), name="base")
    warehouse.ingest(trace(event("user_annotation", "ProfilerStep#0", 0, 99), *NEW), name="new")
    assert changed(warehouse) == []
