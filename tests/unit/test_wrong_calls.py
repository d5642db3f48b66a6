"""What Python raises for files that don't exist, wrong values and wrong types: each is an `EtqError`, too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import etq
from etq.warehouse.warehouse import Warehouse
from tests.conftest import CAPTURES
from tests.warehouses import empty_warehouse

MLP, RECORD = CAPTURES / "mlp/mlp.etdp", CAPTURES / "mlp/mlp.etrecord"
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
    lambda w: w.ingest(MLP, labels={"": "x"}),
    lambda w: w.export("run", "nix", "run.json"),
    lambda _: etq.read(FLEET, pte="mlp.pte"),
    lambda _: etq.Inspector(etdump_path=str(MLP), source_time_scale="sec"),
    lambda _: etq.Inspector(str(MLP)).get_op_list("nothing"),
    lambda _: etq.Inspector(str(MLP)).calculate_numeric_gap("MSE"),
    lambda _: etq.read(),
    lambda _: etq.read([]),
    lambda w: w.safe_sql("SELECT 1", seconds=-1),
]
INSPECTED: list[dict[str, Any]] = [
    {"etdump_path": 3}, {"etdump_path": str(MLP), "etrecord": 3}, {"etdump_path": str(MLP), "debug_buffer_path": 3}, {},
]  # fmt: skip
OF_WRONG_TYPES: list[Call] = [
    lambda _: UNCHECKED.read(5),
    lambda _: UNCHECKED.open(5),
    lambda _: UNCHECKED.merge("lab.duckdb", "all.duckdb"),
    lambda w: w.ingest(None),
    lambda w: w.op_totals(3.5),
    lambda w: w.op_totals(),
    lambda w: w.op_totals("run", by=3),
    lambda w: w.op_totals("run", unit=3),
    lambda w: w.op_totals("run", bye="op"),
    lambda w: w.compare_ops("run", "other", allow_mismatch="yes"),
    lambda w: w.capture(3),
    lambda w: w.ingest(MLP, captured_at="today"),
    lambda w: w.sql(3),
    lambda w: w.rows(None),
    lambda w: w.relation(b"SELECT 1"),
    lambda w: w.safe_sql(3),
    lambda w: w.ingest(MLP, name=3),
    lambda w: w.ingest(MLP, labels=3),
    lambda w: w.ingest_record(RECORD, name=3),
    lambda w: w.report(3, "out.html"),
    lambda w: w.report("run", 3),
    lambda w: w.remove(3),
    lambda w: w.export(3, "chrome", "out.json"),
    lambda w: w.export("run", "chrome", 3),
    lambda w: w.link("run", 3),
    lambda w: w.link(3, "run"),
    lambda w: w.decoded_metadata(3, print),
    lambda w: w.op_totals("run").show("x"),
    lambda w: w.trend("model=m"),
    *(lambda _, given=given: UNCHECKED.read(given) for given in (None, 3, [None], {MLP})),
    *(lambda _, given=given: UNCHECKED.Inspector(**given) for given in INSPECTED),
]


@pytest.fixture(scope="module")
def kept() -> Iterator[Warehouse]:
    """A warehouse that no wrong call changes."""
    with empty_warehouse() as warehouse:
        warehouse.ingest(MLP, name="run")
        yield warehouse
        assert warehouse.rows("SELECT c.name FROM captures AS c")[1] == [("run",)]


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "call"),
    [
        (kind, call)
        for kind, calls in ((FileNotFoundError, MISSING), (ValueError, WRONG), (TypeError, OF_WRONG_TYPES))
        for call in calls
    ],
)
def test_kinds_of_errors(
    kept: Warehouse, kind: type[Exception], call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(kind) as caught:
        call(kept)
    assert isinstance(caught.value, etq.EtqError)
    assert list(tmp_path.iterdir()) == []


def test_a_selector_in_the_wrong_place_is_named(kept: Warehouse) -> None:
    with pytest.raises(etq.EtqError, match="selector='model=m'"):
        kept.trend("model=m")


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


@pytest.mark.parametrize(
    ("query", "place"),
    [
        ("SELCT 1", "LINE 1: SELCT 1\n        ^^^^^"),
        ("SELECT 1\nFROM nix", "LINE 2: FROM nix\n             ^^^"),
        ("SELECT nam FROM captures", "LINE 1: SELECT nam FROM captures\n               ^^^"),
    ],
)
def test_a_traceback_shows_the_place_in_a_query(kept: Warehouse, query: str, place: str) -> None:
    with pytest.raises(etq.QueryError) as caught:
        kept.sql(query)
    assert caught.value.place == place
    assert caught.value.__notes__ == [place]


@pytest.mark.parametrize("query", ["", ";", "-- nothing"])
def test_an_empty_query_is_named(kept: Warehouse, query: str) -> None:
    with pytest.raises(etq.QueryError, match="the query is empty"):
        kept.sql(query)


def test_what_closed_warehouses_say(tmp_path: Path) -> None:
    """How a query may read a file; that a result is read before its warehouse is closed; which table was dropped."""
    (tmp_path / "x.csv").write_text("x\n1\n")
    path = tmp_path / "lab.duckdb"
    with etq.open(path) as warehouse:
        with pytest.raises(etq.QueryError, match=r"etq.open\(PATH, external_access=True\) allows it"):
            warehouse.sql(f"FROM read_csv('{tmp_path}/x.csv')")
        result = warehouse.sql("SELECT 1 AS x")
        warehouse.sql("DROP TABLE captures")
    with pytest.raises(etq.WarehouseError, match="is closed; read the rows before"):
        result.fetchall()
    with pytest.raises(etq.WarehouseError, match="the table 'captures' is missing; use a copy of it"):
        etq.open(path)
