"""Pushers beside readers at a server that is killed: what it has acknowledged is there once."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.benchmarks.pushing import measured


@pytest.mark.skipif(sys.platform != "linux", reason="processes are found by /proc")
def test_nothing_that_was_acknowledged_is_lost(tmp_path: Path) -> None:
    """`python -m tests.benchmarks.pushing` has more of all."""
    pytest.importorskip("uvicorn", reason="pages in a browser need uvicorn")
    result = measured(tmp_path, pushers=3, captures=40, readers=3, kills=6)
    assert result.errors == []
    assert len({*result.acknowledged}) == 120
    assert result.there == dict.fromkeys(result.acknowledged, 1)
    # All options came with them, also where an answer was lost.
    assert result.labels.keys() == {*result.acknowledged}
    assert {*result.statuses} <= {"200", "503 with Retry-After"}
    assert result.statuses["200"] > 0
