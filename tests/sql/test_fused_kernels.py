"""Operations of kernels that Inductor wrote, by the ops in their names: by hand."""

from __future__ import annotations

from typing import Any

import pytest

from tests.sql.test_op_efficiency import ADD, H100, HALF, launched, op
from tests.traces import Traces

ROWS, WEIGHT, LONG = ([7, 96], HALF), ([96], HALF), ([7, 96], "float")
# Kernels with what they take, their operations, and how many at least. Loops have 672 elements, reductions 7 times 96.
KERNELS: list[tuple[str, list[Any], tuple[int | None, int | None]]] = [
    ("triton_poi_fused_add_cos_sin_0", [ROWS, ROWS, ROWS, "672"], (None, 3 * 672)),
    ("triton_poi_fused__to_copy_add_mul_1", [ROWS, WEIGHT, LONG, "672"], (None, 2 * 672)),
    ("triton_poi_fused_bitwise_and_logical_not_lt_2", [ROWS, ROWS, "672"], (None, 3 * 672)),
    # Loops over two dimensions.
    ("triton_poi_fused_mul_transpose_view_3", [ROWS, ROWS, "7", "96"], (None, 672)),
    # Nothing but copies.
    ("triton_poi_fused_clone_permute_4", [ROWS, ROWS, "672"], (0, None)),
    ("triton_poi_fused__to_copy_5", [ROWS, LONG, "672"], (0, None)),
    # Ops of which a part may be in it, or which apply to a part of the elements; and no names.
    ("triton_poi_fused_add_native_layer_norm_6", [ROWS, ROWS, "672"], (None, None)),
    ("triton_poi_fused_add_cat_7", [ROWS, ROWS, "672"], (None, None)),
    ("triton_poi_fused__log_softmax_8", [ROWS, ROWS, "672"], (None, None)),
    ("triton_poi_fused_9", [ROWS, ROWS, "672"], (None, None)),
    # Loops that no tensor has.
    ("triton_poi_fused_add_10", [ROWS, ROWS, "600"], (None, None)),
    ("triton_poi_fused_add_11", [ROWS, ROWS, ""], (None, None)),
    ("triton_red_fused_add_native_layer_norm_12", [ROWS, ROWS, WEIGHT, "7", "96"], (None, 672)),
    ("triton_per_fused_sum_13", [ROWS, ([7], "float"), "7", "96"], (None, 672)),
    # The order of ops is that of the alphabet, but a part of the elements is chosen by numbers.
    ("triton_poi_fused_add_index_14", [ROWS, ROWS, "672"], (None, None)),
]


@pytest.mark.long
def test_operations_by_names(traces: Traces) -> None:
    events: list[dict[str, Any]] = []
    for at, (name, inputs, _) in enumerate(KERNELS):
        events += [op(name, 100 * at, 100 * at + 9, *inputs), *launched(ADD, 100 * at + 1, 50 + at, at + 1)]
    traces.take(*events, **H100)
    rows = sorted(traces.ask("op_efficiency", "total, op, flops, flops_at_least"))
    assert {row[1]: row[2:] for row in rows} == {name: expected for name, _, expected in KERNELS}
    # Kernels are known by their bytes, except the last, which chooses elements. Operations that are known only to be at
    # least some aren't counted.
    known_ones = sum(50 + at for at in range(len(KERNELS) - 1))
    [(flops, known, is_least)] = traces.ask("step_efficiency", "model_flops, known_percent, is_least")
    assert (flops, is_least) == (0, None)
    assert known == pytest.approx(100 * known_ones / sum(50 + at for at in range(len(KERNELS))))


def test_groups_have_the_mean(traces: Traces) -> None:
    """Two calls of other sizes, by op."""
    name = "triton_poi_fused_add_0"
    traces.take(
        op(name, 0, 9, ROWS, ROWS, ROWS, "672"), *launched(ADD, 1, 5, 1),
        op(name, 10, 19, WEIGHT, WEIGHT, WEIGHT, "96"), *launched(ADD, 11, 5, 2), **H100,
    )  # fmt: skip
    assert traces.ask("op_efficiency", "flops, flops_at_least", by="op") == [(None, (672 + 96) / 2)]
