"""Fixtures that tests of views share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from etq.warehouse.warehouse import Warehouse
from tests.batches import ingest_all
from tests.conftest import CAPTURES
from tests.launch_traces import SHAPES
from tests.trace_corpus import SHAPES as PROGRAMS
from tests.trace_corpus import Style
from tests.traces import Traces
from tests.warehouses import empty_warehouse


@pytest.fixture
def traces(warehouse: Warehouse, tmp_path: Path) -> Traces:
    """Small traces in an empty warehouse."""
    return Traces(warehouse, tmp_path)


@pytest.fixture(scope="session")
def launch_traces() -> Iterator[Warehouse]:
    """Generated traces of devices in one warehouse, each by its name."""
    with empty_warehouse() as opened:
        contents: dict[str, bytes | Path] = {name: make().trace() for name, make in SHAPES.items()}
        contents |= {name: make(Style())[0] for name, make in PROGRAMS.items()}
        others = {"steps_7": CAPTURES / "torch/steps_7.pt.trace.json.gz", "mlp": CAPTURES / "mlp/mlp.etdp"}
        ingest_all(opened, (contents | others).items())
        yield opened
