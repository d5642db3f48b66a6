"""The op, module, node and annotation around each event of a trace: by plain Python over the events' parents."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from etq.warehouse.warehouse import Warehouse
from tests.conftest import CAPTURES
from tests.launch_traces import training
from tests.trace_builders import event, trace
from tests.trace_corpus import Style, overlapping_steps
from tests.traces import Traces

COMMUNICATION = re.compile("^(nccl|rccl|gloo|xccl|hccl|ucc|mpi):")
KEPT = {
    "gpu": CAPTURES / "torch_gpu" / "rank0.pt.trace.json.gz",
    "gloo": next((CAPTURES / "torch_gloo").glob("*.json*")),
    "lightning": next((CAPTURES / "torch_lightning").glob("*trace.json*")),
    "steps": CAPTURES / "torch_steps" / "before.pt.trace.json.gz",
}


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


def expected(events: dict[int, Event]) -> dict[int, tuple[int | None, ...]]:
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


def check(warehouse: Warehouse) -> dict[int, tuple[int | None, ...]]:
    """Compare all events; return what contains them."""
    query = "SELECT e.event_index, e.parent_index, e.category, e.name FROM events AS e"
    events = {row[0]: Event(*row) for row in warehouse.rows(query)[1]}
    query = "SELECT event_index, op_index, module_index, node_index, annotation_index FROM trace_events"
    found = {index: tuple(others) for index, *others in warehouse.rows(query)[1]}
    assert found == expected(events) and len(found) > 0
    return found


@pytest.mark.parametrize("name", KEPT)
def test_of_kept_traces(warehouse: Warehouse, name: str) -> None:
    warehouse.ingest(KEPT[name], name="t")
    found = check(warehouse)
    assert any(op is not None for op, *_ in found.values())


@pytest.mark.parametrize("content", [overlapping_steps(Style())[0], trace(*training(2).events)], ids=["overlap", "gpu"])
def test_of_made_traces(warehouse: Warehouse, content: bytes) -> None:
    warehouse.ingest(content, name="t")
    found = check(warehouse)
    assert any(node is not None for _, _, node, _ in found.values())


def test_by_hand(warehouse: Warehouse, tmp_path: Path) -> None:
    Traces(warehouse, tmp_path).take(
        event("user_annotation", "ProfilerStep#1", 0, 100),
        event("python_function", "nn.Module: Linear_0", 5, 60),
        event("python_function", "forward", 10, 55),
        event("cpu_op", "aten::linear", 15, 50),
        event("user_annotation", "part", 20, 45),
        event("cuda_runtime", "cudaLaunchKernel", 25, 30),
        event("user_annotation", "nccl:all_reduce", 70, 90),
        event("cpu_op", "c10d::allreduce_", 75, 85),
    )
    assert check(warehouse) == {
        0: (None, None, None, None),
        1: (None, None, 0, 0),
        2: (None, 1, 1, 0),
        3: (None, 1, 1, 0),
        4: (3, 1, 3, 0),
        5: (3, 1, 3, 4),
        6: (None, None, 0, 0),
        7: (None, None, 6, 6),
    }
