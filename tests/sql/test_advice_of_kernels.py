"""Advice about kernels of traces: which remedy belongs to which kernels and devices, on traces of a few kernels."""

from __future__ import annotations

import json
from itertools import count
from typing import Any

import pytest

from etq.advice.finding import Finding
from etq.advice.kernels import Rated, _grows, findings
from etq.advice.trace_evidence import Evidence, Lost
from tests.trace_builders import event
from tests.traces import Traces

NAMES = count()
HALF = "c10::BFloat16"
SGEMM, TENSOR = "ampere_sgemm_128x64_tn", "sm80_xmma_gemm_f16f16_f16f32_f32_tn_n"
ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float> >(int)"
SOFTMAX = "void (anonymous namespace)::softmax_warp_forward<float, float, float, 8, false, false>(float*)"
CUSTOM = "void vllm::act_and_mul_kernel_elementwise<float>(P)"
H100 = {"name": "NVIDIA H100 80GB HBM3", "computeMajor": 9, "computeMinor": 0}


def found(
    traces: Traces,
    *work: tuple[str, str, float],
    device: dict[str, Any] | None = H100,
    shapes: Any = None,
    type: str = HALF,
) -> dict[str, Finding]:
    """Findings, by rule, about ops of one kernel, copy or fill each: names of op and kernel, microseconds. All are
    launched early, so that no device waits.
    """
    events: list[dict[str, Any]] = []
    at = 1000.0
    for number, (op, kernel, length) in enumerate(work, 1):
        category = {"Mems": "gpu_memset", "Memc": "gpu_memcpy", "Copy": "gpu_memcpy"}.get(kernel[:4], "kernel")
        made = event("cpu_op", op, number * 5, number * 5 + 4)
        if shapes:
            made["args"] |= {"Input Dims": shapes, "Input type": [type] * len(shapes)}
        events += [
            made,
            event("cuda_runtime", "cudaLaunchKernel", number * 5 + 1, number * 5 + 3, correlation=number),
            event(category, kernel, at, at + length, 7, correlation=number, device=0, stream=7),
        ]
        at += length
    capture = traces.take(*events, name=f"t{next(NAMES)}", deviceProperties=[device | {"id": 0}] if device else [])
    evidence = Evidence(traces.warehouse.connection, capture.capture_id)
    rows = findings(evidence)
    evidence.lost = Lost(launches=2, lost=1, call=None)
    assert not findings(evidence)
    evidence.drop()
    return {row.rule: row for row in rows}


def gpu(major: int, minor: int = 0, name: str = "NVIDIA X") -> dict[str, Any]:
    return {"name": name, "computeMajor": major, "computeMinor": minor}


LISTED = "etq ops lists the ops that take most time."
PRODUCTS: list[tuple[str, dict[str, Any] | None, str]] = [
    (SGEMM, gpu(8), "Matrix products run without tensor cores: use bfloat16, or allow TF32."),
    # Volta and Turing multiply float16 alone; Pascal has no tensor cores; of others it isn't known.
    (SGEMM, gpu(7, 5), "Matrix products run without tensor cores: use float16."),
    (SGEMM, gpu(6, 0, "Tesla P100-PCIE-16GB"), LISTED),
    (SGEMM, {"name": "GPU"}, LISTED),
    (SGEMM, None, LISTED),
    ("Cijk_Ailk_Bljk_SB_MT64x64x16_SE_K1_TT4_4_WG16_16_1", gpu(9, 4, "AMD Instinct MI300X"), "Matrix products run without matrix cores: use bfloat16."),
    ("Cijk_Ailk_Bljk_SB_MT64x64x16_SE_K1_TT4_4_WG16_16_1", gpu(10, 3, "AMD Radeon RX 6800"), LISTED),
    # Another type wouldn't help: they multiply by a vector, or halves already.
    ("void gemv2T_kernel_val<int, int, __nv_bfloat16, __nv_bfloat16, float, float, 128, 16, 4, 4, false>(P)", gpu(9), LISTED),
    ("maxwell_hgemm_128x64_tn", gpu(8), LISTED),
    (TENSOR, gpu(8), "The products run on tensor cores already: make fewer of them."),
    ("sm90_xmma_gemm_e4m3e4m3_f32_f32_tn_n_tilesize128", gpu(9), "The products run on tensor cores already: make fewer of them."),
]  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize(("kernel", "device", "remedy"), PRODUCTS)
def test_products(traces: Traces, kernel: str, device: dict[str, Any] | None, remedy: str) -> None:
    rows = found(traces, ("aten::mm", kernel, 30), ("aten::add", ADD, 10), device=device)
    assert rows["device time"].text == "Time of devices: 75 % GEMM, 25 % elementwise."
    assert rows["device time"].remedy == remedy


