"""Aligning a call's events with its graph's ops: known truths, all ways by brute force, random graphs and elisions."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from etq.ingest.program import xnnpack_schema
from etq.ingest.program.alignment import KINDS, aligned, may_run
from tests.warehouses import empty_warehouse

# Kinds that run as others, kinds that don't, and one of a newer XNNPACK.
SOME = ("convolution", "fullyconnected", "clamp", "hardswish", "convert", "add", "copy", "reshape", "unheard")
NEW = "brand new operator"
OPS = st.lists(st.sampled_from(SOME), max_size=12)


def ops(kinds: str) -> list[list[str]]:
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
    assert aligned(events, ops(graph)) == [0, 2, 4, 5, 6]


def test_which_of_two_ran_is_unknown() -> None:
    assert aligned(["add", "clamp", "divide"], ops("add clamp clamp divide")) == [0, None, 3]
    assert aligned(["invalidunaryop"], ops("hardswish sigmoid")) == [None]


def test_events_that_the_graph_can_not_have_logged() -> None:
    """One event of a known kind without an op: another program ran."""
    assert aligned(["convolution", "softmax", "add"], ops("convolution add")) == [None, None, None]
    assert aligned(["add", "convolution"], ops("convolution add")) == [None, None]
    assert aligned(["add"], []) == [None]
    assert aligned([], ops("add")) == []


def test_an_op_of_several_events() -> None:
    """A concatenation copies each input; an op that limits its result may log the clamp by itself."""
    assert aligned(["copy", "copy", "copy", "add"], [["copy"] * 3, ["add"]]) == [0, 0, 0, 1]
    assert aligned(["subtract", "clamp", "add"], [["subtract", "clamp"], ["add", "clamp"]]) == [0, 0, 1]


# An op without an event or with one of any of its names, or an operator of an unknown name that runs no op.
LOGGED = [(kind, name) for kind in SOME for name in (None, None, *names_of(kind))] + [(None, NEW)] * len(SOME)


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


@given(OPS, st.lists(st.sampled_from((*SOME, "invalidunaryop", NEW)), max_size=5))
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
