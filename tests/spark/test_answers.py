"""Spark answers every view as DuckDB does, and its own SQL reads the tables."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pytest
from deltalake import DeltaTable

import etq
import etq.lake
import etq.spark
from etq import catalog, processes
from etq.errors import QueryError, WarehouseError, message_of
from etq.lake.reading.state import read
from etq.lake.reading.tables import Lake
from etq.spark import queries
from etq.spark.session import _read_table, rows
from tests.conftest import CAPTURES
from tests.lake.moto_server import made, serving
from tests.lake.test_others import PAGE, examples
from tests.spark.answers import differences
from tests.spark.questions import ALL_KINDS, asked, calls

pytestmark = pytest.mark.long


def test_spark_answers_as_duckdb_does(spark: Any, lake: Path, duck_on_lake: duckdb.DuckDBPyConnection) -> None:
    """The last question about every second view; all questions with ETQ_ALL_KINDS=1."""
    wrong: dict[str, Any] = {}
    views = asked() if ALL_KINDS else asked()[::2]
    for call in [call for each in views for call in calls(each)[0 if ALL_KINDS else -1 :]]:
        try:
            frame = etq.spark.sql(spark, f"FROM {call}", lake)
            columns, found = frame.columns, rows(frame)
        except QueryError as error:
            columns, found = str(error), []
        try:
            expected = duck_on_lake.execute(f"FROM {call}")
        except duckdb.Error as error:
            wrong[call] = columns != message_of(error)
            continue
        names = [column[0] for column in expected.description or []]
        wrong[call] = columns != names or differences(expected.fetchall(), found)
    assert len(wrong) > 50 and {call: found for call, found in wrong.items() if found} == {}


def test_values_of_all_types(spark: Any, lake: Path) -> None:
    query = """
        SELECT 170141183460469231::HUGEINT * 100 AS a, 18446744073709551615::UBIGINT AS b, 'x'::ENUM('x') AS c,
            INTERVAL 1 DAY AS d, TIMESTAMP '2020-01-01 12:00:00.000001' AS e, {'x': [1], 'y': 'text'} AS f, NULL AS g,
            MAP {'x': 1.5::DECIMAL(4, 1)} AS h, 'nan'::FLOAT AS i, '\\xaa'::BLOB AS j, DATE '2020-02-29' AS k,
            TIMESTAMPTZ '2020-01-01 12:00:00+01' AS l, 1 AS l, [NULL, 2.5] AS m, NULL::BOOLEAN AS n
    """
    [row] = rows(etq.spark.sql(spark, query, lake))
    assert [str(value) for value in row] == [
        "17014118346046923100", "18446744073709551615", "x", "1 day", "2020-01-01 12:00:00.000001",
        "Row(x=[1], y='text')", "None", "{'x': Decimal('1.5')}", "nan", "b'\\xaa'", "2020-02-29", "2020-01-01 11:00:00",
        "1", "[None, Decimal('2.5')]", "None",
    ]  # fmt: skip


def test_labels_by_key_in_sparks_own_sql(spark: Any, lake: Path, duck_on_lake: duckdb.DuckDBPyConnection) -> None:
    """All columns of the view that the session got are DuckDB's; the labels are a map, empty without one."""
    [*found] = map(tuple, rows(spark.sql("SELECT * FROM labelled_captures ORDER BY capture_id")))
    assert found == duck_on_lake.execute("FROM labelled_captures ORDER BY capture_id").fetchall()
    query = "SELECT labels['device'], labels['none'], count(*) FROM {} GROUP BY ALL ORDER BY ALL NULLS LAST"
    by_join = """(
        SELECT CASE WHEN l.value IS NULL THEN MAP {} ELSE MAP {'device': l.value} END AS labels
        FROM captures AS c LEFT JOIN labels AS l ON l.capture_id = c.capture_id AND l.key = 'device'
    )"""
    devices = [*map(tuple, rows(spark.sql(query.format("labelled_captures"))))]
    assert devices == duck_on_lake.execute(query.format(by_join)).fetchall()
    assert {device for device, _, _ in devices} == {"desk", "fleet", None}


def _killed(*_: object) -> Iterator[None]:
    """Work of an executor that dies."""
    os.kill(os.getpid(), signal.SIGKILL)
    yield


