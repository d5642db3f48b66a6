"""What a person finds in Python: a warehouse, its views and results that print themselves; files that are only looked at."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import etq
from etq.errors import QueryError
from etq.warehouse.warehouse import Warehouse
from tests.batches import Labelled, ingest_all
from tests.conftest import CAPTURES
from tests.sql.test_trends import capture
from tests.warehouses import empty_warehouse

BUILDS = 6


@pytest.fixture(scope="module")
def lab() -> Iterator[Warehouse]:
    """Six captures of build 1, and six of build 2, whose `addmm` is slower."""
    with empty_warehouse() as warehouse:
        ingest_all(
            warehouse,
            [
                Labelled(
                    f"b{build}-{number}",
                    capture(10 * build + number, {"addmm": 1.5} if build == 2 else None),
                    {"build": str(build)},
                    None,
                )
                for build in (1, 2)
                for number in range(BUILDS)
            ],
        )
        yield warehouse


@pytest.mark.long
def test_compare(lab: Warehouse, capsys: pytest.CaptureFixture[str]) -> None:
    compared = lab.compare("build=1", "build=2")
    assert compared.ops.fetchall() == lab.compare_ops("build=1", "build=2").fetchall()
    assert compared.totals.columns == lab.compare_captures("build=1", "build=2").columns
    rows = dict(compared.ops.select("op", "verdict").fetchall())
    assert rows["addmm"] == "slower" and compared.verdicts[0].startswith("1 op is slower: addmm @0 +")
    assert str(compared) == "\n".join(compared.verdicts) == repr(compared)
    compared.show(1)
    shown = capsys.readouterr().out
    assert (
        shown.startswith(f"{compared}\n\nop ")
        and "\naddmm " in shown
        and len(shown.splitlines()) == len(compared.verdicts) + 5
    )
    # A capture is a side, too; options are those of the views.
    one = lab.compare(lab.capture("b1-0"), "b2-0", unit="ns")
    assert {unit for (unit,) in one.ops.select("unit").fetchall()} == {"ns"}
    assert one.findings.columns == ["rule", "detail"]
    with pytest.raises(QueryError, match="compare takes no over; it takes unit, quantile"):
        lab.compare("build=1", "build=2", over="x")
    with pytest.raises(QueryError, match="no capture matches build=9"):
        lab.compare("build=1", "build=9")


FOLDER = CAPTURES / "mlp"
# A view of each kind of question about a capture: times, modules, nodes, logged values.
VIEWS = ["op_totals", "module_totals", "event_nodes", "logged_values"]


@pytest.fixture(scope="module")
def stored() -> etq.Warehouse:
    warehouse = etq.open()
    warehouse.ingest(FOLDER / "mlp_debug.etdp", debug_buffer=FOLDER / "mlp_debug.bin", etrecord=FOLDER / "mlp.etrecord")
    return warehouse


@pytest.fixture(scope="module")
def file() -> etq.Warehouse:
    return etq.read(FOLDER / "mlp_debug.etdp", debug_buffer=FOLDER / "mlp_debug.bin", etrecord=FOLDER / "mlp.etrecord")


def test_views_answer_as_of_a_stored_capture(stored: etq.Warehouse, file: etq.Warehouse) -> None:
    for view in VIEWS:
        expected = getattr(stored, view)("mlp_debug").fetchall()
        assert getattr(file, view)().fetchall() == expected != [], view


def test_what_links_find_is_there_when_asked(stored: etq.Warehouse, file: etq.Warehouse) -> None:
    """Tables that are filled only when a query names them, in any order of questions."""
    for table in ("signature_outputs", "signature_ops", "node_values", "graph_outputs", "op_edges", "record_members"):
        query = f"FROM {table} ORDER BY ALL"
        assert stored.rows(query)[1] == file.rows(query)[1] != [], table


def test_a_view_that_needs_more_than_the_capture(file: etq.Warehouse) -> None:
    assert (
        file.views.find_total_for_module(module="head").fetchall()
        == file.find_total_for_module("@latest", "head").fetchall()
    )
    with pytest.raises(etq.QueryError, match="missing a required argument: 'module'"):
        file.views.find_total_for_module()


def test_it_closes(tmp_path: Path) -> None:
    with etq.read((FOLDER / "mlp.etdp").read_bytes()) as file:
        assert file.only is not None and file.only.format == "etdump" and file.only.name == "bytes"
    assert not file.is_open
    with pytest.raises(etq.FormatError, match="no such file"):
        etq.read(tmp_path / "none.etdp")
