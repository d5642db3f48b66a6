"""Warehouses from elsewhere: their contents are read, and nothing of them is executed."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import sqlite3
from pathlib import Path

import duckdb
import pytest

import etq
from etq import catalog
from etq.catalog import quoted
from etq.database.limits import limited
from etq.errors import EtqError, QueryError, WarehouseError
from etq.ingest.trace.launches import AROUND
from etq.maintenance.merge import merge
from tests.command_line import run_etq
from tests.conftest import CAPTURES
from tests.counter_traces import counted
from tests.launch_traces import training
from tests.sampling import IS_WHOLE
from tests.warehouses import copy_of

pytestmark = pytest.mark.long

CAPTURE = "tests/captures/mlp/mlp.etdp"
SECRET = "known to its owner alone"


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("clean") / "lab.duckdb"
    with etq.open(path) as warehouse:
        warehouse.ingest(CAPTURE, labels={"device": "a"})
    return path


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret.txt"
    path.write_text(SECRET)
    return path


def received(clean: Path, folder: Path, *statements: str) -> Path:
    """A copy of a warehouse that somebody changed with DuckDB."""
    path = folder / "received.duckdb"
    path.unlink(missing_ok=True)
    shutil.copy(clean, path)
    with duckdb.connect(str(path)) as connection:
        for each in statements:
            connection.execute(each)
    return path


_READ = "FROM read_text('{secret}')"
_COLUMNS = "the table 'labels' has other columns"
_CIRCLE = "damaged: events of the capture 1 contain each other"
# A change to a received warehouse, and how opening it is refused.
CHANGED = {
    f"DROP TABLE labels; CREATE VIEW labels AS SELECT 1::INTEGER AS capture_id, filename AS key, content AS value {_READ}":
        "the table 'labels' is missing",
    "ALTER TABLE labels ALTER value SET DEFAULT upper('x')": _COLUMNS,
    "DROP TABLE labels; CREATE TABLE labels (capture_id INTEGER, key VARCHAR, value VARCHAR AS (upper(key)))": _COLUMNS,
    "DROP TABLE labels; CREATE TABLE labels (capture_id INTEGER, key VARCHAR, value VARCHAR CHECK (value > 'a'))": _COLUMNS,
    "DROP TABLE runs": "the table 'runs' is missing",
    "INSERT INTO captures FROM captures": "several captures have the capture_id '1'",
    "INSERT INTO captures SELECT * REPLACE (2 AS capture_id, 'x' AS sha256) FROM captures":
        "several captures have the name 'mlp'",
    "CREATE INDEX lengths ON labels (length(value))": "has the index 'lengths', which a warehouse can't have",
    "UPDATE event_ticks SET parent_index = 1 WHERE run_index = 0 AND event_index = 0;"
    "UPDATE event_ticks SET parent_index = 0 WHERE run_index = 0 AND event_index = 1": _CIRCLE,
    "UPDATE event_ticks SET parent_index = event_index WHERE event_index = 0": _CIRCLE,
    "UPDATE event_ticks SET parent_index = 0, parent_run_index = 1 WHERE run_index = 0 AND event_index = 0;"
    "UPDATE event_ticks SET parent_index = 0, parent_run_index = 0 WHERE run_index = 1 AND event_index = 0": _CIRCLE,
    "UPDATE warehouse SET schema_version = -5": "damaged: its schema is of version -5",
    "DROP TABLE warehouse; CREATE TABLE warehouse (schema_version INTEGER, etq_version VARCHAR);"
    "INSERT INTO warehouse VALUES (NULL, 'x')": "damaged: its schema is of version None",
    "ALTER TABLE warehouse ALTER schema_version TYPE VARCHAR; UPDATE warehouse SET schema_version = 'one'":
        "damaged: its schema is of version 'one'",
    "DROP TABLE warehouse; CREATE VIEW warehouse AS SELECT sum(a.i) FROM range(9000000) a(i), range(9000000)":
        "a DuckDB database, but not a warehouse of etq",
}  # fmt: skip


def test_a_changed_warehouse_is_refused(clean: Path, tmp_path: Path, secret: Path) -> None:
    for change, message in [*CHANGED.items()][:: 1 if IS_WHOLE else 2]:
        path = received(clean, tmp_path, change.replace("{secret}", str(secret)))
        for read_only in (True, False):
            with pytest.raises(WarehouseError) as raised:
                etq.open(path, read_only=read_only)
            error = str(raised.value)
            assert message in error and "\n" not in error and SECRET not in error, change
    with pytest.raises(EtqError):
        merge([path], tmp_path / "merged.duckdb")


# What received warehouses may have, each of them several: none of it takes the place of what etq uses.
REPLACED = (
    (
        f"CREATE OR REPLACE VIEW capture_summary AS SELECT content AS name {_READ}",
        "CREATE OR REPLACE MACRO _any_capture_id(selector) AS (SELECT 7)",
        f"CREATE MACRO string_agg(a, b) AS (SELECT content {_READ})",
        "CREATE MACRO UPPER(a) AS 1",
        "CREATE MACRO count() AS 7",
        "CREATE MACRO duckdb_tables() AS TABLE SELECT 1",
        "CREATE VIEW duckdb_tables AS SELECT 'another' AS table_name",
        "CREATE SCHEMA system; CREATE MACRO received.system.list_transform(x, y) AS 1",
        "CREATE SCHEMA etq; CREATE MACRO received.etq.upper(a) AS 1",
    ),
    (
        f"DROP VIEW capture_summary; CREATE VIEW CAPTURE_SUMMARY AS SELECT content AS name {_READ}",
        "DROP MACRO _any_capture_id; CREATE MACRO _any_capture_id(selector) AS TABLE SELECT 1",
    ),
    ("DROP VIEW capture_summary; CREATE TABLE capture_summary (name VARCHAR)",),
)  # fmt: skip


def test_nothing_of_a_file_takes_the_place_of_what_etq_uses(clean: Path, tmp_path: Path, secret: Path) -> None:
    questions = (
        "SELECT * EXCLUDE (uri) FROM capture_summary",
        "FROM op_totals('mlp')",
        "SELECT upper('a'), string_agg(c.name, ', '), count(*), list_transform([1], lambda x: x + 1) FROM captures AS c",
        "SELECT table_name FROM duckdb_tables() WHERE table_name = 'captures'",
    )
    with etq.open(clean, read_only=True) as warehouse:
        expected = [warehouse.rows(each) for each in questions]
    assert expected[2][1] == [("A", "mlp", 1, [2])]
    for changes in REPLACED:
        path = received(clean, tmp_path, *(change.replace("{secret}", str(secret)) for change in changes))
        # Once more after it was opened for writing.
        for read_only in (True, False, True) if changes is REPLACED[0] else (True,):
            with etq.open(path, read_only=read_only) as warehouse:
                assert [warehouse.rows(each) for each in questions] == expected, changes
                assert [warehouse.safe_sql(each) for each in questions] == expected, changes


def test_queries_access_no_other_files(clean: Path, tmp_path: Path, secret: Path) -> None:
    path = received(clean, tmp_path, f"CREATE VIEW mine AS FROM read_text({quoted(str(secret))})")
    with etq.open(path) as warehouse:
        for query in (
            "FROM mine", f"FROM read_text({quoted(str(secret))})", f"COPY captures TO '{tmp_path}/out.csv'",
            f"ATTACH '{clean}' AS other (READ_ONLY)", "INSTALL httpfs", "LOAD spatial",
            "FROM 'https://localhost:1/x.parquet'", "SET enable_external_access = true", "SET allowed_paths = ['/']",
        ):  # fmt: skip
            with pytest.raises(QueryError):
                warehouse.rows(query)
        frame = warehouse.sql("FROM captures").to_arrow_table()
        assert frame.num_rows == 1
        with pytest.raises(QueryError, match="Table with name frame does not exist"):
            warehouse.rows("FROM frame")
    assert not (tmp_path / "out.csv").exists()


def test_limited_queries_read_no_files_by_what_is_in_the_file(clean: Path, tmp_path: Path) -> None:
    """The warehouse's own file has what was removed from its tables."""
    path = tmp_path / "received.csv"
    own = quoted(str(path))
    made = received(
        clean, tmp_path,
        f"CREATE MACRO mine(kind) AS TABLE FROM query('FROM read_' || kind || '(''{path}'')')",
        f"CREATE VIEW own AS FROM read_blob({own})", "CREATE VIEW harmless AS SELECT 1",
    )  # fmt: skip
    made.rename(path)
    with etq.open(path) as warehouse:
        for query in ("FROM mine('blob')", "SELECT (SELECT max(size) FROM own)", f"FROM {own}"):
            with pytest.raises(QueryError, match="a limited query reads tables and views, no files"):
                warehouse.safe_sql(query)
        with pytest.raises(QueryError, match="a limited query reads tables and views, no files"):
            warehouse.safe_sql("FROM own WHERE $given", given=True)
        assert warehouse.safe_sql("FROM harmless WHERE $given", given=True)[1] == [(1,)]


