"""Costs of ops by their shapes, worked out by hand, and next to measured times."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from etq.warehouse.warehouse import Warehouse
from tests.asserts import assert_csv
from tests.records import Node, node, record, tensor
from tests.sampling import examples
from tests.warehouses import empty_warehouse


@pytest.fixture(scope="module")
def lab() -> Iterator[Warehouse]:
    """A warehouse of the records of all tests that query only costs."""
    with empty_warehouse() as opened:
        yield opened


def costs(lab: Warehouse, *nodes: Node) -> list[tuple[Any, ...]]:
    """Operations, bytes read and written, and the reason, node by node."""
    made = lab.ingest_record(record(*nodes))
    query = "SELECT c.flops, c.bytes_read, c.bytes_written, c.reason FROM node_costs($it) AS c"
    return lab.rows(query, it=made.sha256)[1]


def flops(lab: Warehouse, *nodes: Node) -> list[int | None]:
    return [row[0] for row in costs(lab, *nodes)]


X = tensor("x", 2, 3, 4, 4)  # 96 elements, 384 bytes
W, B = tensor("w", 3), tensor("b", 3)
Y = tensor("y", 2, 3, 4, 4)


def test_formulas_worked_out_by_hand(lab: Warehouse) -> None:
    """96 elements each; the comment lists the operations that are counted for one element."""
    by_hand = {
        96: node("aten.relu.default", Y, self=X),  # a comparison
        97: node("aten.mean.default", tensor("y"), self=X),  # an addition; a division in all
        192: node("aten.clamp.default", Y, self=X, min=0, max=6),  # two bounds
        384: node("aten.sigmoid.default", Y, self=X),  # negation, exponential, addition, division
        480: node("aten._softmax.default", Y, self=X, dim=3, half_to_float=False),  # maximum, -, exp, +, /
        576: node("aten.layer_norm.default", Y, input=X, normalized_shape=[4]),  # 1 + 3 + 2
        768: node("aten.layer_norm.default", Y, input=X, normalized_shape=[4], weight=W, bias=B),  # … and 2
        864: node("aten.gelu.default", Y, self=X, approximate="tanh"),
    }
    assert flops(lab, *by_hand.values()) == list(by_hand)
    others = [
        (480, node("aten.gelu.default", Y, self=X)),
        (480, node("aten.gelu.default", Y, self=X, approximate="none")),
        (96, node("aten.clamp.default", Y, self=X, min=0.0, max=None)),
        (96, node("aten.add.Tensor", Y, self=X, other=tensor("z", 4))),
        (384, node("aten.batch_norm.default", Y, input=X, weight=W, bias=B, running_mean=W, running_var=B)),
        (384, node("aten.rms_norm.default", Y, input=X, normalized_shape=[4], weight=tensor("v", 4))),
        # 2 * 3 * 2 * 2 windows of 2 * 2: a comparison each.
        (96, node("aten.max_pool2d.default", tensor("y", 2, 3, 2, 2), self=X, kernel_size=[2, 2])),
        (96, node("aten.max_pool2d.default", tensor("y", 2, 3, 2, 2), self=X, kernel_size=[2])),
        # 24 windows of 3 * 2: 6 additions and a division each.
        (168, node("aten.avg_pool2d.default", tensor("y", 2, 3, 2, 2), self=X, kernel_size=[3, 2])),
        # Windows 0-1, 1-2, 2-3 over 4: 6 elements a dimension, 6 * 36 additions and 6 * 9 divisions.
        (270, node("aten._adaptive_avg_pool2d.default", tensor("y", 2, 3, 3, 3), self=X, output_size=[3, 3])),
        (96, node("aten.sum.dim_IntList", tensor("y", 2, 3), self=X, dim=[2, 3])),
        (396, node("aten.var.correction", tensor("y", 2, 3), self=X, dim=[2, 3])),  # 4 * 96 + 2 * 6
        (480, node("quantized_decomposed.quantize_per_tensor.default", tensor("q", 2, 3, 4, 4, dtype="int8"), input=X)),
        (0, node("aten.permute_copy.default", Y, self=X, dims=[0, 1, 3, 2])),
        (0, node("aten.full.default", Y, size=[2, 3, 4, 4], fill_value=0.0)),
        # A vector: FlopCounterMode counts none.
        (24, node("aten.mv.default", tensor("y", 3), self=tensor("m", 3, 4), vec=tensor("v", 4))),
        (8, node("aten.dot.default", tensor("y"), self=tensor("u", 4), tensor=tensor("v", 4))),
        # 2 sequences of 3 queries in 4 heads of 8, after 5 in the cache of 16: 4 * 192 * (5 + 3).
        (6144, custom_sdpa(start_pos=5)),
        # With a mask over all 16 positions.
        (12288, custom_sdpa(start_pos=5, attn_mask=tensor("mask", 3, 16))),
    ]
    assert flops(lab, *(each for _, each in others)) == [count for count, _ in others]


def custom_sdpa(**others: Any) -> Node:
    """ExecuTorch's attention over a cache: [batch, position, head, size]."""
    query, cache = tensor("q", 2, 3, 4, 8), (tensor("k", 2, 16, 4, 8), tensor("v", 2, 16, 4, 8))
    return node(
        "llama.custom_sdpa.default", tensor("y", 2, 3, 4, 8), query=query, key=cache[0], value=cache[1], **others
    )