FAMILIES = [
    ("Memcpy HtoD (Pageable -> Device)", "memcpy", "Copy less, or from pinned memory with non_blocking=True"),
    ("Memcpy HtoD (Pinned -> Device)", "memcpy", "Copy less, or ahead of its use."),
    ("Memcpy HtoD (Host -> Device)", "memcpy", "Copy less, or from pinned memory"),
    ("CopyHostToDevice", "memcpy", "Copy less, or from pinned memory"),
    ("Memcpy DtoH (Device -> Pageable)", "memcpy", "Copy results less often, or into pinned memory"),
    ("Memcpy DtoD (Device -> Device)", "memcpy", "avoid contiguous() and cat"),
    ("void vllm::reshape_and_cache_flash_kernel<bf16>(P)", "copy", LISTED),
    ("void cudnn::ops::nhwcToNchwKernel<float>(P)", "copy", "avoid contiguous() and cat"),
    ("Memset (Device)", "memset", LISTED),
    (SOFTMAX, "softmax", "torch.compile fuses ops that follow each other."),
    (ADD, "elementwise", "torch.compile fuses ops that follow each other."),
    (CUSTOM, "elementwise", LISTED),
    ("k1", "unknown names", ""),
    ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(P)", "communication", "collective_waits"),
]


@pytest.mark.long
@pytest.mark.parametrize(("kernel", "family", "remedy"), FAMILIES)
def test_families(traces: Traces, kernel: str, family: str, remedy: str) -> None:
    """Nothing is said of what limits kernels whose bytes aren't known; nothing helps those of unknown names."""
    row = found(traces, ("aten::x", kernel, 40))["device time"]
    assert row.text == f"Time of devices: 100 % {family}."
    assert row.remedy == remedy if remedy in ("", LISTED) else remedy in row.remedy
    assert (row.ticks, row.whole_ticks, row.severity) == (40_000, 40_000, "low")


def test_copies_in_two_directions(traces: Traces) -> None:
    rows = found(traces, *(("aten::to", f"Memcpy {way} (x)", 10) for way in ("HtoD", "DtoH", "DtoD")))
    assert rows["device time"].remedy == LISTED


SMALL, LARGE = [[64], [64]], [[8192, 8192], [8192, 8192]]


@pytest.mark.long
def test_what_limits_kernels(traces: Traces) -> None:
    """Of two tensors of 8192 x 8192, 3 * 2 * 8192**2 bytes take 120 us at the peak of 3.352 TB/s, so 300 us are twice
    what good kernels need; kernels of 64 numbers are short, or slow for a reason that isn't known.
    """
    rows = found(traces, ("aten::add", ADD, 300), shapes=LARGE)
    least = 3 * 2 * 8192**2 / 3.352e12 * 1e9
    assert rows["device time"].remedy.startswith("These kernels are limited by memory: torch.compile")
    assert (
        rows["below the roof"].text
        == "100 % of the devices' time is in ops of elementwise that move 1.34 of 3.35 TB/s."
    )
    assert rows["below the roof"].ticks == pytest.approx(300_000 - least / 0.8)
    slow = found(traces, ("aten::add", ADD, 600), shapes=LARGE)["device time"].remedy
    assert slow.startswith("torch.compile")  # at a fifth of the peak, memory isn't the limit
    assert "below the roof" not in found(traces, *[("aten::add", ADD, 40)] * 3, shapes=SMALL)


@pytest.mark.long
def test_short_kernels_are_one_thing(traces: Traces) -> None:
    """Of 2, 5, 5 and 3 us, the shortest kernel's 2 us each can't be saved; graphs make no kernel shorter."""
    work = [("aten::add", ADD, 2.0), ("aten::add", ADD, 5.0), ("aten::mul", ADD, 5.0), ("aten::div", ADD, 3.0)]
    row = found(traces, *work, shapes=[[8, 8], [8, 8]])["below the roof"]
    assert (row.ticks, row.whole_ticks) == (15_000 - 4 * 2_000, 15_000)
    assert (
        "in ops that have too little work: at the peak rates, they would take less time than the shortest kernels"
        in row.text
    )
    assert "2.00 us a kernel" in row.evidence
    assert row.remedy == "Try torch.compile, which fuses ops that follow each other."


