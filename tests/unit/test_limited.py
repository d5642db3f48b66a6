"""Queries that aren't trusted: what they can't do, and how they end."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import duckdb
import pytest

import etq
from etq.database import cursors, limited, limits
from etq.errors import QueryError
from tests.conftest import CAPTURES
from tests.serve.server import small_capture

REFUSED = {
    "a file": "SELECT * FROM read_text('/etc/hostname')", "a file by name": "FROM '/etc/hostname'",
    "a folder": "FROM glob('/etc/*')", "sniffing": "FROM sniff_csv('/etc/passwd')",
    "writing a file": "COPY captures TO 'leak.csv'", "attaching": "ATTACH 'x.db'",
    "a setting": "SET memory_limit = '9GB'", "the environment": "SELECT getenv('HOME')",
    "an extension": "INSTALL httpfs", "two statements": "SELECT 1; SELECT 2", "a pragma": "PRAGMA database_list",
    "a call": "CALL pragma_version()", "writing": "DELETE FROM captures",
    "writing in a CTE": "WITH gone AS (DELETE FROM captures RETURNING name) SELECT * FROM gone",
    "writing by query()": "FROM query('DELETE FROM captures')", "a macro": "CREATE TEMP MACRO sum(x) AS 1",
    "memory": "SELECT list(r) FROM range(200000000) AS t(r)", "depth": f"SELECT {'(' * 40_000}1{')' * 40_000}",
    "length": f"SELECT '{'x' * limited.MOST_TEXT}'", "nothing": "", "no SQL": "SELEC 1",
}  # fmt: skip


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[etq.Warehouse]:
    """One that is open for writing, as that of a server is, with a limit of memory."""
    path = tmp_path_factory.mktemp("limited") / "lab.duckdb"
    with etq.open(path) as filled:
        filled.ingest(CAPTURES / "mlp" / "mlp.etdp", name="run")
    with limits.limited(query_megabytes=256), etq.open(path) as opened:
        yield opened


def rows(warehouse: etq.Warehouse, query: str, seconds: float = 5) -> list[tuple[object, ...]]:
    return limited.ask(warehouse.connection, query, lambda cursor: cursor.execute(query).fetchall(), seconds)


@pytest.mark.long
def test_a_query_reads_tables_and_nothing_else(warehouse: etq.Warehouse) -> None:
    [(own,)] = rows(warehouse, "SELECT path FROM duckdb_databases() WHERE path LIKE '%lab.duckdb'")
    own_file = {
        "by a function": f"FROM read_blob('{own}')", "by any schema": f"FROM system.main.Read_Text(['{own}'])",
        "by name": f"FROM '{own}'", "within a query": f"SELECT (SELECT max(size) FROM read_blob('{own}'))",
        "by a text": f"FROM query('FROM read_blob(''{own}'')')", "by DuckDB": f"FROM read_duckdb('{own}')",
        "by a plan": f"SELECT json_serialize_plan('FROM read_csv(''{own}'')')", "by a macro": f"FROM histogram('{own}', x)",
        "a setting": "SELECT current_setting('temp_directory')", "settings by a view": "FROM pg_settings",
        "queries of others": "FROM duckdb_logs", "statements of others": "FROM pg_prepared_statements",
        "by a tree": f"FROM json_execute_serialized_sql(json_serialize_sql('FROM read_blob(''{own}'')'))",
        "beside a CTE": f"""FROM (WITH "{own}" AS (SELECT 1) FROM "{own}") AS a, '{own}'""",
        "in a CTE": f"""WITH "{own}" AS (FROM '{own}') FROM "{own}" """,
    }  # fmt: skip
    answered = []
    for what, query in {**REFUSED, **own_file}.items():
        with suppress(QueryError):
            answered.append((what, rows(warehouse, query)))
    assert answered == []
    assert rows(warehouse, "SELECT name FROM captures") == [("run",)]
    # Before DuckDB opens the file, or answers by its statistics.
    for query in (f"""FROM (WITH "{own}" AS (SELECT 1) FROM "{own}"), '{own}' LIMIT 0""", f"""FROM '{own}".csv'"""):
        with pytest.raises(QueryError, match="reads tables"):
            rows(warehouse, query)
    assert rows(warehouse, f'WITH "{own}" AS (FROM captures) SELECT name FROM "{own}"') == [("run",)]


@pytest.mark.long
def test_what_was_removed_is_not_read(tmp_path: Path) -> None:
    """Each of DuckDB's table functions is refused, or doesn't tell the name of a capture that was removed."""
    path, name = tmp_path / "lab.duckdb", "zqx-secret"
    with etq.open(path) as warehouse:
        for number in range(3):
            (tmp_path / f"{number}.etdp").write_bytes(small_capture(number))
            warehouse.ingest(str(tmp_path / f"{number}.etdp"), name=f"{name}{number}", labels={"owner": name})
        warehouse.remove(*(f"{name}{number}" for number in range(3)))
        warehouse.ingest(CAPTURES / "mlp" / "mlp.etdp", name="run")
        of_duckdb = (
            "SELECT DISTINCT function_name FROM duckdb_functions() WHERE function_type LIKE 'table%' AND internal"
        )
        names = warehouse.rows(of_duckdb)
        # What the functions are asked about: a table, the file, a query.
        given = ("", "'captures'", f"'{path}'", "captures, name")
        queries = [f"FROM {function}({argument})" for (function,) in names[1] for argument in given]
        queries += ["SELECT stats(name) FROM captures", "SELECT stats(value) FROM labels", "SUMMARIZE captures",
                    f"SELECT json_serialize_plan('FROM read_csv(''{path}'')')", "DESCRIBE captures"]  # fmt: skip
        answered = 0
        cursor = cursors.cursor(warehouse.connection)
        for query in queries:
            with suppress(QueryError, duckdb.Error):
                limited._check_reads(cursor, query, None)
                assert name not in str(cursor.execute(query).fetchmany(5000)), query
                answered += 1
        assert answered > 20
        stored = "FROM pragma_storage_info('captures')"
        assert name[:7] in str(warehouse.rows(stored)[1]), "what isn't limited finds it"
        warehouse.compact()
        assert name[:7] not in str(warehouse.rows(stored)[1])


@pytest.mark.long
def test_a_query_ends_at_its_limit_while_others_are_answered(warehouse: etq.Warehouse) -> None:
    endless = "SELECT count(*) FROM range(100000000000) AS a, range(1000000) AS b"
    failures: list[QueryError] = []

    def run() -> None:
        with pytest.raises(QueryError) as failure:
            rows(warehouse, endless, 2)
        failures.append(failure.value)

    thread = threading.Thread(target=run)
    thread.start()
    answers = 0
    while thread.is_alive():
        assert rows(warehouse, "SELECT count(*) FROM captures") == [(1,)]
        answers += 1
    thread.join()
    assert answers > 1 and "took longer than 2 s" in str(failures[0])


@pytest.mark.long
def test_queries_that_do_not_end_are_counted(monkeypatch: pytest.MonkeyPatch, warehouse: etq.Warehouse) -> None:
    """A function that can't be interrupted: its reader gets the error at the limit, and too many are refused."""
    ends, started = threading.Event(), list[int]()
    monkeypatch.setattr(limited, "_GRACE", 0.05)

    def stuck(_: duckdb.DuckDBPyConnection) -> None:
        started.append(1)
        ends.wait(60)

    def ask(_: int) -> str:
        with pytest.raises(QueryError) as failure:
            limited.ask(warehouse.connection, "SELECT 1", stuck, 2)
        return str(failure.value)

    try:
        with ThreadPoolExecutor(3 * limited.MOST_LEFT) as pool:  # at once, so that none is refused yet
            errors = {*pool.map(ask, range(3 * limited.MOST_LEFT))}
        assert len(started) == 2 * limited.MOST_LEFT
        assert errors == {"the query took longer than 2 s", "8 queries run already; try again later"}
        with pytest.raises(QueryError, match="4 queries still run past their time limit; try again later"):
            rows(warehouse, "SELECT 1")
    finally:
        ends.set()
    while any(thread.is_alive() for thread in limited._left):
        time.sleep(0.01)
    assert rows(warehouse, "SELECT 1") == [(1,)]


def test_many_rows_are_refused(warehouse: etq.Warehouse) -> None:
    with pytest.raises(QueryError, match="more than 1,000,000 rows"):
        warehouse.safe_sql("FROM range(1000000000)", seconds=60)
