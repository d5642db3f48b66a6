"""Modules of PyTorch Lightning's profiler against the Lightning view of torch-tb-profiler 0.4.3, on a real trace."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from etq.warehouse.warehouse import Warehouse
from tests.conftest import CAPTURES
from tests.parity.oracle import read
from tests.trace_builders import event
from tests.traces import Traces

FOLDER = CAPTURES / "torch_lightning"
# The plug-in counts microseconds in floats, which have a resolution of half a nanosecond there.
EXACT = 0.005


def rows_of_view(modules: list[dict[str, Any]], above: str = "", depth: int = 0) -> list[tuple[Any, ...]]:
    """The plug-in's tree, each module before its children, with the columns of `module_tree`."""
    found: list[tuple[Any, ...]] = []
    for module in modules:
        path = f"{above}{module['name']}"
        times = [module[f"{name}duration"] for name in ("host_", "self_host_", "device_", "self_device_", "avg_")]
        found.append((path, module["name"], depth, module["occurences"], module["operators"], *times))
        found += rows_of_view(module["children"], f"{path}/", depth + 1)
    return found


@pytest.fixture
def traces(warehouse: Warehouse, tmp_path: Path) -> Traces:
    return Traces(warehouse, tmp_path)


@pytest.fixture
def lightning(warehouse: Warehouse) -> Warehouse:
    warehouse.ingest(FOLDER / "fit.pt.trace.json.gz", name="t")
    return warehouse


def test_modules(lightning: Warehouse) -> None:
    expected = rows_of_view(read(FOLDER / "fit.tb.json.gz"))
    rows = lightning.module_tree("t").fetchall()
    assert [row[:5] for row in rows] == [row[:5] for row in expected]
    assert [row[1] for row in rows] == ["body", "body.0", "body.1", "body.2", "head"]
    for row, theirs in zip(rows, expected, strict=True):
        assert row[5:10] == pytest.approx(theirs[5:], abs=EXACT)


def test_python_functions_name_modules_first(traces: Traces) -> None:
    """With `with_stack` both are in the trace, the annotation within the Python function."""
    traces.take(
        event("python_function", "nn.Module: Linear_0", 0, 100),
        event("user_annotation", "[pl][module]torch.nn.modules.linear.Linear: head", 10, 90),
        event("cpu_op", "aten::linear", 20, 60, external=1),
    )
    columns = "module_path, operators, host_total_time, host_self_time"
    assert traces.ask("module_tree", columns) == [("Linear_0", 1, 100.0, 60.0)]
    assert traces.ask("key_averages", "module", by="module") == [("Linear_0",)] * 3


def test_malformed_names_are_annotations(traces: Traces) -> None:
    traces.take(
        event("user_annotation", "[pl][module]", 0, 20),
        event("user_annotation", "[pl][module]head", 30, 50),
        event("user_annotation", "[pl][profile]head: b", 50, 60),
        event("gpu_user_annotation", "[pl][module]torch.nn.Linear: head", 0, 20, device=0),
    )
    assert traces.ask("module_tree") == []
