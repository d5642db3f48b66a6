"""A query with views and macros inlined has the same result: run by DuckDB, on tables alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from etq import catalog
from etq.catalog import SqlObject
from etq.errors import QueryError
from etq.spark.dialect import EtqDuckDB
from etq.spark.inlining import inlined
from tests.sampling import thinned
from tests.spark.answers import differences
from tests.spark.questions import asked, calls

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def tables(lab: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """A database that has the base tables, and no view or macro."""
    with duckdb.connect() as connection:
        connection.execute(f"ATTACH '{lab}' AS lab (READ_ONLY)")
        for table in catalog.tables():
            connection.execute(f"CREATE TABLE {table.name} AS FROM lab.{table.name}")
        connection.execute("DETACH lab")
        yield connection


VIEWS = [each for each in asked() if each.name != "capture_sizes"]


@pytest.mark.parametrize("view", thinned(VIEWS, VIEWS[::20]), ids=lambda each: each.name)
def test_a_view_and_its_inlined_form_answer_alike(
    view: SqlObject, duck: duckdb.DuckDBPyConnection, tables: duckdb.DuckDBPyConnection
) -> None:
    for call in calls(view):
        query = inlined(f"FROM {call}").sql(EtqDuckDB)
        try:
            expected = duck.execute(f"FROM {call}")
        except duckdb.Error as error:
            with pytest.raises(duckdb.Error) as raised:
                tables.execute(query)
            assert str(raised.value).split("\n\n")[0] == str(error).split("\n\n")[0]
            continue
        names = [column[0] for column in expected.description or []]
        found = tables.execute(query)
        assert [column[0] for column in found.description or []] == names
        assert differences(expected.fetchall(), found.fetchall()) == []


def asked_of(query: str) -> list[tuple[object, ...]]:
    with duckdb.connect() as connection:
        return connection.execute(inlined(query).sql(EtqDuckDB)).fetchall()


def test_arguments_by_name_position_and_default() -> None:
    assert asked_of("SELECT schedule(0, skip_first := 1), schedule(1, 0, 1), schedule(2, 1, 1, active => 2)") == [
        ("NONE", "RECORD_AND_SAVE", "RECORD"),
    ]


def test_a_scalar_macro_keeps_its_brackets() -> None:
    assert asked_of("SELECT NOT _is_clock_coarse(1, 1, 1) AND false, 2 * _step_of_cycles(5, 0, 1 + 1, 0)") == [
        (False, 6)
    ]


def test_common_table_expressions_of_one_name_stay_apart() -> None:
    query = "WITH asked AS (SELECT 1 AS x), a AS (WITH asked AS (SELECT 2 AS x) SELECT asked.x FROM asked) "
    assert asked_of(query + "SELECT a.x, asked.x FROM a, asked") == [(2, 1)]


@pytest.mark.long
def test_an_argument_of_the_row_around_is_a_lateral_subquery(tables: duckdb.DuckDBPyConnection) -> None:
    query = """SELECT c.name, o.capture_id FROM captures AS c, LATERAL (FROM _matching_captures(c.name)) AS o
        WHERE c.name = 'mlp'"""
    with pytest.raises(duckdb.Error, match="does not exist"):
        tables.execute(query)
    assert [name for name, _ in tables.execute(inlined(query).sql(EtqDuckDB)).fetchall()] == ["mlp"]


def test_a_query_as_an_argument(tables: duckdb.DuckDBPyConnection) -> None:
    query = "SELECT m.name FROM _matching_captures((SELECT max(name) FROM captures)) AS m"
    assert tables.execute(inlined(query).sql(EtqDuckDB)).fetchall() == [("values",)]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("FROM op_totals()", "op_totals needs an argument for capture"),
        ("FROM op_totals('x', colour := 1)", "op_totals has no parameter colour; it has capture, by, unit,"),
        ("FROM memory_totals('x', 2)", "memory_totals takes 1 arguments: capture"),
        ("DROP TABLE captures", "expected one query"),
        ("SELECT FROM WHERE", "not valid SQL"),
        ("SELECT 1; SELECT 2", "expected one query"),
    ],
)
def test_invalid_queries(query: str, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        inlined(query)
