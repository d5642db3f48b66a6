"""`etq.read`: a file that is only looked at answers as a warehouse that stores it."""

from __future__ import annotations

from pathlib import Path

import pytest

import etq
from tests.conftest import CAPTURES

MLP = CAPTURES / "mlp"
# A view of each kind of question about a capture: times, modules, nodes, logged values, memory, advice.
VIEWS = ["op_totals", "inspector_events", "module_totals", "event_ops", "event_nodes", "logged_values", "headline"]


@pytest.fixture(scope="module")
def stored() -> etq.Warehouse:
    warehouse = etq.open()
    warehouse.ingest(MLP / "mlp_debug.etdp", debug_buffer=MLP / "mlp_debug.bin", etrecord=MLP / "mlp.etrecord")
    return warehouse


@pytest.fixture(scope="module")
def file() -> etq.Warehouse:
    return etq.read(MLP / "mlp_debug.etdp", debug_buffer=MLP / "mlp_debug.bin", etrecord=MLP / "mlp.etrecord")


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
    with etq.read((MLP / "mlp.etdp").read_bytes()) as file:
        assert file.only is not None and file.only.format == "etdump" and file.only.name == "bytes"
    assert not file.is_open
    with pytest.raises(etq.FormatError, match="no such file"):
        etq.read(tmp_path / "none.etdp")
