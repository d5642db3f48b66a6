"""What an executor answers: each capture as if it were alone, within limits. Spark itself is in `test_answers`."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import etq
import etq.lake
from etq.database.functions import register_for
from etq.errors import QueryError, WarehouseError, message_of
from etq.lake.reading.connection import connect, see_only
from etq.lake.reading.state import read
from etq.lake.reading.tables import Lake
from etq.spark.columns import cells, schema
from etq.spark.queries import Job, _by_task, _chosen, _parameters, work
from tests.conftest import CAPTURES
from tests.sampling import IS_WHOLE
from tests.spark.answers import differences
from tests.spark.questions import KINDS, asked, calls

OF_ONE = [each for each in asked() if [one.name for one in each.parameters if one.default is None] == ["capture"]]


def test_every_view_has_a_question() -> None:
    assert [view.name for view in asked() if not calls(view)] == []


def answers(query: str, lake: Path, selector: str | None, megabytes: int = 512) -> list[tuple[Any, ...]]:
    """The rows of a query, all of whose tasks run here."""
    state = read(Lake.at(lake))
    with connect(state.lake, state, external_access=False) as connection:
        chosen = None if selector is None else _by_task(_chosen(connection, state, selector), 1)
    job = Job(query, state, chosen, megabytes)
    return [row for number in range(1 if chosen is None else len(chosen)) for row in rows_of(job, number)]


def rows_of(job: Job, number: int) -> list[tuple[Any, ...]]:
    """The rows of a task. Names of columns may occur twice."""
    found = work(job, iter([pa.record_batch({"id": [number]})]))
    return [row for batch in found for row in zip(*(column.to_pylist() for column in batch.columns), strict=True)]


@pytest.mark.long
def test_a_capture_alone_answers_as_among_others(lake: Path, duck_on_lake: duckdb.DuckDBPyConnection) -> None:
    kinds, wrong = (*KINDS, "gpu", "counters", "memory", "loops"), {}
    captures = "SELECT c.name, c.capture_id, c.sha256 FROM captures AS c WHERE list_contains(?, c.name)"
    # The lake as an executor has it open, for one capture after the other.
    with connect(Lake.at(lake), external_access=False, of_one_capture=True) as alone:

        def answer(connection: duckdb.DuckDBPyConnection, query: str, capture: str) -> Any:
            try:
                return connection.execute(query, {"capture": capture}).fetchall()
            except duckdb.Error as error:
                return message_of(error)

        for name, key, sha256 in duck_on_lake.execute(captures, [kinds]).fetchall():
            see_only(alone, key)
            for view in OF_ONE if IS_WHOLE else OF_ONE[::12]:
                query = f"FROM {view.name}($capture)"
                register_for(alone, query)
                expected, found = answer(duck_on_lake, query, name), answer(alone, query, sha256)
                if isinstance(expected, str) or isinstance(found, str):
                    wrong[name, view.name] = [] if expected == found else [found]
                else:
                    wrong[name, view.name] = differences(expected, found)
    assert {asked: found for asked, found in wrong.items() if found} == {} != wrong


@pytest.mark.long
def test_a_capture_sees_no_other(lake: Path) -> None:
    query = "SELECT (SELECT count(*) FROM captures), (SELECT count(DISTINCT capture_id) FROM event_ticks), $capture"
    found = answers(query, lake, "side=mlp")
    assert sorted(row[0] for row in found) == [f"mlp_{number}" for number in range(8)]
    assert {row[1:3] for row in found} == {(1, 1)} and len({row[3] for row in found}) == 8
    with pytest.raises(QueryError, match="^mlp_1, seen alone: no capture matches mlp_0"):
        answers("FROM compare_ops('mlp_0', $capture)", lake, "mlp_1")
    with pytest.raises(QueryError, match="sizes of captures are shares of all captures' rows"):
        answers("FROM capture_sizes", lake, "mlp_1")


@pytest.mark.long
def test_only_files_of_its_loads_are_read(tmp_path: Path) -> None:
    """What other loads wrote can be gone."""
    lake, files = tmp_path / "lake", sorted((CAPTURES / "fleet/mlp").glob("*.etdp"))[:2]
    for path in files:
        etq.lake.add(lake, partial(etq.Warehouse.ingest, source=path, labels={"model": "mlp"}))
    state = read(Lake.at(lake))
    with connect(state.lake, state) as connection:
        one, other = _chosen(connection, state, "model=mlp")
    query = "SELECT o.op, o.calls FROM op_totals($capture) AS o"
    expected = {name: answers(query, lake, name) for name in (one.name, other.name)}
    assert answers(query, lake, "model=mlp") == expected[one.name] + expected[other.name] != []
    job = Job(query, state, [[one], [other]], 512)
    for folder in lake.glob(f"*/load_id={other.load}"):
        shutil.rmtree(folder)
    assert rows_of(job, 0) == expected[one.name]
    with pytest.raises((QueryError, WarehouseError), match="No files found"):
        rows_of(job, 1)


@pytest.mark.long
def test_limits_and_access(lake: Path) -> None:
    """More than the memory goes to disk; other files are out of reach."""
    many = "SELECT count(*) FROM (SELECT DISTINCT range || 'x' FROM range(2000000))"
    assert answers(many, lake, None, megabytes=64) == [(2_000_000,)]
    for query in ("FROM read_text('/etc/passwd')", "FROM '/etc/passwd.csv'", f"FROM read_text('{lake}/../x')"):
        with pytest.raises(QueryError, match="disabled by configuration"):
            answers(query, lake, None)


def test_other_statements_and_parameters_are_refused() -> None:
    for query, of_captures, message in (
        ("DROP TABLE captures", True, "expected one query: a SELECT, or FROM"),
        ("SELECT 1; SELECT 2", True, "expected one query"),
        ("", True, "expected one query"),
        ("COPY captures TO 'x'", True, "expected one query"),
        ("SELECT $capture, $x", True, r"\$x has no value: only \$capture has a value"),
        ("SELECT ?", True, r"\$1 has no value"),
        ("FROM a($capture)", False, r"^\$capture has no value: choose the captures for which \$capture stands$"),
    ):
        with pytest.raises(QueryError, match=message):
            _parameters(query, of_captures=of_captures)


def test_types_of_columns() -> None:
    query = """
        SELECT
            1::HUGEINT AS "a`b", 1::UBIGINT AS b, 1::UINTEGER AS c, 'x'::ENUM('x') AS d, INTERVAL 1 DAY AS e,
            TIMESTAMP '2020-01-01' AS f, {'x': [1], 'y z': 'text'} AS g, NULL AS h, [1::UTINYINT] AS i,
            MAP {'x': 1.5::DECIMAL(4, 1)} AS j, 1::FLOAT AS k, ''::BLOB AS l, 1 AS l
    """
    with duckdb.connect() as connection:
        result = connection.sql(query)
        names, types = result.columns, result.types
    assert schema(names, types) == (
        "`a``b` DECIMAL(38,0), `b` DECIMAL(38,0), `c` BIGINT, `d` STRING, `e` STRING, `f` TIMESTAMP_NTZ, "
        "`g` STRUCT<`x`: ARRAY<INT>, `y z`: STRING>, `h` STRING, `i` STRING, `j` MAP<STRING, DECIMAL(4,1)>, "
        "`k` FLOAT, `l` BINARY, `l` INT"
    )
    casts = cells(types)
    assert casts is not None and casts.startswith("#1, #2::HUGEINT, #3::BIGINT, #4::VARCHAR, #5::VARCHAR, #6, #7, #8::")
    assert cells(types[5:7]) is None
