"""Ops of two traces of different devices: times, calls, roofs and kernels by hand and by plain Python over the events."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from etq.errors import QueryError
from etq.warehouse.warehouse import Warehouse
from tests.batches import ingest_all
from tests.conftest import CAPTURES
from tests.sql.test_op_efficiency import HALF, launched, op
from tests.trace_builders import event, trace
from tests.warehouses import empty_warehouse

H100: Final[dict[str, Any]] = {
    "deviceProperties": [{"id": 0, "name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 85_000_000_000}]
}
MI300: Final[dict[str, Any]] = {
    "deviceProperties": [{"id": 0, "name": "AMD Instinct MI300X", "totalGlobalMem": 206_000_000_000}]
}
IMAGE, WEIGHT, BIAS = ([8, 64, 56, 56], HALF), ([64, 64, 3, 3], HALF), ([64], HALF)
WINDOW: Final = ["[1, 1]", "[1, 1]", "[1, 1]"]
QUERY: Final = ([2, 4, 128, 64], HALF)
LIKE_SUMS: Final = ([2, 4, 128], "float")


def step(number: int, at: float, device: str) -> list[dict[str, Any]]:
    """A convolution, a normalization and attention with its gradient, each by the ops of the device's backend."""
    is_amd = device == "amd"
    kernel = number * 100
    events = [
        event("user_annotation", f"ProfilerStep#{number}", at, at + 400),
        op("aten::conv2d", at + 10, at + 60, IMAGE, WEIGHT, BIAS, *WINDOW),
        op("aten::convolution", at + 11, at + 59, IMAGE, WEIGHT, BIAS, *WINDOW, "False", "[0, 0]", "1"),
        op("aten::_convolution", at + 12, at + 58, IMAGE, WEIGHT, BIAS, *WINDOW, "False", "[0, 0]", "1"),
    ]
    if is_amd:
        events += [
            op("aten::miopen_convolution", at + 13, at + 40, IMAGE, WEIGHT, BIAS, *WINDOW),
            *launched("igemm_fwd", at + 14, 30, kernel + 1),
            op("aten::miopen_batch_norm", at + 72, at + 78, IMAGE, BIAS, BIAS, BIAS, BIAS),
            *launched("MIOpenBatchNormFwd", at + 73, 20, kernel + 2),
        ]
    else:
        events += [
            op("aten::cudnn_convolution", at + 13, at + 40, IMAGE, WEIGHT, *WINDOW),
            *launched("sm90_xmma_fprop", at + 14, 10, kernel + 1),
            # Of the bias, which the other backend adds itself.
            op("aten::add_", at + 45, at + 50, IMAGE, ([1, 64, 1, 1], HALF), "1"),
            *launched("vectorized_add", at + 46, 4, kernel + 3),
            # Without the op around it.
            op("aten::cudnn_batch_norm", at + 72, at + 78, IMAGE, BIAS, BIAS, BIAS, BIAS),
            *launched("cudnn::bn_fw_tr", at + 73, 5, kernel + 2),
        ]
    variant = "efficient" if is_amd else "flash"
    length = 90 if is_amd else 40
    events += [
        op("aten::scaled_dot_product_attention", at + 80, at + 99, QUERY, QUERY, QUERY),
        op(f"aten::_scaled_dot_product_{variant}_attention", at + 81, at + 98, QUERY, QUERY, QUERY),
        op(f"aten::_{variant}_attention_forward", at + 82, at + 97, QUERY, QUERY, QUERY),
        *launched(f"{variant}_fwd", at + 83, length, kernel + 4),
        op(
            f"aten::_scaled_dot_product_{variant}_attention_backward", at + 101, at + 120, *[QUERY] * 4,
            *([([0], HALF)] if is_amd else []), QUERY, LIKE_SUMS,
        ),
        *launched(f"{variant}_bwd", at + 102, 2 * length, kernel + 5),
        # Of one side, and what no op launched.
        op("aten::relu" if is_amd else "aten::gelu", at + 130, at + 140, IMAGE),
        *launched("pointwise", at + 131, 3, kernel + 6, begin=at + 285),
        *launched("fill_without_op", at + 300, 7 if is_amd else 2, kernel + 7),
    ]  # fmt: skip
    return events


