"""A warehouse for tests of servers."""

from __future__ import annotations

from pathlib import Path

import pytest

import etq


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """An empty warehouse, `lab.duckdb`."""
    path = tmp_path / "lab.duckdb"
    with etq.open(path):
        pass
    return path
