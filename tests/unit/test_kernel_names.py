"""Names of kernels: what they tell of the kernel; and short ones, never the same for two kernels."""

from __future__ import annotations

import csv
import gzip
import json
import random
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from etq import catalog
from etq.ingest.trace.classes import Kernel, rules
from etq.render.kernel_names import cut, short_names
from etq.warehouse.warehouse import Warehouse
from tests.conftest import CAPTURES, shared_file
from tests.trace_builders import event
from tests.traces import Traces

# Family, whether the source has instructions of matrix units (mma, wgmma, tcgen05, mfma), name; - where none says.
NAMES = """
# cuBLAS and CUTLASS.
GEMM no ampere_sgemm_128x64_tn
GEMM yes volta_h884gemm_256x64_ldg8_nn
GEMM yes ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x4_nn
GEMM yes sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_kernel__5x_cublas
GEMM yes nvjet_tst_64x16_64x16_2x4_2cta_h_bz_bias_TNT
GEMM yes void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_128x128_16x4_nn_align4>(Params)
GEMM no void cutlass::Kernel2<cutlass_80_simt_sgemm_128x32_8x5_nn_align1>(Params)
GEMM yes void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cute::tuple<int>, cutlass::gemm::collective::CollectiveMma<cutlass::gemm::MainloopSm90TmaGmmaWarpSpecialized<4> > > >(Params)
GEMM no void gemv2T_kernel_val<int, int, float, float, float, float, 128, 16, 4, 4, false, false>(P)
# FBGEMM.
embedding no void fbgemm_gpu::split_embedding_backward_codegen_rowwise_adagrad_unweighted_kernel_warp_per_row_1<float, float>(P)
GEMM yes void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<fbgemm_gpu::Shape, cutlass::gemm::collective::CollectiveMma<cutlass::gemm::MainloopSm90TmaGmmaWarpSpecialized<4> > > >(Params)
embedding no split_embedding_backward_codegen_rowwise_adagrad_weighted_find_long_segments<c10::Half, float, c10::Half, 2ul, 32>(at::PackedTensorAccessor32<long, 1ul>, fbgemm_gpu::FixedDivisor)
embedding no void fbgemm_gpu::dense_embedding_codegen_forward_unweighted_kernel<float, float, float, long, 2ul>(P)
elementwise no void fbgemm_gpu::(anonymous namespace)::_FP8rowwise_to_float_cuda_kernel<float>(unsigned char const*, int, int, float*, bool)
elementwise no void fbgemm_gpu::(anonymous namespace)::_compute_FP8_quantize_cuda_kernel<float>(float const*, unsigned char*, bool)
elementwise no void at::native::vectorized_elementwise_kernel<4, fbgemm_gpu::_float_to_hfp8_gpu(at::Tensor const&, long, long, double)::{lambda(float)#1}, at::detail::Array<char*, 2> >(P)
other no void fbgemm_gpu::permute_2D_data_kernel<false, int, int, decltype(nullptr)>(P)
other no void permute_pooled_embs_kernel<float>(float const*, long)
other no void bounds_check_indices_kernel<long>(at::GenericPackedTensorAccessor<long, 1ul>, fbgemm_gpu::FixedDivisor)
- - void fbgemm_gpu::jagged_dense_kernel<int>(int)
GEMM - void fbgemm_gpu::grouped_gemm_set_args_kernel<int>(int)
# TensorRT-LLM, vLLM, SGLang, Triton.
GEMM yes bmm_MxE4m3_MxE2m1MxE4m3_Fp32_t128x16x256u2_s3_et128x16_m128x16x32_cga1x1x1_16dp256b_rM_TN_sm100f
GEMM yes void marlin::Marlin<8ll, 128, 1, 8, 8, 4, false>(int4 const*)
MoE - fused_moe_kernel
MoE yes _matmul_ogs_NNT_bf16xbf16xmxfp4_16x128x256x1_swiglu
MoE yes _p_matmul_ogs_NNT_bf16xbf16xmxfp4_128x256x64x1
MoE no void vllm::moe::topkGatingSoftmax<8, 128, 4, 16>(float const*)
attention no void vllm::paged_attention_v2_kernel<unsigned short, unsigned short, 128, 16, 128>(float*)
attention - kernel_unified_attention_3d
copy no void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16, unsigned char>(P)
normalization no void vllm::rms_norm_kernel<c10::BFloat16, 8, 2>(P)
attention yes void flash::flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128, 64, 128, 4, cutlass::bfloat16_t> >(P)
attention no void flash::flash_fwd_splitkv_combine_kernel<Flash_fwd_kernel_traits<128, 64, 128, 4> >(P)
attention yes cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_3_128x128x128_1x1x1_kernel0_0
attention yes fmha_cutlassF_f16_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel<cutlass::half_t>::Params)
attention - void flashinfer::BatchPrefillWithPagedKVCacheKernel<KernelTraits>(P)
- - create_flashinfer_kv_indices_triton
# torch.compile.
elementwise no triton_poi_fused_add_native_layer_norm_1
normalization no triton_red_fused_native_layer_norm_2
softmax no triton_per_fused__softmax_div_3
GEMM - triton_tem_fused_addmm_4
elementwise no triton_poi_fused__scaled_dot_product_flash_attention_0
# torch.
elementwise no void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<at::native::BinaryFunctor<float, float, float, at::native::binary_internal::MulFunctor<float> > >(P)
reduction no void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::NormTwoOps<float> > >(P)
normalization no void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float, float>(int)
softmax no void (anonymous namespace)::softmax_warp_forward<float, float, float, 10, true>(P)
softmax no void at::native::(anonymous namespace)::cunn_SoftMaxForward<8, float, float, float, Epilogue>(P)
softmax no triton_per_fused__softmax_div_3
copy no void at::native::(anonymous namespace)::CatArrayBatchedCopy<at::native::(anonymous namespace)::OpaqueType<2u>, unsigned int, 4, 64, 64>(P)
embedding no void at::native::(anonymous namespace)::indexSelectLargeIndex<c10::BFloat16, long, unsigned int, 2, 2, -2, true>(P)
optimizer no void at::native::(anonymous namespace)::multi_tensor_apply_kernel<TensorListMetadata<4>, FusedAdamMathFunctor<float, 4> >(P)
reduction no void at::native::(anonymous namespace)::multi_tensor_apply_kernel<TensorListMetadata<1>, LpNormFunctor<float, NormType::L2> >(P)
# cuDNN.
convolution no volta_scudnn_128x64_relu_interior_nn_v1
convolution yes sm80_xmma_fprop_implicit_gemm_indexed_tf32f32_tf32f32_f32_nhwckrsc_nchw_tilesize128x128x16_stage4_warpsize2x2x1_g1_tensor16x8x8_kernel_cudnn
normalization no void cudnn::bn_bw_1C11_kernel_new<float, float, float2, 512, true, 1>(P)
copy no void cudnn::ops::nchwToNhwcKernel<float, float, float, false, true, (cudnnKernelDataType_t)2>(P)
convolution no void at::native::(anonymous namespace)::conv_depthwise2d_forward_kernel<3, float, int>(P)
# AMD: Tensile, MIOpen, Composable Kernel, aiter.
GEMM yes Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x32x64_MI16x16x1_SN_LDSB1_AFC1
GEMM no Cijk_Ailk_Bljk_SB_MT64x64x16_SE_K1_TT4_4_USFGRO0_WG16_16_1
convolution yes igemm_fwd_gtcx3_nhwc_bf16_bx0_ex1_bt128x64x32_wt32x32x8_ws1x1_wr1x2
convolution yes _ZN2ck16tensor_operation6device37kernel_batched_gemm_xdlops_bwd_weightINS_47GridwiseGemm
convolution no miopenSp3AsmConv_v30_3_1_gfx9_fp32_f2x3_stride1
attention yes void paged_attention_ll4mi_QKV_mfma16_kernel<0, __hip_bfloat16, __hip_bfloat16>(P)
normalization no _ZN5aiter24add_rmsnorm_quant_kernelIDF16bDF16bLi256ELi16ELb1ELb0ELb1ELi1EEEvPT0_
attention yes _ZN7ck_tile6kentryILi1ENS_13FmhaFwdKernelINS_25BlockFmhaPipelineQRKSVS
copy no batched_transpose_64x32_pack_4x2_ediv_2x1_half
copy no SubTensorOpWithSubTensor1d
elementwise no SubTensorOpWithScalar1d
elementwise no SubTensorOpWithCastTensor1d
# Communication.
communication no ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)
communication no nvshmemi_transfer_rma_kernel
communication no void quickreduce::allreduce_prototype_twoshot<quickreduce::AllReduceTwoshot<8> >(P)
normalization no void at::native::(anonymous namespace)::blockAllReduceOfANorm(float*)
# torch.compile: names of kernels list the ops that they fuse.
elementwise no triton_poi_fused__to_copy_add_all_gather_into_tensor_wait_tensor_3
normalization no triton_red_fused_all_reduce_native_layer_norm_7
- - my_kernel
"""