def test_external_access_takes_consent(clean: Path, tmp_path: Path, secret: Path) -> None:
    with etq.open(clean, read_only=True, external_access=True) as warehouse:
        assert warehouse.rows(f"SELECT content FROM read_text({quoted(str(secret))})")[1] == [(SECRET,)]
        warehouse.rows(f"COPY (SELECT name FROM captures) TO '{tmp_path}/out.csv'")
    assert (tmp_path / "out.csv").read_text() == "name\nmlp\n"


def test_a_file_that_passed_is_checked_again_when_it_changes(clean: Path, tmp_path: Path) -> None:
    path = received(clean, tmp_path)
    etq.open(path, read_only=True).close()
    status = path.stat()
    with duckdb.connect(str(path)) as connection:
        connection.execute("ALTER TABLE labels ADD COLUMN more INTEGER")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    with pytest.raises(WarehouseError, match="the table 'labels' has other columns"):
        etq.open(path, read_only=True)


def test_a_file_that_is_overwritten_in_place_is_checked(clean: Path, tmp_path: Path) -> None:
    """With the same captures, and at the same place on the disk."""
    path = received(clean, tmp_path)
    etq.open(path, read_only=True).close()
    (tmp_path / "other").mkdir()
    circle = "UPDATE event_ticks SET parent_index = 1 - event_index WHERE event_index < 2"
    path.write_bytes(received(clean, tmp_path / "other", circle).read_bytes())
    with pytest.raises(WarehouseError, match="events of the capture 1 contain each other"):
        etq.open(path, read_only=True)


