"""The table of what other tools show of traces: each view in it answers with the columns it is named for; gaps are marked."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from etq import catalog
from etq.warehouse.warehouse import Warehouse
from tests.conftest import CAPTURES
from tests.docs.pages import ROOT
from tests.trace_builders import event, trace
from tests.warehouses import empty_warehouse

GAP = "*gap*"
# The captures for each view, in this order, until each column has a value.
CAPTURES_OF_VIEWS = ("gpu", "train", "modules", "counters")
# The methods of HolisticTraceAnalysis 0.5.0 that answer questions.
OF_HTA = (
    "get_aten_op_kernels_and_delay", "get_comm_comp_overlap", "get_counter_data_with_operators",
    "get_cuda_kernel_launch_stats", "get_frequent_cuda_kernel_sequences", "get_gpu_kernel_breakdown",
    "get_gpu_kernels_with_user_annotations", "get_gpu_user_annotation_breakdown", "get_idle_time_breakdown",
    "get_memory_bw_summary", "get_memory_bw_time_series", "get_potential_stragglers", "get_profiler_steps",
    "get_queue_length_summary", "get_queue_length_time_series", "get_temporal_breakdown",
    "get_time_spent_blocked_on_full_queue", "generate_trace_with_counters", "TraceDiff",
)  # fmt: skip


@dataclass(frozen=True)
class Line:
    """A line of the table."""

    tool: str
    has: str
    ours: str

    @property
    def calls(self) -> list[tuple[str, str, list[str]]]:
        """The views it names, each with its arguments and the columns that follow it."""
        found = re.findall(r"`(\w+)\(([^)]*)\)`(?:: (`\w+`(?:, `\w+`(?![\w(]))*))?", self.ours)
        return [(name, arguments, re.findall(r"`(\w+)`", columns)) for name, arguments, columns in found]


def lines() -> list[Line]:
    page = (ROOT / "docs/trace-tools.md").read_text()
    table = re.search(r"^\| tool \|.*\n\|[-|]+\|\n((?:\|.*\|\n)+)", page, re.MULTILINE)
    assert table is not None
    return [Line(*(cell.strip() for cell in row.split("|")[1:-1])) for row in table[1].splitlines()]


LINES = lines()
# The columns that lines name of a view, by its call.
CALLS: dict[tuple[str, str], set[str]] = {}
for _line in LINES:
    for _name, _arguments, _columns in _line.calls:
        CALLS.setdefault((_name, _arguments), set()).update(_columns)


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Warehouse]:
    """Ranks with devices, a training with memory, a trace with modules and a copy of known size, and two to compare."""
    modules = [
        event("cpu_op", "aten::relu", 5, 8),
        event("python_function", "nn.Module: ReLU_0", 0, 10, **{"Python id": 1}),
        event("gpu_memcpy", "Memcpy HtoD", 8, 10, 7, device=0, bytes=64, **{"memory bandwidth (GB/s)": 0.032}),
    ]
    path = tmp_path_factory.mktemp("traces") / "modules.pt.trace.json"
    path.write_bytes(trace(*modules))
    files = {
        "gpu": "torch_gpu/rank0",
        "other": "torch_gpu/rank1",
        "counters": "torch_counters/counters",
        "train": "torch/mlp_train",
        "base": "torch_steps/before",
        "new": "torch_steps/after",
    }
    with empty_warehouse() as warehouse:
        warehouse.ingest(path, name="modules")
        for name, file in files.items():
            labels = {"job": "ranks"} if file.startswith("torch_gpu") else {}
            warehouse.ingest(CAPTURES / f"{file}.pt.trace.json.gz", name=name, labels=labels)
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


def test_views_answer(traces: Warehouse) -> None:
    missing = {call: unanswered(traces, *call, columns) for call, columns in CALLS.items()}
    assert {call: columns for call, columns in missing.items() if columns} == {}
    with pytest.raises(KeyError, match="no_such_column"):
        unanswered(traces, "work_types", "capture", {"no_such_column"})


def test_lines_are_filled() -> None:
    """With a view, a command or a table that is there; else they are gaps, which begin with that word."""
    objects = {each.name for each in catalog.public_objects()}
    tools = {"HolisticTraceAnalysis", "TensorBoard plug-in", "Nsight Systems", "Perfetto"}
    assert {tool for line in LINES for tool in line.tool.split(", ")} == tools
    for line in LINES:
        assert line.has
        named = {name for name, _, _ in line.calls} | ({*re.findall(r"`(\w+)`", line.ours)} & objects)
        assert line.ours.startswith(GAP) or named or re.match(r"`etq \w+", line.ours), line
        assert GAP not in line.ours[1:], line


def test_all_that_hta_answers_is_listed() -> None:
    listed = {
        name for line in LINES if line.tool == "HolisticTraceAnalysis" for name in re.findall(r"`(\w+)`", line.has)
    }
    assert {*OF_HTA} <= listed


def test_a_line_is_read_with_its_columns() -> None:
    line = Line("a", "b", "`one(capture)`: `x`, `y`, `two(capture, by := 'op')`, for calls; `three(base, new)`: their")
    assert line.calls == [
        ("one", "capture", ["x", "y"]), ("two", "capture, by := 'op'", []), ("three", "base, new", []),
    ]  # fmt: skip
