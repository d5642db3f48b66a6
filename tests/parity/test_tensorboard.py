"""The TensorBoard plug-in's answers (torch-tb-profiler 0.4.3), on traces that others published.

It only reads events of the categories of 2021, so that it sees no runtime calls in four of the five traces. So etq gets
the traces with what the plug-in reads, and the answers are compared.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from etq.warehouse.warehouse import Warehouse
from tests.conftest import shared_file
from tests.parity.oracle import read
from tests.sampling import thinned
from tests.warehouses import empty_warehouse

FOLDER = "captures/torch/gpu"
# The categories that the plug-in reads.
READ = {
    *("kernel", "memcpy", "gpu_memcpy", "memset", "gpu_memset", "runtime", "cpu_op", "operator", "python"),
    *("user_annotation", "gpu_user_annotation", "python_function"),
}
NAMES = ("mi250_rocm", "alexnet", "cpu_only_rank34", "resnet50_dataloader", "triton")
# The smallest trace; the others are long, also the one whose device doesn't use CUDA.
FEW = ("triton",)
# The plug-in counts microseconds in floats, which have a resolution of half a nanosecond there.
EXACT = 0.005
# It shows some rounded to whole microseconds, or to two digits.
WHOLE, TWO_DIGITS = 0.5 + EXACT, 0.005 + 1e-6


class Traces:
    """A warehouse that reads traces when they are first asked for."""

    def __init__(self, warehouse: Warehouse, read: Callable[[Any], Any]) -> None:
        self.warehouse, self.read = warehouse, read

    def rows(self, view: str, name: str, **parameters: Any) -> list[tuple[Any, ...]]:
        if not self.warehouse.rows("SELECT 1 FROM captures WHERE name = $name", name=name)[1]:
            self.warehouse.ingest(json.dumps(self.read(trace_of(name))).encode(), name=name)
        given = "".join(f', "{key}" := ${key}' for key in parameters)
        return self.warehouse.rows(f"FROM {view}($capture{given})", capture=name, **parameters)[1]


@pytest.fixture(scope="module")
def traces() -> Iterator[Traces]:
    """Of each trace what the plug-in reads."""
    with empty_warehouse() as opened:
        yield Traces(opened, read_by_the_plug_in)


@pytest.fixture(scope="module")
def whole_traces() -> Iterator[Traces]:
    with empty_warehouse() as opened:
        yield Traces(opened, lambda trace: trace)


@functools.cache
def trace_of(name: str) -> Any:
    return read(shared_file(f"{FOLDER}/{name}.pt.trace.json.gz"))


def read_by_the_plug_in(trace: Any) -> Any:
    """The trace without the events that it leaves out, and without ids that it only uses of calls that it reads."""
    events = [
        event for event in trace["traceEvents"] if event.get("ph") != "X" or str(event.get("cat")).lower() in READ
    ]
    if not any(str(event.get("cat")).lower() == "runtime" for event in events):
        events = [without_id(event) if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset") else event
                  for event in events]  # fmt: skip
    return {**trace, "traceEvents": events}


def without_id(event: dict[str, Any]) -> dict[str, Any]:
    return {**event, "args": {key: value for key, value in event.get("args", {}).items() if key != "External id"}}


def time_once(name: str, op: str) -> float:
    """The time of the calls of an op that no other call of it contains, in us; the plug-in adds up all calls."""
    calls = [event for event in trace_of(name)["traceEvents"] if event.get("cat") == "cpu_op" and event["name"] == op]
    spans = sorted((call["tid"], call["ts"], call["ts"] + call["dur"]) for call in calls)
    outer: list[tuple[Any, float, float]] = []
    for thread, start, end in spans:
        if not outer or outer[-1][0] != thread or start >= outer[-1][2]:
            outer.append((thread, start, end))
    return sum(end - start for _, start, end in outer)


@functools.cache
def answers(name: str) -> Any:
    return read(shared_file(f"{FOLDER}/{name}.tb.json.gz"))


def steps_of(name: str) -> list[tuple[str, dict[str, float]]]:
    """The plug-in's steps: number, and time by category."""
    table = answers(name)["overview"]["steps"]
    columns = [column["name"] for column in table["columns"] if column.get("role") != "tooltip"]
    rows = [[cell for cell in row if not str(cell).startswith("<")] for row in table["rows"]]
    return [(row[0], dict(zip(columns[1:], row[1:], strict=True))) for row in rows]


@pytest.mark.parametrize("name", thinned(NAMES, FEW))
def test_steps(traces: Traces, name: str) -> None:
    rows = traces.rows("step_breakdown", name)
    found: dict[int, dict[str, float]] = {}
    for _, step, category, time, _, _ in rows:
        found.setdefault(step, {})[category] = time
    expected = steps_of(name)
    if name == "mi250_rocm":
        # The device's record of the step: the plug-in counts it as another step.
        assert [step for step, _ in expected] == ["1", "1", "2"]
        del expected[1]
    assert [str(step) for step in found] == [step for step, _ in expected]
    for ours, (_, theirs) in zip(found.values(), expected, strict=True):
        assert {category for category, time in ours.items() if time} <= set(theirs)
        assert {category: ours[category] for category in theirs} == pytest.approx(theirs, abs=EXACT)


@pytest.mark.parametrize("name", thinned(sorted({*NAMES} - {"mi250_rocm"}), FEW))
def test_average_step(traces: Traces, name: str) -> None:
    [step] = answers(name)["overview"]["performance"]
    expected = {each["name"]: (each["value"], each["extra"]) for each in step["children"]}
    expected["Step"] = (step["value"], 100)
    rows = traces.rows("average_step", name)
    for category, _, time, share, _ in rows:
        value, percent = expected.pop(category, (0, 0))
        assert time == pytest.approx(value, abs=WHOLE)
        assert share == pytest.approx(percent, abs=TWO_DIGITS)
    assert not expected


