"""SQL that isn't trusted: attempts to reach data outside of the warehouse, and to exceed limits."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pytest

import etq
from etq.errors import QueryError, WarehouseError
from etq.sandbox import client as sandbox
from tests.command_line import run_etq
from tests.sampling import thinned
from tests.sharing import captures

SECRET = "what nobody but the owner may know"

# One line each; {0} is the folder that all lies in. They read other files, ...
ESCAPES = """
FROM read_text('{0}/secret.txt')
FROM read_blob('{0}/secret.txt')
FROM read_csv('{0}/secret.csv')
FROM read_csv_auto('{0}/secret.csv')
FROM sniff_csv('{0}/secret.csv')
FROM read_json('{0}/secret.json')
FROM read_json_auto('{0}/secret.json')
FROM read_ndjson('{0}/secret.json')
FROM read_json_objects('{0}/secret.json')
FROM read_parquet('{0}/secret.parquet')
FROM parquet_scan(['{0}/secret.parquet'])
FROM parquet_metadata('{0}/secret.parquet')
FROM parquet_schema('{0}/secret.parquet')
FROM parquet_kv_metadata('{0}/secret.parquet')
FROM '{0}/secret.csv'
FROM '{0}/secret.parquet'
FROM '{0}/secret.json'
FROM "{0}/secret.csv"
FROM '{0}/*.csv'
FROM '{0}/other.duckdb'
FROM read_duckdb('{0}/other.duckdb')
FROM glob('{0}/*')
FROM query_table('{0}/secret.csv')
FROM query('FROM read_text(''{0}/secret.txt'')')
FROM json_execute_serialized_sql(json_serialize_sql('FROM read_text(''{0}/secret.txt'')'))
SELECT (SELECT content FROM read_text('{0}/secret.txt'))
SELECT * FROM captures, LATERAL (FROM read_text('{0}/secret.txt'))
WITH t AS (FROM read_text('{0}/secret.txt')) FROM t
WITH RECURSIVE t AS (SELECT content FROM read_text('{0}/secret.txt') UNION ALL FROM t) FROM t LIMIT 1
FROM read_text('/proc/self/environ')
FROM read_text('/proc/self/cmdline')
FROM read_text('/dev/stdin')
FROM read_csv('/etc/passwd', columns = {{'a': 'VARCHAR'}})
FROM read_text('file://{0}/secret.txt')
FROM read_text('{0}/../{1}/secret.txt')
FROM read_text('http://127.0.0.1:9/secret')
FROM read_parquet('s3://bucket/secret.parquet')
FROM sqlite_scan('{0}/secret.sqlite', 't')
ATTACH '{0}/other.duckdb' AS other
ATTACH '{0}/other.duckdb' AS other (READ_ONLY)
SELECT getenv('SECRET')
SELECT * FROM secret
SELECT * FROM secret_frame
SELECT * FROM secret_relation
FROM pandas_scan(140000000000::UBIGINT::POINTER)
FROM arrow_scan(1::POINTER, 2::POINTER, 3::POINTER)
IMPORT DATABASE '{0}/export'
""".strip().splitlines()
# ... write files and the warehouse, ...
WRITES = """
COPY captures TO '{0}/made.csv'
COPY (SELECT 1) TO '{0}/made.parquet' (FORMAT parquet)
COPY captures FROM '{0}/secret.csv'
COPY FROM DATABASE lab TO other
EXPORT DATABASE '{0}/made'
ATTACH '{0}/made.duckdb' AS made
CREATE TABLE made AS SELECT 1
CREATE TEMP TABLE captures AS SELECT 1
CREATE OR REPLACE TEMP MACRO op_totals(capture) AS TABLE SELECT 1
CREATE SECRET made (TYPE s3)
INSERT INTO labels VALUES (1, 'made', 'made')
UPDATE captures SET name = 'made'
DELETE FROM captures
DROP TABLE captures
TRUNCATE captures
ALTER TABLE captures RENAME TO made
MERGE INTO labels USING labels AS n ON false WHEN MATCHED THEN DELETE
WITH gone AS (DELETE FROM captures RETURNING *) FROM gone
CHECKPOINT
FORCE CHECKPOINT
VACUUM
FROM force_checkpoint()
SELECT 1; DROP TABLE captures
SELECT 1; COPY captures TO '{0}/made.csv'
EXPLAIN ANALYZE DELETE FROM captures
EXPLAIN ANALYZE COPY captures TO '{0}/made.csv'
PREPARE made AS DELETE FROM captures; EXECUTE made
BEGIN; DELETE FROM captures; COMMIT
""".strip().splitlines()
# ... or change what holds them.
UNLOCKS = """
SET enable_external_access = true
SET lock_configuration = false
SET memory_limit = '100GB'
SET VARIABLE a = 1
SET allowed_directories = ['/']
SET temp_directory = '{0}/made'
SET python_enable_replacements = true
RESET lock_configuration
PRAGMA enable_profiling
PRAGMA memory_limit = '100GB'
PRAGMA database_list
CALL enable_logging('made', storage = 'file', storage_path = '{0}/made')
CALL pragma_version()
INSTALL httpfs
LOAD httpfs
LOAD '{0}/made.duckdb_extension'
FORCE INSTALL json FROM '{0}'
UPDATE EXTENSIONS
USE memory
DETACH lab
SELECT 1; SET enable_external_access = true; FROM read_text('{0}/secret.txt')
""".strip().splitlines()
# Queries that exceed a limit of time or memory.
GREEDY = """
SELECT sum(a.range * b.range) FROM range(10000000) AS a, range(10000000) AS b
WITH RECURSIVE t AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM t) SELECT count(*) FROM t
SELECT levenshtein(repeat('a', 300000), repeat('b', 300000))
SELECT len(repeat('x', 4000000000))
SELECT repeat('x', 1000000000)
SELECT len(range(1000000000))
SELECT list(a.range) FROM range(1000000000) AS a
SELECT string_agg(repeat('x', 1000000)) FROM range(100000)
SELECT repeat('x', 100000) FROM range(1000000)
SELECT DISTINCT a.range, b.range FROM range(100000) AS a, range(100000) AS b
""".strip().splitlines()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a warehouse and a secret file, and secrets in the environment."""
    folder = tmp_path_factory.mktemp("sandbox")
    with etq.open(folder / "lab.duckdb") as warehouse:
        warehouse.ingest(captures.content(1), name="c1", labels={"a": "b"})
    for name in ("secret.txt", "secret.csv"):
        (folder / name).write_text(f"text\n{SECRET}\n")
    (folder / "secret.json").write_text(f'[{{"text": "{SECRET}"}}]')
    with duckdb.connect(str(folder / "other.duckdb")) as other:
        other.execute(f"CREATE TABLE text AS SELECT '{SECRET}' AS text")
        other.execute(f"COPY text TO '{folder}/secret.parquet'")
        other.execute(f"EXPORT DATABASE '{folder}/export'")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SECRET", SECRET)
        yield folder


