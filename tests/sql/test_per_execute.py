"""What an execute takes, and a step of a trace: totals divided by executes that are counted here, event by event."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

import pytest

import etq
from etq.warehouse.warehouse import Warehouse
from tests.builders import Run, delegate_call, delegated, dump, execute, kernel, run
from tests.conftest import CAPTURES
from tests.trace_builders import event, trace, two_steps

# The views of dumps, and which of their columns a column is computed from.
WITHOUT_RECORD: Final = {
    "op_totals": {"per_execute": "total"},
    "time_tree": {"per_execute": "total", "self_per_execute": "self_time"},
    "delegate_totals": {"per_execute": "total"},
    "execute_breakdown": {"per_execute": "total"},
}
OF_RECORD: Final = {
    "module_totals": {"per_execute": "total", "self_per_execute": "self_time"},
    "source_totals": {"per_execute": "total"},
    "node_totals": {"per_execute": "self_time"},
    "module_ops": {"per_execute": "self_time"},
    "delegate_graph": {"per_execute": "self_time"},
    "delegate_coverage": {"per_execute": "total"},
    "roofline": {"per_execute": "total", "above_roof_per_execute": "above_roof"},
    "node_roofline": {"per_execute": "total", "above_roof_per_execute": "above_roof"},
}
PEAKS: Final = ", peak_flops := 1e9, peak_bandwidth := 1e9"
OF_TRACES: Final = {
    "key_averages": {
        "self_cpu_per_step": "self_cpu_time",
        "cpu_per_step": "cpu_time_total",
        "self_device_per_step": "self_device_time",
        "device_per_step": "device_time_total",
    },
    "kernel_table": {"per_step": "total"},
    "kernel_families": {"per_step": "total"},
    "module_tree": {
        "host_per_step": "host_total_time",
        "host_self_per_step": "host_self_time",
        "device_per_step": "device_total_time",
        "device_self_per_step": "device_self_time",
    },
    "copy_totals": {"per_step": "total", "bytes_per_step": "bytes"},
}
# Selections of runs, and whether a run of (iteration, phase, method, is_typical) is in them.
SELECTIONS: Final[dict[str, Any]] = {
    "": lambda run: run["is_typical"],
    ", runs := 'all'": lambda _: True,
    ", steps := 'skip_first=3'": lambda run: run["is_typical"] and run["iteration"] >= 3,
    ", phase := 'decode', runs := 'all'": lambda run: run["phase"] == "decode",
}


def forward(slower: int = 0) -> Run:
    """A kernel of 100 ticks, a delegate's call of 40, of which 30 are an op's; 160 in all, `slower` in the kernel."""
    end = 105 + slower
    return run(
        "Execute", kernel("addmm", 5, end, instruction=0), delegate_call(end, end + 40, instruction=1),
        delegated("conv", end + 5, end + 35, instruction=1), execute(0, end + 55),
    )  # fmt: skip


DECODE = run("Execute", kernel("addmm", 5, 15, instruction=0), kernel("relu", 15, 45, instruction=1), execute(0, 50))
# Two executes in one run.
TWICE = run("Twice", kernel("mul", 0, 10), execute(0, 20), kernel("mul", 100, 130), execute(100, 140))


@pytest.fixture(scope="module")
def warehouse() -> Iterator[Warehouse]:
    with etq.open() as opened:
        runs = [forward(slower=900), *[forward()] * 14, forward(slower=500), *[DECODE] * 20, TWICE]
        opened.ingest(dump(*runs), name="made")
        for name in ("multimethod", "convnet_xnn"):
            path = CAPTURES / name / name
            opened.ingest(f"{path}_100runs.etdp", name=name, etrecord=f"{path}.etrecord", pte=f"{path}.pte")
        opened.ingest(CAPTURES / "mlp/mlp_step.etdp", name="steps", etrecord=CAPTURES / "mlp/mlp.etrecord")
        opened.connection.execute("UPDATE runs SET phase = 'decode' WHERE run_index % 3 = 1")
        yield opened


def rows_of(warehouse: Warehouse, query: str) -> list[dict[str, Any]]:
    names, rows = warehouse.rows(query)
    return [dict(zip(names, row, strict=True)) for row in rows]


def executes_of(warehouse: Warehouse, capture: str, is_selected: Any) -> Counter[str]:
    """The executes of each method in the selected runs."""
    runs = {
        run["run_index"]: run
        for run in rows_of(warehouse, f"FROM runs AS r WHERE r.capture_id = _capture_id('{capture}')")
        if is_selected(run)
    }
    events = f"FROM events AS e WHERE e.capture_id = _capture_id('{capture}')"
    named = [(row["run_index"], row["name"]) for row in rows_of(warehouse, events) if row["run_index"] in runs]
    executing = [run for run, name in named if name == "Method::execute"]
    # A run that is driven step by step is one execute.
    executing += {run for run, name in named if name == "Method::step"} - {*executing}
    return Counter(runs[run]["scope"] for run in executing)


@pytest.mark.long
@pytest.mark.parametrize(
    ("capture", "views", "selections"),
    [
        ("made", WITHOUT_RECORD, SELECTIONS),
        ("convnet_xnn", OF_RECORD, [""]),
        ("multimethod", {**WITHOUT_RECORD, **OF_RECORD}, [*SELECTIONS][2:]),
        ("steps", {**WITHOUT_RECORD, **OF_RECORD}, [*SELECTIONS][1:3]),
    ],
)
def test_times_are_divided_by_the_executes_of_their_method(
    warehouse: Warehouse, capture: str, views: dict[str, dict[str, str]], selections: list[str]
) -> None:
    for chosen in selections:
        executes = executes_of(warehouse, capture, SELECTIONS[chosen])
        for view, columns in views.items():
            if view in ("delegate_totals", "delegate_graph") and capture in ("multimethod", "steps"):
                continue  # which have no delegates
            peaks = PEAKS if view.endswith("roofline") else ""
            rows = rows_of(warehouse, f"FROM {view}('{capture}', unit := 'ns'{chosen}{peaks})")
            assert rows, view
            for row in rows:
                method = row["path"][0] if view == "time_tree" and row["path"] else row.get("method")
                if view == "time_tree" and len(executes) == 1:
                    [method] = executes
                if method is None:  # the total of several methods
                    assert len(executes) > 1 and row["executes"] is row["per_execute"] is None
                    continue
                assert row["executes"] == (executes[method] or None)
                for column, total in columns.items():
                    known = row[total] is not None and executes[method]
                    assert row[column] == (pytest.approx(row[total] / executes[method], rel=1e-12) if known else None)


def test_an_execute_takes_what_was_written(warehouse: Warehouse) -> None:
    """By hand: warm-up and outlier left out; the delegate's call takes 40 in each forward, its op 30."""
    rows = rows_of(warehouse, "FROM op_totals('made', unit := 'ns')")
    found = {(row["op"], row["method"]): (row["executes"], row["per_execute"]) for row in rows}
    assert found == {
        ("addmm", "Execute #1"): (14, 100.0), ("conv", "Execute #1"): (14, 30.0),
        ("(delegate unaccounted)", "Execute #1"): (14, 10.0), ("(unattributed)", "Execute #1"): (14, 20.0),
        ("addmm", "Execute #2"): (20, 10.0), ("relu", "Execute #2"): (20, 30.0),
        ("(unattributed)", "Execute #2"): (20, 10.0), ("mul", "Twice"): (2, 20.0),
        ("(unattributed)", "Twice"): (2, 10.0),
    }  # fmt: skip
    [call] = rows_of(warehouse, "FROM delegate_totals('made', unit := 'ns', runs := 'all')")
    assert (call["executes"], call["per_execute"]) == (16, 40.0)


@pytest.mark.long
def test_times_of_traces_are_divided_by_their_steps() -> None:
    modules = [
        event("python_function", "nn.Module: Linear_0", 9, 41, **{"Python id": 1, "Python module id": 0}),
        event("python_function", "nn.Module: Linear_0", 109, 121, **{"Python id": 2, "Python module id": 0}),
    ]
    outside = [each for each in two_steps() if not each["name"].startswith("ProfilerStep")]
    with etq.open() as opened:
        opened.ingest(trace(*two_steps(), *modules), name="steps")
        opened.ingest(trace(*outside, *modules), name="without")
        for view, columns in OF_TRACES.items():
            for chosen, number in (("", 2), (", steps := 'skip_first=1'", 1)):
                if view == "copy_totals" and chosen:
                    continue  # the only copy is in the first step
                rows = rows_of(opened, f"FROM {view}('steps'{chosen})")
                assert rows and {row["steps"] for row in rows} == {number}, view
                for row in rows:
                    assert [row[column] for column in columns] == [
                        None if row[total] is None else row[total] / number for total in columns.values()
                    ]
            rows = rows_of(opened, f"FROM {view}('without')")
            assert rows and {row[column] for row in rows for column in [*columns, "steps"]} == {None}, view
