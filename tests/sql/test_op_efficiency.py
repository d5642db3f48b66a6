"""How far ops of a trace are from the peaks of its device, and what they read and write, by hand from torch's schemas."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from itertools import product
from math import isfinite, prod
from pathlib import Path
from typing import Any

import pytest

from etq.errors import QueryError
from etq.ingest.costs.formulas import formulas
from etq.warehouse.warehouse import Warehouse
from tests.batches import ingest_all
from tests.conftest import CAPTURES, shared_file
from tests.trace_builders import event, memory, trace
from tests.traces import Traces
from tests.warehouses import empty_warehouse

H100: dict[str, Any] = {
    "deviceProperties": [{"id": 0, "name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 85_000_000_000}]
}
HALF = "c10::BFloat16"
FLASH = "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64> >(Flash_fwd_params)"
GEMM = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_cublas"
ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::BFloat16> >(int)"


def op(name: str, start: float, end: float, *given: Any, inputs: Sequence[str] = ()) -> dict[str, Any]:
    """An op: each input is a tensor (sizes, type), a list of tensors (their sizes), a value, or None where none is given."""
    every = [*given, *inputs]
    sizes = [each[0] if isinstance(each, tuple) else each if isinstance(each, list) else [] for each in every]
    others = {list: "TensorList", str: "Scalar", type(None): ""}
    arguments = {
        "Input Dims": sizes,
        "Input type": [each[1] if isinstance(each, tuple) else others[type(each)] for each in every],
        "Input Strides": [
            [prod(of[at + 1 :]) for at in range(len(of))] if isinstance(each, tuple) else []
            for each, of in zip(every, sizes, strict=True)
        ],
        "Concrete Inputs": [each if isinstance(each, str) else "" for each in every],
    }
    return event("cpu_op", name, start, end) | {"args": arguments}


CALLS = {"kernel": "cudaLaunchKernel", "gpu_memset": "cudaMemsetAsync", "gpu_memcpy": "cudaMemcpyAsync"}


def launched(
    name: str, at: float, length: float, number: int, category: str = "kernel", *, begin: float | None = None
) -> list[dict[str, Any]]:
    start = 1000 + (at if begin is None else begin)
    return [
        event("cuda_runtime", CALLS[category], at, at + 0.5, correlation=number),
        event(category, name, start, start + length, 7, correlation=number, device=0),
    ]


def attention(at: float, number: int, length: float) -> list[dict[str, Any]]:
    """An attention whose kernel is launched by an op without a formula."""
    tensors = [([2, 4, 128, 64], HALF)] * 3
    inner = [([2, 128, 4, 64], HALF)] * 3
    return [
        op("aten::_scaled_dot_product_flash_attention", at, at + 9, *tensors, "0.", "True", "False"),
        op("aten::_flash_attention_forward", at + 1, at + 8, *inner),
        *launched(FLASH, at + 2, length, number),
    ]


def matrices() -> list[dict[str, Any]]:
    """A product of 1024 x 512 by 512 x 2048 in 10 microseconds, with a fill of one before it."""
    return [
        op("aten::linear", 0, 9, ([1024, 512], HALF), ([2048, 512], HALF)),
        op("aten::mm", 1, 8, ([1024, 512], HALF), ([512, 2048], HALF)),
        *launched("Memset (Device)", 2, 1, 1, "gpu_memset"),
        *launched(GEMM, 3, 10, 2),
        # Within an op with a formula, but beside one that has its own cost.
        op("aten::_something_new", 8, 8.9, ([4], HALF)),
        *launched("mystery", 8.1, 2, 3, begin=13),
    ]


ZEROS = [([4, 8, 8, 8], "[0, 0]"), ([4, 8, 8, 8], "0"), ([0, 0, 0, 0], "0"), ([0, 0, 0, 0], "[0, 0]"), ([8, 0], "0")]


@pytest.mark.long
def test_zeros_in_a_file_fail_no_question(traces: Traces) -> None:
    """Each op with a formula, whose other arguments have sizes and values of zero: no cost is infinite."""
    events = []
    named = formulas().arguments
    for number, (name, (first, value)) in enumerate(product(sorted(named), ZEROS), 1):
        count = len(named[name])
        made = event("cpu_op", name.replace(".", "::", 1), 10 * number, 10 * number + 9)
        made["args"] |= {
            "Input Dims": [first, *[[0] * len(first)] * (count - 1)],
            "Input type": [HALF] * count,
            "Concrete Inputs": ["", *[value] * (count - 1)],
        }
        events += [made, *launched(ADD, 10 * number + 1, 5, number)]
    traces.take(*events, **H100)
    rows = traces.ask("op_efficiency", "op, flops, bytes, roof_percent")
    assert len(rows) > 5 * 100
    assert not [row for row in rows if any(each is not None and not isfinite(each) for each in row[1:])]
    assert traces.ask("advice", "rule")


@pytest.mark.long
def test_by_hand(traces: Traces) -> None:
    """2 * 1024 * 512 * 2048 operations, 2 * (1024 * 512 + 512 * 2048 + 1024 * 2048) bytes; peaks 989.4e12 and 3.352e12."""
    traces.take(*matrices(), *attention(20, 4, 100), *launched(ADD, 60, 5, 5, begin=130), **H100)
    rows = traces.ask(
        "op_efficiency",
        "family, op, calls, total, flops, bytes, roof_percent, bound, known_percent, copy_time, events, reason",
    )
    flops, moved = 2 * 1024 * 512 * 2048, 2 * (1024 * 512 + 512 * 2048 + 1024 * 2048)
    # Half of 4 * 2 * 4 * 128 * 128 * 64; queries, keys, values and output, and a float for each query.
    seen, through = 2 * 2 * 4 * 128 * 128 * 64, 4 * 2 * (2 * 4 * 128 * 64) + 4 * 2 * 4 * 128
    assert rows == [
        ("attention", "aten::_scaled_dot_product_flash_attention", 1, 100, seen, through,
         pytest.approx(through / 3.352e12 / 100e-6 * 100), "latency", 100, 0, 1, None),
        ("GEMM", "aten::mm", 1, 11, flops, moved,
         pytest.approx(moved / 3.352e12 / 11e-6 * 100), "memory", 100, 1, 2, None),
        ("elementwise", None, 1, 5, None, None, None, None, 0, 0, 1, "no op is known to have launched it"),
        (None, "aten::_something_new", 1, 2, None, None, None, None, 0, 0, 1, "no formula for aten::_something_new"),
    ]  # fmt: skip


@pytest.mark.long
def test_bounds(traces: Traces) -> None:
    """What a kernel does at least is the shortest of the trace: 2 us. Of experts it isn't known which are read, but reading
    all of them takes less than the 208 us of their operations."""
    traces.take(
        op("aten::mm", 0, 9, ([8192, 8192], HALF), ([8192, 8192], HALF)), *launched(GEMM, 1, 1500, 1),
        op("aten::add", 2000, 2009, ([8192, 8192], HALF), ([8192, 8192], HALF), "1"), *launched(ADD, 2001, 200, 2),
        op("aten::add", 2010, 2019, ([8], HALF), ([8], HALF), "1"), *launched(ADD, 2011, 2, 3, begin=2300),
        op("sglang::outplace_fused_experts", 3000, 3009, ([8192, 2048], HALF), ([4, 2048, 2048], HALF), ([4, 2048, 1024], HALF),
           ([8192, 2], "float"), ([8192, 2], "int")), *launched(GEMM, 3001, 300, 4), **H100,
    )  # fmt: skip
    rows = traces.ask("op_efficiency", "op, bound, roof_percent, above_roof, peak_flops")
    assert rows[0][:2] == ("aten::mm", "compute")
    assert rows[0][2:] == (
        pytest.approx(2 * 8192**3 / 989.4e12 / 1500e-6 * 100),
        pytest.approx(1500 - 2 * 8192**3 / 989.4e6),
        989.4e12,
    )
    assert rows[1][:2] == ("sglang::outplace_fused_experts", "compute")
    assert rows[1][2] == pytest.approx(2 * 8192 * 2 * 3 * 1024 * 2048 / 989.4e12 / 300e-6 * 100)
    assert rows[2][:2] == ("aten::add", "memory")
    assert rows[2][2] == pytest.approx(3 * 2 * 8192**2 / 3.352e12 / 200e-6 * 100)
    assert rows[3][:2] == ("aten::add", "latency")


@pytest.mark.long
def test_groups_add_up(traces: Traces) -> None:
    traces.take(
        *matrices(), *attention(20, 4, 100), *attention(140, 6, 50), *launched(ADD, 160, 5, 5, begin=200), **H100
    )
    sums = "sum(total), sum(share_percent), sum(events), sum(copy_time), sum(above_roof)"
    wholes = {by: traces.ask("op_efficiency", sums, by=by) for by in ("shape", "op", "family")}
    assert wholes["shape"] == [(168, pytest.approx(100), 6, 1, pytest.approx(wholes["op"][0][4]))]
    assert wholes["op"] == wholes["family"]
    assert traces.ask("op_efficiency", "family, calls, total", by="family")[:2] == [
        ("attention", 2, 150),
        ("GEMM", 1, 11),
    ]


@pytest.mark.long
def test_peaks(traces: Traces, tmp_path: Path) -> None:
    """Those given, those of a device by name, those of the trace's device; unknown devices have none."""
    traces.take(*matrices(), **H100)
    column = "roof_percent, peak_flops, device, reason"
    [row] = [row for row in traces.ask("op_efficiency", f"op, {column}", device="MI300X") if row[0] == "aten::mm"]
    flops = 2 * 1024 * 512 * 2048
    assert row[1:] == (pytest.approx(flops / 1307.4e12 / 11e-6 * 100), 1307.4e12, "AMD Instinct MI300X", None)
    given = traces.ask("op_efficiency", f"op, {column}", peak_flops=1e12, peak_bandwidth=1e14)
    assert given[0][1:3] == (pytest.approx(flops / 1e12 / 11e-6 * 100), 1e12)
    with pytest.raises(QueryError, match="no device is called GTX 1 in device_peaks"):
        traces.ask("op_efficiency", column, device="GTX 1")
    with pytest.raises(QueryError, match="by must be shape, op or family, not node"):
        traces.ask("op_efficiency", column, by="node")
    traces.path = tmp_path / "other.pt.trace.json"
    traces.path.write_bytes(trace(*matrices(), deviceProperties=[{"id": 0, "name": "Some GPU"}]))
    traces.warehouse.ingest(traces.path, name="other")
    query = f"SELECT {column} FROM op_efficiency('other') AS e WHERE e.op = 'aten::mm'"
    assert traces.warehouse.rows(query)[1] == [(None, None, "Some GPU", "the peaks of its device are not known")]