def fingerprint(folder: Path) -> dict[str, str]:
    """The files in the folder."""
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.rglob("*") if path.is_file()}


def tried(path: Path, query: str) -> str:
    """The result of a query as text, or its error."""
    import pandas as pd

    # These are in the scope of the caller, where DuckDB finds them without registration.
    secret = [SECRET]
    secret_frame = pd.DataFrame({"text": secret})
    secret_relation = duckdb.sql("SELECT 1 AS text")
    with etq.open(path, read_only=True) as warehouse:
        try:
            reply = repr(warehouse.safe_sql(query, seconds=60, megabytes=256))
        except QueryError as error:
            reply = f"QueryError {error}"
    del secret_frame, secret_relation
    return reply


@pytest.mark.parametrize("attempt", thinned(ESCAPES, ESCAPES[::5]))
def test_nothing_else_is_read(folder: Path, attempt: str) -> None:
    reply = tried(folder / "lab.duckdb", attempt.format(folder, folder.name))
    assert reply.startswith("QueryError ") and SECRET not in reply


@pytest.mark.parametrize("attempt", thinned(WRITES + UNLOCKS, [*WRITES[::5], *UNLOCKS[::5]]))
def test_nothing_is_written_or_unlocked(folder: Path, attempt: str) -> None:
    before = fingerprint(folder)
    reply = tried(folder / "lab.duckdb", attempt.format(folder))
    assert reply.startswith("QueryError ") and SECRET not in reply
    assert fingerprint(folder) == before