def test_events_of_traces_come_in_any_order(clean: Path, tmp_path: Path) -> None:
    """An event may come before the one that contains it, and another after it."""
    path = received(clean, tmp_path)
    calls = [(3, 20, "inner"), (1, 50, "outer"), (5, 10, "innermost"), (60, 10, "alone"), (2, 45, "middle")]
    events = [
        {"ph": "X", "cat": "cpu_op", "name": name, "ts": ts, "dur": dur, "pid": 1, "tid": 1} for ts, dur, name in calls
    ]
    with etq.open(path) as warehouse:
        warehouse.ingest(json.dumps({"traceEvents": events}).encode(), name="trace")
        parents = "SELECT event_index, parent_index FROM event_ticks WHERE capture_id = 2 AND parent_index IS NOT NULL ORDER BY 1"
        assert warehouse.rows(parents)[1] == [(0, 4), (2, 0), (4, 1)]
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE mine (a INTEGER); CREATE INDEX of_mine ON mine (a)")
    etq.open(path, read_only=True).close()


def test_commands_have_limits_for_files_that_are_not_trusted(clean: Path) -> None:
    for limit, query, message in (
        ("--seconds=0.5", "SELECT sum(a.range * b.range) FROM range(9000000) a, range(9000000) b", "longer than 0.5 s"),
        ("--megabytes=64", "SELECT count(*) FROM (SELECT DISTINCT range FROM range(90000000))", "more than 64 MB"),
    ):
        done = run_etq("sql", query, limit, "--db", str(clean))
        assert (done.exit_code, done.stderr.count("\n")) == (1, 1)
        assert message in done.stderr and f"allow more with {limit.partition('=')[0]}" in done.stderr
    assert run_etq("ops", "mlp", "--seconds=600", "--megabytes=512", "--db", str(clean)).exit_code == 0


def test_compacting_runs_nothing_of_the_file(clean: Path, tmp_path: Path, secret: Path) -> None:
    path = received(clean, tmp_path, f"CREATE VIEW mine AS FROM read_text({quoted(str(secret))})")
    secret.unlink()
    with etq.open(path) as warehouse:
        warehouse.compact()
        assert warehouse.captures().fetchall()[0][0] == "mlp"
    with etq.open(path, read_only=True) as warehouse:
        assert [each for (each,) in warehouse.rows("SELECT view_name FROM duckdb_views() WHERE view_name = 'mine'")[1]]


WORKS = (
    *("md:x", "r12:30.duckdb", "_fresh.duckdb", "_source.duckdb", "etq.duckdb", "main.duckdb", "system.duckdb", "memory.duckdb", "temp.duckdb", "http:x.duckdb"),
    *("a'b.duckdb", 'a"b.duckdb', "*.duckdb", "captures.duckdb", "x.csv", "%41.duckdb", "[a].duckdb", "x" * 220),
)  # fmt: skip


