"""Operations and bytes of attention whose lengths or mask are values of tensors: by hand, and FlopCounterMode's."""

from __future__ import annotations

from typing import Any

import pytest

from tests.sql.test_op_efficiency import FLASH, H100, HALF, launched, op
from tests.trace_builders import event
from tests.traces import Traces

COSTS = "flops, bytes, flops_at_most, reason, assumed"
UNKNOWN = "the trace lacks the lengths of its sequences: assume seen_keys"
NEEDS = "the trace lacks an argument that its formula needs"
MASKED = "the trace doesn't show what its mask leaves out: assume seen_keys"
INT, FLOAT = "int", "float"


def asked(traces: Traces, calls: list[tuple[str, list[Any]]], *around: dict[str, Any], **given: Any) -> list[Any]:
    """The costs of calls, in their order."""
    events: list[dict[str, Any]] = [*around]
    for at, (name, inputs) in enumerate(calls):
        events += [op(name, 100 * at, 100 * at + 9, *inputs), *launched(FLASH, 100 * at + 1, 50 + at, at + 1)]
    traces.take(*events, **H100)
    return [row[1:] for row in sorted(traces.ask("op_efficiency", f"total, {COSTS}", **given))]


# 4 queries of 16 heads, of 512 + 64 elements; values have 512. A cache has 64 pages of 64 positions.
QUERY, CACHE, LENGTHS, TABLE = ([4, 1, 16, 576], HALF), ([64, 64, 1, 576], HALF), ([4], INT), ([4, 8], INT)
FLAT, OUT, ROPE = ([3, 128, 512], HALF), ([3, 128, 512], HALF), ([3, 128, 64], HALF)
PAGES = ([64, 128, 576], HALF)
LATENT: list[tuple[str, list[Any]]] = [
    ("sgl_kernel::fwd_kvcache_mla", [QUERY, CACHE, "512", LENGTHS, TABLE, "0.1", "False", LENGTHS, LENGTHS, "False", None]),
    # Each query sees 40 chosen positions at most.
    ("_flashmla_C::fwd_kvcache_mla",
     [QUERY, CACHE, "512", LENGTHS, TABLE, "0.1", "False", LENGTHS, LENGTHS, "False", ([4, 1, 40], INT)]),
    ("sgl_kernel::cutlass_mla_decode", [OUT, FLAT, ROPE, PAGES, ([3], INT), ([3, 5], INT), ([9], "unsigned char"), "0.1", "1"]),
    # Before, queries had their rotated part.
    ("sgl_kernel::cutlass_mla_decode", [OUT, ([3, 128, 576], HALF), PAGES, ([3], INT), ([3, 5], INT), ([9], "unsigned char")]),
    ("_C::sm100_cutlass_mla_decode",
     [OUT, ([3, 128], FLOAT), FLAT, ROPE, PAGES, ([3], INT), ([3, 5], INT), ([9], "unsigned char"), "0.1", "1"]),
    # 3 sequences of 2 queries each, with 90 pages of a position.
    ("aiter::mla_decode_stage1_asm_fwd",
     [([6, 16, 576], HALF), ([100, 1, 1, 576], HALF), LENGTHS, LENGTHS, ([90], INT), ([3], INT), LENGTHS, "2", "0.1",
      ([6, 8, 16, 512], FLOAT), ([6, 8, 16, 1], FLOAT)]),
    ("vllm::unified_mla_attention_with_output", [([4, 16, 192], HALF), ([4, 512], HALF), ([4, 1, 64], HALF), ([4, 16, 128], HALF)]),
]  # fmt: skip
WIDTH = 576 + 512


@pytest.mark.long
def test_latent_attention(traces: Traces) -> None:
    """Lengths are values of a tensor: at most, all pages that a sequence may have are full."""
    assert asked(traces, LATENT) == [
        (None, None, 2 * 4 * 16 * WIDTH * 8 * 64, UNKNOWN, None),
        (None, None, 2 * 4 * 16 * WIDTH * 40, UNKNOWN, None),
        (None, None, 2 * 3 * 128 * WIDTH * 5 * 128, UNKNOWN, None),
        (None, None, None, UNKNOWN, None),
        (None, None, 2 * 3 * 128 * WIDTH * 5 * 128, UNKNOWN, None),
        (None, None, 2 * 16 * WIDTH * 2 * 90, UNKNOWN, None),
        (None, None, None, "the trace lacks the lengths of its sequences", None),
    ]


