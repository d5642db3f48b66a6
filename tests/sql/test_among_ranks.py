"""Views of one rank's device read the events of that rank alone, however many ranks the warehouse has."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import etq
from etq.warehouse.warehouse import Warehouse
from tests.benchmarks.make_gpu_trace import make_gpu_trace

RANKS = 6
EVENTS = ("trace_events", "event_ticks")


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Warehouse, int]]:
    """A warehouse of ranks with different events, and the most events that one has."""
    folder: Path = tmp_path_factory.mktemp("ranks")
    with etq.open(folder / "ranks.duckdb") as warehouse:
        for rank in range(RANKS):
            make_gpu_trace(folder / f"{rank}.json", 3_000, rank + 1, rank, RANKS)
            warehouse.ingest(folder / f"{rank}.json", name=f"rank{rank}")
        [(most,)] = warehouse.rows("SELECT max(n) FROM (SELECT count(*) AS n FROM event_ticks GROUP BY capture_id)")[1]
        yield warehouse, most


def operators(plan: Any) -> Iterator[dict[str, Any]]:
    for each in plan:
        yield each
        yield from operators(each["children"]) if "children" in each else ()


@pytest.mark.parametrize("view", ["kernel_launches", "device_idle_causes", "copies"])
def test_events_of_other_ranks_are_not_read(ranks: tuple[Warehouse, int], view: str) -> None:
    warehouse, most = ranks
    query = f"EXPLAIN (ANALYZE, FORMAT JSON) FROM {view}('rank0')"
    plan = json.loads(warehouse.connection.execute(query).fetchall()[0][1])
    read = [
        (each["extra_info"]["Table"], each["intermediate_rows"])
        for each in operators(plan["operator"])
        if str(each["extra_info"].get("Table")).endswith(EVENTS)
    ]
    assert read
    assert [(table, rows) for table, rows in read if rows > most] == []
    assert max(rows for _, rows in read) > most / 2
