"""What Python raises for files that don't exist, wrong values and wrong types: each is an `EtqError`, too."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import etq
from etq.warehouse.warehouse import Warehouse
from tests.conftest import CAPTURES

MLP = CAPTURES / "mlp/mlp_100runs.etdp"
FLEET = CAPTURES / "fleet/mlp"
Call = Callable[[Any], Any]
# Calls that type checkers refuse.
UNCHECKED: Any = etq

MISSING: list[Call] = [
    lambda _: etq.read("nix.etdp"),
    lambda _: etq.read("nix/*.etdp"),
    lambda w: w.ingest("nix.etdp"),
    lambda w: w.ingest_record("nix.etrecord"),
    lambda w: w.ingest(MLP, metrics=["nix.json"]),
    lambda _: etq.open("nix.duckdb", read_only=True),
    lambda _: etq.Inspector(etdump_path="nix.etdp"),
]
WRONG: list[Call] = [
    lambda w: w.op_totals("run", by="sorce"),
    lambda w: w.op_totals("run", unit="fs"),
    lambda w: w.op_totals("nix"),
    lambda w: w.event_histogram("run", bins=0),
    lambda w: w.compare_ops("run", "nix"),
    lambda w: w.ingest(MLP, time_scale="sec"),
    lambda w: w.ingest(MLP, clock_bits=16),
    lambda w: w.ingest(MLP, labels={"": "x"}),
    lambda w: w.export("run", "nix", "run.json"),
    lambda _: etq.read(FLEET, pte="mlp.pte"),
    lambda _: etq.Inspector(etdump_path=str(MLP), source_time_scale="sec"),
]
OF_WRONG_TYPES: list[Call] = [
    lambda _: UNCHECKED.read(5),
    lambda _: UNCHECKED.open(5),
    lambda w: w.ingest(None),
    lambda w: w.op_totals(3.5),
    lambda w: w.op_totals(),
    lambda w: w.op_totals("run", by=3),
    lambda w: w.op_totals("run", unit=3),
    lambda w: w.op_totals("run", bye="op"),
    lambda w: w.compare_ops("run", "other", allow_mismatch="yes"),
    lambda w: w.capture(3),
    lambda w: w.ingest(MLP, captured_at="today"),
    lambda _: etq.Inspector(),
]


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "call"),
    [
        *((FileNotFoundError, call) for call in MISSING),
        *((ValueError, call) for call in WRONG),
        *((TypeError, call) for call in OF_WRONG_TYPES),
    ],
)
def test_kinds_of_errors(
    warehouse: Warehouse, kind: type[Exception], call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    warehouse.ingest(MLP, name="run")
    with pytest.raises(kind) as caught:
        call(warehouse)
    assert isinstance(caught.value, etq.EtqError)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
def test_several_files_are_read() -> None:
    """Files, lists, folders and patterns, each capture under its name."""
    files = sorted(FLEET.glob("0[0-2].etdp"))
    expected = sum(sum(row[0] for row in etq.read(file).op_totals().select("calls").fetchall()) for file in files)
    for sources in ([*files], [[*files]], [FLEET / "0[0-2].etdp"], [files[0], [files[1]], files[2].read_bytes()]):
        with etq.read(*sources) as warehouse:
            assert warehouse.only is None
            [(captures, calls)] = warehouse.rows("SELECT count(DISTINCT capture_id), sum(calls) FROM all_op_totals")[1]
        assert (captures, calls) == (3, expected)
    with etq.read(FLEET) as warehouse:
        assert len(warehouse.captures()) == len(list(FLEET.glob("*.etdp")))
    with etq.read([files[0]]) as warehouse:
        assert warehouse.only is not None
