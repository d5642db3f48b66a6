"""Products of TransformerEngine 2: its autograd functions name their tensors as torch's profiler writes them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.sql.test_op_efficiency import GEMM, H100, HALF, launched, op
from tests.traces import Traces

WEIGHT, INPUT, SCALES, BIAS = ([10, 6], HALF), ([3, 4, 6], HALF), ([6], HALF), ([10], HALF)
FP8 = "sm90_xmma_gemm_e4m3bf16_e4m3f32_f32_tn_n_tilesize128x128x128_cublas"
LEAST = "bytes: at least; not all that it moves follows from sizes"


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
    unknown = "an argument that its formula needs is not written"
    rows = [row[1:] for row in sorted(traces.ask("op_efficiency", "total, family, flops, bytes, reason"))]
    assert rows[:4] == [
        ("GEMM", flops, moved, LEAST), ("GEMM", flops, moved + 2 * 10, LEAST), ("GEMM", flops, moved + 2 * 6, LEAST),
        ("GEMM", None, None, "its weight is not written"),
    ]  # fmt: skip
    assert [(row[1], row[3]) for row in rows[4:]] == [(None, unknown)] * 2


def test_products_that_convert_have_the_peak_of_their_kernel(traces: Traces) -> None:
    """The kernel has the type in its name: 1978.9 Tflop/s instead of 989.4."""
    large = [([4096, 4096], HALF), ([4096, 4096], HALF)]
    calls(traces, ("_Linear", large, FP8), ("_Linear", [large[0], ([2048, 4096], HALF)], GEMM))
    flops = 2 * 4096**3
    assert [row[1:] for row in sorted(traces.ask("op_efficiency", "total, peak_flops, roof_percent"))] == [
        (1978.9e12, pytest.approx(flops / 1978.9e12 / 50e-6 * 100)), (989.4e12, pytest.approx(flops / 2 / 989.4e12 / 51e-6 * 100))
    ]  # fmt: skip