@pytest.mark.long
def test_ops_with_too_little_work_are_those_of_the_roofline(traces: Traces) -> None:
    """Two of 2 us, and one of 96, whose time has another reason: all are below the time of the shortest kernels."""
    work = [("aten::add", ADD, 2.0)] * 2 + [("aten::mul", ADD, 96.0)]
    row = found(traces, *work, shapes=SMALL)["below the roof"]
    assert row.text.startswith("100 % of the devices' time is in ops that have") and row.ticks == 94_000
    assert row.remedy == ""


@pytest.mark.long
@pytest.mark.parametrize(
    ("op", "shapes", "time", "remedy"),
    [
        # 2 * 8192**3 operations take 1,111 us at 989 TFLOP/s; 7,000 is a multiple of 8, and pads to 55 tiles of 128.
        ("aten::mm", [[8192, 8192], [8192, 8192]], 3000, ""),
        ("aten::mm", [[7000, 8192], [8192, 7000]], 3000, ""),
        ("aten::mm", [[8190, 8192], [8192, 8192]], 3000, "Use sizes that are multiples of the tiles."),
        ("aten::mm", [[136, 8192], [8192, 136]], 30, None),
        # 135 million bytes take 40 us: kernels that take ten times as long have another limit.
        ("aten::mm", [[16, 8192], [8192, 8192]], 100, "Use a larger batch, which does more work with the data that it reads."),
        ("aten::mm", [[16, 8192], [8192, 8192]], 400, "Use a larger batch, which does more work with the data that it reads."),
        ("aten::bmm", [[1, 16, 8192], [1, 8192, 8192]], 100, "A larger batch reads more of both operands: fuse the products with the ops between them, or share an operand."),
        ("aten::mm", [[1024, 65536], [65536, 1024]], 500, "Use larger products."),
        ("aten::_scaled_dot_product_flash_attention", [[8, 16, 4096, 128]] * 3, 3000, "Another kernel of attention may be faster: torch.nn.attention.sdpa_kernel chooses one."),
    ],
)  # fmt: skip
def test_remedies_for_products_are_of_their_sizes(
    traces: Traces, op: str, shapes: list[list[int]], time: float, remedy: str | None
) -> None:
    row = found(traces, (op, "flash_fwd" if "flash" in op else TENSOR, time), shapes=shapes).get("below the roof")
    assert (row and row.remedy) == remedy


# Twice what 2 * 8192**3 operations take at 495 TFLOP/s, and 270 million bytes at 3.35 TB/s.
@pytest.mark.long
@pytest.mark.parametrize(
    ("shapes", "time", "ways"),
    [
        ([[8192, 8192], [8192, 8192]], 4500, "Use smaller types where accuracy allows."),
        ([[16, 8192], [8192, 8192]], 160, "Use a larger batch, which does more work with the data that it reads; smaller types read less."),
    ],
)  # fmt: skip
def test_smaller_types_are_for_wide_inputs(traces: Traces, shapes: list[list[int]], time: float, ways: str) -> None:
    rows = found(traces, ("aten::mm", TENSOR, time), shapes=shapes, type="float")
    assert rows["below the roof"].remedy == ways
    ways = "make fewer of them, or use smaller types where accuracy allows."
    assert rows["device time"].remedy == f"The products run on tensor cores already: {ways}"


@pytest.mark.long
@pytest.mark.parametrize(
    ("op", "label", "is_told"),
    [
        ("aten::cudnn_convolution", "void cudnn::ops::nchwToNhwcKernel<float>(P)", True),
        ("aten::miopen_convolution", "batched_transpose_16x32_half", True),
        ("aten::convolution_backward", "void cudnn::ops::nhwcToNchwKernel<float>(P)", True),
        ("aten::permute_copy", "batched_transpose_16x32_half", False),
        ("aten::cudnn_convolution", "void cudnn::cnn::conv2d_grouped_direct_kernel<P>", False),
    ],
)
def test_transposes_of_convolutions(traces: Traces, op: str, label: str, is_told: bool) -> None:
    """30 of 100 us in a kernel of an op, beside products."""
    rows = found(traces, (op, label, 30), ("aten::mm", TENSOR, 70))
    assert ("layouts of convolutions" in rows) == is_told
    if is_told:
        row = rows["layouts of convolutions"]
        assert (row.ticks, row.whole_ticks) == (30_000, 100_000) and "torch.channels_last" in row.remedy


