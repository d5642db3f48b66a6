"""Putting many files into a warehouse together: the same rows as one by one, each file whole or not at all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import duckdb
import pytest

import etq
from etq.advice import trace_rows
from etq.advice.collecting import Row
from etq.errors import EtqError, FormatError
from etq.storage import bulk as batches
from etq.storage.capture import Links, Options, store
from etq.storage.sources import Source
from etq.warehouse.warehouse import Capture, Warehouse
from tests.builders import dump, execute, kernel, run
from tests.conftest import CAPTURES
from tests.sampling import IS_WHOLE
from tests.trace_builders import event, trace
from tests.unit.test_warehouse import contents
from tests.warehouses import empty_warehouse

FLEET = sorted((CAPTURES / "fleet").glob("*/*.etdp"))
CONTENTS = [dump(run("Execute", kernel("add", 1, 2 + more), execute(0, 3 + more))) for more in range(4)]


def captured(results: list[Capture | EtqError]) -> list[Capture]:
    """Results without an error."""
    assert not [each for each in results if isinstance(each, EtqError)]
    return [each for each in results if isinstance(each, Capture)]


def one_by_one(call: Callable[[], Capture]) -> tuple[object, ...] | str:
    """The result of ingesting a single file, in comparable form."""
    try:
        capture = call()
    except EtqError as error:
        return str(error)
    return capture.capture_id, capture.name, capture.sha256, capture.format, capture.is_new


@pytest.mark.long
def test_real_captures_are_the_same_as_one_by_one(warehouse: Warehouse) -> None:
    """Captures of every format, linked to a record that fits some of them: damaged ones have the same errors."""
    files = sorted(path for path in CAPTURES.glob("*/*.*") if path.suffix in (".etdp", ".gz") or ".json" in path.name)
    files += FLEET[:4] + sorted((CAPTURES / "prof_result").glob("*.bin"))
    if not IS_WHOLE:
        files = files[::12]
    record = CAPTURES / "mlp/mlp.etrecord"
    with empty_warehouse() as other:
        linked = other.ingest_record(record)
        expected = []
        for path in files:
            expected.append(one_by_one(lambda path=path: other.ingest(path, labels={"lab": "a"})))  # type: ignore[misc]
            capture = expected[-1]
            if not isinstance(capture, str) and capture[3] != "torch_trace":  # a trace has no record
                other.link(str(capture[2]), linked)
        results = warehouse.ingest_many(files, labels={"lab": "a"}, link_to=[warehouse.ingest_record(record)])
        assert [one_by_one(lambda each=each: _raised(each)) for each in results] == expected  # type: ignore[misc]
        assert sum(isinstance(each, FormatError) for each in results) > len(files) // 20
        assert repr(contents(warehouse)) == repr(contents(other))


def _raised(result: Capture | EtqError) -> Capture:
    if isinstance(result, EtqError):
        raise result
    return result


@pytest.mark.long
def test_reported_captures_are_committed(tmp_path: Path) -> None:
    reported: list[int] = []
    with etq.open(tmp_path / "lab.duckdb") as warehouse, patch.object(batches, "FILES", 2):

        def progress(source: object, result: Capture | EtqError) -> None:
            reported.append(len(reported))
            assert source == FLEET[reported[-1]]
            # Another transaction sees only what is committed.
            with warehouse.connection.cursor() as other:
                assert other.execute("SELECT count(*) FROM captures").fetchall() == [(reported[-1] // 2 * 2 + 2,)]

        captured(warehouse.ingest_many(FLEET[:6], progress=progress))
    assert reported == [*range(6)]


def test_files_that_the_database_refuses_together_go_one_by_one(warehouse: Warehouse) -> None:
    """Each file that is still refused has a separate error."""

    def refused(connection: duckdb.DuckDBPyConnection, *_: object) -> list[int]:
        connection.execute("INSERT INTO labels VALUES (99, 'half', 'done')")
        raise duckdb.ConstraintException("no")

    def third(connection: duckdb.DuckDBPyConnection, source: Source, options: Options, links: Links, _: None) -> object:
        if source.content == CONTENTS[2]:
            raise duckdb.ConstraintException("Constraint Error: not that one")
        return store(connection, source, options, links)

    with patch.object(batches, "store_new", refused), patch.object(batches, "store", third):
        results = warehouse.ingest_many(CONTENTS)
    assert [str(each) for each in results if isinstance(each, EtqError)] == ["bytes: not that one"]
    assert warehouse.rows("SELECT capture_id FROM captures ORDER BY 1")[1] == [(1,), (2,), (3,)]
    assert warehouse.rows("FROM labels")[1] == []


@pytest.mark.long
def test_advice_about_a_job_is_written_once_in_the_memory_of_questions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ranks that are stored in a transaction each have their advice computed once, with the limit that queries have."""
    computed: list[tuple[int, str]] = []
    limit = "SELECT current_setting('memory_limit')"

    def recorded(connection: duckdb.DuckDBPyConnection, key: int, **more: Any) -> list[Row]:
        computed.append((key, connection.execute(limit).fetchall()[0][0].split()[1]))
        return rows_of_trace(connection, key, **more)

    rows_of_trace = trace_rows.rows_of_trace
    monkeypatch.setattr(trace_rows, "rows_of_trace", recorded)
    monkeypatch.setattr(batches, "FILES", 1)
    ranks = [trace(event("cpu_op", "aten::mm", 0, 5), distributedInfo={"rank": rank}) for rank in range(3)]
    with etq.open(tmp_path / "lab.duckdb") as warehouse:
        warehouse.connection.execute("SET memory_limit = '4GB'")
        keys = [each.capture_id for each in captured(warehouse.ingest_many(ranks, labels={"job": "a"}))]
        assert computed == [(key, "GiB") for key in keys]
