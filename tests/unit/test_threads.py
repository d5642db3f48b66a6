"""Threads that share a warehouse: each asks, and reads what another has asked, at any time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier, Thread
from typing import Any

import duckdb
import pytest

import etq
from etq.errors import WarehouseError
from etq.warehouse.warehouse import Warehouse
from tests.conftest import CAPTURES
from tests.sampling import IS_WHOLE

MLP = CAPTURES / "mlp/mlp_100runs.etdp"
OTHERS = sorted((CAPTURES / "fleet/convnet").glob("0[0-5].etdp"))
OTHER = CAPTURES / "fleet/mlp/06.etdp"
Question = Callable[[Warehouse], Any]
# Of all kinds: rows of views and of SQL, lazy and computed, as Python values, Arrow and text.
QUESTIONS: list[Question] = [
    lambda w: w.op_totals("run").fetchall(),
    lambda w: w.op_totals("run", by="label", unit="ns").fetchall(),
    lambda w: w.sql("FROM event_times($c)", c="run").to_arrow_table(),
    lambda w: w.rows("SELECT sum(e.duration_ticks) FROM events AS e WHERE e.capture_id = 1"),
    lambda w: w.inspector_events("run").filter("kind = 'kernel'").select("event_name", "p50").fetchall(),
    lambda w: repr(w.execute_breakdown("run")),
    lambda w: w.advice("run").fetchall(),
    lambda w: w.compare_ops("run", "other").fetchall(),
    lambda w: w.capture("run"),
    lambda w: [rows for _, parts in [*_parts(w)] for rows in parts],
]


def _parts(warehouse: Warehouse) -> list[tuple[list[str], list[Any]]]:
    with warehouse.rows_in_parts("FROM signatures AS s WHERE s.capture_id = 1") as (columns, parts):
        return [(columns, list(parts))]


def _asked(warehouse: Warehouse, times: int) -> None:
    """Eight threads get the answers of one, while the thread that opened the warehouse ingests."""
    warehouse.ingest(MLP, name="run")
    warehouse.ingest(OTHER, name="other")
    expected = [question(warehouse) for question in QUESTIONS]
    together = Barrier(9)

    def ask(first: int) -> None:
        together.wait()
        for at in range(first, first + times):
            assert QUESTIONS[at % len(QUESTIONS)](warehouse) == expected[at % len(QUESTIONS)]

    with ThreadPoolExecutor(8) as pool:
        asking = [pool.submit(ask, first) for first in range(8)]
        together.wait()
        for path in OTHERS:
            warehouse.ingest(path)
        for each in asking:
            each.result()
    assert warehouse.rows("SELECT count(*) FROM captures") == (["count_star()"], [(2 + len(OTHERS),)])


@pytest.mark.long
@pytest.mark.parametrize("is_in_memory", [True, False])
def test_eight_threads_ask_many_questions_each(tmp_path: Path, is_in_memory: bool) -> None:
    with etq.open(None if is_in_memory else tmp_path / "lab.duckdb") as warehouse:
        _asked(warehouse, 200 if IS_WHOLE else 3)


@pytest.mark.long
def test_a_result_is_read_by_any_thread(warehouse: Warehouse) -> None:
    warehouse.ingest(MLP, name="run")
    slow = warehouse.op_totals("run").filter("calls > 1")
    computed = warehouse.op_totals("run", by="label")
    joined = warehouse.sql("SELECT t.op, f.x FROM op_totals('run') AS t, f", f=warehouse.sql("SELECT 1 AS x"))
    results = [slow, computed, joined]
    expected = [each.fetchall() for each in results]

    async def read() -> list[Any]:
        return await asyncio.gather(*(asyncio.to_thread(each.fetchall) for each in 4 * results))

    assert asyncio.run(read()) == 4 * expected


@pytest.mark.long
def test_threads_ask_about_a_file() -> None:
    with etq.read(MLP) as file:
        questions: list[Question] = [
            lambda w: w.op_totals().fetchall(),
            lambda w: w.event_times().fetchall(),
            lambda w: w.advice().fetchall(),
            lambda w: w.safe_sql("SELECT count(*) FROM events"),
        ]
        expected = [question(file) for question in questions]
        with ThreadPoolExecutor(8) as pool:
            assert list(pool.map(lambda question: question(file), 4 * questions)) == 4 * expected


def test_a_statement_that_writes_runs_once(warehouse: Warehouse) -> None:
    """Also when another thread reads what it returns."""
    warehouse.sql("CREATE TABLE notes (n INTEGER)")
    written = warehouse.sql("INSERT INTO notes VALUES (1), (2) RETURNING n")
    assert [sorted(each) for each in _in_thread(written.fetchall)] == [[(1,), (2,)]]
    assert warehouse.rows("SELECT count(*) FROM notes")[1] == [(2,)]


@pytest.mark.long
def test_several_threads_ingest_the_same_files(tmp_path: Path) -> None:
    with etq.open(tmp_path / "lab.duckdb") as warehouse, ThreadPoolExecutor(4) as pool:
        captures = list(pool.map(warehouse.ingest, 2 * OTHERS))
        assert len({each.capture_id for each in captures}) == len(OTHERS)
        assert sum(each.is_new for each in captures) == len(OTHERS)


@pytest.mark.long
def test_closing_waits_for_other_threads(tmp_path: Path) -> None:
    path = tmp_path / "lab.duckdb"
    warehouse = etq.open(path)
    warehouse.ingest(MLP, name="run")
    started = Barrier(2)

    def ask() -> None:
        with warehouse.locked() as connection:
            started.wait()
            found.append(connection.execute("SELECT count(*) FROM events AS e, events AS f").fetchall())

    found: list[Any] = []
    thread = Thread(target=ask)
    thread.start()
    started.wait()
    warehouse.close()
    thread.join()
    assert len(found) == 1
    with pytest.raises(WarehouseError, match="is closed"):
        warehouse.op_totals("run")
    with etq.open(path) as again:  # which no connection holds any more
        again.compact()


@pytest.mark.long
def test_threads_ask_before_and_after_a_thread_compacts(tmp_path: Path) -> None:
    with etq.open(tmp_path / "lab.duckdb") as warehouse:
        warehouse.ingest(MLP, name="run")
        before = warehouse.op_totals("run").fetchall()
        for compact in (warehouse.compact, lambda: _in_thread(warehouse.compact)):
            assert _in_thread(lambda: warehouse.op_totals("run").fetchall()) == [before]
            assert compact() is not None
            assert _in_thread(lambda: warehouse.op_totals("run").fetchall()) == [before]
            assert warehouse.op_totals("run").fetchall() == before


def _in_thread(call: Callable[[], Any]) -> list[Any]:
    found: list[Any] = []
    thread = Thread(target=lambda: found.append(call()))
    thread.start()
    thread.join()
    return found


def test_closing_waits_for_results_that_others_read(tmp_path: Path) -> None:
    """Also where a thread reads what the one that opened the warehouse has asked. If it begins later, that is an error."""
    warehouse = etq.open(tmp_path / "lab.duckdb")
    warehouse.ingest(MLP, name="run")
    slow = warehouse.sql("SELECT count(*) FROM events AS e, events AS f WHERE hash(e.event_index, f.event_index) > 0")
    with ThreadPoolExecutor(1) as pool:
        started = Barrier(2)

        def read() -> Any:
            relation = slow.relation
            started.wait()
            try:
                return relation.fetchall()
            except duckdb.ConnectionException as error:
                return str(error)

        reading = pool.submit(read)
        started.wait()
        time.sleep(0.1)
        warehouse.close()
        found = reading.result()
    assert not warehouse.is_open and (len(found) == 1 or "already been closed" in found)


@pytest.mark.long
def test_another_thread_compacts_once_the_opener_has_asked(tmp_path: Path) -> None:
    with etq.open(tmp_path / "lab.duckdb") as warehouse, ThreadPoolExecutor(1) as pool:
        warehouse.ingest(MLP, name="run")
        with warehouse.locked() as connection:
            compacting = pool.submit(warehouse.compact)
            asked = connection.execute("SELECT count(*) FROM events AS e, signatures AS s").fetchall()
            assert not compacting.done()
        compacting.result()
        assert warehouse.rows("SELECT count(*) FROM events AS e, signatures AS s")[1] == asked


@pytest.mark.long
def test_handles_and_none_are_arguments(warehouse: Warehouse) -> None:
    program = warehouse.ingest_program(CAPTURES / "mlp/mlp.pte")
    record = warehouse.ingest_record(CAPTURES / "mlp/mlp.etrecord")
    warehouse.ingest(MLP, name="run")
    assert (
        warehouse.compare_programs(program, program).fetchall() == warehouse.compare_programs("mlp", "mlp").fetchall()
    )
    assert warehouse.compare_graphs(record, record).columns
    assert warehouse.framework_tax("run", baseline=None).fetchall() == warehouse.framework_tax("run").fetchall()


@pytest.mark.long
def test_advice_is_asked_within_a_transaction() -> None:
    with etq.read(MLP) as file, etq.read(MLP) as other:
        expected = other.advice().fetchall()
        file.connection.execute("CREATE TABLE notes (n INTEGER)")
        file.connection.begin()
        file.connection.execute("INSERT INTO notes VALUES (1)")
        assert file.advice().fetchall() == expected
        file.connection.commit()
        assert file.rows("SELECT count(*) FROM notes")[1] == [(1,)] and file.advice().fetchall() == expected
