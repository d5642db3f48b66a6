"""The table of what other tools show of traces: each view in it answers with the columns it is named for; gaps are marked."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from etq.warehouse.warehouse import Warehouse
from tests.batches import Labelled, ingest_all
from tests.conftest import CAPTURES
from tests.docs.pages import ROOT
from tests.trace_builders import event, trace
from tests.warehouses import empty_warehouse

# The captures for each view, in this order, until each column has a value.
CAPTURES_OF_VIEWS = ("gpu", "train", "modules", "counters")


def calls(cell: str) -> list[tuple[str, str, list[str]]]:
    """The views that a cell names, each with its arguments and the columns that follow it."""
    found = re.findall(r"`(\w+)\(([^)]+)\)`(?:: (`\w+`(?:, `\w+`(?![\w(]))*))?", cell)
    return [(name, arguments, re.findall(r"`(\w+)`", columns)) for name, arguments, columns in found]


PAGE = (ROOT / "docs/compatibility.md").read_text()
# The columns that lines of tables name of a view, by its call.
CALLS: dict[tuple[str, str], set[str]] = {}
for _line in re.findall(r"^\| .* \|$", PAGE, re.MULTILINE):
    for _name, _arguments, _columns in calls(_line.split("|")[-2]):
        CALLS.setdefault((_name, _arguments), set()).update(_columns)


@pytest.fixture(scope="module")
def traces() -> Iterator[Warehouse]:
    """Ranks with devices, a training with memory, a trace with modules and a copy of known size, and two to compare."""
    modules = [
        event("cpu_op", "aten::relu", 5, 8),
        event("python_function", "nn.Module: ReLU_0", 0, 10, **{"Python id": 1}),
        event("gpu_memcpy", "Memcpy HtoD", 8, 10, 7, device=0, bytes=64, **{"memory bandwidth (GB/s)": 0.032}),
        event("kernel", "relu", 10, 12, 7, device=0, **{"blocks per SM": 2.0, "est. achieved occupancy %": 30}),
    ]
    files = {
        "gpu": "torch_gpu/rank0", "other": "torch_gpu/rank1", "counters": "torch_counters/counters",
        "train": "torch/mlp_train", "base": "torch_steps/before", "new": "torch_steps/after",
    }  # fmt: skip
    with empty_warehouse() as warehouse:
        jobs = {name: {"job": "ranks"} if file.startswith("torch_gpu") else {} for name, file in files.items()}
        made = [Labelled(name, CAPTURES / f"{file}.pt.trace.json.gz", jobs[name]) for name, file in files.items()]
        ingest_all(warehouse, [("modules", trace(*modules)), *made])
        yield warehouse


def rows_of(warehouse: Warehouse, call: str, capture: str) -> list[dict[str, object]]:
    """The rows of a view as the table writes it, with a capture in place of the parameter."""
    names = {"capture": f"'{capture}'", "selector": "'job=ranks'", "base": "'base'", "new": "'new'"}
    view, _, arguments = call.rstrip(")").partition("(")
    filled = [names.get(each, each) for each in arguments.split(", ")]
    quoted = [re.sub(r"^by :=", '"by" :=', each) for each in filled]
    columns, rows = warehouse.rows(f"FROM {view}({', '.join(quoted)})")
    return [dict(zip(columns, row, strict=True)) for row in rows]


def unanswered(warehouse: Warehouse, name: str, arguments: str, columns: set[str]) -> set[str]:
    """The columns of a view in which no trace has a value; `rows` if none has rows."""
    left = {"rows", *columns}
    for capture in CAPTURES_OF_VIEWS if "capture" in arguments else CAPTURES_OF_VIEWS[:1]:
        for row in rows_of(warehouse, f"{name}({arguments})", capture):
            left = {column for column in left if column != "rows" and row[column] is None}
        if not left:
            break
    return left


@pytest.mark.long
def test_views_answer(traces: Warehouse) -> None:
    assert len(CALLS) > 20
    missing = {call: unanswered(traces, *call, columns) for call, columns in CALLS.items()}
    assert {call: columns for call, columns in missing.items() if columns} == {}
