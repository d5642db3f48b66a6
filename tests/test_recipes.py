"""The recipes of docs/how-to/questions.md: each is run on real captures, and its answer found by other means."""

from __future__ import annotations

import json
import re
import zipfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from etq.warehouse.warehouse import Warehouse
from tests.batches import Labelled, ingest_all
from tests.builders import AllocationEvent, ProfileEvent, Run
from tests.conftest import CAPTURES
from tests.docs.pages import ALL
from tests.reference_reader import read
from tests.slower import slower
from tests.typical import are_typical
from tests.warehouses import empty_warehouse

ROOT = Path(__file__).parents[1]
RUN = CAPTURES / "transformer/transformer_100runs.etdp"
DELEGATED = CAPTURES / "mlp_xnn/mlp_xnn_100runs.etdp"
ALLOCATING = CAPTURES / "mlp/mlp_alloc.etdp"
FLEET = sorted((CAPTURES / "fleet/mlp").glob("*.etdp"))
RECIPES = dict(
    re.findall(r"\n## ([^\n]*\?)\n\n```sql\n(.*?)```", (ROOT / "docs/how-to/questions.md").read_text(), re.DOTALL)
)
Rows = Sequence[Sequence[Any]]


def build_of(number: int) -> str:
    """Captures of the fleet as builds 41, 42, 42, 41 in turn. In 42 the addmm of instruction 4 is 1.2 times as long."""
    return ("41", "42", "42", "41")[number % 4]


@cache
def content_of(number: int) -> bytes:
    path = FLEET[number]
    return slower(path, "native_call_addmm.out", 4, 1.2) if build_of(number) == "42" else path.read_bytes()


@pytest.fixture(scope="module")
def lab() -> Iterator[Warehouse]:
    with empty_warehouse() as warehouse:
        fill(warehouse)
        yield warehouse


def fill(warehouse: Warehouse) -> None:
    """Ingest the captures that the recipes ask."""
    for name, path, record in (
        ("run", RUN, RUN.with_name("transformer.etrecord")),
        ("delegated", DELEGATED, DELEGATED.with_name("mlp_xnn.etrecord")),
    ):
        warehouse.link(warehouse.ingest(path, name=name), warehouse.ingest_record(record))
    warehouse.ingest(ALLOCATING, name="allocating")
    fleet = [Labelled(f"mlp{at}", content_of(at), {"build": build_of(at)}) for at in range(len(FLEET))]
    ingest_all(warehouse, fleet)


@cache
def executes(path: Path) -> list[Run]:
    """The runs of a dump that execute, by a reader of its own."""
    return [each for each in read(path.read_bytes()) if each.name == "Execute"]


@cache
def typical(path: Path) -> list[Run]:
    """The typical ones of them, which totals include."""
    return typical_of(executes(path))


def typical_of(runs: Sequence[Run]) -> list[Run]:
    took = [sum(times(run, "Method::execute")) for run in runs]
    return [run for run, is_typical in zip(runs, are_typical(took), strict=True) if is_typical]


def timed(run: Run) -> list[tuple[ProfileEvent, int]]:
    return [(each, each.end_time - each.start_time) for each in run.events if isinstance(each, ProfileEvent)]


def times(run: Run, name: str) -> list[int]:
    """The time of the events with that name in a run, in nanoseconds."""
    return [took for event, took in timed(run) if event.name == name]


def kernels(run: Run) -> list[tuple[str, int, int]]:
    """The kernels of a run: op, instruction, nanoseconds."""
    return [
        (event.name.removeprefix("native_call_").split(".")[0], event.instruction_id, took)
        for event, took in timed(run)
        if event.name is not None and event.name.startswith("native_call_")
    ]


def total_times(path: Path) -> dict[str, int]:
    """The time of kernels in typical runs, by their op."""
    found: dict[str, int] = defaultdict(int)
    for run in typical(path):
        for op, _, took in kernels(run):
            found[op] += took
    return found


def check_ops(rows: Rows) -> None:
    most = sorted(total_times(RUN).items(), key=lambda each: -each[1])[:5]
    assert [(op, total) for op, _, total, _, _ in rows] == [(op, pytest.approx(took / 1000)) for op, took in most]


def check_percentiles(rows: Rows) -> None:
    took = [times(run, "Method::execute")[0] / 1000 for run in executes(RUN)[1:]]
    assert rows == [
        (0.5, pytest.approx(np.quantile(took, 0.5)), "us"),
        (0.99, pytest.approx(np.quantile(took, 0.99)), "us"),
    ]


def check_tax(rows: Rows) -> None:
    taxes = [
        (whole, whole - sum(took for *_, took in kernels(run)))
        for run in executes(RUN)[1:]
        for whole in times(run, "Method::execute")
    ]
    tax = np.median([beside / 1000 for _, beside in taxes])
    percent = np.median([100 * beside / whole for whole, beside in taxes])
    assert rows == [(pytest.approx(tax), pytest.approx(percent), "us")]