@pytest.mark.long
def test_transposes_are_told_once(traces: Traces) -> None:
    """A small convolution of 40 us with a transpose of 30, beside a kernel of 2: 70 - 2 * 2 - 30 us are at stake."""
    convolution = event("cpu_op", "aten::cudnn_convolution", 0, 9)
    window = ["[0, 0]", "[1, 1]", "[1, 1]", "1"]
    convolution["args"] |= {
        "Input Dims": [[1, 8, 8, 8], [8, 8, 3, 3], [], [], [], []],
        "Input type": [HALF, HALF, *["ScalarList"] * 3, "Scalar"],
        "Concrete Inputs": ["", "", *window],
    }
    kernels = [("void cudnn::ops::nchwToNhwcKernel<float>(P)", 30), (TENSOR, 40), ("short", 2)]
    events, at = [convolution], 1000.0
    for number, (kernel, length) in enumerate(kernels, 1):
        events += launched(number, 4 * number - 3, at, at + length, kernel, "my::op" if number == 3 else "")
        at += length
    rows = told(traces, *events)
    assert "layouts of convolutions" in rows and "without their transposes" in rows["below the roof"][2]
    assert rows["below the roof"][4] == pytest.approx(100 * 36 / 72)


def test_a_larger_batch_is_for_ops_that_do_not_take_longer_with_more_work() -> None:
    """Four times the work in twice the time, or in less."""
    small = Rated("GEMM", "latency", "aten::mm", 10, 10, 40_000, 100, 1e3, 1e12, "X", HALF, TENSOR, 2000, 1e3, "[]")
    for ticks, is_more in ((8000, True), (7900, False)):
        large = small._replace(calls=1, kernels=1, ticks=ticks, least_ticks=40)
        assert _grows([small, large], [small, large]) == is_more
        assert not _grows([small, large._replace(op="aten::bmm")], [small])


@pytest.mark.long
@pytest.mark.parametrize(("of_ops", "copied", "is_slower"), [(900, 0, True), (150, 0, False), (900, 750, False)])
def test_kernels_save_little_where_the_host_is_slower_without_python(
    traces: Traces, of_ops: float, copied: float, is_slower: bool
) -> None:
    """A product of 100 us, and 900 or 150 us of ops of the host; each function of Python makes its times uncertain, but not
    those of ops. Waits for the device are none, nor a copy within an op that returns when it has ended.
    """
    functions = [event("python_function", f"f{at}", 10 * at, 10 * at + 9) for at in range(200)]
    op = event("cpu_op", "aten::mm", 5, 5 + of_ops)
    wait = event("cuda_runtime", "cudaStreamSynchronize", 1000, 1900, correlation=9)
    copies = [event("cuda_runtime", "cudaMemcpy", 100, 100 + copied, correlation=8)] if copied else []
    rows = told(traces, op, *launched(1, 5, 20, 120, TENSOR), *copies, wait, *functions)
    assert ("the host's ops and calls alone take" in rows["device time"][2]) == is_slower


@pytest.mark.long
def test_work_beside_communication_says_so(traces: Traces) -> None:
    """A product from 1,000 to 1,100 us, and a collective from 1,050 to 1,200 on another stream."""
    events = launched(1, 10, 1000, 1100, TENSOR, "aten::mm") + launched(
        2, 20, 1050, 1200, "ncclDevKernel_AllReduce", ""
    )
    events[-1]["tid"] = events[-1]["args"]["stream"] = 9
    rows = told(traces, *events)
    expected = (
        "for 50.0 us of the 100 us in which devices compute or copy, they communicate: shortening this may save nothing"
    )
    assert expected in rows["device time"][2]


@pytest.mark.long
def test_chains_are_of_steps(traces: Traces) -> None:
    """Sixteen kernels of a step, from 1,010 to 1,170 us, are one chain; sixteen before it are none of its."""
    step = event("user_annotation", "ProfilerStep#1", 900, 1200)
    events = [step]
    for number in range(32):
        at = 10 * number + (1010 - 160 if number >= 16 else 0)
        launch = 2 * number + (900 if number >= 16 else 0)
        events += launched(number + 1, launch / 2 if number < 16 else launch, at, at + 10, ADD, "aten::add")
    _, text, _, _, share, whole = told(traces, *events)["fusable kernels"]
    assert text.startswith("Kernels of steps that") and "16 kernels in 1 chain." in text
    assert share == pytest.approx(100 * 150 / 160) and whole.endswith(" of steps")