@pytest.mark.long
def test_the_device_that_ran_counts(warehouse: Warehouse) -> None:
    """Of several that are listed; of those that are numbered otherwise, one that all are; of others none."""
    listed = {
        "one": [(0, "NVIDIA H100 80GB HBM3"), (1, "NVIDIA L4")],
        "other": [(7, "NVIDIA L4"), (8, "NVIDIA L4")],
        "mixed": [(7, "NVIDIA L4"), (8, "NVIDIA H100 80GB HBM3")],
    }
    properties = {name: [{"id": id, "name": of} for id, of in devices] for name, devices in listed.items()}
    ingest_all(warehouse, ((name, trace(*matrices(), deviceProperties=of)) for name, of in properties.items()))
    query = "SELECT DISTINCT e.device FROM op_efficiency($name) AS e"
    found = {name: warehouse.rows(query, name=name)[1] for name in listed}
    assert found == {"one": [("NVIDIA H100 SXM",)], "other": [("NVIDIA L4",)], "mixed": [(None,)]}


@pytest.mark.long
@pytest.mark.parametrize("name", ["torch_gpu/rank0", "torch_steps/after", "torch_threads/replicas"])
def test_all_time_of_devices_is_in_each_grouping(warehouse: Warehouse, name: str) -> None:
    """As in the file: durations of kernels, copies and fills."""
    path = CAPTURES / f"{name}.pt.trace.json.gz"
    written = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    work = sum(each["dur"] for each in written if each.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset"))
    warehouse.ingest(path, name="it")
    for by in ("shape", "op", "family"):
        query = f"SELECT sum(e.total), sum(e.share_percent) FROM op_efficiency('it', \"by\" := '{by}') AS e"
        assert warehouse.rows(query)[1] == [(pytest.approx(work, rel=1e-4), pytest.approx(100))] or not work


CAT = "void at::native::(anonymous namespace)::CatArrayBatchedCopy{}<{}, unsigned int, 3, 64, 64>({}*, unsigned int)"
OPAQUE = "at::native::(anonymous namespace)::OpaqueType<{}u>"
APPLY = (
    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)::"
    "TensorListMetadata<2>, at::native::(anonymous namespace)::{}, {}>(at::native::TensorListMetadata<2>)"
)


Call = tuple[str, str, list[Any]]


@pytest.fixture(scope="module")
def costs() -> list[dict[str, Any]]:
    """What `op_efficiency` says of the calls of LISTS, FUSED, CASES and GRADIENTS, which take each another time."""
    calls = [call for call, _ in LISTS] + [(name, "some_kernel", inputs) for name, inputs, _ in FUSED]
    written = [*CASES.items(), *GRADIENTS.items()]
    calls += [(name.split(" ", maxsplit=1)[0], "some_kernel", inputs) for name, (inputs, _) in written]
    events: list[dict[str, Any]] = []
    for at, (name, kernel, inputs) in enumerate(calls):
        events += [op(name, 1000 * at, 1000 * at + 9, *inputs), *launched(kernel, 1000 * at + 1, 5 + at, at + 1)]
    with empty_warehouse() as warehouse:
        warehouse.ingest(trace(*events, **H100), name="t")
        columns, rows = warehouse.rows("FROM op_efficiency('t') AS e ORDER BY e.total")
    found = [dict(zip(columns, row, strict=True)) for row in rows]
    assert [row["total"] for row in found] == [5 + at for at in range(len(calls))]
    return found


TWO, OTHERS = [[3, 4], [2, 4]], [[8], []]  # 20 and 9 elements
HALVES, EIGHTS = CAT.format("", OPAQUE.format(2), OPAQUE.format(2)), CAT.format("_contig", OPAQUE.format(8), "")
FUNCTOR = "BinaryOpListAlphaFunctor<c10::BFloat16, 2, 2, 0>"
UNWRITTEN = "the trace lacks an argument that its formula needs"
UNTYPED = "bytes: the trace lacks types of lists of tensors"
AT_LEAST = "bytes: a lower bound; the trace doesn't show whether it overwrites a tensor"
PARTLY = "bytes: a lower bound; it also moves bytes that sizes don't show"
TABLES = "the trace lacks the widths of its tables, or the number of rows read from each; bytes are a lower bound"
BACKWARD = "fbgemm::split_embedding_backward_codegen_rowwise_adagrad_cpu"
LOOKUP = "fbgemm::split_embedding_codegen_lookup_rowwise_adagrad_function"
# Bytes of where each table begins, of indices, and of where each bag begins.
INDICES = 8 * (2 + 20 + 9)


