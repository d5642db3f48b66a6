"""Critical paths: known ones, all by plain Python, and HolisticTraceAnalysis's answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from etq.warehouse.warehouse import Warehouse
from tests.conftest import CAPTURES
from tests.launch_traces import FEW, SHAPES
from tests.path_reference import Paths
from tests.path_traces import Path as Made
from tests.sampling import thinned
from tests.sql.test_device_idle import recorded_from
from tests.trace_corpus import SHAPES as PROGRAMS
from tests.trace_corpus import Style
from tests.trace_reference import load

PATH = """
    SELECT p.kind, p.start::BIGINT, (p.start + p.duration)::BIGINT, p.event_index, p.op
    FROM critical_path($c, unit := 'ns', step_name := $name, step := $step) AS p
"""


def check(warehouse: Warehouse, capture: str, events: list[dict[str, Any]]) -> int:
    """How many parts the paths of the recording and of each step have, as plain Python has them."""
    paths, begin, counted = Paths(events), recorded_from(events), 0
    for name in (None, *dict.fromkeys(each.name for each in paths.steps())):
        start, end = paths.recording() if name is None else paths.step(name)
        expected = [
            (each.kind, each.start - begin, each.end - begin, each.place, each.op)
            for each in paths.find(start, end, name)
        ]
        found = warehouse.rows(PATH, c=capture, name=name, step=None)[1]
        assert found == expected
        ends = [start - begin, *(row[2] for row in found)]
        assert [row[1] for row in found] == ends[:-1], "a gap, or an overlap"
        assert ends[-1] == end - begin
        counted += len(found)
    return counted


@pytest.mark.parametrize("name", thinned(SHAPES, FEW[:1]))
def test_made_traces(launch_traces: Warehouse, name: str) -> None:
    assert check(launch_traces, name, json.loads(SHAPES[name]().trace())["traceEvents"])


@pytest.mark.parametrize("name", thinned(PROGRAMS, FEW))
def test_traces_of_programs(launch_traces: Warehouse, name: str) -> None:
    """Several processes, threads and devices, graphs, launches that were not recorded."""
    check(launch_traces, name, json.loads(PROGRAMS[name](Style())[0])["traceEvents"])


@pytest.mark.parametrize("name", ("rank0", "rank1"))
def test_stored_traces(warehouse: Warehouse, name: str) -> None:
    path = CAPTURES / "torch_gpu" / f"{name}.pt.trace.json.gz"
    warehouse.ingest(path, name="t")
    assert check(warehouse, "t", load(path))


@pytest.mark.parametrize("seed", thinned(range(30), range(3)))
def test_paths_that_are_known(warehouse: Warehouse, tmp_path: Path, seed: int) -> None:
    """Traces are made along their path: each part is what it was drawn as."""
    made = Made(seed)
    path = tmp_path / "t.pt.trace.json"
    path.write_bytes(made.trace())
    warehouse.ingest(path, name="t")
    query = "SELECT p.kind, p.name, p.op, p.start::BIGINT, (p.start + p.duration)::BIGINT FROM critical_path('t') AS p"
    found = warehouse.rows(query)[1]
    assert found == [(*each[:3], each[3] - made.begin, each[4] - made.begin) for each in made.parts]
