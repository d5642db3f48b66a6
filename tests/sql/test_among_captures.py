"""Views of a trace do no more work in a warehouse with many other captures than in one with the trace alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import duckdb
import pytest

import etq
from etq.catalog import public_objects
from tests.benchmarks.make_gpu_trace import make_gpu_trace
from tests.sampling import IS_WHOLE

# The number of other captures, which distort DuckDB's estimates, and the number of events of each.
OTHERS: Final = 1_500
EVENTS: Final = 40
# Tables with a row for each event, by the format of the other captures.
NONE: Final[tuple[str, ...]] = ()
OF_DUMPS: Final[tuple[str, ...]] = ("event_ticks",)
OF_TRACES: Final[tuple[str, ...]] = ("event_ticks", "trace_events", "device_events", "trace_memory")
# A join may return this many times the rows that it returns without the others, or that the trace has events.
ALLOWED: Final = 1.5
VIEWS: Final = [
    each.name
    for each in public_objects()
    if each.kind == "table macro"
    and each.file.startswith("traces/")
    and [parameter.name for parameter in each.parameters if parameter.default is None] == ["capture"]
]


def add_others(connection: duckdb.DuckDBPyConnection, tables: tuple[str, ...]) -> None:
    """Copy the first rows of the only capture to others. The copies need not make sense."""
    for table in ("signatures", "threads", "runs", *tables):
        connection.execute(
            f"INSERT INTO {table} SELECT e.* REPLACE (e.capture_id + 1 + o.n AS capture_id) "
            f"FROM (FROM {table} LIMIT {EVENTS}) AS e, range({OTHERS}) AS o(n) ORDER BY o.n"
        )


def most_rows(connection: duckdb.DuckDBPyConnection, query: str) -> int:
    """The rows that the largest join returns. Unlike a time, the number is the same in each execution."""
    (row,) = connection.execute(f"EXPLAIN (ANALYZE, FORMAT json) {query}").fetchall()
    operators: list[dict[str, Any]] = json.loads(row[1])["operator"]
    most = 0
    while operators:
        operator = operators.pop()
        operators += operator.get("children", [])
        if operator["type"].endswith("JOIN"):
            most = max(most, operator["intermediate_rows"])
    return most


@pytest.mark.long
def test_joins_among_other_captures(tmp_path: Path) -> None:
    queries = {name: f"FROM {name}('trace')" for name in VIEWS}
    found: dict[tuple[str, ...], dict[str, int]] = {}
    events = make_gpu_trace(tmp_path / "trace.json", 3_000, 1)
    for tables in (NONE, OF_DUMPS, OF_TRACES) if IS_WHOLE else (NONE, OF_TRACES):
        with etq.open() as warehouse:
            warehouse.ingest(tmp_path / "trace.json", name="trace")
            if tables:
                add_others(warehouse.connection, tables)
            found[tables] = {name: most_rows(warehouse.connection, query) for name, query in queries.items()}
    alone = found.pop(NONE)
    for tables, of_views in found.items():
        more = {name: rows for name, rows in of_views.items() if rows > ALLOWED * max(alone[name], events)}
        assert more == {}, tables