@pytest.mark.parametrize(
    "attempt", ["FROM which_secret('s3://bucket/x', 's3')", "FROM checkpoint()", "FROM duckdb_secrets()"]
)
def test_harmless_statements_are_answered(folder: Path, attempt: str) -> None:
    before = fingerprint(folder)
    assert tried(folder / "lab.duckdb", attempt).endswith("], [])")
    assert fingerprint(folder) == before


@pytest.mark.parametrize("attempt", thinned(GREEDY, GREEDY[:1]))
def test_nothing_takes_more_than_it_may(folder: Path, attempt: str) -> None:
    with pytest.raises(QueryError, match=r"took (longer than 2 s|more than 64 MB of memory)$"):
        sandbox.ask(str(folder / "lab.duckdb"), attempt, None, seconds=2, megabytes=64)


@pytest.mark.parametrize(
    ("query", "count"),
    [("FROM range(3000000)", 3_000_000), ("SELECT range, hash(range)::VARCHAR FROM range(4000000)", None)],
)
def test_large_results_are_whole_or_name_the_limit(folder: Path, query: str, count: int | None) -> None:
    for _ in range(2):
        if count is not None:
            rows = sandbox.ask(str(folder / "lab.duckdb"), query, None, seconds=60, megabytes=64)[1]
            assert (len(rows), rows[-1]) == (count, (count - 1,))
            continue
        with pytest.raises(QueryError, match=r"^the query's result took more than 64 MB of memory$"):
            sandbox.ask(str(folder / "lab.duckdb"), query, None, seconds=60, megabytes=64)


