"""A query about many captures answers for those that have what its view needs; `missing_needs` has why others have none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

import etq
from etq import catalog
from etq.warehouse.warehouse import Warehouse
from tests.conftest import CAPTURES
from tests.sampling import IS_WHOLE

# Views of one capture that need no other argument, and those of them that some captures here can't answer.
VIEWS: Final = [
    each
    for each in catalog.public_objects()
    if each.kind == "table macro"
    and [known.name for known in each.parameters if known.default is None] == ["capture"]
    and each.name != "advice"  # its rows are stored
]
NEEDING: Final = ["decode_trend", "delegate_coverage", "delegate_graph", "module_totals", "node_memory", "op_totals"]
OF_TIMES: Final = ["execute_breakdown", "headline", "op_totals", "time_tree"]


@pytest.fixture(scope="module")
def mixed() -> Iterator[Warehouse]:
    """Captures of all formats, with and without record, program and phases, one that was pruned, one in cycles."""
    with etq.open() as opened:
        ingest = opened.ingest
        ingest(CAPTURES / "mlp/mlp.etdp", name="linked")
        opened.link("linked", opened.ingest_record(CAPTURES / "mlp/mlp.etrecord"))
        opened.phase("linked", "decode", runs="0-")
        ingest(CAPTURES / "mlp_xnn/mlp_xnn.etdp", name="programmed", pte=CAPTURES / "mlp_xnn/mlp_xnn.pte")
        ingest(CAPTURES / "mlp/mlp_alloc.etdp", name="counting", time_scale="cycles")
        ingest(CAPTURES / "prof_result/one_block.prof_result.bin", name="old")
        ingest(CAPTURES / "torch/conv_infer.pt.trace.json.gz", name="trace")
        ingest(CAPTURES / "transformer/transformer.etdp", name="pruned")
        opened.connection.execute(
            "INSERT INTO findings SELECT c.capture_id, 'events pruned', '' FROM captures AS c WHERE c.name = 'pruned'"
        )
        yield opened


def asked_alone(warehouse: Warehouse, view: str) -> int:
    """The number of rows of a view for each capture by its name. Those that lack what it needs end with the reason."""
    rows = 0
    reasons = """
        SELECT list(m.reason), count(m.views) FROM missing_needs AS m
        WHERE m.capture = $name AND (m.views IS NULL OR list_contains(string_split(m.views, ', '), $view))"""
    for (name,) in warehouse.sql("SELECT c.name FROM captures AS c").fetchall():
        known, of_view = warehouse.sql(reasons, name=name, view=view).fetchall()[0]
        try:
            rows += warehouse.sql(f"SELECT count(*) FROM {view}($c)", c=warehouse.capture(name)).fetchall()[0][0]
        except etq.QueryError as error:
            assert str(error) in known, (view, name)
        else:
            assert of_view == 0, (view, name)
    return rows


def check(warehouse: Warehouse, view: str) -> None:
    """Asked for all captures, a view has the rows of those that it answers for."""
    among = f"SELECT count(*) FROM captures AS c, LATERAL (FROM {view}(c.capture_id)) AS v"
    assert warehouse.sql(among).fetchall() == [(asked_alone(warehouse, view),)], view


@pytest.mark.parametrize("view", NEEDING)
def test_captures_that_lack_what_a_view_needs_have_no_rows(mixed: Warehouse, view: str) -> None:
    check(mixed, view)


@pytest.mark.long
def test_no_capture_fails_a_query_of_many(mixed: Warehouse) -> None:
    for view in VIEWS if IS_WHOLE else VIEWS[::4]:
        check(mixed, view.name)


@pytest.mark.parametrize("view", OF_TIMES)
def test_cycles_have_no_rows_in_a_unit_of_time(mixed: Warehouse, view: str) -> None:
    rows = f"SELECT DISTINCT c.name FROM captures AS c, LATERAL (FROM {view}(c.capture_id, unit := 'ms')) AS v"
    names = {name for (name,) in mixed.sql(rows).fetchall()}
    assert names and names <= {"linked", "programmed", "old", "trace"}
    assert mixed.sql("SELECT m.capture FROM missing_needs AS m WHERE m.need = 'times'").fetchall() == [("counting",)]
    with pytest.raises(etq.QueryError, match="counting counts cycles, which cannot be converted to ms"):
        mixed.sql(f"FROM {view}('counting', unit := 'ms')").fetchall()


def test_one_capture_of_python_is_asked_alone(mixed: Warehouse) -> None:
    (key,) = mixed.sql("SELECT c.capture_id FROM captures AS c WHERE c.name = 'counting'").fetchall()[0]
    for capture in ("counting", mixed.capture("counting"), key):
        with pytest.raises(etq.QueryError, match="counting has no record"):
            mixed.module_totals(capture).fetchall()
    assert {row[0] for row in mixed.module_totals(["linked", "counting"]).fetchall()} == {"linked"}
