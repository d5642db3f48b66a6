"""What is around each event of a trace, and the calls that events belong to: by plain Python, and by hand."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest

from etq.ingest.trace.calls import _within
from etq.warehouse.warehouse import Warehouse
from tests.conftest import CAPTURES
from tests.launch_traces import training
from tests.trace_builders import event, trace
from tests.trace_corpus import Style, overlapping_steps
from tests.traces import Traces

COMMUNICATION = re.compile("^(nccl|rccl|gloo|xccl|hccl|ucc|mpi):")
CONTENTS = {
    "gpu": CAPTURES / "torch_gpu" / "rank0.pt.trace.json.gz",
    "gloo": next((CAPTURES / "torch_gloo").glob("*.json*")),
    "lightning": next((CAPTURES / "torch_lightning").glob("*trace.json*")),
    "memory": CAPTURES / "torch" / "memory_outside.pt.trace.json.gz",
    "steps": CAPTURES / "torch_steps" / "before.pt.trace.json.gz",
    "overlap": overlapping_steps(Style())[0],
    "made": trace(*training(2).events),
}
HELPER = "profiler::_record_function_exit"
Places = dict[int, tuple[int | None, ...]]


class Event(NamedTuple):
    place: int
    parent: int | None
    category: str
    name: str

    @property
    def is_step(self) -> bool:
        return self.category in ("cpu_op", "user_annotation") and self.name.startswith("ProfilerStep#")

    @property
    def is_op(self) -> bool:
        return self.category == "cpu_op" and not self.is_step

    @property
    def is_annotation(self) -> bool:
        return self.category == "user_annotation"

    def is_module(self, has_modules: bool) -> bool:
        if self.category == "python_function":
            return self.name.startswith("nn.Module: ")
        return not has_modules and self.category in ("cpu_op", "user_annotation") and "[pl][module]" in self.name

    def is_node(self, has_modules: bool) -> bool:
        is_communication = self.is_annotation and COMMUNICATION.match(self.name) is not None
        return self.is_op or self.is_step or self.is_module(has_modules) or is_communication


def expected_around(events: dict[int, Event]) -> Places:
    has_modules = any(each.is_module(True) for each in events.values())

    def nearest(each: Event, holds: Callable[[Event], bool]) -> int | None:
        at = each.parent
        while at is not None and not holds(events[at]):
            at = events[at].parent
        return at

    return {
        index: (
            nearest(each, lambda one: one.is_op),
            nearest(each, lambda one: one.is_module(has_modules)),
            nearest(each, lambda one: one.is_node(has_modules)),
            nearest(each, lambda one: one.is_annotation or one.is_step),
        )
        for index, each in events.items()
    }


def check(warehouse: Warehouse) -> Places:
    """Compare all events with plain Python; return what is around them."""
    query = "SELECT e.event_index, e.parent_index, e.category, e.name FROM events AS e"
    around = expected_around({row[0]: Event(*row) for row in warehouse.rows(query)[1]})
    query = "SELECT event_index, op_index, module_index, node_index, annotation_index FROM trace_events"
    assert {index: tuple(others) for index, *others in warehouse.rows(query)[1]} == around
    return around


@pytest.mark.parametrize("name", CONTENTS)
def test_by_plain_python(warehouse: Warehouse, name: str) -> None:
    warehouse.ingest(CONTENTS[name], name="t")
    assert any(node is not None for _, _, node, _ in check(warehouse).values())


def test_what_is_around_by_hand(traces: Traces) -> None:
    traces.take(
        event("user_annotation", "ProfilerStep#1", 0, 100),
        event("python_function", "nn.Module: Linear_0", 5, 60),
        event("python_function", "forward", 10, 55),
        event("cpu_op", "aten::linear", 15, 50),
        event("user_annotation", "part", 20, 45),
        event("cuda_runtime", "cudaLaunchKernel", 25, 30),
        event("user_annotation", "nccl:all_reduce", 70, 90),
        event("cpu_op", "c10d::allreduce_", 75, 85),
    )
    assert check(traces.warehouse) == {
        0: (None, None, None, None),
        1: (None, None, 0, 0),
        2: (None, 1, 1, 0),
        3: (None, 1, 1, 0),
        4: (3, 1, 3, 0),
        5: (3, 1, 3, 4),
        6: (None, None, 0, 0),
        7: (None, None, 6, 6),
    }


def test_calls_by_hand(traces: Traces) -> None:
    traces.take(
        event("user_annotation", "ProfilerStep#1", 0, 100),
        event("cpu_op", "f", 5, 60),
        event("cpu_op", "f", 10, 55),
        event("cpu_op", "f", 15, 50),
        event("cpu_op", "g", 20, 30),
        event("cpu_op", HELPER, 22, 24),
        event("cuda_runtime", "cudaLaunchKernel", 25, 28),
        event("cpu_op", "f", 70, 90),
        event("cpu_op", "f", 72, 75),
        event("cpu_op", "f", 75, 80),
        event("cpu_op", HELPER, 200, 210),
        event("cpu_op", HELPER, 202, 204),
    )
    query = "SELECT event_index, call_index, operator_index, operators_within FROM trace_events"
    assert {row[0]: row[1:] for row in traces.warehouse.rows(query)[1]} == {
        0: (None, 0, 6),
        1: (None, 1, 2),  # `f`, which only calls `f`
        2: (1, 1, 0),
        3: (1, 1, 0),
        4: (None, 4, 1),
        5: (4, 5, 0),
        6: (None, 4, 0),
        7: (None, 7, 2),  # two calls
        8: (None, 8, 0),
        9: (None, 9, 0),
        10: (None, 10, 0),  # helpers in nothing: `operator_table` has them, as one call
        11: (None, 10, 0),
    }


def test_a_call_of_a_run_that_is_not_selected(traces: Traces) -> None:
    """What it contains of the runs that are is a call itself; a helper belongs to none."""
    traces.take(
        event("user_annotation", "ProfilerStep#1", 10, 50, thread=2),
        event("cpu_op", "f", 0, 40),
        event("cpu_op", "f", 20, 30),
        event("cpu_op", HELPER, 22, 24),
    )
    rows = traces.ask("key_averages", "name, calls, self_cpu_time")
    assert sorted(rows) == [("ProfilerStep*", 1, 40.0), ("f", 1, 40.0)]
    [(run,)] = traces.warehouse.rows("SELECT run_index FROM event_ticks WHERE event_index = 2")[1]
    traces.warehouse.connection.execute("UPDATE runs SET phase = 'decode' WHERE run_index = ?", [run])
    rows = traces.ask("key_averages", "name, calls, self_cpu_time", phase="decode")
    assert sorted(rows) == [("ProfilerStep*", 1, 40.0), ("f", 1, 8.0)]


@pytest.mark.parametrize("scale", [1, 2**57])
def test_how_many_are_within_at_any_times(scale: int) -> None:
    """Times that are too far apart for one number with the thread are compared by their ranks."""
    spans = np.array([(0, 0, 20), (0, 5, 9), (1, -10, 3), (0, 8, 30), (0, 5, 5), (1, 0, 1), (0, 20, 21), (0, 5, 9)])
    start, end = spans[:, 1] * scale, spans[:, 2] * scale
    # Of those that start and end together, the first contains the second; a moment contains nothing.
    assert _within(spans[:, 0], start, end).tolist() == [4, 3, 1, 1, 0, 0, 0, 2]