def tables(gradient: list[int], ends: int, width: str) -> list[Any]:
    """The arguments of the backward pass of batched tables of embeddings."""
    return [
        (gradient, "float"), ([40], HALF), ([1], "int"), ([1], "long"), ([ends], "int"), width, ([2], "long"), "4",
        ([20], "long"), ([9], "long"), "0", None, "True", ([10], "float"),
    ]  # fmt: skip


def lookup(tables: int, widths: tuple[str, str], weights: Any = None) -> list[Any]:
    """The arguments of a lookup in batched tables of embeddings that have ten rows together."""
    return [
        ([0], "float"), ([40], HALF), ([0], HALF), ([0, 0], HALF), ([tables], "int"), ([tables], "long"),
        ([tables + 1], "int"), *widths, ([tables + 1], "long"), "4", ([20], "long"), ([9], "long"), "0", weights, None,
        ([0], "int"), "False", "1.", "True", ([10], "float"),
    ]  # fmt: skip


# Calls of ops of lists, and their inputs, operations, bytes and reason.
LISTS: list[tuple[Call, tuple[Any, ...]]] = [
    (("aten::cat", HALVES, [TWO, "0"]), ("16bit[3,4] 16bit[2,4]", 0, 2 * 20 * 2, None)),
    # Of the same sizes, but another type.
    (("aten::cat", EIGHTS, [TWO, "0"]), ("64bit[3,4] 64bit[2,4]", 0, 2 * 20 * 8, None)),
    # What is written has the type of out, which is resized.
    (("aten::cat", CAT.format("", "float", ""), [TWO, "0", ([0], "float")]),
     ("f32[3,4] f32[2,4] f32[0]", 0, 2 * 20 * 4, None)),
    (("aten::stack", HALVES, [[[5], [5], [5]], "0"]), ("16bit[5] 16bit[5] 16bit[5]", 0, 2 * 15 * 2, None)),
    (("aten::_foreach_add_", APPLY.format(FUNCTOR, "std::plus<float>"), [TWO, TWO, "1"]),
     ("bf16[3,4] bf16[2,4] bf16[3,4] bf16[2,4]", 20, 3 * 20 * 2, None)),
    (("aten::_foreach_mul", APPLY.format("BinaryOpScalarFunctor<double, 1>", "x"), [OTHERS, "2"]),
     ("f64[8] f64[]", 9, 2 * 9 * 8, None)),
    (("aten::_foreach_mul_", APPLY.format("F_Functor<double, 1>", "x"), [OTHERS, ([], "float")]),
     ("f64[8] f64[] f32[]", 9, 2 * 9 * 8 + 4, None)),
    (("aten::_foreach_addcdiv_", APPLY.format("PointwiseOpScalarFunctor<float, 3, 3, 0>", "x"), [TWO] * 3),
     (" ".join(["f32[3,4] f32[2,4]"] * 3), 40, 4 * 20 * 4, None)),
    (("aten::_foreach_sqrt", APPLY.format("UnaryOpFunctor<c10::complex<float>, 1, 1, 0>", "Sqrt<c10::complex<float> >"), [TWO]),
     ("c64[3,4] c64[2,4]", None, 2 * 20 * 8, "its operations on complex numbers are not counted")),
    # The kernel names what is written before what is read.
    (("aten::_foreach_copy_", APPLY.format("CopyFunctor<int, long, 2, 1, 1>", "x"), [TWO, TWO, "False"]),
     ("i32[3,4] i32[2,4] i64[3,4] i64[2,4]", 0, 20 * 4 + 20 * 8, None)),
    (("aten::_foreach_copy_", APPLY.format("UnaryOpFunctor<long, 2, 1, 1>", "x"), [TWO, TWO, "False"]),
     ("i64[3,4] i64[2,4] i64[3,4] i64[2,4]", 0, 2 * 20 * 8, None)),
    (("aten::_foreach_zero_", APPLY.format("ZeroFunctor<float, 1, 1, 0>", "x"), [TWO]), ("f32[3,4] f32[2,4]", 0, 20 * 4, None)),
    (("aten::_foreach_norm", APPLY.format("LpNormFunctor<float, (NormType)1, float>", "x"), [TWO, "2"]),
     ("f32[3,4] f32[2,4]", 42, 20 * 4 + 2 * 4, None)),
    # Another kernel, and lists of which some versions of torch write nothing.
    (("aten::cat", "triton_cat", [TWO, "0"]), ("[3,4] [2,4]", 0, None, UNTYPED)),
    (("aten::_foreach_sub_", APPLY.format(FUNCTOR, "x"), [[], [], "1"]), ("", None, None, UNWRITTEN)),
    (("aten::_foreach_div_", APPLY.format(FUNCTOR, "x"), [[], ([], "float")]), ("f32[]", None, None, UNWRITTEN)),
]  # fmt: skip


@pytest.mark.long
def test_lists_of_tensors(costs: list[dict[str, Any]]) -> None:
    """Types of lists, which traces lack, are those in the names of the kernels that are made for them."""
    found = [tuple(row[name] for name in ("inputs", "flops", "bytes", "reason")) for row in costs[: len(LISTS)]]
    assert found == [expected for _, expected in LISTS]


@pytest.mark.long
def test_lists_of_different_types_are_apart(traces: Traces) -> None:
    """Two calls of the same sizes; the type of a list counts for its peak as that of a tensor."""
    events: list[dict[str, Any]] = []
    for at, ((name, kernel, inputs), _) in enumerate(LISTS[:6]):
        events += [op(name, 100 * at, 100 * at + 9, *inputs), *launched(kernel, 100 * at + 1, 10, at + 1)]
    traces.take(*events, **H100)
    rows = traces.ask("op_efficiency", "op, inputs, calls, peak_flops")
    assert [row[1:] for row in sorted(rows) if row[1].startswith(("16bit[3", "64bit"))] == [
        ("16bit[3,4] 16bit[2,4]", 1, None), ("64bit[3,4] 64bit[2,4]", 1, None)
    ]  # fmt: skip
    assert [row[3] for row in rows if "foreach" in row[0]] == pytest.approx([133.8e12, 33.5e12])


