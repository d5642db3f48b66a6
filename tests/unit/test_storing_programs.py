"""Putting programs into a warehouse: once, whole or not at all, under names."""

from __future__ import annotations

from pathlib import Path

import pytest

import etq
from etq.errors import FormatError, WarehouseError
from etq.warehouse.warehouse import Warehouse
from tests.conftest import CAPTURES
from tests.program_builders import kernel, method, program, tensor
from tests.unit.test_warehouse import contents

NET = CAPTURES / "cond/cond.pte"
ONE = program(method("forward", [tensor(2, at=0)], [kernel("aten::relu.out", 0, 0)]))
TWO = program(method("forward", [tensor(3, at=0)], [kernel("aten::relu.out", 0, 0)]))


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
    [row] = warehouse.rows("SELECT uri, byte_size, etq_version, now()::TIMESTAMP - ingested_at < INTERVAL 1 HOUR FROM programs")[1]  # fmt: skip
    assert row == (str(NET.relative_to(Path.cwd())), 4852, etq.__version__, True)


def test_names_are_unique(warehouse: Warehouse, tmp_path: Path) -> None:
    for folder, data in (("a", ONE), ("b", TWO)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "net.pte").write_bytes(data)
    assert warehouse.ingest_program(tmp_path / "a/net.pte").name == "net"
    assert warehouse.ingest_program(tmp_path / "b/net.pte").name == "b/net"
    with pytest.raises(WarehouseError, match="the name 'net' is taken by other content"):
        warehouse.ingest_program(TWO, name="net")
    with pytest.raises(WarehouseError, match="the name 'net' is taken by other content"):
        warehouse.ingest_program(NET, name="net")


def test_a_capture_may_have_a_programs_name(warehouse: Warehouse) -> None:
    warehouse.ingest_program(CAPTURES / "cond/cond.pte")
    warehouse.ingest(CAPTURES / "cond/cond.etdp")
    rows = warehouse.rows("""
        SELECT DISTINCT i.instruction_id, i.op, e.name
        FROM events AS e JOIN instructions AS i ON i.instruction_id = e.instruction_id
        WHERE e.kind = 'kernel' AND i.instruction_id < 2 ORDER BY 1""")[1]
    assert rows == [
        (0, "aten::permute_copy", "native_call_permute_copy.out"),
        (1, "aten::addmm", "native_call_addmm.out"),
    ]


def test_a_damaged_program_leaves_nothing(warehouse: Warehouse) -> None:
    before = contents(warehouse)
    with pytest.raises(FormatError, match="truncated"):
        warehouse.ingest_program(NET.read_bytes()[:-1])
    with pytest.raises(FormatError, match="no such file"):
        warehouse.ingest_program("nowhere.pte")
    with pytest.raises(FormatError, match="this is an ETDump"):
        warehouse.ingest_program(CAPTURES / "mlp/mlp.etdp")
    assert contents(warehouse) == before


def test_a_read_only_warehouse_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "lab.duckdb"
    with etq.open(path) as warehouse:
        warehouse.ingest_program(ONE, name="one")
    with etq.open(path, read_only=True) as warehouse:
        assert warehouse.program_size("one").fetchall()
        with pytest.raises(WarehouseError, match="read-only"):
            warehouse.ingest_program(TWO)
