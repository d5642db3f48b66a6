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
    each.name
    for each in catalog.public_objects()
    if each.kind == "table macro"
    and [known.name for known in each.parameters if known.default is None] == ["capture"]
    and each.name != "advice"  # its rows are stored
]
NEEDING: Final = ["decode_trend", "delegate_coverage", "delegate_graph", "module_totals", "node_memory", "op_totals"]
OF_TIMES: Final = ["execute_breakdown", "headline", "op_totals", "time_tree"]


# The view and a method that some of the captures lack; op_totals for both.
OF_METHODS: Final = {
    "event_histogram": ["forward"], "event_times": ["Trace"], "headline": ["Trace"], "op_totals": ["forward", "Trace"],
    "time_tree": ["forward"],
}  # fmt: skip


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


@pytest.mark.long
def test_captures_that_lack_what_a_view_needs_have_no_rows(mixed: Warehouse) -> None:
    """Asked alone, they end with the reason. Asked for all captures, a view has the rows of those that it answers for."""
    needs = mixed.rows("SELECT m.capture, m.reason, string_split(m.views, ', ') FROM missing_needs AS m")[1]
    captures = [mixed.capture(name) for (name,) in mixed.rows("SELECT c.name FROM captures AS c")[1]]
    for view in VIEWS if IS_WHOLE else {*NEEDING, *VIEWS[::4]}:
        alone = 0
        for capture in captures:
            given = [(why, of) for name, why, of in needs if name == capture.name and (of is None or view in of)]
            try:
                alone += mixed.rows(f"SELECT count(*) FROM {view}($c)", c=capture)[1][0][0]
            except etq.QueryError as error:
                assert str(error) in [why for why, _ in given], (view, capture.name)
            else:
                assert all(of is None for _, of in given), (view, capture.name)
        among = f"SELECT count(*) FROM captures AS c, LATERAL (FROM {view}(c.capture_id)) AS v"
        assert mixed.rows(among)[1] == [(alone,)], view


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
@pytest.mark.parametrize(("view", "method"), [(view, each) for view, of in OF_METHODS.items() for each in of])
def test_captures_without_runs_of_a_method_have_no_rows(mixed: Warehouse, view: str, method: str) -> None:
    """As of each capture alone: one without runs of the method is an error, and has no rows among many."""
    alone: dict[str, int] = {}
    for (name,) in mixed.sql("SELECT c.name FROM captures AS c").fetchall():
        try:
            [(rows,)] = mixed.sql(f"SELECT count(*) FROM {view}('{name}', method := '{method}')").fetchall()
        except etq.QueryError as error:
            assert f"no run is of method '{method}'; the method" in str(error) or name == "pruned"
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
        with pytest.raises(etq.QueryError, match="no run is of method 'Step'; the method is Execute"):
            warehouse.sql("FROM op_totals('one', method := 'Step')").fetchall()
        with pytest.raises(etq.QueryError, match="no run is of method 'Step'; the method is Execute"):
            warehouse.op_totals("one", method="Step").fetchall()
        with pytest.raises(etq.QueryError, match="no run is of method 'other'; the method is"):
            warehouse.sql(query.format("other", "true")).fetchall()


def test_one_capture_of_python_is_asked_alone(mixed: Warehouse) -> None:
    (key,) = mixed.sql("SELECT c.capture_id FROM captures AS c WHERE c.name = 'counting'").fetchall()[0]
    for capture in ("counting", mixed.capture("counting"), key):
        with pytest.raises(etq.QueryError, match="counting has no record"):
            mixed.module_totals(capture).fetchall()
    assert {row[0] for row in mixed.module_totals(["linked", "counting"]).fetchall()} == {"linked"}
