"""Products of TransformerEngine 2: its autograd functions name their tensors as torch's profiler writes them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.sql.test_op_efficiency import GEMM, H100, HALF, launched, op
from tests.traces import Traces

WEIGHT, INPUT, SCALES, BIAS = ([10, 6], HALF), ([3, 4, 6], HALF), ([6], HALF), ([10], HALF)
FP8 = "sm90_xmma_gemm_e4m3bf16_e4m3f32_f32_tn_n_tilesize128x128x128_cublas"
LEAST = "bytes: a lower bound; it also moves bytes that sizes don't show"


def calls(traces: Traces, *written: tuple[str, list[Any], str]) -> None:
    events: list[dict[str, Any]] = []
    for at, (name, inputs, kernel) in enumerate(written):
        events += [op(name, 100 * at, 100 * at + 9, *inputs), *launched(kernel, 100 * at + 1, 50 + at, at + 1)]
    traces.take(*events, **H100)


def test_products_of_modules(traces: Traces) -> None:
    """Tensors, numbers and None are inputs, in the order of `forward`, other objects aren't: as torch 2.13 writes it.
    12 rows of 6 elements by a weight of 10 x 6."""
    calls(
        traces, ("_Linear", [WEIGHT, INPUT, None, None, "True"], GEMM), ("_Linear", [WEIGHT, INPUT, BIAS, "False"], GEMM),
        ("_LayerNormLinear", [INPUT, SCALES, None, WEIGHT, None, "1e-05"], GEMM), ("_LinearBackward", [([3, 4, 10], HALF)], GEMM),
        # Functions of others with this name.
        ("_Linear", [INPUT, WEIGHT, None], GEMM), ("_Linear", [([10, 7], HALF), INPUT, None], GEMM),
    )  # fmt: skip
    flops, moved = 2 * 12 * 6 * 10, 2 * (60 + 72 + 120)
    unknown = "the trace lacks an argument that its formula needs"
    rows = [row[1:] for row in sorted(traces.ask("op_efficiency", "total, family, flops, bytes, reason"))]
    assert rows[:4] == [
        ("GEMM", flops, moved, LEAST), ("GEMM", flops, moved + 2 * 10, LEAST), ("GEMM", flops, moved + 2 * 6, LEAST),
        ("GEMM", None, None, "its forward call, which has its weight, is not in the trace, or was recorded without shapes"),
    ]  # fmt: skip
    assert [(row[1], row[3]) for row in rows[4:]] == [(None, unknown)] * 2


def numbered(call: dict[str, Any], number: int, forward: int) -> dict[str, Any]:
    call["args"] |= {"Sequence number": number, "Fwd thread id": forward}
    return call


@pytest.mark.long
def test_backward_passes_have_the_weight_of_their_forward_call(traces: Traces) -> None:
    """The products of both gradients, or of one, by their kernels; a sum of parts is no product."""
    gradient, reduce = ([3, 4, 10], HALF), "void splitKreduce_kernel<32, 16, int, float, __nv_bfloat16>(int)"
    traces.take(
        numbered(op("_Linear", 0, 9, WEIGHT, INPUT, BIAS), 5, 0), *launched(GEMM, 1, 50, 1),
        numbered(op("_LayerNormLinear", 10, 19, INPUT, SCALES, None, WEIGHT, None), 6, 0), *launched(GEMM, 11, 51, 2),
        numbered(op("_LayerNormLinearBackward", 20, 29, gradient), 6, 1), *launched(GEMM, 21, 30, 3),
        *launched(reduce, 22, 3, 4, begin=60),
        numbered(op("_LinearBackward", 30, 39, gradient), 5, 1), *launched(GEMM, 31, 20, 5), *launched(GEMM, 32, 20, 6, begin=60),
        # Of a forward call that the trace doesn't have, and of more kernels than products.
        numbered(op("_LinearBackward", 40, 49, gradient), 7, 1), *launched(GEMM, 41, 20, 7),
        numbered(op("_Linear", 50, 59, WEIGHT, INPUT, None), 8, 0), *launched(GEMM, 51, 52, 8),
        numbered(op("_LinearBackward", 60, 69, gradient), 8, 1),
        *[event for at in range(3) for event in launched(GEMM, 61 + at, 30, 9 + at, begin=100 + 40 * at)],
        **H100,
    )  # fmt: skip
    flops = 2 * 12 * 6 * 10
    rows = traces.ask("op_efficiency", "op, total, flops, bytes, reason")
    found = {row[:2]: row[2:] for row in rows if "Backward" in row[0]}
    assert found == {
        ("_LayerNormLinearBackward", 33): (flops, None, "bytes: it is unknown which of its products it computes"),
        # Read weight, input and gradient; written the gradients of input and weight.
        ("_LinearBackward", 40): (2 * flops, 2 * (60 + 72 + 120 + 72 + 60), LEAST),
        ("_LinearBackward", 20): (
            None, None, "its forward call, which has its weight, is not in the trace, or was recorded without shapes"
        ),
        ("_LinearBackward", 90): (
            None, None,
            "the trace lacks its forward call, which has the weight, or the number of its products",
        ),
    }  # fmt: skip


@pytest.mark.long
def test_products_that_convert_have_the_peak_of_their_kernel(traces: Traces) -> None:
    """The kernel has the type in its name: 1978.9 Tflop/s instead of 989.4."""
    large = [([4096, 4096], HALF), ([4096, 4096], HALF)]
    calls(traces, ("_Linear", large, FP8), ("_Linear", [large[0], ([2048, 4096], HALF)], GEMM))
    flops = 2 * 4096**3
    assert [row[1:] for row in sorted(traces.ask("op_efficiency", "total, peak_flops, roof_percent"))] == [
        (1978.9e12, pytest.approx(flops / 1978.9e12 / 50e-6 * 100)), (989.4e12, pytest.approx(flops / 2 / 989.4e12 / 51e-6 * 100))
    ]  # fmt: skip