FP8, INT8 = "c10::Float8_e4m3fn", "unsigned char"
# Of 7 tokens of 96 elements; the queries and keys of rotations have 6 and 2 heads of 32, of which 16 are rotated.
ROWS, GATED, WEIGHT = ([7, 96], HALF), ([7, 192], HALF), ([96], HALF)
SCALE: tuple[list[int], str] = ([], "float")
POSITIONS, QUERY, KEYS, TABLE = ([7], "long int"), ([7, 192], HALF), ([7, 64], HALF), ([4096, 16], "float")
HEADS, CACHE = ([9, 2, 32], HALF), ([50, 16, 2, 32], INT8)
EXPERTS = "bytes: the trace doesn't show which experts are used: assume used_experts"
UP, DOWN, EACH = ([16, 80, 96], HALF), ([16, 96, 40], HALF), ([7, 3, 40], HALF)
SORTED = [([512], "float"), ([512], "int"), ([16], "int"), ([2], "int")]
SIX, TWO_HEADS = ([2, 16, 6, 32], HALF), ([2, 16, 2, 32], HALF)
# Inputs of calls of ops of serving engines as their schemas have them, with family, operations, bytes and reason.
FUSED: list[tuple[str, list[Any], tuple[str | None, int | None, int | None, str | None]]] = [
    ("_C::rms_norm", [ROWS, ROWS, WEIGHT, "1e-6"], ("normalization", 4 * 672, 2 * (2 * 672 + 96), None)),
    ("sgl_kernel::rmsnorm", [ROWS, ROWS, WEIGHT, "1e-6", "False"], ("normalization", 4 * 672, 2 * (2 * 672 + 96), None)),
    ("sgl_kernel::gemma_rmsnorm", [ROWS, ROWS, WEIGHT, "1e-6"], ("normalization", 5 * 672, 2 * (2 * 672 + 96), None)),
    ("_C::fused_add_rms_norm", [ROWS, ROWS, WEIGHT, "1e-6"], ("normalization", 5 * 672, 2 * (4 * 672 + 96), None)),
    ("sgl_kernel::fused_add_rmsnorm", [ROWS, ROWS, WEIGHT, "1e-6"], ("normalization", 5 * 672, 2 * (4 * 672 + 96), None)),
    ("flashinfer::gemma_fused_add_rmsnorm", [ROWS, ROWS, WEIGHT, "1e-6"], ("normalization", 6 * 672, 2 * (4 * 672 + 96), None)),
    ("_C::rms_norm_static_fp8_quant", [([7, 96], FP8), ROWS, WEIGHT, SCALE, "1e-6"],
     ("normalization", 7 * 672, 672 + 2 * (672 + 96) + 4, None)),
    # It reads input and residual, and writes the residual and what is quantized.
    ("_C::fused_add_rms_norm_static_fp8_quant", [([7, 96], FP8), ROWS, ROWS, WEIGHT, SCALE, "1e-6"],
     ("normalization", 8 * 672, 672 + 2 * (3 * 672 + 96) + 4, None)),
    ("aiter::rmsnorm", [ROWS, ROWS, WEIGHT, "1e-6"], ("normalization", 4 * 672, 2 * (2 * 672 + 96), None)),
    ("aiter::rms_norm", [ROWS, WEIGHT, "1e-6", "0"], ("normalization", 4 * 672, 2 * (2 * 672 + 96), None)),
    # Input and residual are read, the sum and what is normalized are written.
    ("aiter::rmsnorm2d_fwd_with_add_ck", [*[ROWS] * 4, WEIGHT, "1e-6", "0"], ("normalization", 5 * 672, 2 * (4 * 672 + 96), None)),
    ("aiter::silu_and_mul", [ROWS, GATED], ("elementwise", 6 * 672, 2 * 3 * 672, None)),
    ("_C::silu_and_mul", [ROWS, GATED], ("elementwise", 6 * 672, 2 * 3 * 672, None)),
    ("sgl_kernel::gelu_and_mul", [ROWS, GATED], ("elementwise", 6 * 672, 2 * 3 * 672, None)),
    ("flashinfer::gelu_tanh_and_mul", [ROWS, GATED], ("elementwise", 10 * 672, 2 * 3 * 672, None)),
    ("_C::swigluoai_and_mul", [ROWS, GATED, "1.702", "7."], ("elementwise", 11 * 672, 2 * 3 * 672, None)),
    ("_C::gelu_new", [ROWS, ROWS], ("elementwise", 9 * 672, 2 * 2 * 672, None)),
    ("_C::static_scaled_fp8_quant", [([7, 96], FP8), ROWS, SCALE], ("elementwise", 3 * 672, 3 * 672 + 4, None)),
    ("_C::dynamic_per_token_scaled_fp8_quant", [([7, 96], FP8), ROWS, ([7, 1], "float"), None],
     ("elementwise", 5 * 672, 3 * 672 + 4 * 7, None)),
    ("sgl_kernel::sgl_per_token_group_quant_fp8", [ROWS, ([7, 96], FP8), ([7, 3], "float"), "32"],
     ("elementwise", 5 * 672, 3 * 672 + 4 * 21, None)),
    # Read and written, of 8 heads; and for each position its number and a row of the table.
    ("_C::rotary_embedding", [POSITIONS, QUERY, KEYS, "32", TABLE, "True"],
     ("elementwise", 3 * 7 * 8 * 16, 2 * 2 * 7 * 8 * 16 + 7 * (8 + 4 * 16), None)),
    ("sgl_kernel::rotary_embedding", [POSITIONS, QUERY, KEYS, "32", TABLE, "True"],
     ("elementwise", 3 * 7 * 8 * 16, 2 * 2 * 7 * 8 * 16 + 7 * (8 + 4 * 16), None)),
    ("_C::rotary_embedding", [POSITIONS, ([7, 6, 32], HALF), None, "32", TABLE, "True"],
     ("elementwise", 3 * 7 * 6 * 16, 2 * 2 * 7 * 6 * 16 + 7 * (8 + 4 * 16), None)),
    ("_C::rotary_embedding", [POSITIONS, QUERY, KEYS, None, TABLE, "True"],
     ("elementwise", None, None, "the trace lacks an argument that its formula needs")),
    # 7 slots for the first of 9 rows.
    ("_C_cache_ops::reshape_and_cache_flash", [HEADS, HEADS, CACHE, CACHE, POSITIONS, None, SCALE, SCALE],
     ("copy", 0, 7 * (2 * 64 * (2 + 1) + 8), None)),
    ("aiter::reshape_and_cache", [HEADS, HEADS, ([50, 2, 2, 16, 16], INT8), ([50, 2, 32, 16], INT8), POSITIONS, None, SCALE, SCALE],
     ("copy", 0, 7 * (2 * 64 * (2 + 1) + 8), None)),
    ("sgl_kernel::store_kv_cache", [([800, 2, 32], HALF), ([800, 2, 32], HALF), POSITIONS, HEADS, HEADS],
     ("copy", 0, 7 * (2 * 64 * (2 + 2) + 8), None)),
    ("_C_cache_ops::concat_and_cache_mla", [([7, 512], HALF), ([7, 64], HALF), ([50, 16, 576], HALF), POSITIONS, None, SCALE],
     ("copy", 0, 7 * (576 * (2 + 2) + 8), None)),
    ("_C_cache_ops::concat_and_cache_mla", [([7, 512], HALF), ([7, 64], HALF), ([50, 16, 656], INT8), POSITIONS, None, SCALE],
     ("copy", 0, None, "bytes: the trace doesn't show what a row of the cache contains")),
    # 3 of 64 experts.
    ("_moe_C::topk_softmax", [([7, 3], "float"), ([7, 3], "int"), ([7, 3], "int"), ([7, 64], "float")],
     ("softmax", (5 + 3) * 7 * 64, 4 * (3 * 21 + 7 * 64), None)),
    ("sgl_kernel::topk_softmax", [([7, 3], "float"), ([7, 3], "int"), ([7, 64], HALF), "True"],
     ("softmax", (5 + 3) * 7 * 64, 4 * 2 * 21 + 2 * 7 * 64, None)),
    ("_moe_C::moe_sum", [([7, 3, 96], HALF), ROWS], ("reduction", 3 * 672, 2 * 4 * 672, None)),
    # Of 16 experts, whose weights are 2 x 40 x 96 and 96 x 40, each token has 3.
    ("sglang::outplace_fused_experts", [ROWS, UP, DOWN, ([7, 3], "float"), ([7, 3], "int")],
     ("MoE", 2 * 7 * 3 * 3 * 40 * 96, None, EXPERTS)),
    ("vllm::inplace_fused_experts", [ROWS, ([16, 80, 48], INT8), ([16, 96, 20], INT8), ([7, 3], "float"), ([7, 3], "int")],
     ("MoE", 2 * 7 * 3 * 3 * 40 * 96, None, EXPERTS)),
    # Of one token, whose 3 experts are read.
    ("sglang::outplace_fused_experts", [([1, 96], HALF), UP, DOWN, ([1, 3], "float"), ([1, 3], "int")],
     ("MoE", 2 * 3 * 3 * 40 * 96, 2 * (2 * 96 + 3 * 3 * 40 * 96) + 4 * 6, None)),
    ("aiter::fmoe_g1u1", [ROWS, ROWS, UP, DOWN, *SORTED, "3"], ("MoE", 2 * 7 * 3 * 3 * 40 * 96, None, EXPERTS)),
    ("aiter::ck_moe_stage1", [ROWS, UP, DOWN, *SORTED[1:], EACH, "3"], ("MoE", 2 * 7 * 3 * 80 * 96, None, EXPERTS)),
    ("aiter::ck_moe_stage2", [EACH, UP, DOWN, *SORTED[1:], ROWS, "3"], ("MoE", 2 * 7 * 3 * 40 * 96, None, EXPERTS)),
    ("aiter::moe_cktile2stages_gemm1_ck", [ROWS, ([16, 80, 48], INT8), EACH, *SORTED[1:], "3"],
     ("MoE", 2 * 7 * 3 * 80 * 96, None, EXPERTS)),
    # Two elements in one, of the tokens, too.
    ("aiter::moe_cktile2stages_gemm1_ck", [([7, 48], INT8), ([16, 80, 48], INT8), EACH, *SORTED[1:], "3"],
     ("MoE", None, None, "the trace lacks the packing or the number of its experts")),
    ("aiter::topk_softmax", [([7, 3], "float"), ([7, 3], "int"), ([7, 3], "int"), ([7, 64], "float")],
     ("softmax", (5 + 3) * 7 * 64, 4 * (3 * 21 + 7 * 64), None)),
    ("aiter::moe_sum", [([7, 3, 96], HALF), ROWS], ("reduction", 3 * 672, 2 * 4 * 672, None)),
    ("aiter::_groupnorm_run", [([2, 6, 4, 4], HALF), "3", ([6], HALF), ([6], HALF), "1e-5"],
     ("normalization", 8 * 192, 2 * (2 * 192 + 12), None)),
    ("aiter::rmsnorm2d_fwd_with_dynamicquant", [([7, 96], FP8), ROWS, ([7, 1], "float"), WEIGHT, "1e-6", "0"],
     ("normalization", 9 * 672, 3 * 672 + 4 * 7 + 2 * 96, None)),
    # Read input and residual, written the sum, what is quantized and its scales.
    ("aiter::add_rmsnorm_quant", [([7, 96], FP8), *[ROWS] * 3, ([7, 3], "float"), WEIGHT, "1e-6", "32", "False"],
     ("normalization", 10 * 672, 7 * 672 + 4 * 21 + 2 * 96, None)),
    ("aiter::dynamic_per_token_scaled_quant", [([7, 96], FP8), ROWS, ([7, 1], "float"), None, "False"],
     ("elementwise", 5 * 672, 3 * 672 + 4 * 7, None)),
    ("_C::per_token_group_fp8_quant", [ROWS, ([7, 96], FP8), ([7, 3], "float"), "32"],
     ("elementwise", 5 * 672, 3 * 672 + 4 * 21, None)),
    ("sgl_kernel::apply_rope_pos_ids_cos_sin_cache", [*[([7, 6, 32], HALF), ([7, 2, 32], HALF)] * 2, TABLE, POSITIONS, "True"],
     ("elementwise", 3 * 7 * 8 * 16, 2 * 2 * 7 * 8 * 16 + 7 * (8 + 4 * 16), None)),
    # It also copies into caches.
    ("sgl_kernel::apply_rope_pos_ids_cos_sin_cache",
     [*[([7, 6, 32], HALF), ([7, 2, 32], HALF)] * 2, TABLE, POSITIONS, "True", "True", *[HEADS] * 3, POSITIONS],
     ("elementwise", None, None, UNWRITTEN)),
    ("_C_cache_ops::concat_mla_q", [([7, 6, 32], HALF), ([7, 6, 8], HALF), ([7, 6, 40], HALF)], ("copy", 0, 2 * 2 * 7 * 6 * 40, None)),
    ("flash_attn::_flash_attn_forward", [SIX, TWO_HEADS, TWO_HEADS, "0.", "0.2", "False", "-1", "-1", "0.", None, "False"],
     ("attention", 4 * 2 * 6 * 16 * 16 * 32, 2 * (2 * 16 * 32 * (6 + 2 + 2 + 6)) + 4 * 2 * 16 * 6, None)),
    ("vllm::moe_forward", [ROWS, ([7, 16], HALF), None], ("MoE", None, None, "the trace lacks the weights of its experts: assume top_k, expert_width and matrices")),
    ("vllm::moe_forward_shared", [ROWS, ([7, 16], HALF), None], ("MoE", None, None, "the trace lacks the weights of its experts")),
    ("vllm::unified_attention_with_output", [HEADS, HEADS, HEADS, HEADS, None],
     ("attention", None, None, "the trace lacks the lengths of its sequences: assume seen_keys")),
    # 16 positions of 6 heads of queries, and of 2 of keys and values; a float for each query if it is asked for.
    ("aiter::fmha_v3_fwd", [SIX, TWO_HEADS, TWO_HEADS, "0.", "0.2", "False", "-1", "-1", "True", "False", "2"],
     ("attention", 4 * 2 * 6 * 16 * 16 * 32, 2 * (2 * 16 * 32 * (6 + 2 + 2 + 6)) + 4 * 2 * 16 * 6, None)),
    ("aiter::fmha_v3_fwd", [SIX, TWO_HEADS, TWO_HEADS, "0.", "0.2", "True", "-1", "0", "False", "False", "2"],
     ("attention", 2 * 2 * 6 * 16 * 16 * 32, 2 * (2 * 16 * 32 * (6 + 2 + 2 + 6)), None)),
    ("aiter::fmha_v3_fwd", [SIX, TWO_HEADS, TWO_HEADS, "0.", "0.2", "True", "4", "0", "False", "False", "2"],
     ("attention", None, 2 * (2 * 16 * 32 * (6 + 2 + 2 + 6)), "it has a window, or the alignment of its mask is unknown")),
    # Kernels by Inductor: each tensor once, and the first once more if the last isn't one that it writes.
    ("triton_poi_fused_add_mul_0", [ROWS, ROWS, ROWS, "672"], ("elementwise", None, 2 * 3 * 672, AT_LEAST)),
    ("triton_poi_fused_addmm_gelu_0", [ROWS, WEIGHT, "672"], ("elementwise", None, 2 * (2 * 672 + 96), None)),
    ("triton_poi_fused_addmm_gelu_1", [ROWS, WEIGHT, "7", "96"], ("elementwise", None, 2 * (2 * 672 + 96), None)),
    ("triton_poi_fused__unsafe_view_mul_silu_2", [([1, 7, 96], HALF), ROWS, "672"], ("elementwise", None, 2 * 3 * 672, None)),
    ("triton_poi_fused__unsafe_view_add_2", [ROWS, ([1, 7, 96], HALF), "672"], ("elementwise", None, 2 * 2 * 672, AT_LEAST)),
    ("triton_poi_fused__to_copy_gelu_0", [ROWS, ([7, 96], "float"), "672"], ("elementwise", None, (2 + 4) * 672, None)),
    ("triton_poi_fused_relu_0", [ROWS, "672"], ("elementwise", None, 2 * 2 * 672, None)),
    ("triton_poi_fused_repeat_0", [WEIGHT, ROWS, "672"], ("elementwise", 0, 2 * (96 + 672), None)),
    ("triton_red_fused_add_native_layer_norm_1", [ROWS, ROWS, WEIGHT, "7", "96"], ("reduction", None, 2 * (3 * 672 + 96), None)),
    ("triton_per_fused_add_native_layer_norm_1", [ROWS, WEIGHT, ROWS, "7", "96"], ("reduction", None, 2 * (2 * 672 + 96), AT_LEAST)),
    ("triton_red_fused_mean_1", [ROWS, ([7], "float"), "7", "96"], ("reduction", None, 2 * 672 + 4 * 7, None)),
    ("triton_poi_fused_embedding_2", [ROWS, ROWS, "672"], (None, None, None, "no formula for triton_poi_fused_embedding_2")),
    ("triton_poi_fused_0", [([201088, 2880], HALF), ROWS, "672"],
     ("elementwise", None, None, "it reads part of the tensors that it names, or from a cache")),
    # Without a formula, and why there can't be one.
    ("flash_attn::_flash_attn_varlen_forward", [HEADS, HEADS, HEADS, ([5], "int"), ([5], "int")],
     ("attention", None, 4 * 2 * 9 * 2 * 32 + 2 * 4 * 5 + 4 * 9 * 2, "the trace lacks the lengths of its sequences")),
    ("symm_mem::multimem_all_reduce_", [ROWS, "sum", "0"],
     ("communication", None, None, "it moves data between devices: see collectives")),
    ("_C::paged_attention_v1", [HEADS, HEADS, CACHE, CACHE, "2", "0.1", ([9, 8], "int"), ([9], "int"), "16", "99"],
     ("attention", None, None, "the trace lacks the lengths of its sequences")),
    ("vllm::rocm_unquantized_gemm", [ROWS, ([40, 96], HALF), None], ("GEMM", 2 * 7 * 40 * 96, 2 * (672 + 40 * 96 + 280), None)),
    ("_rocm_C::wvSplitK", [([40, 96], HALF), ([4, 96], HALF), None, "304"],
     ("GEMM", 2 * 4 * 40 * 96, 2 * (40 * 96 + 4 * 96 + 4 * 40), None)),
    # Numbers of types as torch has them: 15 is bfloat16.
    ("sgl_kernel::fp8_scaled_mm", [([7, 96], FP8), ([96, 40], FP8), ([7, 1], "float"), ([1, 40], "float"), "15", None],
     ("GEMM", 2 * 7 * 40 * 96, 672 + 96 * 40 + 4 * 47 + 2 * 280, None)),
    ("_C::awq_gemm", [ROWS, ([96, 5], "int"), ([3, 40], HALF), ([3, 5], "int"), "8"],
     ("GEMM", 2 * 7 * 40 * 96, 2 * 672 + 4 * 480 + 2 * 120 + 4 * 15 + 2 * 280, None)),
    ("sglang::store_cache", [ROWS, ROWS, ([50, 96], HALF), ([50, 96], HALF), ([7], "long int"), "192", "0"],
     ("copy", 0, 2 * 2 * 7 * 192 + 7 * 8, None)),
    ("sglang_profiler::attention_paged_attention_ragged_100",
     [([7, 6, 32], HALF), ([99], "unsigned char"), ([7, 6, 32], HALF), *[([50, 1, 2, 32], HALF)] * 2, ([8], "int")],
     ("attention", None, None, "the trace lacks the lengths of its sequences: assume seen_keys")),
    # 64 elements each of queries, keys and values; two blocks of queries and keys, and a scale for each column of values.
    ("sage_quant_kernel_0",
     [*[([1, 2, 8, 4], HALF), ([1, 2, 8, 4], "signed char"), ([1, 2, 1], "float")] * 2,
      ([1, 2, 8, 4], HALF), ([1, 2, 8, 4], FP8), ([1, 2, 4], "float"), "64", "4"],
     ("elementwise", 5 * 128 + 3 * 64, 2 * 192 + 4 * 8 + 192 + 4 * 4, None)),
    ("sage_fwd_1", [*[([1, 2, 8, 4], "signed char")] * 2, ([1, 2, 8, 4], FP8), "-1", *[([1, 2, 1], "float")] * 2],
     ("attention", None, None, "the trace doesn't show what its mask leaves out: assume seen_keys")),
    ("fbgemm::permute_pooled_embs_auto_grad", [([7, 96], "float"), *[([3], "long")] * 4], ("copy", 0, 2 * 4 * 672 + 4 * 3 * 8, None)),
    ("torch::autograd::CppNode<fbgemm_gpu::PermutePooledEmbsFunction<&fbgemm_gpu::permute_pooled_embs_gpu> >",
     [([7, 96], "float")], ("copy", 0, 2 * 4 * 672, None)),
    ("fbgemm::bounds_check_indices", [([2], "long"), ([9], "long"), ([15], "long"), "1", ([1], "long")],
     ("elementwise", 2 * 9, 8 * (2 + 9 + 15 + 1), PARTLY)),
    # 20 indices of rows of 4: of one table, of two with rows of the same size, and of two with rows of other sizes.
    (BACKWARD, tables([8, 4], 2, "4"), ("embedding", 20 * 4, 4 * 32 + 4 * 2 + INDICES, PARTLY)),
    (BACKWARD, tables([8, 8], 3, "4"), ("embedding", 20 * 4, 4 * 64 + 4 * 3 + INDICES, PARTLY)),
    (BACKWARD, tables([8, 8], 3, "6"), ("embedding", None, 4 * 64 + 4 * 3 + INDICES, TABLES)),
    ("fbgemm::split_embedding_codegen_grad_indice_weights_cpu",
     [([8, 4], "float"), ([40], HALF), ([1], "long"), ([2], "int"), ([20], "long"), ([9], "long"), None],
     ("embedding", 2 * 20 * 4, 4 * 32 + 4 * 2 + 8 * 29, PARTLY)),
    # 20 rows of at least 4 elements of 2 bytes: of one table, whose 10 rows have 40 elements; of two tables that have all
    # 6, or one of them more than the other.
    (LOOKUP, lookup(1, ("", "")), ("embedding", 20 * 4, 2 * 20 * 4 + 4 * 2 + 8 * 29, PARTLY)),
    (LOOKUP, lookup(2, ("12", "6"), ([20], "float")),
     ("embedding", 2 * 20 * 6, 2 * 20 * 6 + 4 * 3 + 8 * 29 + 4 * 20, PARTLY)),
    (LOOKUP, lookup(2, ("12", "8")), ("embedding", None, 2 * 20 * 4 + 4 * 3 + 8 * 29, TABLES)),
    ("torch::autograd::CppNode<SplitLookupFunction_rowwise_adagrad_Op>", [([8, 12], "float")],
     ("embedding", None, 4 * 96, TABLES)),
    # Rows of 5 elements: of 8 bytes with 2 floats; 16 bytes have 8 elements, 2 bytes each for a type of 1 or 5.
    ("fbgemm::FloatToFP8RowwiseQuantized", [([7, 5], "float"), "True"], ("elementwise", 5 * 35, 4 * 35 + 7 * 16, None)),
    ("fbgemm::FP8RowwiseQuantizedToFloat", [([7, 16], "unsigned char"), "True"],
     ("elementwise", 2 * 56, 7 * 16 + 4 * 56, None)),
    ("fbgemm::FP8RowwiseQuantizedToFloat", [([7, 16], "unsigned char"), "True", "5"],
     ("elementwise", 2 * 56, 7 * 16 + 2 * 56, None)),
    ("fbgemm::FloatToHFP8Quantized", [([7, 5], "float"), "4", "14", "0.9"], ("elementwise", 3 * 35, 4 * 35 + 35, None)),
    ("fbgemm::HFP8QuantizedToFloat", [([7, 5], "unsigned char"), "4", "14"], ("elementwise", 35, 35 + 4 * 35, None)),
    ("CompiledFunctionBackward", [ROWS], (None, None, None, "the trace lacks the ops of the compiled code")),
]  # fmt: skip


