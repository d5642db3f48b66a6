"""Lanes of a trace's timeline: what the file names, by its name; streams without a name, by their numbers."""

from __future__ import annotations

from typing import Any

from etq.report.timeline import EVENTS, LANE_OF_TRACE, OF_TRACE
from etq.warehouse.warehouse import Warehouse
from tests.trace_builders import event, trace


def lanes(warehouse: Warehouse, *more: dict[str, Any]) -> dict[str, str]:
    """Return the lane of each event, by its name."""
    content = trace(
        event("cpu_op", "aten::mm", 0, 20),
        event("cuda_runtime", "cudaLaunchKernel", 1, 5, correlation=3),
        event("kernel", "mm_kernel", 10, 20, 7, device=0, stream=7, correlation=3),
        {**event("gpu_user_annotation", "train", 10, 20, 7), "pid": 0},
        *more,
    )
    warehouse.ingest(content, name="run")
    query = EVENTS.format(lane=LANE_OF_TRACE, more="", joined=OF_TRACE, kept="")
    parameters = {"capture": warehouse.capture("run").sha256, "runs": [0], "unit": "us"}
    columns, rows = warehouse.rows(query, **parameters)
    names = dict(warehouse.rows("SELECT s.signature_index, s.label FROM signatures AS s")[1])
    assert columns[:3] == ["run_index", "signature_index", "lane"]
    return {names[row[1]]: row[2] for row in rows}


def test_a_stream_without_a_name_has_its_number(warehouse: Warehouse) -> None:
    found = lanes(warehouse)
    assert found["mm_kernel"] == found["train"] == "device 0, stream 7"
    assert found["aten::mm"] == found["cudaLaunchKernel"] != found["mm_kernel"]


def test_two_streams_on_one_thread_keep_the_name_of_the_file(warehouse: Warehouse) -> None:
    found = lanes(warehouse, event("kernel", "add_kernel", 30, 40, 7, device=0, stream=8))
    assert found["add_kernel"] == found["mm_kernel"]
    assert "stream" not in found["mm_kernel"]
