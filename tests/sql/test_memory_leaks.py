"""Memory that steps hold at their ends, and memory that grows: numbers by hand."""

from __future__ import annotations

from typing import Any

from tests.trace_builders import event, memory
from tests.traces import Traces


def at(address: int, moment: float, size: int) -> dict[str, Any]:
    found = memory(moment, size, 10_000)
    found["args"]["Addr"] = address
    return found


def step(number: int, *, is_kept: bool = True) -> list[dict[str, Any]]:
    """100 us of a training: a loss of 10 bytes is kept, a temporary of 30 is not, the first has a gradient of 500."""
    start = 100 * number
    events = [
        event("user_annotation", f"ProfilerStep#{number}", start, start + 100),
        event("cpu_op", "aten::mse_loss", start + 10, start + 20),
        event("cpu_op", "aten::mm", start + 30, start + 40),
        at(1, start + 35, 30),
        at(1, start + 60, -30),
    ]
    events += [at(100 + number, start + 15, 10)] if is_kept else []
    events += [event("cpu_op", "aten::zeros", start + 70, start + 80), at(7, start + 75, 500)] if number == 0 else []
    return events


LEAKS = "op, steps, growing_steps, is_leak, first_bytes, last_bytes, growth_bytes, growth_per_step_bytes, allocations"


def test_a_loss_that_is_kept(traces: Traces) -> None:
    traces.take(*(each for number in range(4) for each in step(number)))
    assert traces.ask("memory_leaks", LEAKS) == [
        ("aten::mse_loss", 4, 3, True, 10, 40, 30, 10.0, 4),
        ("aten::zeros", 4, 0, False, 500, 500, 0, 0.0, 1),
    ]
    assert traces.ask("held_memory", "step, device, op, allocations, held_bytes") == [
        (number, "CPU", op, allocations, held)
        for number in range(4)
        for op, allocations, held in (("aten::zeros", 1, 500), ("aten::mse_loss", number + 1, 10 * number + 10))
    ]


def test_a_step_without_growth_is_not_a_leak(traces: Traces) -> None:
    """The memory was released in between, and grows again."""
    released = [at(100, 150, -10), at(101, 250, -10)]
    traces.take(*(each for number in range(4) for each in step(number)), *released)
    rows = traces.ask("memory_leaks", LEAKS)
    assert rows[0] == ("aten::mse_loss", 4, 1, False, 10, 20, 10, 10 / 3, 2)


def test_the_moment_of_the_end_belongs_to_the_step(traces: Traces) -> None:
    """Memory allocated after the last step is held at no end; memory allocated at an end is held there and later."""
    steps = [event("user_annotation", f"ProfilerStep#{number}", 100 * number, 100 * number + 90) for number in (0, 1)]
    traces.take(*steps, at(1, 90, 8), at(2, 190.001, 16), at(3, 95, 32), at(3, 190, -32))
    assert traces.ask("held_memory", "step, op, allocations, held_bytes") == [(0, None, 1, 8), (1, None, 1, 8)]
    assert traces.ask("memory_leaks", LEAKS) == [(None, 2, 0, None, 8, 8, 0, 0.0, 1)]


def test_traces_without_steps(traces: Traces) -> None:
    """Without steps, the whole trace counts as one step that ends with its last op."""
    traces.take(event("cpu_op", "aten::mm", 0, 50), at(1, 10, 64), at(2, 20, 8), at(2, 30, -8))
    assert traces.ask("held_memory", "step, op, allocations, held_bytes") == [(0, "aten::mm", 1, 64)]
    assert traces.ask("memory_leaks", LEAKS) == [("aten::mm", 1, 0, None, 64, 64, 0, None, 1)]


def test_traces_without_memory(traces: Traces) -> None:
    traces.take(event("user_annotation", "ProfilerStep#1", 0, 90), event("cpu_op", "aten::mm", 0, 50))
    assert traces.ask("held_memory") == traces.ask("memory_leaks") == []