def test_ops_of_serving_engines(costs: list[dict[str, Any]]) -> None:
    """As their schemas in vLLM, SGLang and FlashInfer order the arguments."""
    rows = costs[len(LISTS) : len(LISTS) + len(FUSED)]
    found = [tuple(row[name] for name in ("family", "flops", "bytes", "reason")) for row in rows]
    assert found == [expected for *_, expected in FUSED]


def paged(at: float, rows: int, heads: int, keys: int, size: int, number: int) -> list[dict[str, Any]]:
    query, key = ([rows, heads, size], HALF), ([rows, keys, size], HALF)
    return [
        op("vllm::unified_attention_with_output", at, at + 9, query, key, key, query, None, None),
        *launched("kernel_unified_attention_2d", at + 1, 50 + number, number),
    ]


@pytest.mark.long
def test_paged_attention(traces: Traces) -> None:
    """By the lengths in the name of the step: 4 tokens of a prompt after 6 others, 32 of whose 40 pairs are computed, and
    2 sequences with 30 positions. TraceLens states 65.010180096 GFLOP and 211.826171875 MiB for the call in the second
    step."""
    lengths = "execute_46_context_9(sq8155sk8430sqsq7475785sqsk7671310)_generation_37(sq37sk34489sqsq37sqsk34489)"
    traces.take(
        event("user_annotation", "execute_3_context_1(sq4sk10sqsq16sqsk40)_generation_2(sq2sk30sqsq2sqsk30)", 0, 20),
        *paged(5, 8, 6, 2, 32, 1), event("user_annotation", lengths, 100, 120), *paged(105, 8192, 64, 8, 64, 2),
        event("user_annotation", "execute_context_1(sq8sk64sqsq64sqsk512)", 200, 220), *paged(205, 8, 6, 2, 32, 3),
        # Fewer queries than the step has.
        event("user_annotation", lengths, 300, 320),
        *paged(305, 8, 6, 2, 32, 4),
        **H100,
    )  # fmt: skip
    rows = traces.ask("op_efficiency", "total, flops, bytes, reason")
    unknown = (None, None, "the trace lacks the lengths of its sequences: assume seen_keys")
    assert sorted(rows) == [
        (51, 2 * (192 + 192) * (32 + 30), 2 * (2 * 8 * 192 + (10 + 30) * 2 * 64), None),
        (52, 65_010_180_096, 211.826171875 * 2**20, "it is faster than memory: its data was in a cache"),
        (107, *unknown),
    ]