@pytest.fixture(scope="module")
def lab() -> Iterator[Warehouse]:
    """Two steps of NVIDIA's, three of AMD's, and an op outside of them; a trace without shapes, and a dump."""
    contents: dict[str, bytes | Path] = {"dump": CAPTURES / "mlp" / "mlp.etdp"}
    with empty_warehouse() as warehouse:
        for name, steps, properties in (("nvidia", 2, H100), ("amd", 3, MI300)):
            events = [made for number in range(steps) for made in step(number, 5000.0 * number, name)]
            outside = [op("aten::mul", 99_000, 99_009, IMAGE, IMAGE), *launched("outside", 99_001, 500, 9999)]
            contents[name] = trace(*events, *outside, **properties)
        bare = [event("cpu_op", "aten::gelu", 0, 9), *launched("pointwise", 1, 6, 1)]
        ingest_all(warehouse, {**contents, "bare": trace(*bare, **MI300)}.items())
        yield warehouse


def rows(warehouse: Warehouse, columns: str, base: str = "nvidia", new: str = "amd", **options: Any) -> list[Any]:
    given = "".join(f', "{name}" := {value!r}' for name, value in options.items())
    return warehouse.rows(f"SELECT {columns} FROM compare_efficiency('{base}', '{new}'{given})")[1]


@pytest.mark.long
def test_by_hand(lab: Warehouse) -> None:
    """A convolution has the kernel of its bias; what is outside of steps has no row."""
    image, weight, bias = "bf16[8,64,56,56]", "bf16[64,64,3,3]", "bf16[64]"
    query = "bf16[2,4,128,64]"
    columns = "op, inputs, base_calls, new_calls, base_call_time, new_call_time, difference, base_kernel, new_kernel"
    assert rows(lab, columns) == [
        ("aten::scaled_dot_product_attention_backward", " ".join([query] * 4), 1, 1, 80, 180, 100, "flash_bwd",
         "efficient_bwd"),
        ("aten::scaled_dot_product_attention", " ".join([query] * 3), 1, 1, 40, 90, 50, "flash_fwd", "efficient_fwd"),
        ("aten::convolution", f"{image} {weight}", 1, 1, 14, 30, 16, "sm90_xmma_fprop", "igemm_fwd"),
        ("aten::batch_norm", f"{image} {bias}", 1, 1, 5, 20, 15, "cudnn::bn_fw_tr", "MIOpenBatchNormFwd"),
        (None, None, 1, 1, 2, 7, 5, "fill_without_op", "fill_without_op"),
        ("aten::gelu", image, 1, None, 3, None, -3, "pointwise", None),
        ("aten::relu", image, None, 1, None, 3, 3, None, "pointwise"),
    ]  # fmt: skip
    shares = rows(lab, "share_percent, difference")
    assert [share for share, _ in shares] == pytest.approx([100 * part / 186 for _, part in shares])
    assert {*rows(lab, "base_device, base_steps", new="nvidia")} == {("NVIDIA H100 SXM", 2)}
    assert {*rows(lab, "new_device, new_steps")} == {("AMD Instinct MI300X", 3), (None, None)}


@pytest.mark.long
def test_each_side_has_the_roof_of_its_device(lab: Warehouse) -> None:
    """Its bytes take longest at 3.352e12 per second, and its operations, at 1307.4e12, where bytes move at 5.325e12."""
    [(base, new)] = [
        row[1:] for row in rows(lab, "op, base_roof_percent, new_roof_percent") if row[0] == "aten::convolution"
    ]
    moved = 2 * (2 * 8 * 64 * 56 * 56 + 64 * 64 * 9 + 64)
    assert base == pytest.approx(100 * moved / 3.352e12 / 14e-6)
    assert new == pytest.approx(100 * 2 * 8 * 64 * 56 * 56 * 64 * 9 / 1307.4e12 / 30e-6)


@pytest.mark.long
def test_by_op(lab: Warehouse) -> None:
    assert {inputs for (inputs,) in rows(lab, "inputs", by="op")} == {None}
    sums = "sum(base_time), sum(new_time), sum(difference)"
    assert rows(lab, sums, by="op") == rows(lab, sums) == [(144, 330, 186)]
    with pytest.raises(QueryError, match="by must be shape or op, not node"):
        rows(lab, "op", by="node")


@pytest.mark.long
def test_traces_without_shapes_match_by_op(lab: Warehouse) -> None:
    [row] = [row for row in rows(lab, "op, inputs, base_call_time, new_call_time", new="bare") if row[3] is not None]
    assert row == ("aten::gelu", None, 3, 6)


def test_needs_traces(lab: Warehouse) -> None:
    with pytest.raises(QueryError, match="dump is of format etdump; name two PyTorch traces"):
        rows(lab, "op", new="dump")
