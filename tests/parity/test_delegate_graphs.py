"""The graphs in blobs of Vulkan and of XNNPACK, op by op and value by value, against flatc with ExecuTorch's schemas.

`make_delegate_graphs.py` made the expected graphs, and Vulkan's programs. Then damaged ones.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from functools import cache
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from etq import FormatError
from etq.ingest.flatbuffers.reader import Buffer
from etq.ingest.program import delegate_rows, vulkan
from etq.ingest.program.delegate_graphs import delegate_graph_rows
from etq.ingest.program.reader import read_program
from tests.conftest import CAPTURES
from tests.parity.oracle import read
from tests.sampling import examples, thinned

NO_VALUE, NO_HANDLE = 2**32 - 1, 65535
Tables = Mapping[str, pa.RecordBatch]


@cache
def expected(backend: str) -> dict[str, Any]:
    found: dict[str, Any] = read(CAPTURES / "expected" / f"{backend}_graphs.json.gz")
    return found


EVERY_KIND = base64.b64decode(expected("vulkan")["every kind"]["binary"])
PROGRAMS = [name for name in expected("xnnpack") if name != "every op"]


def graph_rows(backend: str, graph: bytes) -> Tables:
    return dict(delegate_graph_rows(Buffer(graph, "net.pte"), [(backend, 0, len(graph))]))


def other(value: Any) -> Any:
    """What a value is that is neither a tensor nor a list of values: its only field."""
    return next(iter(value["value"].values()), None)


def vulkan_ops(graph: Any) -> list[tuple[Any, ...]]:
    """The ops of a graph by flatc, as rows of `delegate_ops` without their keys."""
    values, made, found = graph["values"], set(), []

    def is_tensor(place: int) -> bool:
        return bool(values[place]["value_type"] == "VkTensor")

    for call in graph["chain"]:
        sides: tuple[list[int], list[int]] = ([], [])
        parameters: dict[str, Any] = {}
        for place, each in enumerate(call["args"]):
            side = sides[place == len(call["args"]) - 1]
            if values[each]["value_type"] == "ValueList":
                items = values[each]["value"]["items"]
                side += filter(is_tensor, items)
                others = [other(values[item]) for item in items if not is_tensor(item)]
                parameters |= {str(place): others} if others else {}
            elif is_tensor(each):
                side.append(each)
            else:
                parameters[str(place)] = other(values[each])
        outputs = [each for each in sides[1] if each not in made and each not in sides[0]]
        made |= {*outputs}
        found.append((call["name"], None, sides[0], outputs, parameters))
    return found


def vulkan_values(graph: Any) -> list[tuple[Any, ...]]:
    """The tensors of a graph by flatc, as rows of `delegate_values` without their keys."""
    return [
        (
            *(place, each["value"]["datatype"].lower(), each["value"]["dims"], each["value"]["constant_id"] >= 0),
            *(place in graph["input_ids"], place in graph["output_ids"]),
        )
        for place, each in enumerate(graph["values"])
        if each["value_type"] == "VkTensor"
    ]


def written(value: Any) -> Any:
    """A number as in our JSON, with the six decimals that flatc writes of a float."""
    if isinstance(value, float):
        return str(value) if abs(value) == float("inf") else round(value, 6)
    return value


def xnnpack_ops(graph: Any) -> list[tuple[Any, ...]]:
    found = []
    for node in graph["xnodes"]:
        fields, handle = node["xnode_union"], node["debug_handle"]
        values = {name: value for name, value in fields.items() if name.endswith("_id")}
        others = {name: value for name, value in fields.items() if name not in values and name != "num_dims"}
        if not others["flags"]:
            del others["flags"]
        sides: tuple[list[int], list[int]] = ([], [])
        for name, each in values.items():
            sides[name.startswith("output")].extend([each] if each != NO_VALUE else [])
        parameters = {name: written(each) for name, each in (others | node.get("output_min_max", {})).items()}
        op = node["xnode_union_type"].removeprefix("XNN")
        found.append((op, None if handle == NO_HANDLE else handle, *sides, parameters))
    return found


def xnnpack_values(graph: Any) -> list[tuple[Any, ...]]:
    values = (value["xvalue_union"] for value in graph["xvalues"])
    return [
        (
            *(each["id_out"], each["datatype"].removeprefix("xnn_datatype_"), each["dims"]),
            *(each["constant_buffer_idx"] != 0, bool(each["flags"] & 1), bool(each["flags"] & 2)),
        )
        for each in (value.get("tensor_value", value) for value in values)
    ]


def check(graph: Any, tables: Tables, blob: int = 0) -> None:
    """The rows of one graph, without their keys."""
    ops, values = (
        [row for row in tables[name].to_pylist() if row["blob_offset"] == blob]
        for name in ("delegate_ops", "delegate_values")
    )
    assert [row["op_index"] for row in ops] == [*range(len(ops))]
    parameters = [{name: written(each) for name, each in json.loads(row["parameters"]).items()} for row in ops]
    found = [
        (*(row[name] for name in ("op", "debug_handle", "inputs", "outputs")), each)
        for row, each in zip(ops, parameters, strict=True)
    ]
    is_xnnpack = "xnodes" in graph
    assert found == (xnnpack_ops if is_xnnpack else vulkan_ops)(graph)
    assert [tuple(row.values())[1:] for row in values] == (xnnpack_values if is_xnnpack else vulkan_values)(graph)
    # Inputs and outputs of the graph by its own lists, which made-up graphs of XNNPACK don't have.
    for side in ("input", "output"):
        if f"{side}_ids" in graph:
            assert sorted(graph[f"{side}_ids"]) == sorted(row["value_id"] for row in values if row[f"is_{side}"])


def check_program(content: bytes, backend: str, graphs: Mapping[str, Any]) -> None:
    tables = dict(read_program(content, "net.pte"))
    blobs = {
        f"{row['method']}/{row['delegate_index']}": row["byte_offset"]
        for row in tables["program_delegates"].to_pylist()
        if row["backend"] == backend
    }
    assert sorted(blobs) == sorted(graphs)
    for place, graph in graphs.items():
        check(graph, tables, blobs[place])


@pytest.mark.parametrize("name", ["convolutions", "lists"])
def test_programs_of_vulkan(name: str) -> None:
    made = expected("vulkan")[name]
    check_program(base64.b64decode(made["program"]), "VulkanBackend", made["graphs"])


@pytest.mark.parametrize("name", thinned(PROGRAMS))
def test_programs_of_xnnpack(name: str) -> None:
    [path] = CAPTURES.glob(f"**/{name}.pte")
    check_program(path.read_bytes(), "XnnpackBackend", expected("xnnpack")[name])


def test_every_kind_of_value_and_every_op() -> None:
    tables = graph_rows("VulkanBackend", EVERY_KIND)
    check(expected("vulkan")["every kind"]["graph"], tables)
    assert tables["delegate_ops"].column("op").to_pylist() == ["every", "in_place", "several", "nothing"]
    made = expected("xnnpack")["every op"]
    assert len(made["graph"]["xnodes"]) == 47
    check(made["graph"], graph_rows("XnnpackBackend", base64.b64decode(made["binary"])))


def test_every_program_with_xnnpack_is_compared() -> None:
    with_blobs = {path.stem for path in CAPTURES.glob("**/*.pte") if b"XnnpackBackend" in path.read_bytes()}
    assert with_blobs == set(PROGRAMS)


def test_other_blobs_have_no_graph() -> None:
    for blob in (b"", b"1;0;", EVERY_KIND.replace(b"VK00", b"VK99"), EVERY_KIND[:6]):
        assert [len(rows) for rows in graph_rows("VulkanBackend", blob).values()] == [0, 0]
    assert len(graph_rows("Other", EVERY_KIND)["delegate_ops"]) == 0


def test_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = expected("vulkan")["every kind"]["graph"]
    for module, name, most, message in (
        (delegate_rows, "MOST_OPS", 3, "Vulkan's graphs have 4 ops up to this one; etq reads at most 3"),
        (delegate_rows, "MOST_VALUES", len(graph["values"]) - 1, "Vulkan's graphs have 16 values up to this one"),
        (vulkan, "MOST_ARGUMENTS", 20, "the ops of Vulkan's graph have more than 20 arguments"),
        (vulkan, "MOST_DIMENSIONS", 1, "VkTensor.dims has 2 numbers; tensors have at most 1"),
        (vulkan, "MOST_BYTES_OF_NAME", 7, "OperatorCall.name has 8 bytes; etq reads at most 7"),
    ):
        with monkeypatch.context() as changed:
            changed.setattr(module, name, most)
            with pytest.raises(FormatError, match=f"net.pte: at byte [0-9]+: {message}"):
                graph_rows("VulkanBackend", EVERY_KIND)
    for number, message in ((16, "Vulkan's graph has 16 values, from 0"), (-1, "OperatorCall.args has -1")):
        changed_graph = EVERY_KIND.replace(
            b"".join(each.to_bytes(4, "little") for each in (8, 15)),
            (8).to_bytes(4, "little") + number.to_bytes(4, "little", signed=True),
        )
        assert changed_graph != EVERY_KIND
        with pytest.raises(FormatError, match=message):
            graph_rows("VulkanBackend", changed_graph)


@examples(200)
@given(st.data())
def test_damaged_words(data: st.DataObject) -> None:
    """Graphs with changed words are refused with an error of one line, or have ops of known values."""
    damaged = bytearray(EVERY_KIND)
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(damaged) // 4 - 1)) * 4
        word = data.draw(st.sampled_from([0, 1, 2**31 - 1, 2**31, 2**32 - 1]) | st.integers(0, 2**32 - 1))
        damaged[place : place + 4] = word.to_bytes(4, "little")
    try:
        tables = graph_rows("VulkanBackend", bytes(damaged))
    except FormatError as error:
        assert "\n" not in str(error)
    else:
        known = {row["value_id"] for row in tables["delegate_values"].to_pylist()}
        for row in tables["delegate_ops"].to_pylist():
            assert {*row["inputs"], *row["outputs"]} <= known
            json.loads(row["parameters"], parse_constant=pytest.fail)
