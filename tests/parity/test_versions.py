"""Records that other versions of executorch write, against the Inspector of the version that wrote each.

Records before 1.0 have names of values and none of nodes.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from etq import Inspector
from tests.conftest import CAPTURES
from tests.parity.oracle import read
from tests.sampling import thinned

ANSWERS = sorted((CAPTURES / "versions").glob("*/*.json.gz"))
FEW = [path for path in ANSWERS if path.name.startswith("attention") or path.parent.name in ("0.4.0", "1.5.1")]


@pytest.mark.parametrize("path", thinned(ANSWERS, FEW), ids=lambda path: f"{path.parent.name}-{path.name}")
def test_events_and_their_ops_with_names_modules_and_frames(path: Path) -> None:
    stem, theirs = str(path).removesuffix(".json.gz"), read(path)
    inspector = Inspector(etdump_path=f"{stem}.etdp", etrecord=f"{stem}.etrecord")
    ours = [(block.name, event) for block in inspector.event_blocks for event in block.events]
    for row, (block, event) in zip(theirs, ours, strict=True):
        assert (block, event.name) == (row["block"], row["event"])
        assert event.perf_data is not None and event.perf_data.raw == pytest.approx(row["raw"], rel=1e-9), event.name
        assert (event.is_delegated_op, event.delegate_backend_name) == (row["is_delegated_op"], row["backend"])
        if row["op_types"] or not row["backend"]:
            assert event.op_types == row["op_types"], event.name
            assert (event.stack_traces or {}) == (row["stack_traces"] or {}), event.name
            modules = json.loads(json.dumps(event.module_hierarchy or {}))  # Tuples are lists in JSON.
            assert modules == (row["module_hierarchy"] or {}), event.name
    assert any(row["module_hierarchy"] for row in theirs)


def test_every_version_is_there() -> None:
    assert {path.parent.name for path in ANSWERS} == {"0.4.0", "0.6.0", "0.7.0", "1.0.1", "1.5.1"}
