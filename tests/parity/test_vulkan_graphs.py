"""The graphs in Vulkan's blobs, op by op and value by value, against flatc with ExecuTorch's schema.

`make_vulkan_graphs.py` made the programs and the expected graphs. Then damaged ones.
"""

from __future__ import annotations

import base64
import gzip
import json
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
from tests.sampling import examples

EXPECTED = json.loads(gzip.decompress((CAPTURES / "expected" / "vulkan_graphs.json.gz").read_bytes()))
PROGRAMS = {name: base64.b64decode(each["program"]) for name, each in EXPECTED.items() if "program" in each}
EVERY_KIND = base64.b64decode(EXPECTED["every kind"]["binary"])


def other(value: Any) -> Any:
    """What a value is that is neither a tensor nor a list of values: its only field."""
    return next(iter(value["value"].values()), None)


def ops_of(graph: Any) -> list[tuple[Any, ...]]:
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


def values_of(graph: Any) -> list[tuple[Any, ...]]:
    """The tensors of a graph by flatc, as rows of `delegate_values` without their keys."""
    return [
        (
            *(place, each["value"]["datatype"].lower(), each["value"]["dims"], each["value"]["constant_id"] >= 0),
            *(place in graph["input_ids"], place in graph["output_ids"]),
        )
        for place, each in enumerate(graph["values"])
        if each["value_type"] == "VkTensor"
    ]


def check(graph: Any, tables: dict[str, pa.RecordBatch], blob: int) -> None:
    ops = [row for row in tables["delegate_ops"].to_pylist() if row["blob_offset"] == blob]
    assert [row["op_index"] for row in ops] == [*range(len(ops))]
    columns = ("op", "debug_handle", "inputs", "outputs")
    assert [(*(row[name] for name in columns), json.loads(row["parameters"])) for row in ops] == ops_of(graph)
    values = [tuple(row.values())[1:] for row in tables["delegate_values"].to_pylist() if row["blob_offset"] == blob]
    assert values == values_of(graph)


def read(graph: bytes) -> dict[str, pa.RecordBatch]:
    return dict(delegate_graph_rows(Buffer(graph, "net.pte"), [("VulkanBackend", 0, len(graph))]))


@pytest.mark.parametrize("name", PROGRAMS)
def test_exported_programs(name: str) -> None:
    tables = dict(read_program(PROGRAMS[name], name))
    blobs = {
        f"{row['method']}/{row['delegate_index']}": row["byte_offset"]
        for row in tables["program_delegates"].to_pylist()
    }
    assert sorted(blobs) == sorted(EXPECTED[name]["graphs"])
    for place, graph in EXPECTED[name]["graphs"].items():
        check(graph, tables, blobs[place])


def test_every_kind_of_value() -> None:
    check(EXPECTED["every kind"]["graph"], read(EVERY_KIND), 0)
    names = [row["op"] for row in read(EVERY_KIND)["delegate_ops"].to_pylist()]
    assert names == ["every", "in_place", "several", "nothing"]


def test_other_blobs_have_no_graph() -> None:
    for blob in (b"", b"1;0;", EVERY_KIND.replace(b"VK00", b"VK99"), EVERY_KIND[:6]):
        assert [len(rows) for rows in read(blob).values()] == [0, 0]
    assert len(dict(delegate_graph_rows(Buffer(EVERY_KIND, ""), [("Other", 0, len(EVERY_KIND))]))["delegate_ops"]) == 0


def test_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = EXPECTED["every kind"]["graph"]
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
                read(EVERY_KIND)
    for number, message in ((16, "Vulkan's graph has 16 values, from 0"), (-1, "OperatorCall.args has -1")):
        changed_graph = EVERY_KIND.replace(
            b"".join(each.to_bytes(4, "little") for each in (8, 15)),
            (8).to_bytes(4, "little") + number.to_bytes(4, "little", signed=True),
        )
        assert changed_graph != EVERY_KIND
        with pytest.raises(FormatError, match=message):
            read(changed_graph)


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
        tables = read(bytes(damaged))
    except FormatError as error:
        assert "\n" not in str(error)
    else:
        known = {row["value_id"] for row in tables["delegate_values"].to_pylist()}
        for row in tables["delegate_ops"].to_pylist():
            assert {*row["inputs"], *row["outputs"]} <= known
            json.loads(row["parameters"], parse_constant=pytest.fail)


def test_flipped_bytes() -> None:
    refused = 0
    for place in range(0, len(EVERY_KIND), 3):
        damaged = bytearray(EVERY_KIND)
        damaged[place] ^= 0xFF
        try:
            read(bytes(damaged))
        except FormatError as error:
            refused += 1
            assert "\n" not in str(error)
    assert refused
