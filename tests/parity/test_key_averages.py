"""`key_averages` on real traces against torch's profiler on the same runs, row by row (torch 2.13)."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from typing import Any

import pytest

from etq.warehouse.warehouse import Warehouse
from tests import trace_reference
from tests.conftest import CAPTURES
from tests.parity.oracle import read
from tests.sampling import thinned

TRACES = CAPTURES / "torch"
NAMES = sorted(path.name.split(".")[0] for path in TRACES.glob("*.key_averages.json.gz"))
LISTS = "lists"
# Our columns and torch's.
EQUAL = {"calls": "count", "self_cpu_memory": "self_cpu_memory_usage", "cpu_memory": "cpu_memory_usage"}
TIMES = {
    **{"torch_self_cpu_time": "self_cpu_time_total", "torch_cpu_time_total": "cpu_time_total"},
    "cpu_time_avg": "cpu_time",
}
WAYS = {"name": "by_name", "shape": "by_shape", "stack": "by_stack_5"}


def torch_rows(name: str) -> dict[str, Any]:
    answer: dict[str, Any] = read(TRACES / f"{name}.key_averages.json.gz")
    return answer


def etq_rows(warehouse: Warehouse, name: str, by: str, unit: str = "us") -> list[dict[str, Any]]:
    capture = warehouse.ingest(TRACES / f"{name}.pt.trace.json.gz")
    columns, rows = warehouse.rows("FROM key_averages($c, by := $by, unit := $unit)", c=capture, by=by, unit=unit)
    return [dict(zip(columns, row, strict=True)) for row in rows]


def listed(shapes: str) -> Any:
    """Parse a list that torch prints as Python and the file contains as JSON; it is empty if there is no input."""
    return json.loads(shapes.replace("'", '"')) if shapes else []


def as_torch(shapes: str) -> list[Any]:
    """Return the shapes of inputs as torch has them in memory: a list of tensors has none."""
    return [[] if any(isinstance(part, list) for part in shape) else shape for shape in listed(shapes)]


# Shapes of lists of tensors are in the file alone.
ASKED = [(name, by) for name in NAMES for by in WAYS if (name, by) != (LISTS, "shape")]


@pytest.mark.parametrize(("name", "by"), thinned(ASKED, ["conv_infer", "lists"]))
def test_rows(warehouse: Warehouse, name: str, by: str) -> None:
    theirs = {(row["key"], str(listed(row["input_shapes"]))): row for row in torch_rows(name)[WAYS[by]]}
    ours = {(row["name"], str(listed(row["shapes"] or ""))): row for row in etq_rows(warehouse, name, by)}
    assert len(theirs) == len(torch_rows(name)[WAYS[by]])
    assert set(ours) == set(theirs)
    for key, expected in theirs.items():
        row = ours[key]
        assert [row[name] or 0 for name in EQUAL] == [expected[name] for name in EQUAL.values()], key
        times = [expected[name] for name in TIMES.values()]
        assert [row[name] for name in TIMES] == pytest.approx(times, rel=1e-12, abs=1e-8), key
        assert row["unit"] == "us" and row["is_device"] is False
    total = torch_rows(name)["self_cpu_time_total"]
    assert sum(row["self_cpu_time"] for row in ours.values()) == pytest.approx(total)
    assert sum(row["self_cpu_percent"] for row in ours.values()) == pytest.approx(100)


def test_shapes_of_lists_of_tensors(warehouse: Warehouse) -> None:
    """The file has the shapes of each tensor of a list: rows without them add up to torch's."""
    theirs = {(row["key"], str(listed(row["input_shapes"]))): row for row in torch_rows(LISTS)["by_shape"]}
    sums: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    rows = etq_rows(warehouse, LISTS, "shape")
    names = [*EQUAL, "torch_self_cpu_time", "torch_cpu_time_total"]
    for row in rows:
        sums[row["name"], str(as_torch(row["shapes"] or ""))].update({name: row[name] for name in names})
    assert set(sums) == set(theirs) and len(rows) > len(theirs)
    for key, row in theirs.items():
        assert [sums[key][name] for name in names] == pytest.approx([row[(EQUAL | TIMES)[name]] for name in names])
    assert {row["shapes"]: row["calls"] for row in rows if row["name"] == "aten::einsum"} == {
        "[[], [[2, 5, 6], [2, 5, 6]], []]": 2,
        "[[], [[2, 7, 6], [2, 7, 6]], []]": 1,
    }


@pytest.mark.parametrize("which", ["with", "without"])
def test_python_functions_have_rows_or_not(warehouse: Warehouse, which: str) -> None:
    """As PyTorch 2.15 answers, which can be asked for both."""
    folder = CAPTURES / "torch_2_15"
    theirs = read(folder / "python_functions.json.gz")[which]
    capture = warehouse.ingest(folder / "python_functions.pt.trace.json.gz")
    times = "k.calls, k.torch_self_cpu_time, k.torch_cpu_time_total, coalesce(k.self_cpu_memory, 0), coalesce(k.cpu_memory, 0)"
    query = f"SELECT k.name, {times} FROM key_averages($c, unit := 'us', include_python_functions := $included) AS k"
    ours = {name: numbers for name, *numbers in warehouse.rows(query, c=capture, included=which == "with")[1]}
    columns = ("count", "self_cpu_time_total", "cpu_time_total", "self_cpu_memory_usage", "cpu_memory_usage")
    assert set(ours) == {row["key"] for row in theirs}
    assert any(name.startswith("nn.Module: ") for name in ours) == (which == "with")
    for row in theirs:
        assert ours[row["key"]] == pytest.approx([row[column] for column in columns], rel=1e-12, abs=1e-8), row["key"]


def test_steps_are_runs(warehouse: Warehouse) -> None:
    capture = warehouse.ingest(TRACES / "steps_12.pt.trace.json.gz")
    runs = warehouse.rows("SELECT name, iteration FROM runs ORDER BY run_index")[1]
    assert runs == [("ProfilerStep", 0), ("ProfilerStep", 1), ("ProfilerStep", 2), ("Outside of steps", 0)]
    names = warehouse.rows("SELECT run_index, label FROM events WHERE family = 'ProfilerStep*' ORDER BY 1")[1]
    assert names == [(0, "ProfilerStep#9"), (1, "ProfilerStep#10"), (2, "ProfilerStep#11")]
    # A schedule selects steps: the first is left out, with the events outside of steps.
    rows = warehouse.key_averages(capture, steps="skip_first=1").project("name, calls").fetchall()
    assert dict(rows)["ProfilerStep*"] == 2


def test_memory_outside_of_all_events_is_a_row(warehouse: Warehouse) -> None:
    """Memory events outside of all events; by hand from the file, which has `[memory]` instants next to its slices."""
    events = trace_reference.load(TRACES / "memory_outside.pt.trace.json.gz")
    spans = [(each["ts"], each["ts"] + each["dur"]) for each in events if each["ph"] == "X" and each["cat"] != "Trace"]
    outside = [
        each["args"]["Bytes"]
        for each in events
        if each["name"] == "[memory]" and not any(start <= each["ts"] <= end for start, end in spans)
    ]
    [row] = [row for row in etq_rows(warehouse, "memory_outside", "name") if row["name"] == "[memory]"]
    assert (row["calls"], row["self_cpu_memory"], row["cpu_memory"]) == (len(outside), sum(outside), sum(outside))
    assert len(outside) > 40 and row["self_cpu_time"] == 0