@pytest.mark.long
def test_steps_that_the_plug_in_counts_otherwise(traces: Traces, whole_traces: Traces) -> None:
    """Both answers. Its mean is over three steps, although only two were run: the device shows one again."""
    [step] = answers("mi250_rocm")["overview"]["performance"]
    assert step["value"] == 3456
    [(_, steps, time, *_), *_] = traces.rows("average_step", "mi250_rocm")
    assert (steps, round(time)) == (2, 4669)
    # It doesn't know the runtime calls of a newer trace, whose step lasts until its kernels end.
    [(_, theirs)] = steps_of("alexnet")
    assert (theirs["Kernel"], theirs["Runtime"], sum(theirs.values())) == (9577, 0, 43347486)
    ours = {row[2]: row[3] for row in whole_traces.rows("step_breakdown", "alexnet")}
    assert (ours["Kernel"], ours["Runtime"], sum(ours.values())) == (10630, 42217684, 43348556)


@pytest.mark.parametrize("by", ["name", "shape"])
@pytest.mark.parametrize("name", thinned(NAMES, FEW))
def test_operators(traces: Traces, name: str, by: str) -> None:
    table = answers(name)["operation_table_by_name" + "_input" * (by == "shape")]["data"]
    expected = {(row["name"], row.get("input_shape")): row for row in table}
    rows = traces.rows("operator_table", name, by=by)
    assert len(rows) == len(expected)
    for op, shapes, calls, *times, eligible, self_percent, total_percent, _ in rows:
        row = expected[op, None if shapes is None else str(json.loads(shapes))]
        assert calls == row["calls"]
        if (name, by, op) == ("mi250_rocm", "name", "aten::mse_loss_backward"):  # an op within itself
            row = {**row, "host_total_duration": round(time_once(name, op))}
        columns = ("device_self_duration", "device_total_duration", "host_self_duration", "host_total_duration")
        assert times == pytest.approx([row.get(column, 0) for column in columns], abs=WHOLE)
        assert eligible == (row["tc_eligible"] == "Yes")
        assert [self_percent, total_percent] == pytest.approx(
            [row["tc_self_ratio"], row["tc_total_ratio"]], abs=TWO_DIGITS
        )


@pytest.mark.parametrize("name", thinned(NAMES, FEW))
def test_kernels(traces: Traces, name: str) -> None:
    table = (answers(name)["kernel_table"] or {"data": {"rows": []}})["data"]["rows"]
    expected = {row[0]: row for row in table}
    rows = traces.rows("kernel_table", name)
    assert len(rows) == len(expected)
    for kernel, _, used, _, calls, *numbers, blocks, occupancy, _, _, _, _ in rows:
        _, tensor_cores, number, *others = expected[kernel]
        # Its list of names is of 2021, and of NVIDIA's.
        is_newer = "tensor16x8x8" in kernel or kernel.startswith("Cijk_")
        assert (bool(used), calls) == (tensor_cores == "Yes" or is_newer, number)
        assert numbers == pytest.approx(others[:4], abs=WHOLE)
        known = [value for value in (blocks, occupancy) if value is not None]
        assert known == pytest.approx(others[4:], abs=TWO_DIGITS)


@pytest.mark.parametrize("name", thinned(NAMES, FEW))
def test_metrics_of_devices(whole_traces: Traces, name: str) -> None:
    counters = [json.loads(each) for each in answers(name)["gpu_metrics"]]
    rows = whole_traces.rows("gpu_metrics", name)
    for metric, title in (("utilization", "GPU Utilization"), ("sm_efficiency", "Est. SM Efficiency")):
        # Two entries at the start are there for the chart, and each stretch of an efficiency ends with a 0.
        theirs = [each for each in counters if title in each["args"]][2:]
        theirs = theirs[:-1] if metric == "utilization" else theirs[::2]
        ours = [row for row in rows if row[1] == metric]
        assert len(ours) == len([each for each in theirs if metric == "utilization" or each["args"][title] > 1e-9])
        theirs = theirs if metric == "utilization" else [each for each in theirs if each["args"][title] > 1e-9]
        for (device, _, start, _, percent, _), each in zip(ours, theirs, strict=True):
            assert device == each["pid"]
            assert start == pytest.approx(each["ts"] - counters[0]["ts"], abs=EXACT)
            assert percent == pytest.approx(100 * each["args"][title], abs=0.001)


# The columns of the plug-in's overview by device: utilization, SM efficiency, occupancy.
DEVICES: dict[str, list[tuple[int, float, float | None, float | None]]] = {
    "alexnet": [(0, 0.02209355, 0.02207715, 39.68451084)],
    "cpu_only_rank34": [],
    "mi250_rocm": [(2, 1.18281329, None, None)],
    "resnet50_dataloader": [(0, 67.81683899, None, None)],
    "triton": [(0, 1.31952906e-05, 1.22175196e-07, 0.0)],
}


@pytest.mark.parametrize("name", thinned(NAMES, FEW))
def test_utilization(traces: Traces, name: str) -> None:
    rows = traces.rows("gpu_utilization", name)
    assert len(rows) == len(DEVICES[name])
    for (device, _, *numbers, _), (number, *expected) in zip(rows, DEVICES[name], strict=True):
        assert device == number
        assert numbers == [None if value is None else pytest.approx(value, rel=2e-4) for value in expected]