def test_a_name_tells_the_family_and_the_matrix_units() -> None:
    of_word = {"yes": True, "no": False, "-": None}
    wrong = []
    for line in NAMES.strip().splitlines():
        if not line.startswith("#"):
            family, units, name = line.split(" ", 2)
            expected = Kernel(None if family == "-" else family, of_word[units])
            if (found := rules().of_kernel(name)) != expected:
                wrong.append((name, found, expected))
    assert wrong == []
    assert rules().of_kernel("") == Kernel(None, None)


def test_a_name_and_the_comment_of_the_column_have_each_family() -> None:
    rules = (CAPTURES.parents[1] / "ingest/trace/classes.toml").read_text()
    families = {*re.findall(r'^\[\[family\]\]\nname = "(.+)"', rules, re.MULTILINE)}
    assert families - {line.split(" ")[0] for line in NAMES.splitlines()} == set()
    [column] = [each for each in catalog.named("signatures").columns if each.name == "kernel_family"]
    assert families and families - {*re.findall(r"[\w-]+", column.text.split(";")[0])} == set()


def launched(kernel: str, at: float, correlation: int, length: float = 10, **arguments: Any) -> list[dict[str, Any]]:
    return [
        event("cuda_runtime", "cudaLaunchKernel", at, at + 1, correlation=correlation),
        event("kernel", kernel, at + 2, at + 2 + length, 7, correlation=correlation, device=0, stream=7, **arguments),
    ]