def test_names_that_are_only_names(clean: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And some that DuckDB would take for others, which are refused."""
    monkeypatch.chdir(tmp_path)
    for at, name in enumerate(WORKS[:: 1 if IS_WHOLE else 4]):
        etq.open(name).close()
        assert os.listdir() == [name]
        copy_of(clean, Path(name))
        with etq.open(name) as warehouse:
            assert warehouse.label("mlp", number=str(at))["number"] == str(at)
            warehouse.compact()
        with etq.open(name, read_only=True) as warehouse:
            assert len(warehouse.captures().fetchall()) == 1
        assert merge([name], f"merged{at}.duckdb").captures == 1
        Path(f"merged{at}.duckdb").unlink()
        assert os.listdir() == [name]
        Path(name).unlink()
    for name in ("a?.duckdb", "a?x=1.duckdb", "a\\b.duckdb"):
        for read_only in (True, False):
            with pytest.raises(WarehouseError, match="the path of a warehouse can't have"):
                etq.open(tmp_path / name, read_only=read_only)
    assert os.listdir() == []


def test_sqlite_databases_are_not_warehouses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    etq.open("~/lab.duckdb").close()
    assert (tmp_path / "lab.duckdb").exists()
    with sqlite3.connect(tmp_path / "other.db") as other:
        other.execute("CREATE TABLE captures (a)")
    with pytest.raises(WarehouseError, match=r"other.db: not a DuckDB database; name another file"):
        etq.open(tmp_path / "other.db", read_only=True)
    for read_only in (True, False):
        with pytest.raises(WarehouseError, match="the name of a warehouse can't be longer than 220 bytes"):
            etq.open(tmp_path / ("x" * 221), read_only=read_only)


def test_expressions_of_other_tables_are_not_computed(clean: Path, tmp_path: Path) -> None:
    given = {"check": [], "backup": ["-o", str(tmp_path / "copy.duckdb")], "compact": ["--db"]}
    reason = "the table 'mine' has a generated column or a CHECK, which would be computed; drop the table"
    generated = "y AS (CASE WHEN current_setting('enable_external_access') THEN 1 ELSE len(range(x)) END)"
    for column in (generated, "CHECK (x > 0)"):
        path = received(clean, tmp_path, f"CREATE TABLE mine (x BIGINT, {column})", "INSERT INTO mine VALUES (9)")
        for command, options in given.items():
            done = run_etq("db", command, *options, str(path))
            assert (done.exit_code, done.stderr.count("\n")) == (1, 1)
            assert reason in done.stderr, (command, column)
        assert run_etq("captures", "--db", str(path)).exit_code == 0


def test_views_end_where_nodes_of_a_trace_contain_each_other(clean: Path, tmp_path: Path) -> None:
    """An ingest writes no such rows, and opening a warehouse doesn't compare them with the events' parents."""
    path = received(clean, tmp_path)
    memory_trace = CAPTURES / "torch" / "memory_outside.pt.trace.json.gz"
    with etq.open(path) as warehouse:
        warehouse.ingest(counted(), name="counted")
        warehouse.ingest(json.dumps({"traceEvents": training(1).events}).encode(), name="gpu")
        warehouse.ingest(memory_trace, name="memory")
        assert warehouse.rows("SELECT count(*) > 0 FROM trace_memory")[1] == [(True,)]
    with duckdb.connect(str(path)) as connection:
        for column in AROUND:
            connection.execute(
                f"""
                UPDATE trace_events AS t SET {column} = c.inner_index
                FROM (SELECT e.capture_id, e.{column}, min(e.event_index) AS inner_index FROM trace_events AS e GROUP BY ALL)
                    AS c
                WHERE c.capture_id = t.capture_id AND c.{column} = t.event_index AND t.{column} IS NULL
                """
            )
            changed = f"""
                SELECT count(*) > 1 FROM trace_events AS a JOIN trace_events AS b
                ON b.capture_id = a.capture_id AND b.event_index = a.{column} AND b.{column} = a.event_index
            """
            assert column == "module_index" or connection.execute(changed).fetchall() == [(True,)]
    views = [
        each.name
        for each in catalog.public_objects()
        if each.file.startswith("traces/") and each.kind == "table macro" and each.parameters[0].name == "capture"
    ]
    assert len(views) > 30
    with limited(query_seconds=120), etq.open(path, read_only=True) as warehouse:
        names = ("counted", "gpu", "memory")
        for view, name in itertools.product(views, names) if IS_WHOLE else zip(views, itertools.cycle(names)):
            try:
                warehouse.rows(f"FROM {view}('{name}')")
            except etq.EtqError as error:
                assert "execution time" not in str(error), (view, name)
