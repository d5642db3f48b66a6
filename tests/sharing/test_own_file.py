"""A warehouse that is open is no file to read or to replace: closing it would end DuckDB's lock."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import etq
from etq.errors import WarehouseError
from etq.warehouse.warehouse import Warehouse
from tests.command_line import run_etq
from tests.conftest import CAPTURES

pytestmark = pytest.mark.long

MLP = CAPTURES / "mlp/mlp.etdp"
USES: dict[str, Callable[[Warehouse, Path], object]] = {
    "ingest": lambda warehouse, own: warehouse.ingest(own),
    "ingest_record": lambda warehouse, own: warehouse.ingest_record(own),
    "ingest_program": lambda warehouse, own: warehouse.ingest_program(own),
    "ingest_metrics": lambda warehouse, own: warehouse.ingest_metrics("mlp", own),
    "a debug buffer": lambda warehouse, own: warehouse.ingest(MLP, debug_buffer=own),
    "an ETRecord": lambda warehouse, own: warehouse.ingest(MLP, etrecord=own),
    "a sidecar": lambda warehouse, own: warehouse.ingest(with_sidecar(own)),
    "export": lambda warehouse, own: warehouse.export("mlp", "chrome", own),
}


def with_sidecar(own: Path) -> Path:
    file = own.with_name("run.etdp")
    file.write_bytes(MLP.read_bytes())
    file.with_name("run.etdp.json").symlink_to(own)
    return file


def can_write(path: Path) -> bool:
    """Whether another process could open a warehouse's file for writing."""
    command = [sys.executable, "-c", "import sys, duckdb; duckdb.connect(sys.argv[1]).close()", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0 or "Could not set lock" in done.stderr, done.stderr
    return done.returncode == 0


@pytest.fixture
def own(tmp_path: Path) -> Path:
    with etq.open(tmp_path / "lab.duckdb") as warehouse:
        warehouse.ingest(MLP)
    return tmp_path / "lab.duckdb"


def test_an_open_warehouse_is_not_read_or_replaced(own: Path) -> None:
    for use in USES.values():
        with etq.open(own) as warehouse:
            with pytest.raises(WarehouseError, match="the warehouse itself; name another file$"):
                use(warehouse, own)
            assert not can_write(own)
    with etq.open(own, read_only=True) as warehouse:
        assert warehouse.rows("SELECT name FROM captures")[1] == [("mlp",)]


def test_of_all_files_of_a_folder_the_warehouse_is_one(own: Path) -> None:
    other = own.with_name("convnet.etdp")
    other.write_bytes((CAPTURES / "convnet/convnet.etdp").read_bytes())
    done = run_etq("ingest", str(own), str(other), "--db", str(own))
    assert done.exit_code == 1
    assert (
        f"Error: {own}: the warehouse itself; name another file" in done.stderr and "convnet: ingested" in done.stderr
    )
    done = run_etq("link", "mlp", str(own), "--db", str(own))
    assert done.exit_code == 1 and "the warehouse itself" in done.stderr