def test_opening_is_within_the_limits(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pipe, endless = tmp_path / "pipe.duckdb", tmp_path / "endless.duckdb"
    os.mkfifo(pipe)
    with pytest.raises(WarehouseError, match="a pipe or device; a warehouse is a file"):
        sandbox.ask(str(pipe), "SELECT 1", None, seconds=2)
    shutil.copy(folder / "lab.duckdb", endless)
    with duckdb.connect(str(endless)) as connection:
        connection.execute("DROP TABLE warehouse")
        connection.execute("CREATE VIEW warehouse AS SELECT sum(a.range) FROM range(9000000) a, range(9000000)")
    with pytest.raises(WarehouseError, match="a DuckDB database, but not a warehouse of etq"):
        sandbox.ask(str(endless), "SELECT 1", None, seconds=2)
    # Where nothing else ends it, the process that asks does.
    monkeypatch.setattr(sandbox, "STARTING", 0.0)
    with pytest.raises(QueryError, match=r"^the query took longer than 0\.001 s$"):
        monkeypatch.setenv("ETQ_WAIT", "0")
        sandbox.ask(str(folder / "lab.duckdb"), "SELECT 1", None, seconds=0.001)


def test_what_is_refused_is_named(folder: Path) -> None:
    for query, kind in (
        ("SELECT 1; SELECT 2", "SELECT, SELECT"),
        ("", "nothing"),
        ("UPDATE EXTENSIONS", "another statement"),
    ):
        with pytest.raises(QueryError, match=f"^a safe query is one SELECT, not {kind}$"):
            sandbox.ask(str(folder / "lab.duckdb"), query, None)


def test_allowed_queries_are_answered(folder: Path) -> None:
    with etq.open(folder / "lab.duckdb", read_only=True) as warehouse:
        capture = warehouse.capture("c1")
        asked = "SELECT o.op, o.calls FROM op_totals($capture, unit := $unit) AS o ORDER BY o.op"
        assert warehouse.safe_sql(asked, capture=capture, unit="us") == warehouse.rows(
            asked, capture=capture, unit="us"
        )
        values = (
            "SELECT 1, 1.5::DECIMAL(3, 1), DATE '2026-05-01', [{'a': 'b'}], NULL, '\\xAA'::BLOB, uuid(), TIME '12:00'"
        )
        assert [repr(each) for each in warehouse.safe_sql(values)[1][0]][:6] == [
            "1", "Decimal('1.5')", "datetime.date(2026, 5, 1)", "[{'a': 'b'}]", "None", r"b'\xaa'",
        ]  # fmt: skip
        assert warehouse.safe_sql("VALUES (1)")[1] == [(1,)]
        zoned = "SELECT TIMESTAMPTZ '2026-05-01 14:00:00+02' AS t, TIMESTAMPTZ 'infinity' AS i"
        assert warehouse.safe_sql(zoned) == warehouse.rows(zoned)
        assert warehouse.safe_sql(zoned)[1][0][0] == datetime(2026, 5, 1, 12, tzinfo=UTC)
        # It is the current warehouse's views, also where the file's are another etq's.
        assert warehouse.safe_sql("FROM captures")[1] == warehouse.rows("FROM captures")[1]
        with pytest.raises(QueryError, match="^limits of 0 s and 512 MB"):
            warehouse.safe_sql("SELECT 1", seconds=0)
        with pytest.raises(QueryError, match='^Referenced column "nmae" not found'):
            warehouse.safe_sql("SELECT nmae FROM captures")


def test_what_no_other_process_can_read_is_refused(tmp_path: Path) -> None:
    with etq.open() as warehouse, pytest.raises(WarehouseError, match="another process can't read it: it is in memory"):
        warehouse.safe_sql("SELECT 1")
    with (
        etq.open(tmp_path / "lab.duckdb") as warehouse,
        pytest.raises(WarehouseError, match="can't read it: open it with read_only=True"),
    ):
        warehouse.safe_sql("SELECT 1")


def test_a_lake_is_asked_safely(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("deltalake", reason="lakes need deltalake: pip install 'etq[lake]'")
    lake = tmp_path / "fleet"
    etq.lake.export(lake, folder / "lab.duckdb")
    with etq.open(lake) as opened:
        asked = "SELECT c.name, t.events FROM captures AS c JOIN capture_summary AS t ON t.name = c.name"
        assert opened.safe_sql(asked) == (["name", "events"], [("c1", 4)])
    (segment,) = (lake / "captures").glob("load_id=*/*.parquet")
    (lake / "captures" / "secret.csv").write_text(f"text\n{SECRET}\n")
    (lake / "secret.txt").write_text(SECRET)
    before = fingerprint(tmp_path)
    for query in (
        f"COPY (SELECT 1) TO '{segment}'",
        f"COPY (SELECT 1) TO '{lake}/made.parquet'",
        "CREATE TABLE made AS SELECT 1",
        "SET allowed_paths = ['/etc/passwd']",
        "SET enable_external_access = true",
        f"FROM read_text('{lake}/secret.txt')",
        f"FROM '{lake}/captures/secret.csv'",
        f"FROM glob('{lake}/*')",
        f"FROM read_csv('{segment}/../secret.csv')",
        f"FROM read_text('{folder}/secret.txt')",
        "FROM secret_frame",
        "SELECT len(range(1000000000))",
    ):
        result = tried(lake, query)
        assert result.startswith("QueryError ") and SECRET not in result, query
    assert fingerprint(tmp_path) == before


def test_on_the_command_line(folder: Path, tmp_path: Path) -> None:
    db = str(folder / "lab.duckdb")
    result = run_etq("sql", "--safe", "SELECT name FROM captures", "--db", db, "--format", "csv")
    assert (result.exit_code, result.stdout) == (0, "name\nc1\n")
    result = run_etq("sql", "--safe", "DROP TABLE captures", "--db", db)
    assert result.exit_code == 1 and "Error: a safe query is one SELECT, not DROP\n" in result.stderr
    result = run_etq("sql", "--safe", f"FROM '{folder}/secret.csv'", "--db", db)
    assert result.exit_code == 1 and SECRET not in result.output
    assert run_etq("sql", "--safe", "SELECT 1", "--engine", "spark", "--lake", str(tmp_path)).exit_code == 2
    result = run_etq("sql", "--safe", "SELECT 1", "--db", str(tmp_path))
    assert result.exit_code == 1 and "a folder; a warehouse is a file, or a lake" in result.stderr
    result = run_etq("sql", "--safe", "SELECT 1", "--db", str(tmp_path / "none.duckdb"))
    assert result.exit_code == 1 and "no such file; make a warehouse" in result.stderr


def test_without_external_access_files_are_read_only(folder: Path) -> None:
    before = fingerprint(folder)
    for query in ("DELETE FROM captures", "CREATE TABLE made AS SELECT 1", "UPDATE captures SET name = 'made'"):
        reply = run_etq("sql", query, "--db", str(folder / "lab.duckdb"))
        assert reply.exit_code == 1 and "read-only" in reply.stderr
    assert fingerprint(folder) == before
    assert not os.path.exists(folder / "lab.duckdb.wal")


@pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc")
def test_the_process_ends_with_the_one_that_started_it(folder: Path) -> None:
    code = "import etq, sys; etq.open(sys.argv[1], read_only=True).safe_sql(sys.argv[2], seconds=300)"
    endless = "SELECT sum(a.range * b.range) FROM range(10000000) AS a, range(10000000) AS b"
    with subprocess.Popen([sys.executable, "-c", code, str(folder / "lab.duckdb"), endless]) as asking:
        children = Path(f"/proc/{asking.pid}/task/{asking.pid}/children")
        end = time.monotonic() + 60
        while not (workers := children.read_text().split()) and time.monotonic() < end:
            time.sleep(0.05)
        assert len(workers) == 1
        worker = Path("/proc", workers[0], "stat")
        time.sleep(1)  # It has read its request then, or will be without one.
        asking.kill()
    while worker.exists() and ") Z " not in worker.read_text() and time.monotonic() < end:
        time.sleep(0.05)
    assert not worker.exists() or ") Z " in worker.read_text()


def test_the_home_is_not_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home-of-its-owner"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    path = tmp_path / "lab.duckdb"
    etq.open(path).close()
    with etq.open(path, read_only=True) as warehouse:
        shown = [*warehouse.safe_sql("SELECT name, value FROM duckdb_settings()")[1]]
        for query in ("FROM duckdb_extensions()", "FROM duckdb_secrets()", "FROM read_text('~/x')"):
            try:
                shown += warehouse.safe_sql(query)[1]
            except QueryError as error:
                shown.append((str(error),))
    assert home.name not in str(shown)


def test_logging_aborts_no_process(tmp_path: Path) -> None:
    path = tmp_path / "lab.duckdb"
    etq.open(path).close()
    logging = f"enable_logging(storage := 'file', storage_path := '{tmp_path}/log')"
    for query in (
        f"CALL {logging}; SELECT 1",
        f"FROM {logging}",
        "SET enable_logging = true",
        "SET logging_level = 'trace'",
    ):
        done = subprocess.run(
            [sys.executable, "-m", "etq", "sql", query, "--db", str(path)], capture_output=True, text=True, check=False
        )
        error, *place = done.stderr.splitlines()
        assert done.returncode == 1 and "the configuration has been locked" in error, (query, done.stderr)
        # Where DuckDB knows the place in the query, it is shown below.
        assert place == [] or (len(place) == 2 and place[0].startswith("LINE 1: ") and set(place[1].strip()) == {"^"})
    assert [each.name for each in tmp_path.iterdir()] == ["lab.duckdb"]
    with etq.open(path, read_only=True) as warehouse:
        warehouse.rows("SET threads = 1")
        warehouse.rows("SET TimeZone = 'UTC'")
