"""The reader of XNNPACK's graphs on graphs made for the purpose, and on damaged ones."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from typing import Any

import flatbuffers
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from etq import FormatError
from etq.ingest.program import delegate_rows
from etq.ingest.program.reader import read_program
from tests.conftest import CAPTURES
from tests.program_builders import Table, delegate, method, program
from tests.sampling import examples

ADD, SOFTMAX, STATIC_TRANSPOSE = 1, 3, 5
NO_VALUE = 2**32 - 1


def op(kind: int, *ids: int, handle: int = 1, limits: tuple[float, float] | None = None) -> Table:
    """An op whose fields are values."""
    fields = {slot: np.uint32(each) for slot, each in enumerate(ids)}
    span = None if limits is None else Table({0: np.float32(limits[0]), 1: np.float32(limits[1])})
    return Table({0: np.uint8(kind), 1: Table(fields), 2: np.uint32(handle), 3: span})


def value(id: int, *sizes: int, dtype: int = 1, constant: int = 0, flags: int = 0, kind: int = 1) -> Table:
    tensor = Table(
        {
            **{0: np.int16(dtype), 1: np.uint32(len(sizes)), 2: np.array(sizes, np.uint32), 3: np.uint32(constant)},
            **{5: np.uint32(flags), 6: np.uint32(id)},
        }
    )
    return Table({0: np.uint8(kind), 1: tensor if kind == 1 else Table({0: tensor})})


def graph(ops: Sequence[Table], values: Sequence[Table], identifier: bytes = b"XN01") -> bytes:
    builder = flatbuffers.Builder()
    builder.Finish(Table({0: "0", 1: list(ops), 2: list(values)}).write(builder), file_identifier=identifier)
    return bytes(builder.Output())


def wrapped(content: bytes, *, at: int = 32, size: int | None = None) -> bytes:
    """A graph with XNNPACK's header, which puts it at `at`."""
    header = b"\0\0\0\0XH00" + struct.pack("<HIIIQ", 30, at, len(content) if size is None else size, 0, 0)
    return header.ljust(32, b"\0") + content


def read(*blobs: bytes, backend: str = "XnnpackBackend", calls: int = 1) -> tuple[list[Any], list[Any]]:
    """The ops and values of a program with these blobs, each of which `calls` delegates have."""
    delegates = [delegate(backend, at, in_segment=True) for at in range(len(blobs)) for _ in range(calls)]
    tables = dict(read_program(program(method("forward", [], delegates=delegates), segments=blobs), "net.pte"))
    return tables["delegate_ops"].to_pylist(), tables["delegate_values"].to_pylist()


SIMPLE = graph(
    [op(ADD, 7, 8, 9, limits=(0, float("inf"))), op(SOFTMAX, 9, 10, handle=65535)],
    [value(7, 2, 3, flags=1), value(8, 3, constant=1, dtype=6, kind=2), value(9, 2, 3), value(10, 2, 3, flags=2)],
)


@pytest.mark.parametrize("blob", [SIMPLE, wrapped(SIMPLE)], ids=["plain", "header"])
def test_graphs_with_and_without_a_header(blob: bytes) -> None:
    ops, values = read(blob)
    columns = ("op_index", "op", "debug_handle", "inputs", "outputs")
    assert [(*(each[name] for name in columns), json.loads(each["parameters"])) for each in ops] == [
        (0, "Add", 1, [7, 8], [9], {"output_min": 0, "output_max": "inf"}),
        (1, "Softmax", None, [9], [10], {}),
    ]
    columns = ("value_id", "dtype", "sizes", "is_constant", "is_input", "is_output")
    assert [tuple(each[name] for name in columns) for each in values] == [
        (7, "fp32", [2, 3], False, True, False), (8, "qcint8", [3], True, False, False),
        (9, "fp32", [2, 3], False, False, False), (10, "fp32", [2, 3], False, False, True),
    ]  # fmt: skip


def test_other_blobs_have_no_graph() -> None:
    assert read(SIMPLE, backend="OtherBackend") == ([], [])
    unknown, empty = graph([], [], b"XN99"), graph([], [], b"XN00")
    for blob in (b"", b"XN0", b"1;0;", empty, unknown, wrapped(graph([op(ADD, 1)], [], b"XN99")), wrapped(b"")[:20]):
        assert read(blob) == ([], [])


def test_what_a_newer_xnnpack_may_have() -> None:
    ops, values = read(graph([op(200, 1), op(0)], [value(1, dtype=99), value(2, dtype=-1)]))
    assert [(each["op"], each["inputs"], each["parameters"]) for each in ops] == [
        ("op 200", [], "{}"),
        ("none", [], "{}"),
    ]
    assert [each["dtype"] for each in values] == ["data type 99", "data type -1"]
    # Of another blob, all is read.
    ops, _ = read(graph([op(ADD, 1, 1, 1)], [value(1, kind=3)]), SIMPLE)
    assert [each["op"] for each in ops] == ["Add", "Softmax"]


def test_a_value_that_an_op_does_not_have_is_left_out() -> None:
    ops, _ = read(graph([op(2, 1, 2, NO_VALUE, 3)], [value(1), value(2), value(3)]))
    assert [(each["op"], each["inputs"], each["outputs"]) for each in ops] == [("FullyConnected", [1, 2], [3])]