@pytest.mark.long
def test_numbers_that_are_assumed_or_bounded(traces: Traces) -> None:
    """7 queries of 6 heads see 5 positions; 16 queries of 2 heads at most 8 keys, in both orders of dimensions."""
    query = ([7, 6, 32], HALF)
    traces.take(
        op("sglang_profiler::attention_paged_attention_ragged_7", 0, 9, query, ([9], "unsigned char"), query),
        *launched("paged_attention", 1, 50, 1),
        op("sage_fwd_0", 10, 19, ([1, 2, 16, 4], FP8), *[([1, 2, 8, 4], FP8)] * 2, "-1", ([1, 2, 3], "float")),
        *launched("sage_fwd", 11, 51, 2),
        op("sage_fwd_0", 20, 29, ([1, 16, 2, 4], FP8), *[([1, 8, 2, 4], FP8)] * 2, "-1", ([1, 2, 3], "float")),
        *launched("sage_fwd", 21, 52, 3),
        **H100,
    )  # fmt: skip
    most = 2 * 8 * (128 + 128)
    columns = "total, flops, flops_at_most"
    assert sorted(traces.ask("op_efficiency", columns)) == [(50, None, None), (51, None, most), (52, None, most)]
    assumed = traces.ask("op_efficiency", columns, assume="seen_keys=5")
    assert sorted(assumed) == [(50, 2 * 5 * 2 * 7 * 6 * 32, None), (51, 5 * most / 8, None), (52, 5 * most / 8, None)]


