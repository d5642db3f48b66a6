"""Spark answers every portable view as DuckDB does: whole numbers and texts exactly, others to 1e-12."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import pytest

import etq
import etq.lake
import etq.spark
from etq import catalog, processes
from etq.errors import QueryError, WarehouseError, message_of
from etq.lake.state import read
from etq.lake.tables import Lake
from etq.spark.lake import read_table
from etq.spark.session import rows
from tests.conftest import CAPTURES
from tests.spark.answers import differences
from tests.spark.questions import ALL_KINDS, asked, calls

pytestmark = pytest.mark.long
# Spark takes seconds for each question: the last one of every tenth view, or all with ETQ_ALL_KINDS=1.
PORTABLE = [each for each in asked() if "spark" in each.engines][:: 1 if ALL_KINDS else 10]
QUESTIONS = [call for each in PORTABLE for call in calls(each)[0 if ALL_KINDS else -1 :]]


Answer = tuple[list[str], list[Any]]


@pytest.fixture(scope="module")
def answers(request: pytest.FixtureRequest, spark: Any) -> Iterator[Mapping[str, Future[Answer]]]:
    """Spark's answers to the questions that are asked in this run. Most of each is planning, which takes one core."""

    def ask(call: str) -> Answer:
        frame = etq.spark.sql(spark, f"FROM {call}")
        return frame.columns, rows(frame)

    called = {item.callspec.params.get("call") for item in request.session.items if hasattr(item, "callspec")}
    with ThreadPoolExecutor(2) as pool:
        yield {call: pool.submit(ask, call) for call in QUESTIONS if call in called}
        pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize("call", QUESTIONS)
def test_spark_answers_as_duckdb_does(
    call: str, duck_on_lake: duckdb.DuckDBPyConnection, answers: Mapping[str, Future[Answer]]
) -> None:
    try:
        expected = duck_on_lake.execute(f"FROM {call}")
    except duckdb.Error as error:
        with pytest.raises(QueryError) as raised:  # in making the rows that are kept, or the last ones
            answers[call].result()
        assert str(raised.value) == message_of(error)
        return
    names = [column[0] for column in expected.description or []]
    columns, found = answers[call].result()
    assert columns == names
    assert differences(expected.fetchall(), found) == []


def test_queries_around_a_view(duck_on_lake: duckdb.DuckDBPyConnection, spark: Any) -> None:
    query = """WITH ops AS (FROM op_totals('mlp', unit := 'us'))
        SELECT o.op, o.total / (SELECT sum(p.total) FROM ops AS p) AS part FROM ops AS o
        WHERE o.kind = 'kernel' ORDER BY o.total DESC, o.op LIMIT 3"""
    expected = duck_on_lake.execute(query).fetchall()
    assert differences(expected, etq.spark.sql(spark, query).collect()) == [] and len(expected) == 3


def test_views_without_parameters_are_views_of_the_session(duck_on_lake: duckdb.DuckDBPyConnection, spark: Any) -> None:
    query = "SELECT name, runs, events, labels FROM capture_summary ORDER BY name"
    assert differences(duck_on_lake.execute(query).fetchall(), spark.sql(query).collect()) == []


def test_nothing_is_left_in_the_session(spark: Any) -> None:
    before = spark.sql("SHOW TABLES").collect()
    etq.spark.sql(spark, "FROM op_totals('mlp')").collect()
    with pytest.raises(QueryError):
        rows(etq.spark.sql(spark, "FROM op_totals('no such capture')"))
    assert spark.sql("SHOW TABLES").collect() == before != []


def test_a_statement_stands_alone(duck_on_lake: duckdb.DuckDBPyConnection, spark: Any) -> None:
    """What `etq transpile` prints, in any session that has the tables."""
    query = etq.spark.spark_sql("FROM memory_totals($capture)")
    found = spark.sql(query, args={"capture": "memory"}).collect()
    assert differences(duck_on_lake.execute("FROM memory_totals('memory')").fetchall(), found) == [] and found


def test_replaced_and_left_over_files_are_not_read(tmp_path: Path, spark: Any) -> None:
    """Also in a folder whose name has the form key=value, which must not become a column."""
    lake, files = tmp_path / "bucket=1", sorted((CAPTURES / "fleet/mlp").glob("*.etdp"))[:3]
    for build, chosen in (("1", files), ("2", files[:1])):
        with etq.open() as warehouse:
            warehouse.ingest_many(chosen, labels={"build": build})
            etq.lake.export(lake, warehouse, replace=True)
    state = read(Lake.at(lake))
    assert [*state.loads("capture").values()].count(False) == 1
    frame = read_table(spark, state, catalog.objects()["labels"])
    assert frame.columns == ["capture_id", "key", "value"]
    assert sorted(row.value for row in frame.collect()) == ["1", "1", "2"]
    ticks = read_table(spark, state, catalog.objects()["event_ticks"])
    with etq.open(lake) as warehouse:
        assert warehouse.rows("SELECT count(*) FROM event_ticks")[1] == [(ticks.count(),)]
    shutil.rmtree(lake / "labels")
    (lake / "labels").mkdir()
    with pytest.raises(WarehouseError, match="not a table labels of a lake"):
        read_table(spark, state, catalog.objects()["labels"])


def test_a_question_on_the_command_line(lake: Path, spark: Any, duck_on_lake: duckdb.DuckDBPyConnection) -> None:
    """In a separate process, as this process has a session already."""
    query = "SELECT o.op, o.total_ticks FROM op_totals('mlp') AS o"
    command = [sys.executable, "-m", "etq", "sql", query, "--engine", "spark", "--lake", str(lake), "--format", "json"]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, env=processes.environment())
    expected = [{"op": op, "total_ticks": ticks} for op, ticks in duck_on_lake.execute(query).fetchall()]
    assert json.loads(ran.stdout) == expected and "FutureWarning" not in ran.stderr