@pytest.mark.parametrize(("unknown", "is_found"), [(30, True), (0.7, False)])
def test_unknown_names_are_a_finding(warehouse: Warehouse, tmp_path: Path, unknown: float, is_found: bool) -> None:
    """If they take a hundredth of the time of kernels."""
    traces = Traces(warehouse, tmp_path)
    kernels = (("my_kernel", unknown), ("other_one", unknown / 3), ("relu_kernel", 2 * 30 if is_found else 100))
    traces.take(
        *(each for at, (name, length) in enumerate(kernels) for each in launched(name, 200 * at, at + 1, length))
    )
    text = "40.0 % of the time of kernels is in kernels of 2 unknown names, most in my_kernel"
    assert warehouse.rows("SELECT rule, detail FROM findings")[1] == [("unknown kernels", text)] * is_found


def test_a_backend_of_communication_tells_of_an_unknown_kernel(warehouse: Warehouse, tmp_path: Path) -> None:
    """A name that doesn't tell communicates, if all of its calls were launched within a backend's annotation."""
    traces = Traces(warehouse, tmp_path)
    around = event("user_annotation", "xccl:all_reduce", 0, 60), event("cpu_op", "record_param_comms", 1, 55)
    traces.take(*around, *launched("a_ring", 2, 1), *launched("both", 20, 2), *launched("both", 80, 3))
    assert traces.ask("work_totals", "type, event, calls") == [
        ("computation", "both", 2),
        ("communication", "a_ring", 1),
    ]


@pytest.mark.long
def test_families_and_times_equal_those_of_another_tool(warehouse: Warehouse) -> None:
    """TraceLens tells families by the ops that launch kernels, of which it knows three. Its file has a row by op."""
    folder = shared_file("captures/torch/tracelens/h100_qwen")
    warehouse.ingest(folder / "h100_qwen.pt.trace.json.gz", name="t")
    names = {"GEMM": "GEMM", "elementwise": "elementwise", "reduce": "reduction"}
    families: dict[str, str] = {}
    times: dict[str, float] = defaultdict(float)
    with gzip.open(folder / "kernel_summary.csv.gz", "rt") as file:
        for row in csv.DictReader(file):
            times[row["Kernel name"]] += float(row["Kernel duration (µs)_sum"])
            if row["Parent op category"] in names:
                families[row["Kernel name"]] = names[row["Parent op category"]]
    ours = {kernel: rest for kernel, *rest in warehouse.rows("SELECT kernel, family, total FROM kernel_table('t')")[1]}
    assert len(families) > 15
    assert {name: ours[name][0] for name in families} == families
    assert {name: total for name, (_, total) in ours.items()} == pytest.approx(
        {name: time for name, time in times.items() if name in ours}
    )


@pytest.mark.long
def test_every_kernel_of_other_peoples_traces_is_known() -> None:
    """Of all time of kernels, at least 99 % in each trace."""
    folder = shared_file("captures/torch/gpu")
    for path in sorted(folder.glob("*.pt.trace.json.gz")):
        written = json.loads(gzip.decompress(path.read_bytes()))
        events = written["traceEvents"] if isinstance(written, dict) else written
        kernels = [each for each in events if isinstance(each, dict) and each.get("cat") in ("kernel", "Kernel")]
        total = sum(each["dur"] for each in kernels)
        unknown = sum(each["dur"] for each in kernels if rules().of_kernel(each["name"]).family is None)
        assert unknown <= 0.01 * total, path.name