def test_copies_that_no_op_launched(traces: Traces) -> None:
    """A copy within a device reads and writes its bytes; without a size, its bytes are unknown. Communication has no
    least time: it is no part of what is known or unknown."""
    copies = [("DtoD", 4_000_000), ("HtoD", 1_000_000), ("DtoH", None)]
    events = [
        event(
            "gpu_memcpy",
            f"Memcpy {name}",
            10 + 20 * at,
            20 + 20 * at + at,
            7,
            device=0,
            **({"bytes": size} if size else {}),
        )
        for at, (name, size) in enumerate(copies)
    ]
    traces.take(
        *events, event("gpu_memset", "Memset (Device)", 80, 93, 7, device=0, bytes=2_000_000),
        op("record_param_comms", 0, 9, ([8], HALF)), *launched("ncclDevKernel_AllReduce_Sum_bf16", 1, 14, 1), **H100,
    )  # fmt: skip
    columns = "total, family, op, calls, flops, bytes, roof_percent, known_percent, reason"

    def roof(moved: int, time: int) -> Any:
        return pytest.approx(100 * moved / 3.352e12 / (time * 1e-6))

    assert sorted(traces.ask("op_efficiency", columns)) == [
        (10, "copy", None, 1, 0, 8_000_000, roof(8_000_000, 10), 100, None),
        (11, "copy", None, 1, 0, 1_000_000, roof(1_000_000, 11), 100, None),
        (12, "copy", None, 1, None, None, None, 0, "no op is known to have launched it"),
        (13, "fill", None, 1, 0, 2_000_000, roof(2_000_000, 13), 100, None),
        (
            14,
            "communication",
            "record_param_comms",
            1,
            None,
            None,
            None,
            None,
            "it moves data between devices: see collectives",
        ),
    ]
    assert traces.ask("step_efficiency", "known_percent") == [(100,)]


@pytest.mark.long
def test_times_on_the_host_are_not_compared_with_a_device(traces: Traces) -> None:
    """The trace names a device, but times are those of calls on the host: its peaks apply only if they are asked for."""
    traces.take(op("aten::mm", 0, 10, ([512, 512], HALF), ([512, 512], HALF)), **H100)
    columns = "flops, roof_percent, device, reason"
    assert traces.ask("op_efficiency", columns) == [(2 * 512**3, None, None, "the peaks of its device are not known")]
    [(_, share, device, reason)] = traces.ask("op_efficiency", columns, device="H100")
    assert (share, device, reason) == (pytest.approx(100 * 3 * 2 * 512**2 / 3.352e12 / 10e-6), "NVIDIA H100 SXM", None)


def test_data_in_a_cache(traces: Traces) -> None:
    """12 MB take 3.58 us through the memory: in 3.5 us, clocks may differ; in 3.4 us they come from a cache."""
    rows, moved = ([2000, 1000], HALF), 3 * 4_000_000
    traces.take(
        op("aten::add", 0, 9, rows, rows), *launched(ADD, 1, 3.5, 1),
        op("aten::mul", 10, 19, rows, rows), *launched(ADD, 11, 3.4, 2), **H100,
    )  # fmt: skip
    assert sorted(traces.ask("op_efficiency", "op, bytes, roof_percent, reason")) == [
        ("aten::add", moved, pytest.approx(100 * moved / 3.352e12 / 3.5e-6), None),
        ("aten::mul", moved, None, "it is faster than memory: its data was in a cache"),
    ]


@pytest.mark.long
def test_without_shapes(traces: Traces) -> None:
    traces.take(event("cpu_op", "aten::mm", 0, 9), *launched(GEMM, 1, 10, 1), **H100)
    assert traces.ask("op_efficiency", "family, flops, bytes, reason") == [
        ("GEMM", None, None, "recorded without shapes: profile(record_shapes=True) writes them")
    ]


