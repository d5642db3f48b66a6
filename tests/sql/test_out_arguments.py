"""Bytes of ops that write into their arguments, and of gradients that are asked for, by hand from torch's schemas."""

from __future__ import annotations

import json

from etq.warehouse.warehouse import Warehouse
from tests.conftest import shared_file
from tests.sql.test_op_efficiency import costs
from tests.traces import Traces

HALF, FLOAT, LONG = "c10::BFloat16", "float", "long int"
Tensor = tuple[list[int], str]
BOTH, INPUT_ALONE = "[True, True, True]", "[True, False, False]"


def tensor(*sizes: int, type: str = FLOAT) -> Tensor:
    return [*sizes], type


A, B, C = tensor(8, 4), tensor(4, 16), tensor(8, 16)
HALF_A, HALF_B = tensor(8, 4, type=HALF), tensor(4, 16, type=HALF)
HALF_AS, HALF_BS = tensor(2, 8, 4, type=HALF), tensor(2, 4, 16, type=HALF)
X = tensor(2, 3, 4, 5)  # 120 elements
IMAGE, WEIGHT, BIAS = tensor(2, 3, 8, 8), tensor(6, 3, 3, 3), tensor(6)
LISTS = ["1, 1", "0, 0", "1, 1"]
CASES: dict[str, tuple[list[Tensor | str | None], tuple[int, int | None]]] = {
    # Both matrices are read, the product is written, whether or not its size is already that.
    "aten::mm": ([A, B, C], (1024, 4 * (32 + 64 + 128))),
    "aten::mm of an empty out": ([A, B, tensor(0)], (1024, 4 * (32 + 64 + 128))),
    # The product is of the type that the call asks for: 6 is float.
    "aten::mm of an out_dtype": ([HALF_A, HALF_B, "6"], (1024, 2 * (32 + 64) + 4 * 128)),
    "aten::bmm of an out_dtype": ([HALF_AS, HALF_BS, "6"], (2048, 2 * (64 + 128) + 4 * 256)),
    "aten::addmm": ([tensor(16), A, B, "1", "1", C], (1024, 4 * (16 + 32 + 64 + 128))),
    "aten::bmm": ([tensor(2, 8, 4), tensor(2, 4, 16), tensor(2, 8, 16)], (2048, 4 * (64 + 128 + 256))),
    # Elementwise: an out of another type, of broadcast arguments, in place.
    "aten::add": ([tensor(8, 1), tensor(16), "1", tensor(8, 16, type=HALF)], (128, 4 * (8 + 16) + 2 * 128)),
    "aten::add_": ([A, A, "1"], (32, 4 * 32 * 3)),
    "aten::div": ([A, A, A], (32, 4 * 32 * 3)),
    "aten::div of a rounding_mode": ([A, A, "floor"], (32, 4 * 32 * 3)),
    "aten::relu": ([A, A], (32, 4 * 32 * 2)),
    "aten::threshold_backward": ([A, A, "0", A], (32, 4 * 32 * 3)),
    "aten::gelu_backward": ([A, A, "none", A], (11 * 32, 4 * 32 * 3)),
    # Reductions.
    "aten::max": ([tensor(64, 32), "1", "False", tensor(64), tensor(64, type=LONG)], (2048, 4 * 2048 + 64 * (4 + 8))),
    "aten::max of two": ([A, A, A], (32, 4 * 32 * 3)),
    "aten::amax": ([tensor(64, 32), "[1]", "False", tensor(64)], (2048, 4 * 2048 + 4 * 64)),
    "aten::all": ([tensor(64, type="bool"), tensor(type="bool")], (64, 64 + 1)),
    "aten::sum": ([tensor(64, 32), "6", tensor()], (2048, 4 * 2048 + 4)),
    "aten::norm": ([tensor(64, 32), "2", "[0]", "False", tensor(32)], (2 * 2048 + 32, 4 * 2048 + 4 * 32)),
    "aten::cumsum": ([A, "0", None, A], (32, 4 * 64)),
    # Convolution, pooling, copies, fills, normalization.
    "aten::convolution": (
        [IMAGE, WEIGHT, BIAS, *LISTS, "False", "0, 0", "1", tensor(2, 6, 6, 6)],
        (2 * 432 * 27, 4 * (384 + 162 + 6 + 432)),
    ),
    "aten::index_select": ([A, "0", tensor(2, type=LONG), tensor(2, 4)], (0, 4 * 8 + 8 * 2 + 4 * 8)),
    "aten::arange": (["0", "9", "1", tensor(0, type=LONG)], (0, None)),
    "aten::arange of an out": (["0", "9", "1", tensor(9, type=LONG)], (0, 8 * 9)),
    "aten::native_layer_norm": (
        [A, "[4]", tensor(4), tensor(4), "1e-05", A, tensor(8, 1), tensor(8, 1)],
        (8 * 32, 4 * (32 + 4 + 4 + 32 + 8 + 8)),
    ),
}  # fmt: skip
GRADIENTS: dict[str, tuple[list[Tensor | str | None], int]] = {
    "aten::native_layer_norm_backward": (
        [A, A, "[4]", tensor(8, 1), tensor(8, 1), tensor(4), tensor(4), BOTH],
        4 * (64 + 16 + 8) + 4 * (32 + 4 + 4),
    ),
    "aten::native_layer_norm_backward of the input": (
        [A, A, "[4]", tensor(8, 1), tensor(8, 1), None, None, INPUT_ALONE],
        4 * (64 + 16) + 4 * 32,
    ),
    "aten::native_group_norm_backward": (
        [X, X, tensor(2, 1), tensor(2, 1), tensor(3), "2", "3", "20", "1", BOTH],
        4 * (240 + 4 + 3) + 4 * (120 + 3 + 3),
    ),
    "aten::native_batch_norm_backward": (
        [*[tensor(2, 3, 4, 5, type=HALF)] * 2, *[tensor(3)] * 5, "True", "1e-05", BOTH],
        2 * 240 + 4 * 15 + 2 * 120 + 4 * 6,
    ),
    "aten::cudnn_batch_norm_backward": (
        [X, X, *[tensor(3)] * 5, "1e-05", tensor(7, type="unsigned char")],
        4 * (240 + 15) + 7 + 4 * (120 + 6),
    ),
    "aten::miopen_batch_norm_backward": ([X, X, *[tensor(3)] * 5, "1e-05"], 4 * (240 + 15) + 4 * (120 + 6)),
    "aten::_fused_rms_norm_backward": ([A, A, "[4]", tensor(8, 1), tensor(4), "[True, True]"], 4 * (64 + 8 + 4 + 32 + 4)),
    "aten::threshold_backward": ([A, A, "0"], 4 * 32 * 3),
}  # fmt: skip


