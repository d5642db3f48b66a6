"""Putting programs into a warehouse: once, whole or not at all, under names."""

from __future__ import annotations

from pathlib import Path

import pytest

import etq
from etq.errors import FormatError, WarehouseError
from etq.warehouse.warehouse import Warehouse
from tests.conftest import CAPTURES
from tests.unit.test_warehouse import contents

NET = CAPTURES / "cond/cond.pte"


def test_known_content_adds_nothing_but_the_name(warehouse: Warehouse) -> None:
    first = warehouse.ingest_program(NET)
    assert first.is_new and first.program_id == 1 and str(first) == "cond"
    before = contents(warehouse)
    again = warehouse.ingest_program(str(NET))
    assert not again.is_new and (again.program_id, again.sha256) == (1, first.sha256)
    assert contents(warehouse) == before
    named = warehouse.ingest_program(NET.read_bytes(), name="net")
    assert (named.program_id, named.name, named.is_new) == (1, "net", False)
    assert warehouse.program_size(named).fetchall() == warehouse.program_size("net").fetchall()
    [row] = warehouse.rows("SELECT uri, byte_size, etq_version FROM programs")[1]
    assert row == (str(NET.relative_to(Path.cwd())), NET.stat().st_size, etq.__version__)
    with pytest.raises(WarehouseError, match="the name 'net' is taken by other content"):
        warehouse.ingest_program(CAPTURES / "mlp/mlp.pte", name="net")


def test_a_damaged_program_leaves_nothing(warehouse: Warehouse) -> None:
    before = contents(warehouse)
    with pytest.raises(FormatError, match="truncated"):
        warehouse.ingest_program(NET.read_bytes()[:-1])
    with pytest.raises(FormatError, match="no such file"):
        warehouse.ingest_program("nowhere.pte")
    with pytest.raises(FormatError, match="this is an ETDump"):
        warehouse.ingest_program(CAPTURES / "mlp/mlp.etdp")
    assert contents(warehouse) == before