def test_bytes_worked_out_by_hand(lab: Warehouse) -> None:
    half, table = tensor("h", 10, dtype="float16"), tensor("table", 1000, 8)
    ids = tensor("ids", 3, dtype="int64")
    found = costs(
        lab,
        node("aten.mul.Tensor", tensor("y", 10, dtype="float16"), self=half, other=half),  # once, though taken twice
        node("aten.gt.Scalar", tensor("y", 10, dtype="bool"), self=half, other=0),
        node("aten.cat.default", tensor("y", 20, dtype="float16"), tensors=[half, tensor("g", 10, dtype="float16")]),
        node("aten.embedding.default", tensor("y", 3, 8), weight=table, indices=ids),  # three rows, not the table
        node("aten.slice_copy.Tensor", tensor("y", 10, 8), self=table, dim=0, start=0, end=10),
        node("aten.view.default", tensor("y", 8, 1000), self=table, size=[8, 1000]),
        node("aten.view_copy.default", tensor("y", 8, 1000), self=table, size=[8, 1000]),
        node("aten.full.default", tensor("y", 5, dtype="int64"), size=[5], fill_value=1),
        node(
            "llama.update_cache.default", tensor("y", 1), value=tensor("v", 1, 2), cache=tensor("c", 1, 64), start_pos=3
        ),
        node(
            "aten.native_layer_norm.default",
            [tensor("y", 2, 4), tensor("m", 2, 1), tensor("r", 2, 1)],
            input=tensor("i", 2, 4),
        ),
    )
    assert [row[1:3] for row in found] == [
        (20, 20), (20, 10), (40, 40), (24 + 96, 96), (320, 320), (0, 0), (32_000, 32_000), (0, 40), (8, 8), (32, 48),
    ]  # fmt: skip
    assert {row[3] for row in found} == {None}


def test_unknown_values_are_null_with_a_reason(lab: Warehouse) -> None:
    many = 2**62
    symbolic = costs(
        lab,
        node("aten.relu.default", tensor("y", None, 4), self=tensor("x", None, 4)),
        node("aten.linear.default", tensor("z", None, 8), input=tensor("x", None, 4), weight=tensor("w", 8, 4)),
    )
    assert symbolic == [(None, None, None, "sizes are known only at run time")] * 2
    assert costs(
        lab,
        node("aten.mode.default", [tensor("y"), tensor("i", dtype="int64")], self=tensor("x", 9)),
        node("mine.own.default", tensor("y", 2), x=tensor("x", 2)),
        node("aten.linear.default", tensor("y", 2, 8), weight=tensor("w", 8, 4)),
        node("aten.convolution.default", tensor("y", 1, 2, 3), input=tensor("x", 1, 2, 3), weight=tensor("w", 2, 2, 1)),
        node("aten.max_pool2d.default", tensor("y", 1, 2, 2), self=tensor("x", 1, 4, 4), kernel_size="2"),
        node("aten.reshape.default", tensor("y", 4), self=tensor("x", 2, 2), shape=[4]),
        node("aten.mul.Tensor", tensor("y", many, many), self=tensor("x", many, many)),
        node("aten.mul.Tensor", tensor("y", *[many] * 40), self=tensor("x", *[many] * 40)),
        custom_sdpa(),
        custom_sdpa(start_pos=5),
    ) == [
        (None, None, None, "no formula for aten.mode"),
        (None, None, None, "no formula for mine.own"),
        (None, 128, 64, "a value that the formula needs is not in the record"),
        (None, 24 + 16, 24, "a value that the formula needs is not in the record"),
        (None, 64, 16, "a value that the formula needs is not in the record"),
        (0, None, None, "bytes: it may copy, or return a view"),
        (None, None, None, "too many to be true"),
        (None, None, None, "too many to be true"),
        (None, None, None, "the used part of its cache is known only at run time"),
        (6144, None, None, "bytes: the part of its cache that is read is unknown"),
    ]


