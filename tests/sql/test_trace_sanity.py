"""All views of traces on traces of devices: no impossible numbers, and totals that plain Python finds, too."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from etq import catalog
from etq.warehouse.warehouse import Warehouse
from tests.conftest import shared_file
from tests.trace_corpus import SHAPES, Style

REAL = ("cpu_only_rank34", "mi250_rocm")
# Bytes that were released are below 0.
SIGNED = ("memory", "change", "allocated", "bytes", "size")
VIEWS = sorted(
    view.name
    for view in catalog.public_objects()
    if view.kind == "table macro"
    and (view.file.startswith("traces/") or view.name in ("timeline", "time_tree", "advice", "headline"))
    and view.name not in ("model_map", "trace_diff")  # of two captures
)


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
@pytest.mark.parametrize("name", REAL)
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


def test_utilization_of_a_trace_without_steps(launch_traces: Warehouse) -> None:
    """From the end of the kernels launched before the first op to the end of the last kernel."""
    events = json.loads(SHAPES["without steps"](Style())[0])["traceEvents"]
    begin = min(each["ts"] + each["dur"] for each in events if each["name"] == "of_a_step")
    end = max(each["ts"] + each["dur"] for each in events if each.get("cat") in ("cpu_op", "kernel", "gpu_memcpy"))
    [(percent,)] = launch_traces.rows("SELECT utilization_percent FROM gpu_utilization('without steps')")[1]
    assert percent == pytest.approx(100 * busy(events, begin, end) / (end - begin))
