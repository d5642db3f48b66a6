"""What a trace tells of its devices: kernels' details, times by op, properties."""

from __future__ import annotations

import pytest

from etq.ingest.trace.reader import read_torch_trace
from etq.warehouse.warehouse import Warehouse
from tests.trace_builders import event, trace


def test_details_of_a_kernel(warehouse: Warehouse) -> None:
    details = {"device": 0, "stream": 7, "grid": [2, 1, 1], "block": [64, 1, 1], "registers per thread": 16}
    warehouse.ingest(
        trace(
            event("user_annotation", "ProfilerStep#3", 0, 100),
            event("cpu_op", "aten::add", 1, 10, external=4),
            event("cuda_runtime", "cudaLaunchKernel", 2, 5, correlation=9),
            event(
                "kernel", "add_kernel", 120, 160, 7, external=4, correlation=9, blocks=0.5, occupancy=31.5, **details
            ),
        )
    )
    query = "SELECT run_index, device, stream, grid, block, blocks_per_sm, occupancy_percent FROM device_events"
    # It ran after the step that launched it.
    assert warehouse.rows(query)[1] == [(0, 0, 7, "[2, 1, 1]", "[64, 1, 1]", 0.5, 31.5)]
    rows = warehouse.rows(
        "SELECT name, self_device_time, device_time_total, self_cpu_time FROM key_averages('@latest') ORDER BY name"
    )[1]
    assert rows == [
        ("ProfilerStep*", 0, 40, 91), ("add_kernel", 40, 40, 0), ("aten::add", 40, 40, 6), ("cudaLaunchKernel", 0, 0, 3),
    ]  # fmt: skip


def test_device_times_of_what_begins_in_one_tick(warehouse: Warehouse) -> None:
    """By hand: a parent that launches, and a child that begins with it and launches itself."""
    warehouse.ingest(
        trace(
            event("cpu_op", "parent", 10, 20, external=1),
            event("cpu_op", "child", 10, 14, external=2),
            event("cpu_op", "sibling", 14, 18, external=3),
            event("kernel", "kernel 1", 40, 41, 9, external=1),
            event("kernel", "kernel 2", 50, 52, 9, external=2),
            event("kernel", "kernel 3", 60, 65, 9, external=3),
        )
    )
    rows = "SELECT name, self_device_time, device_time_total FROM key_averages('@latest') WHERE NOT is_device"
    assert {name: times for name, *times in warehouse.rows(rows)[1]} == {
        "parent": [1, 8], "child": [2, 2], "sibling": [5, 5],
    }  # fmt: skip


@pytest.mark.parametrize("properties", [b'[{"name": "\xff"}]', b'{"id": 0}'])
def test_invalid_device_properties(properties: bytes) -> None:
    content = trace(event("cpu_op", "aten::add", 1, 10)).replace(b"{", b'{"deviceProperties": ' + properties + b", ", 1)
    found = {table: getattr(rows, "rows", rows).to_pylist() for table, rows in read_torch_trace(content, "made")}
    assert "trace_devices" not in found and len(found["event_ticks"]) == 1
    assert [row["rule"] for row in found["findings"]] == ["devices left out"]