def test_op_costs_add_up_and_name_missing_formulas() -> None:
    nodes = [
        node("aten.relu.default", Y, self=X),
        node("aten.relu.default", tensor("z", 2), self=tensor("u", 2)),
        node("aten.mul.Tensor", tensor("v", 2), self=tensor("z", 2), other=tensor("u", 2)),
        node("aten.mul.Tensor", tensor("s", None), self=tensor("t", None), other=tensor("t", None)),
        node("aten.mode.default", tensor("k", 2), self=tensor("u", 2)),
    ]
    with empty_warehouse() as warehouse:
        warehouse.ingest_record(record(*nodes), name="it")
        query = """
            SELECT o.method, o.op_type, o.nodes, o.unknown, o.flops, o.bytes_read, o.bytes_written, o.flops_percent,
                o.reason
            FROM op_costs('it') AS o
        """
        assert_csv(
            warehouse,
            query,
            """
            method,op_type,nodes,unknown,flops,bytes_read,bytes_written,flops_percent,reason
            forward,aten.relu.default,2,0,98,392,392,98.0,
            forward,aten.mul.Tensor,2,1,,,,,sizes are known only at run time
            forward,aten.mode.default,1,1,,,,,no formula for aten.mode
            """,
        )


def loops(*ranges: int) -> int:
    """How often the body of nested loops runs: 2 operations each time."""
    count = 0
    for _ in itertools.product(*map(range, ranges)):
        count += 2
    return count


@pytest.mark.long
@examples(25)
@given(
    st.integers(1, 2), st.integers(1, 3), st.integers(1, 3), st.integers(1, 3),
    st.lists(st.tuples(st.integers(1, 3), st.integers(3, 5)), min_size=1, max_size=3), st.booleans(),
)  # fmt: skip
def test_convolutions_against_loops(
    lab: Warehouse, batch: int, groups: int, taken: int, made: int, dimensions: list[tuple[int, int]], transposed: bool
) -> None:
    """`taken` and `made` are channels of a group; with as many groups as channels, it is a depthwise convolution."""
    kernels, sizes = [kernel for kernel, _ in dimensions], [size for _, size in dimensions]
    out = [size + kernel - 1 if transposed else size - kernel + 1 for kernel, size in dimensions]
    weight = (groups * taken, made, *kernels) if transposed else (groups * made, taken, *kernels)
    call = node(
        "aten.convolution.default", tensor("y", batch, groups * made, *out),
        input=tensor("x", batch, groups * taken, *sizes), weight=tensor("w", *weight), transposed=transposed,
        groups=groups,
    )  # fmt: skip
    assert flops(lab, call) == [loops(batch, groups, taken, made, *kernels, *(sizes if transposed else out))]


@pytest.mark.long
@examples(25)
@given(st.lists(st.tuples(st.integers(1, 12), st.integers(1, 12)), min_size=1, max_size=3))
def test_adaptive_windows_against_all_windows(lab: Warehouse, dimensions: list[tuple[int, int]]) -> None:
    lengths = [
        sum(math.ceil((i + 1) * size / places) - i * size // places for i in range(places))
        for size, places in dimensions
    ]
    out = math.prod(places for _, places in dimensions)
    call = node(
        f"aten.adaptive_avg_pool{len(dimensions)}d.default",
        tensor("y", 2, *(places for _, places in dimensions)),
        self=tensor("x", 2, *(size for size, _ in dimensions)),
    )
    assert flops(lab, call) == [2 * math.prod(lengths) + 2 * out]