@pytest.mark.long
def test_small_products_are_another_cause_than_slow_launches(traces: Traces) -> None:
    """Products of 9 us, which would take less than 1, where the shortest kernel takes 2."""
    rows = found(traces, *[("aten::mm", TENSOR, 9.0)] * 4, ("my::op", TENSOR, 2.0), shapes=[[64, 64], [64, 64]])
    row = rows["below the roof"]
    assert (row.cause, row.remedy, row.ticks) == (None, "", 28_000)


@pytest.mark.long
def test_a_bound_by_part_of_the_bytes_gives_no_advice(traces: Traces) -> None:
    """Whether the kernel overwrites the first tensor isn't known, and 300 us fit neither two tensors nor three."""
    rows = found(traces, ("triton_poi_fused_add_mul_0", "triton_poi_fused_add_mul_0", 300), shapes=LARGE)
    assert set(rows) == {"device time"} and rows["device time"].remedy == LISTED


ATTENTION = [
    ("aten::bmm", TENSOR, 20.0),
    ("aten::div", ADD, 5.0),
    ("aten::_softmax", SOFTMAX, 8.0),
    ("aten::bmm", TENSOR, 20.0),
]


def test_attention_in_single_ops(traces: Traces) -> None:
    """Forward 20 + 5 + 8 + 20, backward 20 + 9 + 20, of 202 us: other products and ops between leave it out."""
    row = found(
        traces, ("aten::mm", TENSOR, 50), *ATTENTION, ("aten::add", ADD, 10), ("aten::mm", TENSOR, 10),
        ("aten::bmm", TENSOR, 20), ("aten::_softmax_backward_data", SOFTMAX, 9), ("aten::bmm", TENSOR, 20),
        ("aten::mm", TENSOR, 10), ("aten::_softmax", SOFTMAX, 10), ("aten::mm", TENSOR, 10),
    )["unfused attention"]  # fmt: skip
    assert (row.ticks, row.whole_ticks) == (102_000, 202_000)
    assert "scaled_dot_product_attention" in row.remedy


@pytest.mark.long
def test_attention_where_devices_have_fused_kernels(traces: Traces) -> None:
    others = [("aten::mm", TENSOR, 50.0)] * 2
    row = found(traces, *ATTENTION, *others)["unfused attention"]
    assert (row.ticks, row.whole_ticks, row.severity) == (53_000, 153_000, "high")
    assert row.evidence.startswith("1 softmax kernel between batches of products, 4 kernels;")
    for device in ({"name": "GPU"}, None):
        assert "unfused attention" not in found(traces, *ATTENTION, *others, device=device)
    # Batches of products that move 42 MB in 60 us, which take 13, are no other cause.
    slow = [(op, kernel, 60.0 if op == "aten::bmm" else time) for op, kernel, time in ATTENTION]
    rows = found(traces, *slow, shapes=[[64, 512, 64], [64, 64, 512]])
    assert {rows[rule].cause for rule in ("unfused attention", "below the roof")} == {"attention"}


@pytest.mark.long
def test_chains_and_odd_sizes(traces: Traces) -> None:
    odd, simt = (f"cutlass_80_{unit}_s1688gemm_64x64_nn_align1" for unit in ("tensorop", "simt"))
    work = [("aten::mul", ADD, 10.0), ("aten::add", ADD, 30.0), ("aten::mm", odd, 30.0), ("aten::mm", simt, 30.0)]
    rows = found(traces, *work)
    chain, sizes = rows["fusable kernels"], rows["odd sizes"]
    assert (chain.ticks, chain.whole_ticks, chain.cause) == (10_000, 100_000, "fusion")
    assert chain.evidence == "most time: aten::mul | aten::add (1 time); etq show fusable_chains lists them"
    assert (sizes.ticks, sizes.evidence) == (30_000, f"1 call of kernels such as {odd}")
    assert sizes.remedy.startswith("Make matrix sizes multiples of 4,")


