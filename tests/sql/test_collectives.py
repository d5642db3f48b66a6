"""Collectives of a trace: against numbers by hand, and against the JSON of generated ranks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from etq.warehouse.warehouse import Warehouse
from tests.launch_traces import ALL_REDUCE, Machine, message


def take(warehouse: Warehouse, folder: Path, made: Machine, **top: Any) -> None:
    path = folder / "made.pt.trace.json"
    path.write_bytes(made.trace(**top))
    warehouse.ingest(path, name="t")


def test_bandwidths_by_hand(warehouse: Warehouse, tmp_path: Path) -> None:
    """Four processes: an all-reduce sends 2 x 3/4 of its bytes over each link, an all-gather 3/4, a broadcast all."""
    made = Machine(world_size=4)
    for collective, dtype, sent, received, times in (
        ("allreduce", "Float", 1000, 1000, (10, 30)),
        ("_allgather_base", "BFloat16", 1000, 4000, (8,)),
        ("_reduce_scatter_base", "Half", 4000, 1000, (9,)),
        ("all_to_all", "Byte", 500, 500, (6,)),
        ("broadcast", "Double", 100, 100, (5,)),
        ("sum", "Complex32", 100, 100, (4,)),
    ):
        for length in times:
            made.launch(ALL_REDUCE, length, 24, **message(collective, "0", dtype, sent, received, 4))
    take(warehouse, tmp_path, made)
    rows = warehouse.rows("""
        SELECT c.collective, c.message_bytes, c.calls, c.total, c.bandwidth_gb_per_s, c.bus_bandwidth_gb_per_s,
            c.best_bus_bandwidth_gb_per_s
        FROM collectives('t') AS c
    """)[1]
    assert rows == [
        ("allreduce", 4000, 2, 40, pytest.approx(0.2), pytest.approx(0.3), pytest.approx(0.6)),
        ("_reduce_scatter_base", 8000, 1, 9, *[pytest.approx(8000 / 9000 * factor) for factor in (1, 0.75, 0.75)]),
        ("_allgather_base", 8000, 1, 8, 1, 0.75, 0.75),
        ("all_to_all", 500, 1, 6, *[pytest.approx(500 / 6000 * factor) for factor in (1, 0.75, 0.75)]),
        ("broadcast", 800, 1, 5, *[pytest.approx(0.16)] * 3),
        ("sum", None, 1, 4, None, None, None),
    ]
    [(share,)] = warehouse.rows("SELECT sum(c.share_percent) FROM collectives('t') AS c")[1]
    assert share == pytest.approx(100)


def test_other_values_of_the_keys(warehouse: Warehouse, tmp_path: Path) -> None:
    """Names that are numbers count as names. Lists and texts in place of numbers are NULL; other values are kept."""
    made = Machine()
    made.launch("one", 10, **(message("allreduce", "0", "Float", 5, 5, 2) | {"Process Group Name": 7}))
    made.launch("two", 10, **(message("allreduce", "0", "Float", 5, 5, 2) | {"Group size": "2", "In msg nelems": None}))
    odd: dict[str, Any] = {"Group size": 2**70, "dtype": ["float", "int"]}
    made.launch("three", 10, **odd)
    nested: Any = []
    for _ in range(900):
        nested = [nested]
    made.launch("four", 10, **{"Collective name": nested, "Process Group Name": {"a": 1}, "dtype": True})
    take(warehouse, tmp_path, made)
    rows = warehouse.rows("""
        SELECT d.device, d.stream, d.process_group, d.group_size, d.message_type, d.in_elements
        FROM device_events AS d
        ORDER BY d.event_index
    """)[1]
    assert rows == [(0, 7, "7", 2, "Float", 5), (0, 7, "0", None, "Float", None), *[(0, 7, None, None, None, None)] * 2]


def test_rank_and_world_size_are_labels(warehouse: Warehouse, tmp_path: Path) -> None:
    take(warehouse, tmp_path, Machine(rank=3, world_size=8))
    labels = "SELECT l.key, l.value FROM labels AS l ORDER BY l.key"
    assert warehouse.rows(labels)[1] == [("rank", "3"), ("world_size", "8")]