@pytest.mark.parametrize(
    ("blob", "message"),
    [
        (graph([op(ADD, 1, 2, 3)], [value(1), value(3)]), r"_XNNNode2x1.input2_id is 2; XNNPACK.s graph has 2 values, none of that id"),
        (graph([], [value(4), value(5), value(4)]), "two values of XNNPACK's graph have the id 4"),
        (graph([], [value(1, kind=0)]), "XValue.xvalue_union_type is 0; known are 1 to 2"),
        (graph([], [Table({0: np.uint8(2), 1: Table()})]), "XNNQuantizedTensorValue.tensor_value is missing"),
        (graph([Table({0: np.uint8(ADD)})], []), "XNode.xnode_union is missing; expected a _XNNNode2x1"),
        (graph([op(ADD, 1, 1, 2), op(SOFTMAX, 2, 2)], [value(1), value(2)]), "XNNPACK's graph makes the value 2 twice"),
        (graph([op(21, *range(6), 1, 2, 2)], [value(each) for each in range(7)]), "XNNPACK's graph makes the value 2 twice"),
        (graph([], [value(1, *range(17))]), "XNNTensorValue.dims has 17 numbers; tensors have at most 16 dimensions"),
        (wrapped(SIMPLE, at=40), r"XNNPACK's graph has \d+ bytes, from byte 40 of its blob of \d+ bytes"),
        (wrapped(SIMPLE, size=4), "XNNPACK's graph has 4 bytes, from byte 32 of its blob"),
        (wrapped(SIMPLE, size=2**32 - 1), "XNNPACK's graph has 4294967295 bytes, from byte 32"),
    ],
)  # fmt: skip
def test_damaged_graphs(blob: bytes, message: str) -> None:
    with pytest.raises(FormatError, match=f"net.pte: at byte [0-9]+: .*{message}"):
        read(blob)


def test_ops_may_not_share_a_table() -> None:
    """A vector of references to one op is as long as the file's author likes."""
    whole = bytearray(graph([op(ADD, 1, 2, 3)] * 3, [value(1), value(2), value(3)]))
    root = struct.unpack_from("<I", whole)[0]
    vtable = root - struct.unpack_from("<i", whole, root)[0]
    at = root + struct.unpack_from("<H", whole, vtable + 4 + 2 * 1)[0]
    vector = at + struct.unpack_from("<I", whole, at)[0]
    assert struct.unpack_from("<I", whole, vector)[0] == 3
    first = vector + 4 + struct.unpack_from("<I", whole, vector + 4)[0]
    struct.pack_into("<I", whole, vector + 8, first - (vector + 8))
    with pytest.raises(FormatError, match="two ops of XNNPACK's graph share a XNode"):
        read(bytes(whole))


def test_graphs_that_are_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ops and values of all graphs of a program are limited: another size is read, one more is refused."""
    monkeypatch.setattr(delegate_rows, "MOST_OPS", 4)
    monkeypatch.setattr(delegate_rows, "MOST_VALUES", 8)
    ops, values = read(SIMPLE, SIMPLE, calls=3)
    assert (len(ops), len(values)) == (4, 8)
    for content, message in (
        (
            graph([op(SOFTMAX, 1, 2)], [value(1), value(2)]),
            "10 values up to this one; etq reads at most 8 of a program",
        ),
        (graph([op(200)], []), "5 ops up to this one; etq reads at most 4 of a program"),
    ):
        with pytest.raises(FormatError, match=f"net.pte: at byte [0-9]+: XNNPACK's graphs have {message}"):
            read(SIMPLE, SIMPLE, content)


REAL = (CAPTURES / "convnet_xnn/convnet_xnn.pte").read_bytes()
# The first blob: `program_delegates` has its place.
BLOB = range(REAL.index(b"XH00") - 4, REAL.index(b"XH00") - 4 + 3184)


@examples(200)
@given(st.data())
def test_damaged_words(data: st.DataObject) -> None:
    damaged = bytearray(REAL)
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(BLOB.start // 4, BLOB.stop // 4 - 1)) * 4
        word = data.draw(st.sampled_from([0, 1, 2**31 - 1, 2**31, 2**32 - 1, len(BLOB)]) | st.integers(0, 2**32 - 1))
        damaged[place : place + 4] = word.to_bytes(4, "little")
    try:
        tables = dict(read_program(bytes(damaged), "net.pte"))
    except FormatError as error:
        assert "\n" not in str(error)
    else:
        known = {row["value_id"] for row in tables["delegate_values"].to_pylist()}
        assert all({*row["inputs"], *row["outputs"]} <= known for row in tables["delegate_ops"].to_pylist())


def test_flipped_bytes(step: int = 80) -> None:
    refused = 0
    for place in range(BLOB.start, BLOB.stop, step):
        damaged = bytearray(REAL)
        damaged[place] ^= 0xFF
        try:
            list(read_program(bytes(damaged), "net.pte"))
        except FormatError as error:
            refused += 1
            assert "\n" not in str(error)
    assert refused
