"""XNNPACK's graphs in programs: made for the purpose, damaged; and which op each event of a call ran."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import flatbuffers
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from etq import FormatError
from etq.ingest.program import delegate_rows, xnnpack_schema
from etq.ingest.program.alignment import KINDS, aligned, may_run
from etq.ingest.program.reader import read_program
from tests.program_builders import Table, delegate, method, program
from tests.warehouses import empty_warehouse

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
    of_values = ("value_id", "dtype", "sizes", "is_constant", "is_input", "is_output")
    assert [tuple(each[name] for name in of_values) for each in values] == [
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


# Kinds that run as others, kinds that don't, and one of a newer XNNPACK.
KINDS_OF_OPS = ("convolution", "fullyconnected", "clamp", "hardswish", "convert", "add", "copy", "reshape", "unheard")
NEW = "brand new operator"
OPS = st.lists(st.sampled_from(KINDS_OF_OPS), max_size=12)


def listed(kinds: str) -> list[list[str]]:
    return [[kind] for kind in kinds.split()]


def names_of(kind: str) -> list[str]:
    """The kinds of events that XNNPACK may log for an op, and a name that etq doesn't know."""
    return [event for event in (*sorted(KINDS), NEW) if may_run(event, kind) or event == NEW]


def every_way(events: Sequence[str], graph: Sequence[str]) -> list[dict[int, int]]:
    """All ways to assign the events of known kinds to ops in order."""
    known = [at for at, kind in enumerate(events) if kind in KINDS]
    return [
        dict(zip(known, places, strict=True))
        for places in combinations(range(len(graph)), len(known))
        if all(may_run(events[at], graph[place]) for at, place in zip(known, places, strict=True))
    ]


def test_a_table_takes_the_place_of_an_activation_and_its_conversions() -> None:
    events = ["convolution", "invalidunaryop", "convolution", "convert", "hardswish"]
    graph = "convolution convert hardswish convert convolution convert hardswish convert"
    assert aligned(events, listed(graph)) == [0, 2, 4, 5, 6]


def test_which_of_two_ran_is_unknown() -> None:
    assert aligned(["add", "clamp", "divide"], listed("add clamp clamp divide")) == [0, None, 3]
    assert aligned(["invalidunaryop"], listed("hardswish sigmoid")) == [None]


def test_events_that_the_graph_can_not_have_logged() -> None:
    """One event of a known kind without an op: another program ran."""
    assert aligned(["convolution", "softmax", "add"], listed("convolution add")) == [None, None, None]
    assert aligned(["add", "convolution"], listed("convolution add")) == [None, None]
    assert aligned(["add"], []) == [None]
    assert aligned([], listed("add")) == []


def test_an_op_of_several_events() -> None:
    """A concatenation copies each input; an op that limits its result may log the clamp by itself."""
    assert aligned(["copy", "copy", "copy", "add"], [["copy"] * 3, ["add"]]) == [0, 0, 0, 1]
    assert aligned(["subtract", "clamp", "add"], [["subtract", "clamp"], ["add", "clamp"]]) == [0, 0, 1]


# An op without an event or with one of any of its names, or an operator of an unknown name that runs no op.
LOGGED = [(kind, name) for kind in KINDS_OF_OPS for name in (None, None, *names_of(kind))] + [(None, NEW)] * len(
    KINDS_OF_OPS
)


@pytest.mark.long
@given(st.lists(st.sampled_from(LOGGED), max_size=14))
def test_what_is_sure_is_true(logged: list[tuple[str | None, str | None]]) -> None:
    graph = [kind for kind, _ in logged if kind is not None]
    events, truth = [], []
    for at, (kind, event) in enumerate(logged):
        if event is not None:
            events.append(event)
            truth.append(-1 if kind is None else sum(before is not None for before, _ in logged[:at]))
    found = aligned(events, [[kind] for kind in graph])
    assert all(place in (None, expected) for place, expected in zip(found, truth, strict=True))


@pytest.mark.long
@given(OPS, st.lists(st.sampled_from((*KINDS_OF_OPS, "invalidunaryop", NEW)), max_size=5))
def test_sure_is_what_all_ways_agree_on(graph: list[str], events: list[str]) -> None:
    ways = every_way(events, graph)
    places = [{way.get(at) for way in ways} for at in range(len(events))]
    expected = [next(iter(each)) if len(each) == 1 else None for each in places]
    assert aligned(events, [[kind] for kind in graph]) == expected


LOGGED_AS = """
Convolution (NHWC, QC8) DWConv = DepthwiseConv2d
Deconvolution (NHWC, F32) IGEMM = ConvTranspose2d
Fully Connected (NC, QS8, QC8W) GEMM = FullyConnected
Dynamic Fully Connected (NC, F32) GEMM = FullyConnected
Batch Matrix Multiply (NC, F32) GEMM = BatchMatrixMultiply
Mean (ND) Reduce2 = GlobalAvgPooling2d
Average Pooling (NHWC, F32) = AvgPooling2d
ArgMax Pooling (NHWC, F32) = ArgMaxPooling2d
Resize Bilinear (NHWC) = StaticResizeBilinear2D
Constant Pad (ND, X32) = StaticConstantPad
Static Reshape (NC) = StaticReshape
Fuse Dims (NC) = StaticReshape
Slice (ND, X8) = StaticSlice
Copy (NC, X32) = Concatenate3
TanH (NC) = Tanh
HardSwish (NC) = Hardswish
ApproxGELU (NC) = Gelu
LeakyReLU (NC) = LeakyReLU
PReLU (ND) = PReLU
Reciprocal Square Root (NC) = ReciprocalSquareRoot
Sine (NC) = Sin
Divide (ND) = Div
Convert (NC, F32, QD8) = Convert
Invalid Unary Op = Clamp
"""


@pytest.mark.long
def test_the_ops_of_xnnpack_have_kinds() -> None:
    """And the names that their operators have in XNNPACK's log, of which a kind is what it shares with the op."""
    with empty_warehouse() as warehouse:
        rows = warehouse.rows(
            "SELECT o.name, _delegate_op_class(o.name) FROM unnest($names) AS o(name)", names=[*xnnpack_schema.OPS]
        )[1]
        assert [name for name, kind in rows if kind not in KINDS] == []
        logged = dict(line.split(" = ") for line in LOGGED_AS.strip().splitlines())
        rows = warehouse.rows(
            "SELECT o.event, _delegate_op_class(o.event), _delegate_op_class(o.op) "
            "FROM (SELECT unnest($events) AS event, unnest($ops) AS op) AS o",
            events=[*logged],
            ops=[*logged.values()],
        )[1]
        assert [row for row in rows if not may_run(*row[1:])] == []