def test_errors_are_one_line(spark: Any, lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for query, captures, message in (
        ("FROM op_totals('side=mlp')", None, "side=mlp matches 8 captures (mlp_0, mlp_1, mlp_2, ...); name one"),
        ("FROM op_totals('side=mpl')", None, "no capture matches side=mpl: none has side=mpl; the nearest is mlp"),
        ("FROM op_totals($capture)", "side=mpl", "no capture matches side=mpl: none has side=mpl; the nearest is mlp"),
        ("SELECT error('too ' || $capture[:0] || 'many')", "mlp_1", "mlp_1, seen alone: too many"),
        (
            "FROM op_total($capture)",
            "mlp_1",
            'Table Function with name op_total does not exist! Did you mean "op_totals"?',
        ),
        ("FROM op_totals('mlp'", None, "syntax error at or near \"'mlp'\""),
    ):
        with pytest.raises(QueryError) as raised:
            rows(etq.spark.sql(spark, query, lake, captures=captures))
        assert str(raised.value) == message
    monkeypatch.setattr(queries, "work", _killed)
    with pytest.raises(QueryError, match=r"^Python worker exited unexpectedly[^\n]*$"):
        rows(etq.spark.sql(spark, "SELECT 1", lake))


def test_lakes_that_are_refused(spark: Any, lake: Path, tmp_path: Path) -> None:
    with pytest.raises(WarehouseError, match="not a lake"):
        etq.spark.sql(spark, "SELECT 1", tmp_path)
    shutil.copytree(lake, tmp_path / "lake")
    [labels] = (tmp_path / "lake").glob("labels/load_id=*/[!s]*.parquet")
    labels.unlink()
    labels.symlink_to("/etc/passwd")
    for ask in (etq.spark.register, lambda *place: etq.spark.sql(place[0], "FROM labels", place[1])):
        with pytest.raises(WarehouseError, match="link"):
            ask(spark, tmp_path / "lake")


def test_a_result_is_of_the_lake_as_it_was(spark: Any, tmp_path: Path) -> None:
    """Whatever is added before it is read."""
    lake, files = tmp_path / "lake", sorted((CAPTURES / "fleet/mlp").glob("*.etdp"))[:2]
    etq.lake.add(lake, lambda warehouse: warehouse.ingest(files[0]))
    before = etq.spark.sql(spark, "SELECT count(*) FROM captures", lake)
    etq.lake.add(lake, lambda warehouse: warehouse.ingest(files[1]))
    assert [row[0] for row in before.collect()] == [1]


def test_options_of_an_object_store_reach_executors(spark: Any, lab: Path) -> None:
    with serving() as endpoint:
        place, options = "s3://lab/fleet", made(endpoint, "lab")
        with etq.open() as warehouse:
            warehouse.ingest_many(sorted((CAPTURES / "fleet/mlp").glob("*.etdp"))[:3], labels={"model": "mlp"})
            etq.lake.export(place, warehouse, storage_options=options)
            expected = warehouse.rows("SELECT c.name FROM captures AS c ORDER BY ALL")[1]
        query = "SELECT count(*) FROM op_totals($capture)"
        frame = etq.spark.sql(spark, query, place, captures="model=mlp", storage_options=options)
        assert sorted((row[0],) for row in rows(frame)) == expected
        assert rows(etq.spark.sql(spark, "SELECT count(*) FROM labels", place, storage_options=options)) == [(3,)]


def test_tables_are_views_of_the_session(spark: Any, duck_on_lake: duckdb.DuckDBPyConnection) -> None:
    """For Spark's own SQL; a question adds nothing to them."""
    query = """SELECT c.name, count(*) FROM captures AS c JOIN event_ticks AS t ON t.capture_id = c.capture_id
        GROUP BY c.name ORDER BY c.name"""
    assert differences(duck_on_lake.execute(query).fetchall(), spark.sql(query).collect()) == []
    tables = [*(each.name for each in catalog.tables()), "labelled_captures"]
    assert sorted(row.tableName for row in spark.sql("SHOW TABLES").collect()) == sorted(tables)
    for table in tables:
        assert spark.table(table).columns == [column.name for column in catalog.objects()[table].columns]


def _add(lake: str, files: Iterator[str]) -> None:
    """Add files as an executor does."""
    paths = [*files]
    etq.lake.add(lake, lambda warehouse: warehouse.ingest_many(paths))


def test_executors_add_files_that_overlap(tmp_path: Path, spark: Any) -> None:
    """Also to a folder whose name has the form key=value, which must not become a column."""
    lake, files = str(tmp_path / "bucket=1"), sorted(map(str, (CAPTURES / "fleet/mlp").glob("*.etdp")))[:4]
    spark.sparkContext.parallelize([*files, *files[::-1]], 2).foreachPartition(partial(_add, lake))
    for _ in ("before", "after"):
        state = read(Lake.at(lake))
        frame = _read_table(spark, state, catalog.objects()["event_ticks"])
        assert frame.columns == [column.name for column in catalog.objects()["event_ticks"].columns]
        for table in ("captures", "event_ticks", "op_times"):
            uris = DeltaTable(f"{lake}/{table}").file_uris()
            with etq.open(lake) as warehouse:
                [(expected,)] = warehouse.rows(f"SELECT count(*) FROM {table}")[1]
            assert spark.read.parquet(*uris).count() == expected > 0
            assert _read_table(spark, state, catalog.objects()[table]).count() == expected
        assert expected == 100 and frame.select("capture_id").distinct().count() == 4
        etq.lake.compact(lake)


@pytest.mark.parametrize("section", ["Spark SQL", "A notebook on a cluster"])
def test_examples_of_the_page(
    section: str, spark: Any, lake: Path, duck_on_lake: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:  # fmt: skip
    """Of the page about other engines."""
    (tmp_path / "fleet").symlink_to(lake)
    monkeypatch.chdir(tmp_path)
    names = {"spark": spark}
    exec(compile(examples(section), str(PAGE), "exec"), names)
    assert [(names["events"],)] == duck_on_lake.execute("SELECT count(*) FROM event_ticks").fetchall()


def test_a_question_on_the_command_line(lake: Path, spark: Any, duck_on_lake: duckdb.DuckDBPyConnection) -> None:
    """In a separate process, as this process has a session already."""
    query = "SELECT o.op, o.total_ticks FROM op_totals($capture) AS o"
    command = [
        sys.executable, "-m", "etq", "sql", query, "--engine", "spark", "--lake", str(lake), "--captures", "half=0",
        "--format", "json",
    ]  # fmt: skip
    ran = subprocess.run(command, capture_output=True, text=True, check=True, env=processes.environment())
    expected = [
        {"capture_name": name, "op": op, "total_ticks": ticks}
        for name in ("mlp_0", "mlp_2", "mlp_4", "mlp_6")
        for op, ticks in duck_on_lake.execute(query, {"capture": name}).fetchall()
    ]
    assert json.loads(ran.stdout) == expected and "FutureWarning" not in ran.stderr
