"""What a query needs: functions of Python, which are registered when one needs them, and the macro of the capture's format."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import etq
from etq import catalog
from etq.database import functions
from etq.database.cursors import cursor
from tests.batches import Labelled, ingest_all
from tests.builders import dump, framework, kernel, run

METRICS = "FROM compare_metrics('side=base', 'side=new')"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A file with captures of two sides, each with a metric."""
    path = tmp_path_factory.mktemp("lab") / "lab.duckdb"
    with etq.open(path) as warehouse:
        around = framework("Method::execute", start=0, end=60)
        contents = [dump(run("Execute", kernel("mm", start=10, end=30 + at), around)) for at in range(6)]
        made = (Labelled(f"c{at}", content, {"side": ("base", "new")[at % 2]}) for at, content in enumerate(contents))
        for at, capture in enumerate(ingest_all(warehouse, made)):
            warehouse.metric(capture, "tokens", 100.0 + at + 50 * (at % 2), better="higher")
    yield path


@pytest.mark.long
def test_a_query_registers_them_and_no_other_does(lab: Path) -> None:
    with etq.open(lab, read_only=True) as warehouse, etq.open(lab, read_only=True) as other:
        warehouse.rows("FROM captures")
        assert warehouse.connection not in functions._registered
        [better] = warehouse.rows(METRICS)[1]
        assert better[1] == "better"
        # A second warehouse of the same file shares the database, in which they are registered already.
        assert other.sql(METRICS).fetchall() == [better]
        assert cursor(warehouse.connection).execute(METRICS).fetchall() == [better]
        assert warehouse.safe_sql(METRICS)[1] == [better]


def test_each_view_that_needs_one_is_recognised_and_says_so() -> None:
    """Queries are searched for words: each call of a public object that uses a function, also by others, has one."""
    users = {name for name, each in catalog.objects().items() if functions.PREFIX in each.statement}
    assert users
    public = [each.name for each in catalog.public_objects() if users & {*catalog.in_order([each.name])}]
    assert [name for name in public if not functions._NEEDED.search(f"FROM {name}()")] == []
    saying = [each.name for each in catalog.public_objects() if each.text.startswith(catalog.NEEDS_ETQ)]
    assert (len(saying), saying) == (14, public)


@pytest.mark.long
def test_a_warehouse_has_the_functions_after_another_one_of_the_same_file_was_closed(tmp_path: Path) -> None:
    """DuckDB keeps them for its instance: for a file's warehouses, and for all in memory."""
    path = tmp_path / "lab.duckdb"
    etq.open(path).close()
    code = f"""
import etq
first, second = (etq.open({str(path)!r}, read_only=True) for _ in range(2))
for warehouse in (first, second):
    warehouse.rows("FROM regressions()")
other = etq.open()  # of another database, whose functions stay
other.rows("FROM regressions()")
first.close()
for warehouse in (second, other):
    warehouse.rows("FROM regressions()")
third = etq.open({str(path)!r}, read_only=True)
third.rows("FROM regressions()")
second.close()
third.rows("FROM regressions()")
"""
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.long
def test_functions_stay_when_the_connection_that_registered_them_is_gone() -> None:
    """In a process of its own: to call a freed function would end it."""
    code = """
import gc, threading, etq

def ask(warehouse):
    return warehouse.rows("FROM regressions()")

first, second = etq.open(), etq.open()
ask(first)
threads = [threading.Thread(target=lambda: [ask(second) for _ in range(5)]) for _ in range(2)]
for thread in threads:
    thread.start()
first.close()
for thread in threads:
    thread.join()
third = etq.open()
ask(third)
del third
gc.collect()
assert ask(second) == ask(etq.open())
"""
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.long
def test_what_a_query_attached_to_a_warehouse_in_memory_is_free_after_it(tmp_path: Path) -> None:
    path = tmp_path / "other.duckdb"
    etq.open(path).close()
    code = f"""
import etq
for _ in range(2):
    with etq.open() as warehouse:
        warehouse.sql("ATTACH '{path}' AS other").fetchall()
    etq.open({str(path)!r}).close()
"""
    subprocess.run([sys.executable, "-c", code], check=True)
