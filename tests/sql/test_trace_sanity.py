"""All views of traces on traces of devices: no impossible numbers, and totals that plain Python finds, too."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

import pytest

from etq import catalog
from etq.warehouse.warehouse import Warehouse
from tests.conftest import shared_file
from tests.sampling import thinned
from tests.trace_corpus import SHAPES, Style
from tests.trace_reference import load
from tests.warehouses import empty_warehouse

REAL = ("alexnet", "cpu_only_rank34", "mi250_rocm", "resnet50_dataloader", "resnet50_list_format", "triton")
# Bytes that were released are below 0.
SIGNED = ("memory", "change", "allocated", "bytes", "size")
VIEWS = sorted(
    view.name
    for view in catalog.public_objects()
    if view.kind == "table macro"
    and (view.file.startswith("traces/") or view.name in ("timeline", "time_tree", "advice", "headline"))
    and view.name not in ("model_map", "trace_diff")  # of two captures
)


@pytest.fixture(scope="module")
def traces() -> Iterator[Warehouse]:
    with empty_warehouse() as opened:
        for shape, make in SHAPES.items():
            opened.ingest(make(Style())[0], name=shape)
        opened.ingest(SHAPES["training"](Style("xpu", "correlation"))[0], name="xpu")
        yield opened


def wrong(warehouse: Warehouse, query: str) -> list[tuple[str, Any]]:
    """Values that are no finite numbers, durations below 0, and shares outside of 0 to 100."""
    columns, rows = warehouse.rows(query)
    numbers = [
        (column, value)
        for row in rows
        for column, value in zip(columns, row, strict=True)
        if isinstance(value, int | float) and not isinstance(value, bool)
    ]
    return [
        (column, value)
        for column, value in numbers
        if not math.isfinite(value)
        or (value < 0 and not any(word in column for word in SIGNED))
        or (("percent" in column or "share" in column) and value > 100 * (1 + 1e-9))
    ]


def asked(warehouse: Warehouse, view: str, name: str) -> str:
    if view != "timeline":
        return f"FROM {view}('{name}')"
    runs = warehouse.rows("SELECT count(*) FROM runs WHERE capture_id = _capture_id($c)", c=name)[1][0][0]
    return f"FROM timeline('{name}', {list(range(runs))})"


@pytest.mark.long
@pytest.mark.parametrize("view", thinned(VIEWS, VIEWS[::12]))
def test_made_up_traces(traces: Warehouse, view: str) -> None:
    for name in (*SHAPES, "xpu"):
        assert wrong(traces, asked(traces, view, name)) == [], name


@pytest.mark.parametrize("name", thinned(REAL, REAL[:1]))
def test_real_traces(warehouse: Warehouse, name: str) -> None:
    warehouse.ingest(shared_file(f"captures/torch/gpu/{name}.pt.trace.json.gz"), name="t")
    assert {view: wrong(warehouse, asked(warehouse, view, "t")) for view in VIEWS} == {view: [] for view in VIEWS}
    shares = warehouse.rows("SELECT sum(share_percent) FROM step_breakdown('t') GROUP BY run_index")[1]
    assert shares == [(pytest.approx(100),)] * len(shares)


def busy(events: list[dict[str, Any]], start: float, end: float) -> float:
    """How long at least one kernel ran, from one moment to another."""
    spans = sorted((each["ts"], each["ts"] + each["dur"]) for each in events if each.get("cat") in ("kernel", "Kernel"))
    found, reached = 0.0, start
    for begin, until in spans:
        found += max(0.0, min(until, end) - max(begin, reached))
        reached = max(reached, min(until, end))
    return found


def test_utilization_of_a_trace_without_steps(traces: Warehouse) -> None:
    """From the end of the kernels launched before the first op to the end of the last kernel."""
    events = json.loads(SHAPES["without steps"](Style())[0])["traceEvents"]
    begin = min(each["ts"] + each["dur"] for each in events if each["name"] == "of_a_step")
    end = max(each["ts"] + each["dur"] for each in events if each.get("cat") in ("cpu_op", "kernel", "gpu_memcpy"))
    [(percent,)] = traces.rows("SELECT utilization_percent FROM gpu_utilization('without steps')")[1]
    assert percent == pytest.approx(100 * busy(events, begin, end) / (end - begin))


@pytest.mark.long
@pytest.mark.parametrize("name", ["alexnet", "mi250_rocm", "resnet50_dataloader"])
def test_kernels_fill_what_plain_python_finds(warehouse: Warehouse, name: str) -> None:
    """Stretches in which at least one kernel runs, of all that a device does."""
    path = shared_file(f"captures/torch/gpu/{name}.pt.trace.json.gz")
    warehouse.ingest(path, name="t")
    spans = [(each["ts"], each["ts"] + each["dur"]) for each in load(path) if each.get("cat") in ("kernel", "Kernel")]
    expected = busy(load(path), min(start for start, _ in spans), max(end for _, end in spans))
    stretches = "SELECT sum(ticks) FROM _device_intervals(_capture_id('t'), []::BIGINT[]) WHERE kernels > 0"
    assert warehouse.rows(stretches)[1][0][0] == pytest.approx(1000 * expected, abs=2 * len(spans))