FLOAT, LONG = "float", "long int"
COMPLEX = "c10::complex<float>"
Tensor = tuple[list[int], str]
BOTH, INPUT_ALONE = "[True, True, True]", "[True, False, False]"


def tensor(*sizes: int, type: str = FLOAT) -> Tensor:
    return [*sizes], type


A, B, C = tensor(8, 4), tensor(4, 16), tensor(8, 16)
HALF_A, HALF_B = tensor(8, 4, type=HALF), tensor(4, 16, type=HALF)
HALF_AS, HALF_BS = tensor(2, 8, 4, type=HALF), tensor(2, 4, 16, type=HALF)
X = tensor(2, 3, 4, 5)  # 120 elements
IMAGE, FILTERS, BIAS = tensor(2, 3, 8, 8), tensor(6, 3, 3, 3), tensor(6)
NUMBERS = ["1, 1", "0, 0", "1, 1"]
CASES: dict[str, tuple[list[Tensor | str | None], tuple[int | None, int | None]]] = {
    # Both matrices are read, the product is written, whether or not its size is already that.
    "aten::mm": ([A, B, C], (1024, 4 * (32 + 64 + 128))),
    "aten::mm of an empty out": ([A, B, tensor(0)], (1024, 4 * (32 + 64 + 128))),
    # The product is of the type that the call asks for: 6 is float.
    "aten::mm of an out_dtype": ([HALF_A, HALF_B, "6"], (1024, 2 * (32 + 64) + 4 * 128)),
    "aten::mm of complex numbers": ([tensor(8, 4, type=COMPLEX), tensor(4, 16, type=COMPLEX)], (4 * 1024, 8 * (32 + 64 + 128))),
    "aten::mul": ([tensor(8, 4, type=COMPLEX), A], (6 * 32, (8 + 4 + 8) * 32)),
    "aten::exp": ([tensor(8, 4, type=COMPLEX)], (None, 2 * 8 * 32)),
    "aten::addmm of a beta of 0": ([tensor(16), A, B, "0", "1"], (1024, 4 * (32 + 64 + 128))),
    "aten::baddbmm": ([C, tensor(2, 8, 4), tensor(2, 4, 16), "0.", "1"], (2048, 4 * (64 + 128 + 256))),
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
        [IMAGE, FILTERS, BIAS, *NUMBERS, "False", "0, 0", "1", tensor(2, 6, 6, 6)],
        (2 * 432 * 27, 4 * (384 + 162 + 6 + 432)),
    ),
    "aten::index_select": ([A, "0", tensor(2, type=LONG), tensor(2, 4)], (0, 4 * 8 + 8 * 2 + 4 * 8)),
    "aten::arange": (["0", "9", "1", tensor(0, type=LONG)], (0, None)),
    "aten::arange of an out": (["0", "9", "1", tensor(9, type=LONG)], (0, 8 * 9)),
    "aten::native_layer_norm": (
        [A, "[4]", tensor(4), tensor(4), "1e-05", A, tensor(8, 1), tensor(8, 1)],
        (8 * 32, 4 * (32 + 4 + 4 + 32 + 8 + 8)),
    ),
    "aten::constant_pad_nd": ([tensor(2, 3, 4), "[1, 2, 0, 1]", "0."], (0, 4 * (24 + 2 * 4 * 7))),
    "aten::constant_pad_nd that crops": ([tensor(2, 3, 4), "[-1, 2]", "0."], (0, None)),
    "aten::constant_pad_nd of unknown size": ([tensor(2, 3, 5), "", "0."], (0, None)),
    "aten::replication_pad3d": ([tensor(1, 2, 3, 4, 5, type=HALF), "[1, 1, 1, 1, 2, 0]"], (0, 2 * (120 + 2 * 5 * 6 * 7))),
    "aten::upsample_nearest2d": ([tensor(1, 2, 4, 4), "[8, 8]", "2.", "2."], (0, 4 * (32 + 128))),
    "aten::upsample_bilinear2d": ([tensor(1, 2, 4, 4), "[8, 8]", "False"], (7 * 128, 4 * (32 + 128))),
    "aten::normal_": ([A, "0", "1", None], (0, 4 * 32)),
    "aten::isneginf": ([A], (32, 4 * 32 + 32)),
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


def test_what_is_written_is_not_read(costs: list[dict[str, Any]]) -> None:
    found = [(row["flops"], row["bytes"]) for row in costs[len(LISTS) + len(FUSED) :][: len(CASES)]]
    assert dict(zip(CASES, found, strict=True)) == {name: row for name, (_, row) in CASES.items()}


def test_gradients_that_are_asked_for(costs: list[dict[str, Any]]) -> None:
    found = dict(zip(GRADIENTS, (row["bytes"] for row in costs[-len(GRADIENTS) :]), strict=True))
    assert found == {name: moved for name, (_, moved) in GRADIENTS.items()}


@pytest.mark.long
def test_a_report_on_out_arguments(warehouse: Warehouse) -> None:
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


# TB/s, and dense Tflop/s on float16 by tensor cores.
NAMES: dict[str, tuple[float, float] | None] = {
    "NVIDIA GH200 480GB": (4.0, 990), "NVIDIA GH200 144G HBM3e": (4.9, 990), "NVIDIA GB200": (8.0, 2500),
    "NVIDIA B200": (8.0, 2250), "NVIDIA H200": (4.8, 989.4), "NVIDIA H100 80GB HBM3": (3.352, 989.4),
    "NVIDIA H20": (4.0, 148), "NVIDIA H20-3e": (4.8, 148), "NVIDIA A10": (0.6, 125), "NVIDIA A10G": None,
    "NVIDIA A100-SXM4-80GB": (2.039, 312), "NVIDIA L4": (0.3, 121), "NVIDIA L40S": (0.864, 362.05), "NVIDIA L40": None,
    "Tesla T4": (0.32, 65), "Tesla V100-SXM2-16GB": (0.9, 125), "Tesla V100-PCIE-32GB": (0.9, 112),
    "Tesla V100S-PCIE-32GB": (1.134, 130), "AMD Instinct MI300X": (5.325, 1307.4), "MI300X achievable": (5.325, 708),
    "MI325X achievable": (6.0, 840.8),
}  # fmt: skip


def test_peaks_by_names(warehouse: Warehouse) -> None:
    query = "SELECT bandwidth, p.peaks.matrix_fp16 FROM _trace_peaks(NULL, NULL, NULL, $name) AS p"
    for name, known in NAMES.items():
        if known is None:
            with pytest.raises(QueryError, match=f"no device is called {name} in device_peaks"):
                warehouse.rows(query, name=name)
        else:
            assert warehouse.rows(query, name=name)[1] == [pytest.approx((known[0] * 1e12, known[1] * 1e12))], name


def test_names_of_memory(traces: Traces) -> None:
    """By c10's DeviceType: CPU, CUDA, HIP, XPU, HPU, MTIA, and none that there is."""
    kinds = {0: "CPU", 1: "GPU2", 6: "GPU3", 12: "XPU1", 15: "HPU0", 19: "MTIA1", 77: "type 77:1"}
    places = {0: -1, 1: 2, 6: 3, 12: 1, 15: 0, 19: 1, 77: 1}
    traces.take(
        event("cpu_op", "aten::empty", 0, 90),
        *(memory(at, 64, 64, type=kind, device=places[kind]) for at, kind in enumerate(kinds, 1)),
    )
    assert {device for (device,) in traces.ask("memory_timeline", "device")} == {*kinds.values()}