@pytest.mark.long
def test_latent_attention_of_assumed_lengths(traces: Traces) -> None:
    """Queries that see 25 positions each. With two queries of a sequence it isn't known how many positions are read."""
    rows = asked(traces, LATENT, assume="seen_keys=25")
    seen, lengths = "seen_keys=25", "bytes: the trace lacks the lengths of its sequences"
    four = (2 * 4 * 16 * WIDTH * 25, 2 * 4 * 16 * WIDTH + 4 * 25 * 576 * 2, None, None, seen)
    three = 2 * 3 * 128 * WIDTH
    assert rows == [
        four, four, (three * 25, three + 3 * 25 * 576 * 2, None, None, seen), (three * 25, None, None, lengths, seen),
        (three * 25, three + 3 * 25 * 576 * 2, None, None, seen), (2 * 6 * 16 * WIDTH * 25, None, None, lengths, seen),
        (None, None, None, "the trace lacks the lengths of its sequences", None),
    ]  # fmt: skip


@pytest.mark.long
def test_latent_attention_of_a_step_with_lengths(traces: Traces) -> None:
    """4 tokens are generated, which see 90 positions; what the name tells is not assumed."""
    step = event("user_annotation", "execute_5_context_1(sq7sk7sqsq49sqsk49)_generation_4(sq4sk90sqsq4sqsk90)", 0, 99)
    [row] = asked(traces, LATENT[:1], step, assume="seen_keys=25")
    assert row == (2 * 16 * WIDTH * 90, 2 * 4 * 16 * WIDTH + 90 * 576 * 2, None, None, None)


@pytest.mark.long
def test_paged_attention_of_assumed_lengths(traces: Traces) -> None:
    heads = ([9, 2, 32], HALF)
    calls = [("vllm::unified_attention_with_output", [heads, heads, heads, heads, None])]
    lengths = "bytes: the trace lacks the lengths of its sequences"
    assert asked(traces, calls, assume="seen_keys=12.5") == [
        (4 * 9 * 2 * 32 * 12.5, None, None, lengths, "seen_keys=12.5")
    ]


# 2 x 6 heads of 100 queries, of 32 elements; 2 heads of 130 keys; values of 16 elements.
FLEX_QUERY, FLEX_KEY, FLEX_VALUE = ([2, 6, 100, 32], HALF), ([2, 2, 130, 32], HALF), ([2, 2, 130, 16], HALF)
SUMS, BLOCKS = ([2, 6, 100], FLOAT), [([1, 1, 1], INT), ([1, 1, 1, 2], INT)]
BY_POSITION = [([2, 100, 6, 32], HALF), ([2, 130, 2, 32], HALF), ([2, 130, 2, 16], HALF)]
FLEX: list[tuple[str, list[Any]]] = [
    ("triton_tem_fused_flex_attention_0", [FLEX_QUERY, FLEX_KEY, FLEX_VALUE, SUMS, *BLOCKS, ([2, 6, 100, 16], HALF)]),
    ("triton_tem_fused_flex_attention_mul_3", [*BY_POSITION, SUMS, *BLOCKS, ([2, 6, 100, 16], HALF)]),
    ("triton_tem_fused_flex_attention_backward_mul_1",
     [FLEX_QUERY, FLEX_KEY, FLEX_VALUE, SUMS, SUMS, ([2, 6, 100, 16], HALF), FLEX_QUERY, FLEX_VALUE, *BLOCKS]),
    # Made of a tensor with queries, keys and values.
    ("triton_tem_fused_flex_attention_2", [([200, 384], HALF), ([200, 384], HALF), ([200, 384], HALF), SUMS, *BLOCKS]),
    ("triton_tem_fused_mm_2", [FLEX_QUERY, FLEX_KEY]),
]  # fmt: skip


@pytest.mark.long
def test_flex_attention(traces: Traces) -> None:
    """At most those of all positions: 14,976,000 and 39,936,000 by FlopCounterMode of torch 2.13, with 6 heads of keys."""
    assert asked(traces, FLEX) == [
        (None, None, 14_976_000, MASKED, None), (None, None, 14_976_000, MASKED, None),
        (None, None, 39_936_000, MASKED, None), (None, None, None, NEEDS, None),
        (None, None, None, "no formula for triton_tem_fused_mm_2", None),
    ]  # fmt: skip
    assert traces.ask("step_efficiency", "model_flops, known_percent") == [(None, 0)]


@pytest.mark.long
def test_flex_attention_of_assumed_positions(traces: Traces) -> None:
    """65 positions are half of those that there are; no more than these."""
    rows = asked(traces, FLEX, assume="seen_keys=65")
    bytes = "bytes: the trace doesn't show what its mask leaves out"
    assert rows[:3] == [(each, None, None, bytes, "seen_keys=65") for each in (7_488_000, 7_488_000, 19_968_000)]
    assert rows[3][:1] + rows[3][3:] == (None, NEEDS, None)
    [most] = traces.ask("op_efficiency", "max(flops)", assume="seen_keys=999")
    assert most == (39_936_000,)


