"""Each view states which engines can run it, and the statement is true."""

from __future__ import annotations

import subprocess
import sys

import pytest
from click.testing import CliRunner

from etq import catalog
from etq.catalog import SqlObject
from etq.cli import main
from etq.errors import QueryError
from etq.spark import engines, spark_sql
from etq.spark.inlining import inlined
from etq.spark.rewrites import rewritten
from etq.spark.transpiling import to_text
from tests.sampling import thinned
from tests.spark.questions import asked, calls


@pytest.mark.parametrize("view", asked(), ids=lambda each: each.name)
def test_every_view_has_a_question(view: SqlObject) -> None:
    assert calls(view)


PORTABLE = [each for each in asked() if "spark" in each.engines]


@pytest.mark.parametrize("view", thinned(PORTABLE, PORTABLE[::20]), ids=lambda each: each.name)
def test_a_portable_view_is_written(view: SqlObject) -> None:
    for call in calls(view):
        text = spark_sql(f"FROM {call}")
        assert not any(word in text for word in ("QUALIFY", "ASOF", "PERCENTILE_CONT", "PERCENTILE_APPROX", "EXCLUDE"))


OTHERS = [each for each in asked() if "spark" not in each.engines]


@pytest.mark.parametrize("view", thinned(OTHERS, OTHERS[::5]), ids=lambda each: each.name)
def test_views_for_duckdb_alone_have_a_reason(view: SqlObject) -> None:
    assert view.engines == engines(view.name) == ("duckdb",)
    with pytest.raises(QueryError, match=f"^{view.name} only runs in DuckDB: "):
        spark_sql(f"SELECT count(*) FROM {calls(view)[0]}")


def test_private_objects_have_no_engines() -> None:
    assert [each.name for each in catalog.objects().values() if each.engines_reason and not each.is_public] == []


def test_views_that_use_one_for_duckdb_alone_are_so_themselves() -> None:
    for view in asked():
        used = [each for each in catalog.needed_for([view.name]) if each.engines_reason]
        assert not used or view.engines_reason, f"{view.name} uses {[each.name for each in used]}"


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY m.value) FROM metrics AS m", "approximate in Spark"),
        ("SELECT hash(c.name) FROM captures AS c", "hash"),
        ("SELECT d.number FROM debug_values AS d LEFT JOIN unnest(d.sizes) AS u(size) ON true", "drops rows in Spark"),
        ("SELECT string_agg(DISTINCT c.name, ',' ORDER BY c.uri) FROM captures AS c", "DISTINCT"),
        ("SELECT x[1:9:2] FROM (SELECT [1, 2] AS x)", "slice"),
        ("SELECT printf('%x', c.byte_size) FROM captures AS c", "format '%x'"),
        ("SELECT list_zip([1], [2])", "list_zip has no equivalent in Spark"),
        (
            "SELECT array_agg(DISTINCT x.a), unnest([1]), unnest([2]) FROM t AS x GROUP BY x.b",
            "unnest with aggregates has no equivalent",
        ),
    ],
)
def test_statements_that_spark_answers_differently_are_refused(query: str, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        spark_sql(query)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT quantile_cont(t.x, 0.5)", "SELECT PERCENTILE(t.x, 0.5D)"),
        ("SELECT list(t.x ORDER BY t.y)", "SORT_ARRAY(COLLECT_LIST(STRUCT(t.y IS NULL AS unknown_0, t.y AS key_0,"),
        ("SELECT t.x / t.y", "CASE WHEN t.y = 0 THEN (t.x) * DOUBLE('Infinity') ELSE t.x / t.y END"),
        ("SELECT log(t.x)", "LOG10(t.x)"),
        ("SELECT len(t.x), length(t.x)", "SELECT ARRAY_SIZE(t.x), LENGTH(t.x)"),
        ("SELECT any_value(t.x)", "ANY_VALUE(t.x, TRUE)"),
        ("SELECT arg_max(t.x, t.y)", "MAX_BY(t.x, t.y) FILTER(WHERE NOT t.x IS NULL)"),
        ("SELECT t.x[2]", "GET(t.x, 1)"),
        ("SELECT list_has_any(t.x, t.y)", "ARRAYS_OVERLAP(t.x, t.y)"),
    ],
)
def test_statements_that_sqlglot_translates_wrongly(query: str, expected: str) -> None:
    assert expected in to_text(rewritten(inlined(f"{query} FROM t")))


def test_the_order_of_a_view_is_its_statements() -> None:
    """An engine need not keep the order of rows of a subquery."""
    text = spark_sql("FROM memory_totals('x')")
    assert "memory_totals AS (" not in text and "ORDER BY" in text.rpartition(" FROM ")[2]
    assert spark_sql("FROM memory_totals('x') LIMIT 5").endswith("FROM memory_totals_2 AS memory_totals LIMIT 5")
    assert spark_sql("SELECT * EXCLUDE (unit) FROM op_totals('x')").endswith("FROM op_totals_2 AS op_totals")


def test_transpile_keeps_missing_arguments_as_parameters() -> None:
    result = CliRunner().invoke(main, ["transpile", "op_totals", "--arg", "unit=ms"])
    assert result.exit_code == 0 and ":capture" in result.stdout and "'ms'" in result.stdout
    wrong = CliRunner().invoke(main, ["transpile", "op_total"])
    assert wrong.exit_code == 1 and "the nearest are op_totals" in wrong.stderr
    assert CliRunner().invoke(main, ["transpile", "op_totals", "--arg", "unit"]).exit_code == 2
    assert "takes no arguments" in CliRunner().invoke(main, ["transpile", "events", "--arg", "a=1"]).stderr


def test_views_names_the_engines() -> None:
    assert "Engines: duckdb, spark\n" in CliRunner().invoke(main, ["views", "op_totals"]).stdout
    assert "Engines: duckdb alone: it reads" in CliRunner().invoke(main, ["views", "capture_sizes"]).stdout


def test_sql_by_spark_needs_a_lake() -> None:
    assert CliRunner().invoke(main, ["sql", "FROM captures", "--engine", "spark"]).exit_code == 2
    assert CliRunner().invoke(main, ["sql", "FROM captures", "--lake", "x"]).exit_code == 2
    missing = CliRunner().invoke(main, ["sql", "FROM captures", "--engine", "spark", "--lake", "no/such"])
    assert missing.exit_code == 1 and missing.stderr == "Error: no/such: no such folder\n"


@pytest.mark.long
def test_transpiling_needs_no_spark() -> None:
    script = "import sys, etq.spark; etq.spark.spark_sql('FROM capture_summary'); print('pyspark' in sys.modules)"
    assert (
        subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout == "False\n"
    )
