"""A query about many captures answers for those that have what its view needs; `missing_needs` has why others have none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

import etq
from etq import catalog
from etq.warehouse.warehouse import Warehouse
from tests.batches import Labelled, ingest_all
from tests.builders import dump, framework, kernel, run
from tests.conftest import CAPTURES
from tests.sampling import IS_WHOLE
from tests.warehouses import empty_warehouse

# Views of one capture that need no other argument, and those of them that some captures here can't answer.
VIEWS: Final = [
    each
    for each in catalog.public_objects()
    if each.kind == "table macro"
    and [known.name for known in each.parameters if known.default is None] == ["capture"]
    and each.name != "advice"  # its rows are stored
]
NEEDING: Final = ["decode_trend", "delegate_coverage", "delegate_graph", "module_totals", "node_memory", "op_totals"]
OF_METHODS: Final = ["event_histogram", "event_times", "headline", "op_totals", "time_tree"]
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


@pytest.mark.long
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


def rows_of_method(view: str, method: str) -> str:
    return f"SELECT c.name, count(*) FROM captures AS c, LATERAL (FROM {view}(c.capture_id, method := '{method}')) AS v GROUP BY ALL"


@pytest.mark.long
@pytest.mark.parametrize("view", OF_METHODS)
@pytest.mark.parametrize("method", ["forward", "Trace"])
def test_captures_without_runs_of_a_method_have_no_rows(mixed: Warehouse, view: str, method: str) -> None:
    """As of each capture alone: one without runs of the method is an error, and has no rows among many."""
    alone: dict[str, int] = {}
    for (name,) in mixed.sql("SELECT c.name FROM captures AS c").fetchall():
        try:
            [(rows,)] = mixed.sql(f"SELECT count(*) FROM {view}('{name}', method := '{method}')").fetchall()
        except etq.QueryError as error:
            assert f"no run is of method '{method}'; the methods are " in str(error) or name == "pruned"
        else:
            alone |= {name: rows} if rows else {}
    assert dict(mixed.sql(rows_of_method(view, method)).fetchall()) == alone
    assert set(alone) <= ({"trace"} if method == "Trace" else {"linked", "programmed", "counting"})


def test_ops_of_a_method_are_those_of_captures_that_ran_it() -> None:
    """One kernel in the one capture, two in the other; each has a method that the other lacks."""
    with empty_warehouse() as warehouse:
        one = dump(run("Execute", kernel("mm", 5, 15, instruction=0), framework("Method::execute", 0, 20)))
        two = dump(run("Step", kernel("add", 1, 2, instruction=0), framework("Method::step", 0, 3)))
        ingest_all(warehouse, [Labelled("one", one, {}), Labelled("two", two, {})])
        query = """
            SELECT c.name, o.op FROM captures AS c, LATERAL (FROM op_totals(c.capture_id, method := '{}')) AS o
            WHERE o.kind = 'kernel' AND {} ORDER BY ALL"""
        assert warehouse.sql(query.format("Execute", "true")).fetchall() == [("one", "mm")]
        assert warehouse.sql(query.format("Step", "true")).fetchall() == [("two", "add")]
        assert warehouse.sql(query.format("Step", "c.name = 'one'")).fetchall() == []
        with pytest.raises(etq.QueryError, match="no run is of method 'Step'; the methods are Execute"):
            warehouse.sql("FROM op_totals('one', method := 'Step')").fetchall()
        with pytest.raises(etq.QueryError, match="no run is of method 'Step'; the methods are Execute"):
            warehouse.op_totals("one", method="Step").fetchall()
        with pytest.raises(etq.QueryError, match="no run is of method 'other'; the methods are"):
            warehouse.sql(query.format("other", "true")).fetchall()


def test_one_capture_of_python_is_asked_alone(mixed: Warehouse) -> None:
    (key,) = mixed.sql("SELECT c.capture_id FROM captures AS c WHERE c.name = 'counting'").fetchall()[0]
    for capture in ("counting", mixed.capture("counting"), key):
        with pytest.raises(etq.QueryError, match="counting has no record"):
            mixed.module_totals(capture).fetchall()
    assert {row[0] for row in mixed.module_totals(["linked", "counting"]).fetchall()} == {"linked"}