def by_node(key: Callable[[dict[str, str]], str | None]) -> list[tuple[str, Any]]:
    """Microseconds of all kernels by a property of their nodes in the record, largest first: only JSON in a zip.

    A kernel's instruction has a debug handle there, and of the nodes with that handle its own is the one of its op.
    """
    with zipfile.ZipFile(RUN.with_name("transformer.etrecord")) as record:
        handles = json.loads(record.read("debug_handle_map"))["forward"]
        nodes = json.loads(record.read("edge_dialect_exported_program/forward"))["graph_module"]["graph"]["nodes"]
    places = {
        (each["metadata"].get("debug_handle"), each["target"].split(".")[-2]): key(each["metadata"])
        for each in nodes
        if "stack_trace" in each["metadata"]
    }
    found: dict[str, float] = defaultdict(float)
    for run in typical(RUN):
        for op, instruction, took in kernels(run):
            if (place := places.get((str(handles[str(instruction)]), op))) is not None:
                found[place] += took / 1000
    return [(place, pytest.approx(us)) for place, us in sorted(found.items(), key=lambda each: -each[1])]


def line_of(metadata: dict[str, str]) -> str | None:
    """The innermost line of the model itself."""
    lines = re.findall(r'File "(models/[^"]+)", line (\d+)', metadata["stack_trace"])
    return ":".join(lines[-1]) if lines else None


def check_modules(rows: Rows) -> None:
    expected = by_node(lambda metadata: metadata["nn_module_stack"].split(";")[-1].split(",")[1])
    assert [(path, own) for path, _, own, *_ in rows] == expected[:5]


def check_sources(rows: Rows) -> None:
    assert [(source, total) for source, _, total, *_ in rows] == by_node(line_of)[:5]


def check_fallback(rows: Rows) -> None:
    """Of the delegated program only the layer norm is a kernel, by its events."""
    [(op, total)] = total_times(DELEGATED).items()
    [(op_type, calls, us, *_)] = rows
    assert (op, op_type, calls, us) == (
        "native_layer_norm", "aten.native_layer_norm.default", 1, pytest.approx(total / 1000),
    )  # fmt: skip


def check_load(rows: Rows) -> None:
    [setup] = [run for run in read(RUN.read_bytes()) if run.name == "Default"]
    took = [times(run, "Method::execute")[0] / 1000 for run in executes(RUN)]
    assert {name: us for name, us, _ in rows} == {
        "Program::load_method": pytest.approx(times(setup, "Program::load_method")[0] / 1000),
        "Method::init": pytest.approx(times(setup, "Method::init")[0] / 1000),
        "first run excess": pytest.approx(took[0] - np.median(took[1:])),
    }


def check_comparison(rows: Rows) -> None:
    """The op that was made slower is found, with the right factor, and no other."""
    [(op, instruction, verdict, change, low, high)] = rows
    assert (op, instruction, verdict) == ("addmm", 4, "slower")
    assert low < 20 < high and 18 < change < 22


def check_builds(rows: Rows) -> None:
    averages: dict[str, list[float]] = defaultdict(list)
    for number in range(len(FLEET)):
        runs = typical_of([run for run in read(content_of(number)) if run.name == "Execute"])
        took = [took for run in runs for op, _, took in kernels(run) if op == "addmm"]
        averages[build_of(number)].append(float(np.mean(took)) / 1000)
    expected = [
        (build, "Execute", len(each), pytest.approx(np.median(each)), "us") for build, each in sorted(averages.items())
    ]
    assert rows == expected


def check_memory(rows: Rows) -> None:
    expected: dict[int, list[int]] = defaultdict(list)
    for run in read(ALLOCATING.read_bytes()):
        for each in run.events:
            if isinstance(each, AllocationEvent):
                expected[each.allocator_id].append(each.allocation_size)
    assert [(count, size) for _, count, size, _ in rows] == sorted(
        ((len(each), sum(each)) for each in expected.values()), key=lambda each: -each[1]
    )
    assert {row[0] for row in rows} == {"planned_memory", "temp_memory"}


CHECKS: dict[str, Callable[[Rows], None]] = {
    "Which ops take the time?": check_ops,
    "How long does a run take, and how slow are the slowest?": check_percentiles,
    "What does the framework cost?": check_tax,
    "Which module of the model takes the time?": check_modules,
    "And which line of its source?": check_sources,
    "What fell back from the delegate to kernels, and what does it cost?": check_fallback,
    "What do loading and the first run cost?": check_load,
    "Is build 42 slower than build 41, and in which op?": check_comparison,
    "How did the time of an op change from build to build?": check_builds,
    "How much memory do allocators hand out?": check_memory,
}


def test_every_recipe_has_a_check() -> None:
    assert list(RECIPES) == list(CHECKS)
    assert ALL.count("```sql") == len(RECIPES), "SQL in the documentation is a recipe: elsewhere it is not run"


@pytest.mark.long
@pytest.mark.parametrize("question", CHECKS)
def test_recipe(lab: Warehouse, question: str) -> None:
    _, rows = lab.rows(RECIPES[question])
    assert rows
    CHECKS[question](rows)
