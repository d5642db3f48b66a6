"""Warehouse files that tests of commands share."""

from __future__ import annotations

from pathlib import Path

import pytest

import etq
from tests.batches import Labelled, ingest_all
from tests.conftest import CAPTURES
from tests.warehouses import copy_of

TRACE = CAPTURES / "torch/mlp_train.pt.trace.json.gz"


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A warehouse file of four dumps, of which `net` alone has its record, and a trace; not to be written to."""
    path = tmp_path_factory.mktemp("lab") / "lab.duckdb"
    with etq.open(path) as warehouse:
        of_mlp = {
            "run": ("mlp.etdp", {"device": "pixel8", "model": "mlp", "build": "10"}),
            "llm": ("mlp_100runs.etdp", {"device": "watch", "build": "9"}),
            "untraced": ("mlp_method_only.etdp", {"device": "watch"}),
        }
        ingest_all(warehouse, [Labelled(name, CAPTURES / "mlp" / file, of) for name, (file, of) in of_mlp.items()])
        record = CAPTURES / "convnet/convnet.etrecord"
        warehouse.ingest(CAPTURES / "convnet/convnet.etdp", name="net", etrecord=record)
        warehouse.ingest(TRACE, name="trace")
    return str(path)


@pytest.fixture
def copied(lab: str, tmp_path: Path) -> str:
    """A copy of it, to be written to."""
    return str(copy_of(lab, tmp_path))
