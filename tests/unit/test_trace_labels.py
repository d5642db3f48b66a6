"""Labels that a PyTorch trace has about the process that wrote it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from etq.ingest.trace.reader import read_torch_trace


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
        ({"rank": [1], "world_size": 2, "backend": 5}, {"world_size": "2"}),
        ({"rank": -1, "world_size": 0}, {}),
        ({"rank": 10**40, "world_size": 2**62}, {}),
        ({"rank": True, "world_size": 1.5}, {}),
        ([1], {}),
        ("rank", {}),
        (3, {}),
        (None, {}),
    ],
)
def test_a_process_of_another_type_is_left_out(info: Any, labels: dict[str, str]) -> None:
    """A trace is more than its labels, and no label has a number that can't be true."""
    content = json.dumps({"distributedInfo": info, "traceEvents": []}).encode()
    rows = dict(read_torch_trace(content, "made")).get("labels")
    assert ({} if rows is None else {row["key"]: row["value"] for row in rows.to_pylist()}) == labels