def test_what_is_written_is_not_read(traces: Traces) -> None:
    calls = [(name.split(" ", maxsplit=1)[0], "some_kernel", inputs) for name, (inputs, _) in CASES.items()]
    assert dict(zip(CASES, costs(traces, calls), strict=True)) == {name: row for name, (_, row) in CASES.items()}


def test_gradients_that_are_asked_for(traces: Traces) -> None:
    calls = [(name.split(" ", maxsplit=1)[0], "some_kernel", inputs) for name, (inputs, _) in GRADIENTS.items()]
    found = dict(zip(GRADIENTS, costs(traces, calls, "bytes"), strict=True))
    assert found == {name: (moved,) for name, (_, moved) in GRADIENTS.items()}


def test_report(warehouse: Warehouse) -> None:
    """The same bytes with an out and without."""
    warehouse.ingest(shared_file("captures/reports/70_out_argument.pt.trace.json"), name="it")
    rows = warehouse.rows("SELECT e.op, e.shapes, e.flops, e.bytes FROM op_efficiency('it') AS e")[1]
    assert {(op, len(json.loads(shapes))): rest for op, shapes, *rest in rows} == {
        ("aten::mm", 2): [134_217_728, 2_359_296],
        ("aten::mm", 3): [134_217_728, 2_359_296],
        ("aten::mean", 2): [1_048_577, 4_194_308],
        ("aten::mean", 5): [1_048_577, 4_194_308],
        ("aten::sum", 5): [1_048_576, 4_198_400],
    }