@pytest.mark.long
@pytest.mark.parametrize(
    ("kernel", "columns", "multiple"),
    [
        ("cutlass_80_tensorop_bf16_s16816gemm_bf16_256x128_64x3_tn_align2", 30522, 8),
        ("cutlass_80_tensorop_bf16_s16816gemm_bf16_256x128_64x3_tn_align2", 30524, 8),
        ("cutlass_80_tensorop_bf16_s16816gemm_bf16_256x128_64x3_tn_align2", 30528, None),
        ("cutlass_80_tensorop_s1688gemm_256x128_16x3_nn_align1", 30522, 4),
        ("cutlass_80_tensorop_s1688gemm_256x128_16x3_nn_align1", 30524, None),
        ("turing_fp16_s1688gemm_fp16_128x128_align2", 30524, 8),
    ],
)
def test_sizes_are_odd_for_their_type(traces: Traces, kernel: str, columns: int, multiple: int | None) -> None:
    """16 bytes are 8 elements of two bytes, and 4 of TF32. A product is below the roof for one reason."""
    rows = found(traces, ("aten::mm", kernel, 400), shapes=[[144, 512], [512, columns]])
    assert ("odd sizes" in rows) == (multiple is not None) == ("below the roof" not in rows)
    if multiple:
        assert rows["odd sizes"].remedy.startswith(f"Make matrix sizes multiples of {multiple},")


def launched(number: int, at: float, start: float, end: float, kernel: str, op: str = "") -> list[dict[str, Any]]:
    """A kernel that a call launches, in an op if it has a name."""
    call = event("cuda_runtime", "cudaLaunchKernel", at + 1, at + 3, correlation=number)
    ran = event("kernel", kernel, start, end, 7, correlation=number, device=0, stream=7)
    return [*([event("cpu_op", op, at, at + 4)] if op else []), call, ran]


def told(traces: Traces, *events: dict[str, Any]) -> dict[str, tuple[Any, ...]]:
    """The findings of `advice`, by rule: severity, text, evidence, remedy, share, and what it is of."""
    traces.take(*events, deviceProperties=[H100 | {"id": 0}])
    columns = "rule, severity, finding, evidence, remedy, share_percent, share_of"
    return {row[0]: row[1:] for row in traces.warehouse.rows(f"SELECT {columns} FROM advice('t')")[1]}


@pytest.mark.long
@pytest.mark.parametrize("name", ["Memcpy HtoD (Pinned -> Device)", "Memcpy DtoD (Device -> Device)"])
def test_copies_by_the_link_to_the_host_are_not_rated_by_memory(traces: Traces, name: str) -> None:
    """A copy of 64 MiB in 5,000 us: slow for the device's memory of 3.35 TB/s, not for the link of 64 GB/s."""
    copy = event("cpu_op", "aten::copy_", 0, 20, shapes=[[4096, 4096], [4096, 4096], []])
    copy["args"]["Input type"] = ["float", "float", "Scalar"]
    call = event("cuda_runtime", "cudaMemcpyAsync", 5, 15, correlation=1)
    moved = event("gpu_memcpy", name, 30, 5030, 7, correlation=1, device=0, stream=7, bytes=4 * 4096**2)
    assert ("below the roof" in told(traces, copy, call, moved)) == ("DtoD" in name)


@pytest.mark.long
@pytest.mark.parametrize(("period", "is_idle"), [(100, True), (5, False)])
def test_faster_kernels_save_little_where_nothing_waits_for_them(traces: Traces, period: int, is_idle: bool) -> None:
    """Twenty kernels of 10 us that the host launches every 100 us, or every 5."""
    events: list[dict[str, Any]] = []
    for number in range(20):
        start = 10 + number * (period if is_idle else 10)
        events += launched(number + 1, period * number, start, start + 10, TENSOR, "aten::mm")
    row = told(traces, *events)["device time"]
    assert row[1] == "Time of devices: 100 % GEMM."
    # The path waits for the last kernel alone.
    note = "; of the devices' 200 us, 10.0 us are on the critical path: faster kernels can't shorten it by more"
    assert row[2].endswith(note) == is_idle
    assert row[3].startswith("The products run on tensor cores") is not is_idle


@pytest.mark.long
def test_other_ranks_may_wait_for_work_that_communicates(traces: Traces) -> None:
    """Twenty collectives of 10 us that the host launches every 100 us."""
    name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(P)"
    events = [each for at in range(0, 2000, 100) for each in launched(at + 1, at, at + 10, at + 20, name, "c10d::x")]
    assert told(traces, *events)["device time"][1] == "Time of devices: 100 % communication."