FILL = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<int>, std::array<char*, 1ul> >"
    "(int, at::native::FillFunctor<int>, std::array<char*, 1ul>)"
)
MUL = FILL.replace("FillFunctor<int>", "MulFunctor<float>")
FILL_FLOAT = FILL.replace("FillFunctor<int>", "FillFunctor<float>")
COPY = (
    "void at::native::elementwise_kernel<128, 4, at::native::copy_kernel(at::TensorIteratorBase&)::{lambda()#2}"
    "::operator()() const::{lambda(float)#1}>(int, float const*) [clone .kd]"
)


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        ([FILL], ["vectorized_elementwise_kernel<…>"]),
        ([FILL, MUL], [f"vectorized_elementwise_kernel<…, {each}<…>, …>" for each in ("FillFunctor", "MulFunctor")]),
        (
            [FILL, FILL_FLOAT],
            [f"vectorized_elementwise_kernel<…, FillFunctor<{each}>, …>" for each in ("int", "float")],
        ),
        ([COPY], ["elementwise_kernel<…>"]),
        ([COPY, COPY.replace("4, ", "8, ")], ["elementwise_kernel<…, 4, …>", "elementwise_kernel<…, 8, …>"]),
        (
            [COPY, COPY.replace("copy_kernel", "fill_kernel")],
            ["elementwise_kernel<…, copy_kernel>", "elementwise_kernel<…, fill_kernel>"],
        ),
        (["void (anonymous namespace)::softmax_warp<c10::BFloat16, 8>(int)"], ["softmax_warp<…>"]),
        (["std::enable_if<((8)==(8)), void>::type vllm::norm<c10::Half, 8>(int)"], ["norm<…>"]),
        (["void reduce<int>(int)", "void reduce<int, 2>(int)"], ["reduce<int>", "reduce<int, 2>"]),
        (["void k<unsigned long>(int)", "void k<long>(int)"], ["k<unsigned long>", "k<long>"]),
        # What differs is folded: they are shown whole.
        (["void a::k<1>(int)", "void b::k<1>(int)"], ["void a::k<1>(int)", "void b::k<1>(int)"]),
        (["void k<1>(int)", "void k<1>(long)", "k<…>"], ["void k<1>(int)", "void k<1>(long)", "k<…>"]),
        (["void k<1>(int)", "k<…>"], ["k<1>", "k<…>"]),
    ],
)
def test_by_hand(names: list[str], shown: list[str]) -> None:
    assert list(short_names(names).values()) == shown


OTHERS = [
    *("aten::add", "ProfilerStep#4", "Memcpy HtoD (Pageable -> Device)", "Memset (Device)", "volta_sgemm_128x64_nt"),
    *("model.py(3): <module>", "<built-in method add>", "nn.Module: Linear_0", "forward(batch=3)", "a < b", "x->y"),
    *("enumerate(DataLoader)#_Iter.__next__", "", "<", "void <>()", "::", "void k<(>()", "k<" * 30_000, "(" * 500),
    *("void f<" + "a<" * 500 + "b" + ">" * 500 + ">()", "torch::autograd::AccumulateGrad", "_ZN2ck6deviceE"),
]


def test_other_names_stay() -> None:
    assert [name[:60] for name in OTHERS if short_names([name]) != {name: name}] == []


@pytest.mark.parametrize("seed", range(3))
def test_different_names_are_never_the_same(seed: int) -> None:
    source = random.Random(seed)

    def made(depth: int) -> str:
        name = source.choice(("", "a::", "a::b::")) + source.choice(("k", "m", "k…", "int", "4"))
        if depth and source.random() < 0.6:
            name += f"<{', '.join(made(depth - 1) for _ in range(source.randint(1, 3)))}>"
        return name

    names = list(
        {f"{source.choice(('', 'void '))}{made(3)}{source.choice(('', '(int)', '(long)'))}" for _ in range(200)}
    )
    shown = short_names(names)
    assert list(shown) == names and len(set(shown.values())) == len(names)


def test_parts_of_layers_keep_their_ends() -> None:
    parts = [f"model.decoder.layers.{layer}.self_attn.{name}_proj" for layer in (1, 11) for name in ("k", "out")]
    assert [*cut(parts, 28, "…").values()] == [
        "…r.layers.1.self_attn.k_proj", "…layers.1.self_attn.out_proj",
        "….layers.11.self_attn.k_proj", "…ayers.11.self_attn.out_proj",
    ]  # fmt: skip


def test_a_name_that_goes_on_shows_that_it_does() -> None:
    """The ends of these names are the same, so that their middles are shown: neither middle looks like an end."""
    names = [f"native_call_{op}_copy_of_something.out" for op in ("permute", "expand")]
    assert [*cut(names, 20, "~").values()] == ["native~_permute_cop~", "native~_expand_copy~"]
