"""What a trace tells of the process that wrote it and of its devices: labels, kernels' details, times by op, properties."""

from __future__ import annotations

import json
from typing import Any

import pytest

from etq.ingest.trace.reader import read_torch_trace
from etq.warehouse.warehouse import Warehouse
from tests.trace_builders import event, trace


@pytest.mark.parametrize(
    ("groups", "label"),
    [
        (
            [
                {"pg_name": "0", "pg_desc": "default_pg", "backend_config": "cuda:nccl", "pg_size": 8, "ranks": [0, 1]},
                {"pg_name": "3", "pg_desc": "mesh tp", "pg_size": 2, "ranks": [0, 4]},
            ],
            "default_pg:8 mesh_tp:2",
        ),
        ([{"pg_name": "0", "backend_config": "cuda:nccl", "ranks": [], "group_size": 4, "group_count": 1}], "0:4"),
        (
            [{"pg_name": "1", "pg_desc": "undefined", "pg_size": 2}, {"pg_desc": "undefined", "pg_size": 4}],
            "1:2 undefined:4",
        ),
        ([{"pg_name": 7, "pg_size": 2}, {"pg_desc": "\x1b[31m", "pg_size": 2}, {"pg_size": 3}], "7:2 __31m:2"),
        ([{"pg_name": "0", "pg_size": 4}, {"pg_name": [1], "pg_size": 2}, 5, {"pg_desc": 6, "pg_size": 2}], "0:4 6:2"),
        ([{"pg_name": "007", "pg_size": 10**30}, {"pg_name": "1", "pg_size": -2}], None),
        ([{"pg_name": "007", "pg_size": "8"}], "007:8"),
        ([[[{"pg_name": "0", "pg_size": 2}]]], None),
        ({"pg_name": "0"}, None),
        ("default_pg", None),
        ([], None),
    ],
)
def test_process_groups_are_a_label(groups: Any, label: str | None) -> None:
    """From current and older files; values that aren't a list of groups are left out."""
    content = json.dumps({"distributedInfo": {"rank": 1, "pg_config": groups}, "traceEvents": []}).encode()
    rows = dict(read_torch_trace(content, "made"))["labels"].to_pylist()
    found = {row["key"]: row["value"] for row in rows}
    assert found == {"rank": "1"} | ({} if label is None else {"process_groups": label})


@pytest.mark.parametrize(
    ("info", "labels"),
    [
        ({"rank": "1", "world_size": 2.0}, {"rank": "1", "world_size": "2"}),
        ({"rank": [1], "world_size": 2, "backend": 5}, {"world_size": "2"}), ({"rank": -1, "world_size": 0}, {}),
        ({"rank": 10**40, "world_size": 2**62}, {}), ({"rank": True, "world_size": 1.5}, {}), ([1], {}), ("rank", {}),
        (3, {}), (None, {}),
    ],
)  # fmt: skip
def test_a_process_of_another_type_is_left_out(info: Any, labels: dict[str, str]) -> None:
    """A trace is more than its labels, and no label has a number that can't be true."""
    content = json.dumps({"distributedInfo": info, "traceEvents": []}).encode()
    rows = dict(read_torch_trace(content, "made")).get("labels")
    assert ({} if rows is None else {row["key"]: row["value"] for row in rows.to_pylist()}) == labels


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
