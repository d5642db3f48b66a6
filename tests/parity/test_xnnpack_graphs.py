"""The graphs in XNNPACK's blobs, op by op and value by value, against flatc with ExecuTorch's schema.

`make_xnnpack_graphs.py` made the expected graphs.
"""

from __future__ import annotations

import base64
import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from etq.ingest.flatbuffers.reader import Buffer
from etq.ingest.program.delegate_graphs import delegate_graph_rows
from etq.ingest.program.reader import read_program
from tests.conftest import CAPTURES
from tests.sampling import thinned

NO_VALUE = 2**32 - 1
NO_HANDLE = 65535


@cache
def expected() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(gzip.decompress((CAPTURES / "expected" / "xnnpack_graphs.json.gz").read_bytes()))
    return found


PROGRAMS = [name for name in expected() if name != "every op"]


def program_path(name: str) -> Path:
    [path] = CAPTURES.glob(f"**/{name}.pte")
    return path


def written(value: Any) -> Any:
    """A number as in our JSON, with the six decimals that flatc writes of a float."""
    if isinstance(value, float):
        return str(value) if abs(value) == float("inf") else round(value, 6)
    return value


def ops_of(graph: Any) -> list[tuple[Any, ...]]:
    """The ops of a graph by flatc, as rows of `delegate_ops` without their keys."""
    found = []
    for node in graph["xnodes"]:
        fields = node["xnode_union"]
        values = {name: value for name, value in fields.items() if name.endswith("_id")}
        others = {name: value for name, value in fields.items() if name not in values and name != "num_dims"}
        if not others["flags"]:
            del others["flags"]
        others |= node.get("output_min_max", {})
        handle = node["debug_handle"]
        found.append(
            (
                node["xnode_union_type"].removeprefix("XNN"),
                None if handle == NO_HANDLE else handle,
                [each for name, each in values.items() if not name.startswith("output") and each != NO_VALUE],
                [each for name, each in values.items() if name.startswith("output") and each != NO_VALUE],
                {name: written(each) for name, each in others.items()},
            )
        )
    return found


def values_of(graph: Any) -> list[tuple[Any, ...]]:
    """The values of a graph by flatc, as rows of `delegate_values` without their keys."""
    found = []
    for value in graph["xvalues"]:
        tensor = value["xvalue_union"].get("tensor_value", value["xvalue_union"])
        flags = tensor["flags"]
        found.append(
            (
                tensor["id_out"],
                tensor["datatype"].removeprefix("xnn_datatype_"),
                tensor["dims"],
                tensor["constant_buffer_idx"] != 0,
                bool(flags & 1),
                bool(flags & 2),
            )
        )
    return found


def check(graph: Any, tables: dict[str, pa.RecordBatch], blob: int) -> None:
    ops = [row for row in tables["delegate_ops"].to_pylist() if row["blob_offset"] == blob]
    assert [row["op_index"] for row in ops] == [*range(len(ops))]
    columns = ("op", "debug_handle", "inputs", "outputs")
    parameters = [{name: written(each) for name, each in json.loads(row["parameters"]).items()} for row in ops]
    assert [(*(row[name] for name in columns), each) for row, each in zip(ops, parameters, strict=True)] == ops_of(
        graph
    )
    values = [tuple(row.values())[1:] for row in tables["delegate_values"].to_pylist() if row["blob_offset"] == blob]
    assert values == values_of(graph)


@pytest.mark.parametrize("name", thinned(PROGRAMS))
def test_captured_programs(name: str) -> None:
    path = program_path(name)
    tables = dict(read_program(path.read_bytes(), str(path)))
    blobs = {
        f"{row['method']}/{row['delegate_index']}": row["byte_offset"]
        for row in tables["program_delegates"].to_pylist()
        if row["backend"] == "XnnpackBackend"
    }
    assert sorted(blobs) == sorted(expected()[name])
    for place, graph in expected()[name].items():
        check(graph, tables, blobs[place])
        # Inputs and outputs of the graph by its own lists.
        values = [row for row in tables["delegate_values"].to_pylist() if row["blob_offset"] == blobs[place]]
        for side in ("input", "output"):
            assert sorted(graph[f"{side}_ids"]) == sorted(row["value_id"] for row in values if row[f"is_{side}"])


def test_every_op_of_the_schema() -> None:
    binary = base64.b64decode(expected()["every op"]["binary"])
    graph = expected()["every op"]["graph"]
    tables = dict(delegate_graph_rows(Buffer(binary, "every.op"), [("XnnpackBackend", 0, len(binary))]))
    assert len(graph["xnodes"]) == 47
    check(graph, tables, 0)


def test_every_program_with_xnnpack_is_compared() -> None:
    with_blobs = {path.stem for path in CAPTURES.glob("**/*.pte") if b"XnnpackBackend" in path.read_bytes()}
    assert with_blobs == set(PROGRAMS)
