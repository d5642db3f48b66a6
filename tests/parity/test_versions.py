"""Records that other versions of executorch write, against the Inspector of the version that wrote each.

Records before 1.0 have names of values and none of nodes.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from etq import Inspector
from tests.conftest import CAPTURES

ANSWERS = sorted((CAPTURES / "versions").glob("*/*.json.gz"))


@pytest.fixture(params=ANSWERS, ids=lambda path: f"{path.parent.name}-{path.name}")
def pair(request: pytest.FixtureRequest) -> tuple[list[dict[str, Any]], list[Any]]:
    """Their answers and our events, in order."""
    path: Path = request.param
    stem = str(path).removesuffix(".json.gz")
    inspector = Inspector(etdump_path=f"{stem}.etdp", etrecord=f"{stem}.etrecord")
    return json.loads(gzip.decompress(path.read_bytes())), [
        (block.name, event) for block in inspector.event_blocks for event in block.events
    ]


def test_events_and_times(pair: tuple[list[dict[str, Any]], list[Any]]) -> None:
    theirs, ours = pair
    assert [(row["block"], row["event"]) for row in theirs] == [(block, event.name) for block, event in ours]
    for row, (_, event) in zip(theirs, ours, strict=True):
        assert event.perf_data.raw == pytest.approx(row["raw"], rel=1e-9), event.name
        assert (event.is_delegated_op, event.delegate_backend_name) == (row["is_delegated_op"], row["backend"])


def test_ops_with_their_names_modules_and_frames(pair: tuple[list[dict[str, Any]], list[Any]]) -> None:
    theirs, ours = pair
    answered = [
        (row, event) for row, (_, event) in zip(theirs, ours, strict=True) if row["op_types"] or not row["backend"]
    ]
    assert any(row["module_hierarchy"] for row, _ in answered)
    for row, event in answered:
        assert event.op_types == row["op_types"], event.name
        assert (event.stack_traces or {}) == (row["stack_traces"] or {}), event.name
        modules = json.loads(json.dumps(event.module_hierarchy or {}))  # Tuples are lists in JSON.
        assert modules == (row["module_hierarchy"] or {}), event.name


def test_every_version_is_there() -> None:
    assert {path.parent.name for path in ANSWERS} == {"0.4.0", "0.6.0", "0.7.0", "1.0.1", "1.5.1"}