@pytest.mark.long
def test_roof_of_flex_attention(traces: Traces) -> None:
    """Of 8 heads of 4,096 positions: their operations take longer than reading all tensors."""
    tensors = [([1, 8, 4096, 128], HALF)] * 3
    traces.take(
        op("triton_tem_fused_flex_attention_0", 0, 9, *tensors, ([1, 8, 4096], FLOAT), tensors[0]),
        *launched(FLASH, 1, 200, 1), **H100,
    )  # fmt: skip
    flops = 4 * 8 * 4096 * 128 * 2048
    found = traces.ask("op_efficiency", "roof_percent, bound, assumed", assume="seen_keys=2048")
    assert found == [(pytest.approx(flops / 989.4e12 / 200e-6 * 100), "compute", "seen_keys=2048")]
    assert traces.ask("op_efficiency", "roof_percent, bound") == [(None, None)]


# cuDNN's attention: by heads and positions, or of several sequences in one tensor.
DENSE = [([2, 4, 10, 8], HALF), ([2, 4, 14, 8], HALF), ([2, 4, 14, 6], HALF)]
PACKED, BOUNDS = [([30, 4, 8], HALF)] * 3, ([4], INT)
SEED: tuple[list[int], str] = ([], "long int")


def cudnn(tensors: list[Any], bounds: Any, longest: str, is_causal: str) -> list[Any]:
    return [*tensors, None, bounds, bounds, longest, longest, "True", "0.", is_causal, "False"]


def cudnn_backward(gradient: Any, tensors: list[Any], bounds: Any, longest: str, is_causal: str) -> list[Any]:
    sums, seed = ([2, 4, 10, 1], FLOAT), SEED
    return [gradient, *tensors, gradient, sums, seed, seed, None, bounds, bounds, longest, longest, "0.", is_causal]


@pytest.mark.long
def test_attention_of_cudnn(traces: Traces) -> None:
    """31,360 and 80,640 operations by FlopCounterMode of torch 2.13. 3 sequences of 10 positions each; of other lengths
    they are unknown."""
    gradient = ([2, 4, 10, 6], HALF)
    rows = asked(traces, [
        ("aten::_cudnn_attention_forward", cudnn(DENSE, None, "10", "False")),
        ("aten::_cudnn_attention_backward", cudnn_backward(gradient, DENSE, None, "10", "False")),
        ("aten::_cudnn_attention_forward", cudnn(PACKED, BOUNDS, "10", "False")),
        ("aten::_cudnn_attention_forward", cudnn(PACKED, BOUNDS, "10", "True")),
        ("aten::_cudnn_attention_backward", cudnn_backward(PACKED[0], PACKED, BOUNDS, "10", "True")),
        ("aten::_cudnn_attention_forward", cudnn(PACKED, BOUNDS, "12", "False")),
    ])  # fmt: skip
    one = 3 * 2 * 4 * 10 * 10 * 8  # a product of the three sequences
    unknown = (None, "the trace lacks the lengths of its sequences")
    assert [(row[0], row[3]) for row in rows] == [
        (31_360, None), (80_640, None), (2 * one, None), (one, None), (5 * one / 2, None), unknown
    ]  # fmt: skip
    # Queries, keys, values and output, and a float for each query.
    assert rows[0][1] == 2 * (2 * 4 * (10 * 8 + 14 * 8 + 14 * 6 + 10 * 6)) + 4 * 2 * 4 * 10
    assert rows[2][1] == 2 * 4 * 30 * 4 * 8 + 2 * 4 * 4 + 4 * 30 * 4


@pytest.mark.long
def test_attention_that_chose_that_of_cudnn_counts(traces: Traces) -> None:
    traces.take(
        op("aten::_scaled_dot_product_cudnn_attention", 0, 9, *DENSE, None, "True", "0.", "False", "False"),
        op("aten::_cudnn_attention_forward", 1, 8, *cudnn(DENSE, None, "10", "False")), *launched(FLASH, 2, 40, 1),
        **H100,
    )  # fmt: skip
    assert traces.ask("op_efficiency", "op, flops") == [("aten::_scaled_dot_product_cudnn_attention", 31_360)]


def test_gradients_of_values_of_another_size(traces: Traces) -> None:
    """80,640 operations by FlopCounterMode of torch 2.13: three products of 8 elements, two of 6."""
    sums, seed, gradient = ([2, 4, 10], FLOAT), SEED, ([2, 4, 10, 6], HALF)
    given = [gradient, *DENSE, gradient, sums, None, None, "10", "14", "0.", "False", seed, seed]
    [row] = asked(traces, [("aten::_scaled_dot_product_flash_attention_backward", given)])
    assert row[0] == 80_640