@pytest.mark.long
def test_shares_are_of_steps(traces: Traces) -> None:
    """30 of 40 us that a step launches are products; 60 us of products come before it."""
    step = event("user_annotation", "ProfilerStep#1", 100, 165)
    before, product = launched(1, 10, 20, 80, TENSOR), launched(2, 110, 120, 150, TENSOR)
    events = [*before, *product, *launched(3, 120, 150, 160, ADD)]
    _, text, evidence, _, share, whole = told(traces, step, *events)["device time"]
    assert text == "Time of devices in steps: 75 % GEMM, 25 % elementwise." and evidence.startswith("1 call of GEMM,")
    assert (share, whole) == (75, "the time of kernels, copies and fills of steps")


@pytest.mark.long
@pytest.mark.parametrize(("end", "clause"), [
    (60, "for 40.0 us of the 80.0 us in which devices copy, they also compute; etq kernels"),
    (59, None),
])  # fmt: skip
def test_copies_beside_kernels_have_no_remedy(traces: Traces, end: int, clause: str | None) -> None:
    """A copy from 10 to 90 us in one stream, a kernel of another from 20 us on: half of the copy is hidden, or less."""
    copy = event("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", 10, 90, 9, correlation=1, device=0, stream=9)
    call = event("cuda_runtime", "cudaMemcpyAsync", 1, 3, correlation=1)
    _, _, evidence, remedy, *_ = told(traces, call, copy, *launched(2, 4, 20, end, ADD, "aten::add"))["device time"]
    assert (clause in evidence) if clause else ("they also compute" not in evidence)
    assert remedy == ("" if clause else "Copy less, or ahead of its use.")


@pytest.mark.long
def test_remedies_of_what_nothing_changes(traces: Traces) -> None:
    """Weights are copied once, before the first kernel; a graph's products are given, and no op launched its fills."""
    copy = event("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", 10, 90, 7, correlation=1, device=0, stream=7)
    call = event("cuda_runtime", "cudaMemcpyAsync", 1, 3, correlation=1)
    assert told(traces, call, copy, *launched(2, 4, 90, 110, ADD, "aten::add"))["device time"][3] == ""
    traces.warehouse.remove("t")
    graph = [event("cuda_runtime", "cudaGraphLaunch", 1, 3, correlation=1)]
    graph += [event("kernel", TENSOR, at, at + 10, 7, correlation=1, device=0, stream=7) for at in (10, 20, 30)]
    assert told(traces, *graph)["device time"][3] == ""
    traces.warehouse.remove("t")
    assert (
        told(traces, *launched(1, 1, 10, 30, CUSTOM))["device time"][3]
        == "etq kernels lists the kernels that take most time."
    )


@pytest.mark.parametrize(
    ("op", "shapes", "operands"),
    [
        ("aten::mm", [[64, 32], [32, 16]], [[64, 32], [32, 16]]),
        ("aten::addmm", [[16], [64, 32], [32, 16], [], []], [[64, 32], [32, 16]]),
        ("aten::addmm", [[64, 16], [64, 32], [32, 16], [], []], [[64, 32], [32, 16]]),
        ("aten::baddbmm", [[4, 64, 16], [4, 64, 32], [4, 32, 16]], [[4, 64, 32], [4, 32, 16]]),
        ("aten::convolution", [[9, 8, 5, 5], [24, 8, 3, 3], [24]], [[9, 8, 5, 5], [24, 8, 3, 3]]),
        ("aten::convolution_backward", [[9, 24, 3, 3], [9, 8, 5, 5], [24, 8, 3, 3]], [[9, 8, 5, 5], [24, 8, 3, 3]]),
        ("aten::mm", [3, "x", [[2, 3]], [None, 4]], []),
    ],
)
def test_operands_of_products(op: str, shapes: Any, operands: Any) -> None:
    """What is added, and the gradient of the output, are none; a convolution of 9 images has channels in eights."""
    rated = Rated("GEMM", "compute", op, 1, 1, 1, 1.0, None, None, "", None, "", 1, None, json.dumps(shapes))
    assert rated.operands == operands
    if "convolution" in op:
        assert not rated._replace(family="convolution").is_padded
