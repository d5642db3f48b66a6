"""Collectives of gloo, which run on the host: of a recording of two processes, and by hand."""

from __future__ import annotations

import json
from collections import defaultdict
from math import prod
from pathlib import Path
from typing import Any, Final

import pytest

from etq.warehouse.warehouse import Warehouse
from tests.conftest import CAPTURES
from tests.trace_builders import event, trace
from tests.trace_reference import load

FILES: Final = [CAPTURES / "torch_gloo" / f"rank{rank}.pt.trace.json.gz" for rank in range(2)]
BYTES: Final = {"float": 4, "double": 8, "long int": 8, "c10::Half": 2, "c10::BFloat16": 2}
COLUMNS: Final = "collective, process_group, group_description, group_size, message_bytes, calls"


def ranked(rank: int, groups: int, *events: dict[str, Any]) -> bytes:
    """A rank that is in so many groups."""
    config = [{"pg_name": str(at), "pg_desc": f"group{at}", "pg_size": 4 - at} for at in range(groups)]
    info = {"backend": "gloo", "rank": rank, "world_size": 4, "pg_config": config}
    return json.dumps({**json.loads(trace(*events)), "distributedInfo": info}).encode()


def reduced(start: float, end: float, elements: int, name: str = "all_reduce", dtype: str = "float") -> dict[str, Any]:
    written = {"Input type": [dtype], "Input Dims": [[elements]]}
    return event("user_annotation", f"gloo:{name}", start, end, 2, **written)


@pytest.mark.parametrize("rank", [0, 1])
def test_collectives_are_those_of_the_file(warehouse: Warehouse, rank: int) -> None:
    """By plain Python: bytes that a process sends; of an all-gather those that it receives from both."""
    warehouse.ingest(FILES[rank], name="t")
    expected: defaultdict[Any, list[float]] = defaultdict(lambda: [0, 0])
    for each in load(FILES[rank]):
        if each.get("name", "").startswith("gloo:"):
            name, given = each["name"][5:], each["args"]
            size = None
            if "Input Dims" in given and name != "gather":
                [dims], [dtype] = given["Input Dims"], given["Input type"]
                size = prod(dims) * BYTES[dtype] * (2 if name == "all_gather" else 1)
            of = expected[name, size]
            of[0] += 1
            of[1] += round(each["dur"] * 1000)
    query = "SELECT collective, message_bytes, calls, total FROM collectives('t', unit := 'ns')"
    rows = warehouse.rows(query)[1]
    assert {(name, size): [calls, total] for name, size, calls, total in rows} == dict(expected)
    assert len(rows) == 9
    assert {row[:2] for row in warehouse.rows("SELECT group_description, group_size FROM collectives('t')")[1]} == {
        ("default_pg", 2)
    }


def test_clocks_by_hand(warehouse: Warehouse) -> None:
    """The second rank's clock is 1000 us ahead. Its threads began two collectives in the other order."""
    large, small = reduced(100, 190, 500), reduced(101, 150, 5)
    later = [reduced(1120, 1190, 500), reduced(1119, 1150, 5)]
    rooted = reduced(200, 250, 5, "broadcast"), reduced(1200, 1999, 5, "broadcast")
    for rank, events in enumerate(([large, small, rooted[0]], [*later, rooted[1]])):
        warehouse.ingest(ranked(rank, 1, *events), name=f"rank{rank}")
    query = "SELECT c.rank, c.collectives, c.clock_offset, c.spread FROM clock_offsets() AS c"
    assert warehouse.rows(query)[1] == [(0, 2, -500, 0), (1, 2, 500, 0)]


def test_the_group_of_a_process_in_several_is_unknown(warehouse: Warehouse) -> None:
    """Events of gloo don't name their groups: their collectives are not matched among ranks."""
    for rank in range(2):
        warehouse.ingest(
            ranked(rank, 2, reduced(100, 190, 500), reduced(200, 210, 8, "all_gather")), name=f"rank{rank}"
        )
    assert warehouse.rows(f"SELECT {COLUMNS} FROM collectives('rank0')")[1] == [
        ("all_reduce", None, None, None, 2000, 1),
        ("all_gather", None, None, None, None, 1),
    ]
    assert warehouse.rows("SELECT c.collectives, c.clock_offset FROM clock_offsets() AS c")[1] == [(0, None)] * 2


def test_messages_of_impossible_sizes_are_unknown(warehouse: Warehouse, tmp_path: Path) -> None:
    path = tmp_path / "t.pt.trace.json"
    written: list[dict[str, Any]] = [
        {"Input Dims": [[2**62] * 40]},
        {"Input Dims": [[-4]]},
        {"Input Dims": [[3], [4]]},
        {"Input Dims": ["x"]},
        {},
    ]
    events = [event("user_annotation", f"gloo:all_reduce{at}", 10 * at, 10 * at + 5, 2) for at in range(len(written))]
    for each, given in zip(events, written, strict=True):
        each["name"] = "gloo:all_reduce"
        each["args"] = {"Input type": ["float"], **given}
    path.write_bytes(trace(*events))
    warehouse.ingest(path, name="t")
    rows = warehouse.rows("SELECT collective, message_bytes, calls, bandwidth_gb_per_s FROM collectives('t')")[1]
    assert sum(calls for _, _, calls, _ in rows) == 5
    assert {row[1] for row in rows} == {None}


def test_only_kernels_count_where_there_are_kernels(warehouse: Warehouse) -> None:
    """As in rank_steps: times of the host and of devices don't add up."""
    warehouse.ingest(trace(reduced(100, 190, 500), event("kernel", "gemm", 0, 9, 7, device=0, stream=7)), name="t")
    assert warehouse.rows("FROM collectives('t')")[1] == []
