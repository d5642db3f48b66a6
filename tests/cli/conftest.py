"""Warehouse files that tests of commands share."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import etq
from tests.conftest import CAPTURES

TRACE = CAPTURES / "torch/mlp_train.pt.trace.json.gz"


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A warehouse file of four dumps, of which `net` alone has its record, and a trace; not to be written to."""
    path = tmp_path_factory.mktemp("lab") / "lab.duckdb"
    with etq.open(path) as warehouse:
        labels = {"device": "pixel8", "model": "mlp", "build": "10"}
        warehouse.ingest(CAPTURES / "mlp/mlp.etdp", name="run", labels=labels)
        warehouse.ingest(CAPTURES / "mlp/mlp_100runs.etdp", name="llm", labels={"device": "watch", "build": "9"})
        warehouse.ingest(CAPTURES / "mlp/mlp_method_only.etdp", name="untraced", labels={"device": "watch"})
        record = CAPTURES / "convnet/convnet.etrecord"
        warehouse.ingest(CAPTURES / "convnet/convnet.etdp", name="net", etrecord=record)
        warehouse.ingest(TRACE, name="trace")
    return str(path)


@pytest.fixture
def copied(lab: str, tmp_path: Path) -> str:
    """A copy of it, to be written to."""
    return str(shutil.copy(lab, tmp_path))
