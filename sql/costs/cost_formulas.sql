-- One op whose cost is known, and how it is counted; `node_costs` applies the formula to sizes. A multiplication and an
-- addition are two operations; a comparison, division, square root, exponential, logarithm, sine, tanh, erf or rounding
-- is one; operations on integers count equally. A factor that belongs to an addition (alpha, beta) doesn't count. For
-- products, convolutions and attention the results equal those of torch's FlopCounterMode: a sum of K products is 2 K
-- operations, which includes the bias; padding counts as if it were multiplied; attention counts the two products, for
-- all positions, masked or not; half of them if it is causal, as FlashAttention's benchmarks do. FlopCounterMode has no
-- formulas for other ops, nor for a matrix by a vector (mv, addmv, dot); these are counted here. In traces, a product or
-- convolution of complex numbers counts four times that of real ones, for its four multiplications and additions, which
-- FlopCounterMode doesn't; an elementwise addition counts 2, a multiplication 6, other ops of complex numbers are unknown.
-- Shown: op!, family!, counts, per_input#, per_output#, moves, formula!, sizes, writes
-- Columns:
--   op: the op without its overload: aten.addmm
--   counts: plain: per_input and per_output; else the name of the formula
--   per_input: operations for each element of its first argument
--   per_output: operations for each element of its first output
--   moves: bytes that go through memory: all: each argument read once, each output written once; nothing; chosen: reads as much as it writes, and indices; made: only writes; update: reads and writes the first argument; scattered: reads indices and as much as it writes, and the latter too if it adds to it; looked up: reads a row for each index, and the other arguments; targets: reads an element for each target, and the other arguments; least: reads the arguments that its formula has, and writes its outputs, as far as sizes determine them; rotated: reads and writes what is rotated, and reads a row of the table for each position; slots: reads and writes as much as there are slots; latent: reads queries and the rows of the cache of all positions, writes the output; masked: at most each tensor that is named once; products: reads input, weight and gradient, writes those of input and weight; assumed experts: reads tokens and the weights of experts that are assumed, writes as much as tokens; paged: reads queries, and the keys and values of all positions, of the type of queries, writes the output; named: each tensor that is named once, if that fits into its time; cache, experts, depends: not determined by shapes
--   formula: how its operations are counted, as text
--   family: what it computes: GEMM, convolution, attention, MoE, normalization, softmax, reduction, pooling, elementwise, embedding, optimizer, recurrence, transform, copy, fill, view
--   sizes: how the sizes of its output follow from its arguments, for ops of traces: as the first, or as all of the first list, by broadcasting, as a product, ...; unknown where they don't
--   writes: types that it writes for each element of its output, for ops of traces: that of its first argument, the promoted one, ...
CREATE VIEW cost_formulas AS
-- A text for many columns: each constant of a view takes time in each query.
SELECT unnest(string_split_regex(k.ops, '\s+')) AS op, k.rule[2] AS counts, k.rule[3]::INTEGER AS per_input,
    k.rule[4]::INTEGER AS per_output, k.rule[5] AS moves, regexp_replace(k.formula, '\s+', ' ', 'g') AS formula,
    k.rule[1] AS family, k.rule[6] AS sizes, k.rule[7] AS writes
FROM (
    SELECT v.ops, string_split(v.rule, ' | ') AS rule, v.formula
    FROM (
        -- Ops; family, counts, per_input, per_output, moves, sizes and writes; formula.
        VALUES
            (
                'aten.mm aten.addmm aten.bmm aten.baddbmm aten.matmul aten.linear aten.mv aten.addmv aten.dot
                aten._scaled_mm aten._addmm_activation _C.cutlass_scaled_mm sgl_kernel.fp8_scaled_mm
                sgl_kernel.int8_scaled_mm sgl_kernel.fp8_blockwise_scaled_mm bitsandbytes.int8_scaled_mm
                vllm.rocm_unquantized_gemm _rocm_C.wvSplitK _rocm_C.LLMM1',
                'GEMM | product | 0 | 0 | all | product | first',
                '2 for each element of the output and of the dimension that is summed over'
            ),
            (
                '_Linear _LayerNormLinear',
                'GEMM | weight product | 0 | 0 | least | product | first',
                'of modules of TransformerEngine 2: 2 for each element of the output and of the dimension that is summed
                over; nothing for the normalization and for conversions'
            ),
            (
                '_LinearBackward _LayerNormLinearBackward',
                'GEMM | weight product backward | 0 | 0 | products | product | first',
                'as the forward call, for each product that it computes: the gradients of input and weight, as far as
                they are asked for'
            ),
            (
                'aten._int_mm bitsandbytes.int8_linear_matmul',
                'GEMM | product | 0 | 0 | all | product | int32',
                '2 for each element of the output and of the dimension that is summed over'
            ),
            (
                'aten._weight_int4pack_mm',
                'GEMM | packed product | 0 | 0 | all | packed product | first',
                '2 for each element of the output and of the dimension that is summed over; the packed weight has 8
                rows in its first dimension'
            ),
            (
                '_C.awq_gemm',
                'GEMM | packed product | 0 | 0 | all | packed columns | first',
                '2 for each element of the output and of the dimension that is summed over; a number of the packed
                weight has 8 columns'
            ),
            (
                'primus_turbo_cpp_extension.hipblaslt_gemm primus_turbo_cpp_extension.hipblaslt_gemm_fp8
                primus_turbo_cpp_extension.ck_gemm_fp8 primus_turbo_cpp_extension.turbo_gemm_fp8',
                'GEMM | transposed product | 0 | 0 | all | transposed product | first',
                '2 for each element of the output and of the dimension that is summed over'
            ),
            (
                'primus_turbo_cpp_extension.ck_grouped_gemm primus_turbo_cpp_extension.hipblaslt_grouped_gemm
                primus_turbo_cpp_extension.ck_grouped_gemm_fp8 primus_turbo_cpp_extension.hipblaslt_grouped_gemm_fp8
                primus_turbo_cpp_extension.ck_grouped_gemm_variable_k
                primus_turbo_cpp_extension.ck_grouped_gemm_fp8_variable_k',
                'GEMM | transposed grouped product | 0 | 0 | all | transposed grouped product | first',
                'as aten._grouped_mm'
            ),
            (
                'tex_ts.te_gemm_ts',
                'GEMM | product by elements | 0 | 0 | all | out | first',
                '2 for each element of the output and of the dimension that is summed over, whose square is elements
                of both factors / elements of the output'
            ),
            (
                'aten._grouped_mm aten._scaled_grouped_mm',
                'GEMM | grouped product | 0 | 0 | all | grouped product | first',
                '2 for each row and column of the output and of the dimension that is summed over: each row, or
                column, or summed part is of one group'
            ),
            (
                'vllm.inplace_fused_experts vllm.outplace_fused_experts sglang.inplace_fused_experts
                sglang.outplace_fused_experts aiter.fmoe_g1u1 aiter.fmoe_fp8_blockscale_g1u1 aiter.ck_moe_stage1
                aiter.ck_moe_stage2 aiter.moe_cktile2stages_gemm1_ck aiter.moe_cktile2stages_gemm2_ck',
                'MoE | experts | 0 | 0 | experts | first | first',
                '2 for each token, each of its experts and each element of the weights of one expert; of a stage,
                those of its weights'
            ),
            (
                'vllm.moe_forward',
                'MoE | assumed experts | 0 | 0 | assumed experts | first | first',
                'unknown, as it has the weights of its experts from its layer, unless they are assumed: 2 for each
                element of the tokens, each of top_k experts, and each column of their matrices, of which there are
                matrices of expert_width'
            ),
            (
                'vllm.moe_forward_shared',
                'MoE | unwritten weights | 0 | 0 | depends | first | first',
                'unknown: it has the weights of its experts from its layer'
            ),
            (
                '_moe_C.topk_softmax sgl_kernel.topk_softmax aiter.topk_softmax',
                'softmax | gating | 5 | 0 | all | out | first',
                '5 for each token and expert: softmax; and as many comparisons as experts are chosen'
            ),
            (
                'inductor.pointwise',
                'elementwise | unwritten operations | 0 | 0 | named | unknown | first',
                'a kernel that Inductor wrote: none if its name has only ops that copy; else at least 1 for each element
                and each op of arithmetic in its name; unknown with other ops'
            ),
            (
                'inductor.reduction',
                'reduction | unwritten operations | 0 | 0 | named | unknown | first',
                'a kernel that Inductor wrote: at least 1 for each element that it reduces'
            ),
            (
                '_moe_C.moe_sum aiter.moe_sum',
                'reduction | plain | 1 | 0 | all | out | first',
                '1 for each element of the input'
            ),
            (
                'aten.convolution aten._convolution aten.conv1d aten.conv2d aten.conv3d aten.convolution_overrideable
                aten.cudnn_convolution aten.cudnn_convolution_relu aten.cudnn_convolution_add_relu
                aten.miopen_convolution aten.miopen_depthwise_convolution aten.mkldnn_convolution
                aten._slow_conv2d_forward aten.thnn_conv2d aten._conv_depthwise2d',
                'convolution | convolution | 0 | 0 | all | convolution | first',
                '2 for each element of the output (transposed: of the input) and of the weight of one of its
                channels'
            ),
            (
                'aten.conv_transpose1d aten.conv_transpose2d aten.conv_transpose3d aten.cudnn_convolution_transpose
                aten.miopen_convolution_transpose',
                'convolution | transposed convolution | 0 | 0 | all | convolution | first',
                '2 for each element of the input and of the weight of one of its channels'
            ),
            (
                'aten.convolution_backward aten.cudnn_convolution_backward_input
                aten.cudnn_convolution_backward_weight',
                'convolution | convolution backward | 0 | 0 | all | gradients | first',
                'as the convolution, once for the gradient of the input and once for that of the weight, as far as
                they are asked for'
            ),
            (
                'aten.scaled_dot_product_attention aten._scaled_dot_product_flash_attention
                aten._scaled_dot_product_flash_attention_for_cpu aten._scaled_dot_product_efficient_attention
                aten._scaled_dot_product_cudnn_attention aten._scaled_dot_product_fused_attention_overrideable',
                'attention | attention | 0 | 0 | all | attention | first',
                '2 for each position of the keys and each element of queries and output'
            ),
            (
                'aiter.fmha_v3_fwd aiter.mha_fwd aiter.mha_varlen_fwd aiter.fmha_v3_varlen_fwd
                flash_attn._flash_attn_forward flash_attn._flash_attn_varlen_forward flash_attn_3.fwd
                flash_attn_3._flash_attn_forward aten._flash_attention_forward aten._efficient_attention_forward
                aten._cudnn_attention_forward',
                'attention | attention by position | 0 | 0 | all | attention | first',
                'as aten.scaled_dot_product_attention; unknown with a window; of sequences in one tensor only if all
                have the greatest length'
            ),
            (
                'aiter.mha_bwd aiter.fmha_v3_bwd aiter.mha_varlen_bwd aiter.fmha_v3_varlen_bwd
                flash_attn._flash_attn_backward flash_attn._flash_attn_varlen_backward flash_attn_3.bwd
                flash_attn_3._flash_attn_backward aten._flash_attention_backward aten._efficient_attention_backward
                aten._cudnn_attention_backward',
                'attention | attention by position backward | 0 | 0 | all | gradients | first',
                'as aten._scaled_dot_product_flash_attention_backward, where the attention itself is known'
            ),
            (
                'aten._scaled_dot_product_flash_attention_backward
                aten._scaled_dot_product_efficient_attention_backward
                aten._scaled_dot_product_cudnn_attention_backward
                aten._scaled_dot_product_flash_attention_for_cpu_backward',
                'attention | attention backward | 0 | 0 | all | gradients | first',
                '5 products: scores once more, and the gradients of queries and keys, of the size of the first of the
                attention; those of values and scores, of the size of the second'
            ),
            (
                'vllm.unified_attention vllm.unified_attention_with_output sglang.unified_attention_with_output
                aiter.mha_batch_prefill',
                'attention | paged attention | 0 | 0 | paged | attention | first',
                '2 for each element of queries and output and each position that it sees, by the lengths in the name
                of the step: half of the squares of prompts, as FlashAttention''s benchmarks do; unknown without
                them'
            ),
            (
                '_flashmla_C.fwd_kvcache_mla sgl_kernel.fwd_kvcache_mla sgl_kernel.cutlass_mla_decode
                _C.cutlass_mla_decode _C.sm100_cutlass_mla_decode aiter.mla_decode_stage1_asm_fwd',
                'attention | latent attention | 2 | 2 | latent | unknown | first',
                '2 for each head, each position that a query sees, and each element of a row of queries and of the
                latent values: by the lengths in the name of the step, or as assumed; at most for all pages, or all
                chosen positions'
            ),
            (
                'inductor.flex_attention',
                'attention | masked attention | 2 | 2 | masked | unknown | first',
                'at most 2 for each position of the keys and each element of queries and output; what the mask leaves
                out is in values of tensors'
            ),
            (
                'inductor.flex_attention_backward',
                'attention | masked attention | 6 | 4 | masked | unknown | first',
                'at most, for each position of the keys, 6 for each element of queries and 4 for each of the output'
            ),
            (
                'vllm.unified_mla_attention vllm.unified_mla_attention_with_output _C.paged_attention_v1
                _C.paged_attention_v2 _rocm_C.paged_attention',
                'attention | unwritten lengths | 0 | 0 | depends | unknown | first',
                'unknown: the lengths of sequences are values of a tensor'
            ),
            (
                'llama.custom_sdpa llama.sdpa_with_kv_cache',
                'attention | cached attention | 0 | 0 | cache | unknown | first',
                '4 for each element of the queries and each position of the cache up to the last query; all positions
                where there is a mask'
            ),
            (
                'aten.add aten.sub aten.rsub aten.mul aten.div aten.abs aten.neg aten.relu aten.reciprocal aten.sqrt
                aten.rsqrt aten.exp aten.exp2 aten.expm1 aten.log aten.log2 aten.log10 aten.log1p aten.pow aten.sin
                aten.cos aten.tan aten.asin aten.acos aten.atan aten.atan2 aten.sinh aten.cosh aten.tanh aten.erf
                aten.floor aten.ceil aten.round aten.trunc aten.sign aten.remainder aten.fmod aten.floor_divide
                aten.maximum aten.minimum aten.where aten.masked_fill aten.bitwise_and aten.bitwise_or
                aten.bitwise_not aten.bitwise_xor aten.square aten.clamp_min aten.clamp_max aten.threshold
                aten.threshold_backward aten.true_divide aten.erfc aten.erfinv aten.lgamma aten.digamma aten.frac
                aten.sgn aten.asinh aten.acosh aten.atanh aten.fmax aten.fmin aten.bitwise_left_shift
                aten.bitwise_right_shift aten.copysign aten.heaviside aten.hardshrink',
                'elementwise | plain | 0 | 1 | all | broadcast | promoted',
                '1 for each element of the output'
            ),
            (
                'aten.eq aten.ne aten.lt aten.le aten.gt aten.ge aten.logical_and aten.logical_or aten.logical_not
                aten.logical_xor aten.isnan aten.isinf aten.isneginf aten.isposinf aten.isfinite aten.signbit',
                'elementwise | plain | 0 | 1 | all | broadcast | bool',
                '1 for each element of the output'
            ),
            (
                'aten.relu6 aten.hardtanh aten.leaky_relu aten.prelu aten.addcmul aten.addcdiv aten.lerp
                quantized_decomposed.dequantize_per_tensor quantized_decomposed.dequantize_per_channel
                quantized_decomposed.dequantize_per_token quantized_decomposed.dequantize_per_channel_group
                torchao.dequantize_affine aten.hardtanh_backward aten.leaky_relu_backward
                aten.native_dropout_backward aten._masked_scale aten.xlogy aten.softshrink aten.hardshrink_backward
                aten.softshrink_backward',
                'elementwise | plain | 0 | 2 | all | broadcast | promoted',
                '2 for each element of the output: two comparisons, a comparison or a subtraction and a
                multiplication, or two steps of arithmetic'
            ),
            (
                'aten.native_dropout aten._fused_dropout',
                'elementwise | plain | 0 | 2 | all | broadcast | first, mask',
                '2 for each element of the output: by the mask and by the scale; random numbers count as nothing'
            ),
            (
                'aten.softplus aten.sigmoid_backward aten.tanh_backward aten.mse_loss_backward
                aten.hardsigmoid_backward aten.nan_to_num aten.logit',
                'elementwise | plain | 0 | 3 | all | broadcast | promoted',
                '3 for each element of the output: exponential, addition, logarithm; of a gradient subtraction and
                two multiplications'
            ),
            (
                'aten.sigmoid aten.hardsigmoid aten.elu aten.mish',
                'elementwise | plain | 0 | 4 | all | broadcast | promoted',
                '4 for each element: negation, exponential, addition, division; of a hardsigmoid addition, two
                comparisons, division; of an elu comparison, exponential, subtraction, multiplication; of a mish
                exponential, logarithm, tanh, multiplication'
            ),
            (
                'aten.silu aten.hardswish aten.hardswish_backward quantized_decomposed.quantize_per_tensor
                quantized_decomposed.quantize_per_channel quantized_decomposed.quantize_per_token
                quantized_decomposed.quantize_per_channel_group torchao.quantize_affine',
                'elementwise | plain | 0 | 5 | all | broadcast | promoted',
                '5 for each element: sigmoid and a multiplication; to quantize: multiplication, rounding, addition,
                two comparisons'
            ),
            (
                'aten.elu_backward aten.softplus_backward aten.log_sigmoid_forward aten.huber_loss_backward
                aten.smooth_l1_loss_backward',
                'elementwise | plain | 0 | 6 | all | broadcast | promoted',
                '6 for each element: a comparison, an exponential, four steps of arithmetic; of a gradient of a loss
                a subtraction, two comparisons, three multiplications'
            ),
            (
                'aten.log_sigmoid_backward',
                'elementwise | plain | 0 | 9 | all | broadcast | promoted',
                '9 for each element: comparison, absolute value, exponential, six steps of arithmetic'
            ),
            (
                'aten.mish_backward',
                'elementwise | plain | 0 | 13 | all | broadcast | promoted',
                '13 for each element: sigmoid, logarithm, exponential, tanh, six steps of arithmetic'
            ),
            (
                'aten.glu',
                'elementwise | plain | 0 | 5 | all | halved | first',
                '5 for each element of the output: sigmoid and a multiplication'
            ),
            (
                'aten.glu_backward',
                'elementwise | gradient | 9 | 0 | all | self | first',
                '9 for each element of the gradient of the output: sigmoid, a subtraction, four multiplications'
            ),
            (
                'aten.clamp',
                'elementwise | clamp | 0 | 0 | all | broadcast | promoted',
                '1 for each element of the output and each of the bounds that are given'
            ),
            (
                'aten.gelu',
                'elementwise | gelu | 0 | 0 | all | broadcast | promoted',
                '5 for each element: erf, an addition, three multiplications; approximated by tanh 9: tanh, two
                additions, six multiplications'
            ),
            (
                'aten.silu_backward',
                'elementwise | plain | 0 | 9 | all | broadcast | promoted',
                '9 for each element: sigmoid, two subtractions or additions, three multiplications'
            ),
            (
                'aten.gelu_backward',
                'elementwise | gelu backward | 0 | 0 | all | broadcast | promoted',
                '11 for each element: erf, exponential, two additions, seven multiplications; approximated by tanh
                18'
            ),
            (
                '_C.silu_and_mul _C.mul_and_silu sgl_kernel.silu_and_mul flashinfer.silu_and_mul _C.gelu_and_mul
                sgl_kernel.gelu_and_mul flashinfer.gelu_and_mul _C.gelu_quick aiter.silu_and_mul aiter.gelu_and_mul',
                'elementwise | plain | 0 | 6 | all | out | first',
                '6 for each element of the output: sigmoid and two multiplications; gelu and a multiplication'
            ),
            (
                '_C.gelu_new',
                'elementwise | plain | 0 | 9 | all | out | first',
                '9 for each element: gelu, approximated by tanh'
            ),
            (
                '_C.gelu_tanh_and_mul sgl_kernel.gelu_tanh_and_mul flashinfer.gelu_tanh_and_mul
                aiter.gelu_tanh_and_mul',
                'elementwise | plain | 0 | 10 | all | out | first',
                '10 for each element of the output: gelu, approximated by tanh, and a multiplication'
            ),
            (
                '_C.swigluoai_and_mul',
                'elementwise | plain | 0 | 11 | all | out | first',
                '11 for each element of the output: three comparisons, sigmoid, an addition, three multiplications'
            ),
            (
                '_C.static_scaled_fp8_quant',
                'elementwise | plain | 3 | 0 | all | out | first',
                '3 for each element: multiplication, two comparisons'
            ),
            (
                '_C.dynamic_scaled_fp8_quant _C.dynamic_per_token_scaled_fp8_quant sgl_kernel.sgl_per_token_quant_fp8
                sgl_kernel.sgl_per_token_group_quant_fp8 _C.per_token_group_fp8_quant
                aiter.dynamic_per_token_scaled_quant aiter.dynamic_per_tensor_quant',
                'elementwise | plain | 5 | 0 | all | out | first',
                '5 for each element: absolute value and comparison for the scale, multiplication, two comparisons'
            ),
            (
                '_C.rotary_embedding sgl_kernel.rotary_embedding sgl_kernel.apply_rope_pos_ids_cos_sin_cache
                flashinfer.apply_rope_pos_ids_cos_sin_cache',
                'elementwise | rotation | 3 | 0 | rotated | unknown | first',
                '3 for each element of queries and keys that is rotated: two multiplications and an addition'
            ),
            (
                'aten._foreach_add aten._foreach_sub aten._foreach_mul aten._foreach_div aten._foreach_sqrt
                aten._foreach_neg aten._foreach_reciprocal aten._foreach_abs aten._foreach_exp aten._foreach_log
                aten._foreach_pow aten._foreach_rsqrt aten._foreach_sign aten._foreach_expm1 aten._foreach_log1p
                aten._foreach_log2 aten._foreach_log10 aten._foreach_sin aten._foreach_cos aten._foreach_tan
                aten._foreach_tanh aten._foreach_erf aten._foreach_erfc aten._foreach_floor aten._foreach_ceil
                aten._foreach_round aten._foreach_trunc aten._foreach_maximum aten._foreach_minimum
                aten._foreach_clamp_max aten._foreach_clamp_min',
                'elementwise | plain | 1 | 0 | all | first | first',
                '1 for each element of the tensors of the first list'
            ),
            (
                'aten._foreach_norm',
                'reduction | plain | 2 | 1 | all | each | first',
                '2 for each element of the tensors, and a root for each tensor'
            ),
            (
                'aten._foreach_max',
                'reduction | plain | 1 | 0 | all | each | first',
                '1 for each element of the tensors'
            ),
            (
                'aten._foreach_sigmoid',
                'elementwise | plain | 4 | 0 | all | first | first',
                '4 for each element of the tensors: negation, exponential, addition, division'
            ),
            (
                'aten._amp_foreach_non_finite_check_and_unscale',
                'elementwise | plain | 2 | 0 | all | first | first',
                '2 for each element of the tensors: a comparison and a multiplication'
            ),
            (
                'aten._fused_adam aten._fused_adamw',
                'optimizer | adam | 13 | 0 | all | first | lists but 2',
                '13 for each parameter: 3 for the mean, 4 for the mean of squares, 3 for its root, 3 to update; 2 for
                a weight decay, 1 for a maximum'
            ),
            (
                'aten._fused_adagrad',
                'optimizer | adam | 7 | 0 | all | first | lists but 2',
                '7 for each parameter: 2 for the sum of squares, 2 for its root, 3 to update; 2 for a weight decay'
            ),
            (
                'aten._fused_sgd',
                'optimizer | sgd | 2 | 0 | all | first | lists but 1',
                '2 for each parameter to update, 3 for a momentum after the first step, 2 if it is that of Nesterov,
                2 for a weight decay'
            ),
            ('aten._foreach_copy', 'copy | plain | 0 | 0 | all | first | first', 'none: it copies'),
            ('aten._foreach_zero', 'fill | plain | 0 | 0 | made | first | first', 'none: it fills'),
            (
                'aten._foreach_addcmul aten._foreach_addcdiv aten._foreach_lerp',
                'elementwise | plain | 2 | 0 | all | first | first',
                '2 for each element of the tensors of the first list'
            ),
            (
                'aten.softmax aten._softmax aten._safe_softmax aten.log_softmax aten._log_softmax',
                'softmax | plain | 0 | 5 | all | first | first',
                '5 for each element: comparison for the maximum, subtraction, exponential, addition, division (of a
                log_softmax: subtraction)'
            ),
            (
                'aten._softmax_backward_data aten._log_softmax_backward_data',
                'softmax | plain | 4 | 0 | all | first | first',
                '4 for each element: two multiplications (of a log_softmax exponential and multiplication), addition,
                subtraction'
            ),
            (
                'aten.layer_norm aten.native_layer_norm aten.group_norm aten.native_group_norm aten.instance_norm
                aten.native_batch_norm aten._native_batch_norm_legit aten._batch_norm_with_update
                aten.cudnn_batch_norm aten.miopen_batch_norm',
                'normalization | norm | 6 | 0 | all | first | first, statistics',
                'for each element of the input 1 for the mean, 3 for the variance, 2 to normalize, and 1 each for
                weight and bias; nothing for the group itself; a batch_norm that does not train has no mean and
                variance to compute'
            ),
            (
                'aten.batch_norm aten._native_batch_norm_legit_no_training',
                'normalization | norm | 2 | 0 | all | first | first, statistics',
                'for each element of the input 2 to normalize by known mean and variance, and 1 each for weight and
                bias; nothing for the channel itself'
            ),
            (
                'aten.rms_norm aten._fused_rms_norm _C.rms_norm sgl_kernel.rmsnorm flashinfer.rmsnorm aiter.rmsnorm
                aiter.rms_norm_cu',
                'normalization | norm | 3 | 0 | all | first | first, statistics',
                'for each element of the input a square, an addition, a multiplication, and 1 for the weight; nothing
                for the group itself'
            ),
            (
                'aiter.rms_norm aiter.rmsnorm2d_fwd aiter.rmsnorm2d_fwd_ck',
                'normalization | norm | 3 | 0 | all | first | first',
                'as aten.rms_norm'
            ),
            (
                'aiter._groupnorm_run',
                'normalization | norm | 6 | 0 | all | first | first',
                'as aten.group_norm, whose mean and variance it does not write'
            ),
            (
                'aiter.rmsnorm_quant aiter.rmsnorm2d_fwd_with_dynamicquant aiter.rmsnorm2d_fwd_with_dynamicquant_ck',
                'normalization | norm | 8 | 0 | all | out | first',
                'as rms_norm, and 5 to quantize: absolute value, comparison for the scale, multiplication, two
                comparisons'
            ),
            (
                'aiter.add_rmsnorm_quant aiter.rmsnorm2d_fwd_with_add_dynamicquant
                aiter.rmsnorm2d_fwd_with_add_dynamicquant_ck',
                'normalization | norm | 9 | 0 | all | out | first',
                'as aiter.rmsnorm_quant, and an addition'
            ),
            (
                '_C.fused_add_rms_norm sgl_kernel.fused_add_rmsnorm flashinfer.fused_add_rmsnorm
                aiter.fused_add_rms_norm_cu',
                'normalization | norm | 4 | 0 | all | first | first, first',
                'as rms_norm, and an addition'
            ),
            (
                'aiter.add_rmsnorm aiter.rmsnorm2d_fwd_with_add aiter.rmsnorm2d_fwd_with_add_ck',
                'normalization | norm | 4 | 0 | all | out | first',
                'as rms_norm, and an addition'
            ),
            (
                'sgl_kernel.gemma_rmsnorm flashinfer.gemma_rmsnorm',
                'normalization | norm | 4 | 0 | all | first | first, statistics',
                'as rms_norm, and an addition to the weight'
            ),
            (
                'sgl_kernel.gemma_fused_add_rmsnorm flashinfer.gemma_fused_add_rmsnorm',
                'normalization | norm | 5 | 0 | all | first | first, first',
                'as rms_norm, and additions to the input and to the weight'
            ),
            (
                '_C.rms_norm_static_fp8_quant',
                'normalization | norm | 6 | 0 | all | out | first',
                'as rms_norm, and multiplication and two comparisons to quantize'
            ),
            (
                '_C.fused_add_rms_norm_static_fp8_quant',
                'normalization | norm | 7 | 0 | all | out | out, first',
                'as rms_norm, an addition, and multiplication and two comparisons to quantize'
            ),
            (
                'aten.native_layer_norm_backward aten.native_group_norm_backward aten.native_batch_norm_backward
                aten._fused_rms_norm_backward aten.cudnn_batch_norm_backward aten.miopen_batch_norm_backward',
                'normalization | plain | 13 | 0 | all | gradients | first',
                '13 for each element of the input: 2 to normalize, 4 for two sums, 4 for the gradient of the input, 3
                for those of weight and bias'
            ),
            (
                'aten.batch_norm_stats',
                'normalization | plain | 4 | 0 | all | channels | two floats',
                '4 for each element of the input: 1 for the mean, 3 for the variance'
            ),
            (
                'aten.batch_norm_elemt',
                'normalization | norm | 2 | 0 | all | first | first',
                'as a batch_norm that does not train'
            ),
            (
                'aten.batch_norm_backward_reduce',
                'normalization | plain | 4 | 0 | all | channels | four floats',
                '4 for each element of the input: two sums, a subtraction and a multiplication'
            ),
            (
                'aten.batch_norm_backward_elemt',
                'normalization | plain | 5 | 0 | all | first | first',
                '5 for each element of the input: three subtractions, two multiplications'
            ),
            (
                'aten.max_pool2d_with_indices aten.max_pool3d_with_indices',
                'pooling | window | 0 | 0 | all | window | first, indices',
                '1 for each element of the output and of the window'
            ),
            (
                'aten.max_pool1d aten.max_pool2d aten.max_pool3d',
                'pooling | window | 0 | 0 | all | window | first',
                '1 for each element of the output and of the window'
            ),
            (
                'aten.max_pool2d_with_indices_backward aten.max_pool3d_with_indices_backward
                aten.adaptive_max_pool2d_backward aten.adaptive_max_pool3d_backward',
                'pooling | gradient | 1 | 0 | all | gradients | first',
                '1 for each element of the gradient of the output'
            ),
            (
                'aten.avg_pool2d_backward aten.avg_pool3d_backward',
                'pooling | windows of gradient | 1 | 0 | all | gradients | first',
                '1 for each element of the gradient of the output and of the window, and a division'
            ),
            (
                'aten._adaptive_avg_pool2d_backward aten._adaptive_avg_pool3d_backward',
                'pooling | adaptive windows of gradient | 1 | 0 | all | gradients | first',
                '1 for each element of the gradient of the output and of its window, and a division'
            ),
            (
                'aten.adaptive_max_pool2d aten.adaptive_max_pool3d',
                'pooling | adaptive window | 0 | 0 | all | adaptive window | first, indices',
                '1 for each element of the output and of its window'
            ),
            (
                'aten.avg_pool1d aten.avg_pool2d aten.avg_pool3d',
                'pooling | window | 0 | 1 | all | window | first',
                '1 for each element of the output and of the window, and a division'
            ),
            (
                'aten.adaptive_avg_pool1d aten.adaptive_avg_pool2d aten.adaptive_avg_pool3d aten._adaptive_avg_pool2d
                aten._adaptive_avg_pool3d',
                'pooling | adaptive window | 0 | 1 | all | adaptive window | first',
                '1 for each element of the output and of its window, and a division; m windows over n elements have n
                + m - gcd(n, m) together'
            ),
            (
                'aten.amax aten.amin',
                'reduction | plain | 1 | 0 | all | reduced | first',
                '1 for each element of the input'
            ),
            (
                'aten.max aten.min aten.median aten.kthvalue',
                'reduction | plain | 1 | 0 | all | reduced | first, indices',
                '1 for each element of the input'
            ),
            (
                'aten.cummax aten.cummin',
                'reduction | plain | 1 | 0 | all | first | first, indices',
                '1 for each element of the input'
            ),
            (
                'aten.topk',
                'reduction | plain | 1 | 0 | all | topk | first, indices',
                '1 for each element of the input, which each kernel looks at once at least'
            ),
            (
                'aten.sort',
                'reduction | sort | 0 | 0 | all | first | first, indices',
                'for each element the logarithm to base 2 of the length that is sorted: what comparisons
                need; kernels that sort by digits take other steps'
            ),
            (
                'aten.nonzero aten.bincount aten.unique_consecutive',
                'reduction | plain | 1 | 0 | least | unknown | first',
                '1 for each element of the input'
            ),
            (
                'aten.masked_select',
                'copy | plain | 0 | 0 | least | unknown | first',
                'none: it copies the chosen elements'
            ),
            (
                'aten.count_nonzero',
                'reduction | plain | 2 | 0 | all | reduced | indices',
                '2 for each element of the input: a comparison and an addition'
            ),
            (
                'aten.argmax aten.argmin',
                'reduction | plain | 1 | 0 | all | reduced | indices',
                '1 for each element of the input'
            ),
            (
                'aten.any aten.all',
                'reduction | plain | 1 | 0 | all | reduced | bool',
                '1 for each element of the input'
            ),
            (
                'aten.sum aten.prod',
                'reduction | plain | 1 | 0 | all | reduced | sums',
                '1 for each element of the input'
            ),
            (
                'aten.cumsum aten.cumprod',
                'reduction | plain | 1 | 0 | all | first | sums',
                '1 for each element of the input'
            ),
            (
                'aten.mean',
                'reduction | plain | 1 | 1 | all | reduced | first',
                '1 for each element of the input, and a division for each of the output'
            ),
            (
                'aten.linalg_vector_norm aten.norm',
                'reduction | plain | 2 | 1 | all | reduced | first',
                '2 for each element of the input, and a root for each of the output'
            ),
            (
                'aten.var',
                'reduction | plain | 4 | 2 | all | reduced | first',
                'for each element of the input 1 for the mean and 3 for the variance, and two divisions for each of
                the output'
            ),
            (
                'aten.var_mean',
                'reduction | plain | 4 | 2 | all | reduced | first, first',
                'for each element of the input 1 for the mean and 3 for the variance, and two divisions for each of
                the output'
            ),
            (
                'aten.std',
                'reduction | plain | 4 | 3 | all | reduced | first',
                'as var, and a root for each element of the output'
            ),
            (
                'aten.std_mean',
                'reduction | plain | 4 | 3 | all | reduced | first, first',
                'as var_mean, and a root for each element of the output'
            ),
            ('aten.nansum', 'reduction | plain | 2 | 0 | all | reduced | sums', 'as sum, and a comparison'),
            (
                'aten._aminmax aten.aminmax',
                'reduction | plain | 2 | 0 | all | reduced | first, first',
                '2 for each element of the input'
            ),
            (
                'aten.logsumexp',
                'reduction | plain | 4 | 2 | all | reduced | first',
                'for each element of the input comparison, subtraction, exponential, addition; for each of the output
                logarithm and addition'
            ),
            (
                'aten.mse_loss',
                'reduction | plain | 3 | 0 | all | loss | promoted',
                '3 for each element: subtraction, square, addition'
            ),
            (
                'aten.huber_loss',
                'reduction | plain | 6 | 0 | all | loss | promoted',
                '6 for each element: subtraction, absolute value, comparison, two multiplications, addition'
            ),
            (
                'aten.smooth_l1_loss',
                'reduction | plain | 7 | 0 | all | loss | promoted',
                '7 for each element: as huber_loss, and a division'
            ),
            (
                'aten.binary_cross_entropy',
                'reduction | plain | 10 | 0 | all | loss | promoted',
                '10 for each element: two logarithms, two comparisons, six steps of arithmetic; a weight is not
                counted'
            ),
            (
                'aten.binary_cross_entropy_backward',
                'elementwise | plain | 0 | 6 | all | broadcast | promoted',
                '6 for each element: two subtractions, two multiplications, a comparison, a division; a weight is not
                counted'
            ),
            (
                'aten.nll_loss_forward aten.nll_loss2d_forward',
                'reduction | targets | 0 | 2 | targets | targets | first',
                '2 for each target, ignored or not: two additions; 1 for a weight'
            ),
            (
                'aten.nll_loss_backward aten.nll_loss2d_backward',
                'elementwise | targets | 0 | 1 | targets | targets | first',
                '1 for each target, ignored or not: a division; 1 for a weight; nothing for what is zero, which
                another op writes'
            ),
            (
                'aten._ctc_loss aten._cudnn_ctc_loss',
                'reduction | labels | 0 | 13 | least | unknown | first',
                '13 for each position and label of a sequence, with blanks around labels: the logarithm of the sum of
                three exponentials, and an addition; unknown where the lengths are in a tensor'
            ),
            (
                'aten._ctc_loss_backward',
                'reduction | labels | 6 | 22 | least | self | first',
                '22 for each position and label of a sequence, 6 for each element of the input'
            ),
            (
                'aten._fft_c2c aten._fft_r2c aten._fft_c2r',
                'transform | transform | 5 | 0 | all | transformed | transformed',
                '5 for each complex number, or 2.5 for each real one, and the logarithm to base 2 of the product of
                the sizes that are transformed'
            ),
            (
                'aten._cudnn_rnn aten.miopen_rnn',
                'recurrence | recurrence | 1 | 0 | least | recurrence | first',
                '2 for each position and element of the weights; nothing for the gates themselves'
            ),
            (
                'aten._cudnn_rnn_backward aten.miopen_rnn_backward',
                'recurrence | recurrence | 2 | 0 | least | self | first',
                'twice that of the forward pass if it computes gradients of weights, else as much'
            ),
            (
                'aten.mkldnn_rnn_layer',
                'recurrence | layer | 2 | 0 | least | recurrence | first',
                '2 for each position and element of the weights; nothing for the gates themselves'
            ),
            (
                'aten.mkldnn_rnn_layer_backward',
                'recurrence | layer | 4 | 0 | least | first | first',
                '4 for each position and element of the weights'
            ),
            (
                'aten._thnn_fused_lstm_cell',
                'recurrence | cell | 4 | 22 | all | cell | six',
                '22 for each element of the state: three sigmoids, two tanh, eight steps of arithmetic; 4 for each
                bias'
            ),
            (
                'aten._thnn_fused_gru_cell',
                'recurrence | cell | 3 | 16 | all | cell | six',
                '16 for each element of the state: two sigmoids, tanh, seven steps of arithmetic; 3 for each bias'
            ),
            (
                'aten._thnn_fused_lstm_cell_backward_impl',
                'recurrence | plain | 0 | 23 | all | cell | five',
                '23 for each element of the state: tanh, and 22 steps of arithmetic'
            ),
            (
                'aten._thnn_fused_gru_cell_backward',
                'recurrence | plain | 0 | 16 | all | first | seven',
                '16 for each element of the state'
            ),
            (
                'aten.grid_sampler_2d aten.grid_sampler_3d aten.cudnn_grid_sampler',
                'elementwise | sampled | 0 | 0 | least | sampled | first',
                'for each element of the output 7, or 15 in 3 dimensions: a multiplication for each neighbour, and
                their sum; bicubic 35; nearest none'
            ),
            (
                'aten.grid_sampler_2d_backward aten.grid_sampler_3d_backward',
                'elementwise | sampled | 0 | 0 | least | self | first',
                'for each element of the gradient of the output a multiplication and an addition for each neighbour,
                and for the gradient of the grid 24, or 72 in 3 dimensions; unknown if bicubic'
            ),
            (
                'torchvision.roi_align',
                'elementwise | regions | 0 | 0 | least | regions | first',
                '8 for each element of the output and each of its samples: a bilinear one and an addition, and a
                division; unknown if the number of samples follows from the regions'
            ),
            (
                'quantized_decomposed.choose_qparams quantized_decomposed.choose_qparams_per_token_asymmetric
                torchao.choose_qparams_affine',
                'reduction | plain | 2 | 0 | all | unknown | first',
                '2 for each element of the input: two comparisons'
            ),
            (
                'aten.view_copy aten.permute_copy aten.unsqueeze_copy aten.squeeze_copy aten.t_copy
                aten.transpose_copy aten.clone aten.copy aten._to_copy aten.flip aten.roll aten.pixel_shuffle
                aten.slice_scatter aten.select_scatter aten.index_put aten.alias_copy dim_order_ops._clone_dim_order
                dim_order_ops._to_dim_order_copy aten.lift_fresh_copy aten.tril aten.triu aten.pixel_unshuffle
                aten.native_channel_shuffle aten._reshape_copy aten._pin_memory aten._local_scalar_dense
                aten._conj_physical',
                'copy | plain | 0 | 0 | all | first | first',
                'none: it copies'
            ),
            ('aten.copy_', 'copy | plain | 0 | 0 | all | first | first', 'none: it copies'),
            ('aten.cat aten.stack', 'copy | plain | 0 | 0 | all | sum | first', 'none: it copies'),
            ('aten.expand_copy aten.repeat', 'copy | plain | 0 | 0 | all | unknown | first', 'none: it copies'),
            (
                'aten.constant_pad_nd aten.reflection_pad1d aten.reflection_pad2d aten.reflection_pad3d
                aten.replication_pad1d aten.replication_pad2d aten.replication_pad3d',
                'copy | plain | 0 | 0 | all | padded | first',
                'none: it copies'
            ),
            (
                'aten.upsample_nearest1d aten.upsample_nearest2d aten.upsample_nearest3d
                aten._upsample_nearest_exact1d aten._upsample_nearest_exact2d aten._upsample_nearest_exact3d',
                'copy | plain | 0 | 0 | all | adaptive window | first',
                'none: it copies'
            ),
            (
                'aten.upsample_bilinear2d',
                'elementwise | plain | 0 | 7 | all | adaptive window | first',
                '7 for each element of the output: four multiplications, three additions'
            ),
            (
                'aten.upsample_linear1d',
                'elementwise | plain | 0 | 3 | all | adaptive window | first',
                '3 for each element of the output: two multiplications, an addition'
            ),
            (
                'aten.upsample_trilinear3d',
                'elementwise | plain | 0 | 15 | all | adaptive window | first',
                '15 for each element of the output: eight multiplications, seven additions'
            ),
            (
                'aten.upsample_bicubic2d',
                'elementwise | plain | 0 | 35 | all | adaptive window | first',
                '35 for each element of the output: twenty multiplications, fifteen additions'
            ),
            (
                'aten.upsample_nearest1d_backward aten.upsample_nearest2d_backward aten.upsample_nearest3d_backward
                aten._upsample_nearest_exact1d_backward aten._upsample_nearest_exact2d_backward
                aten._upsample_nearest_exact3d_backward',
                'elementwise | plain | 1 | 0 | all | given | first',
                '1 for each element of the gradient of the output'
            ),
            (
                'aten.upsample_linear1d_backward',
                'elementwise | plain | 4 | 0 | all | given | first',
                '4 for each element of the gradient of the output: two multiplications, two additions'
            ),
            (
                'aten.upsample_bilinear2d_backward',
                'elementwise | plain | 8 | 0 | all | given | first',
                '8 for each element of the gradient of the output: four multiplications, four additions'
            ),
            (
                'aten.upsample_trilinear3d_backward',
                'elementwise | plain | 16 | 0 | all | given | first',
                '16 for each element of the gradient of the output: eight multiplications, eight additions'
            ),
            (
                'aten.upsample_bicubic2d_backward',
                'elementwise | plain | 32 | 0 | all | given | first',
                '32 for each element of the gradient of the output: sixteen multiplications, sixteen additions'
            ),
            (
                '_C_cache_ops.concat_mla_q sgl_kernel.concat_mla_absorb_q',
                'copy | plain | 0 | 0 | all | out | first',
                'none: it copies'
            ),
            (
                'aten.slice_copy aten.select_copy aten.split_copy aten.split_with_sizes_copy aten.narrow_copy
                aten.unbind_copy aten.index',
                'copy | plain | 0 | 0 | chosen | unknown | first',
                'none: it copies the chosen elements'
            ),
            (
                'aten.embedding',
                'embedding | plain | 0 | 0 | chosen | embedding | first',
                'none: it copies the chosen rows'
            ),
            (
                'aten.embedding_dense_backward',
                'embedding | plain | 1 | 0 | all | first | first',
                '1 for each element of the gradient, which is added to its row'
            ),
            ('aten.gather', 'copy | plain | 0 | 0 | chosen | index | first', 'none: it copies the chosen elements'),
            (
                'aten.index_select',
                'copy | plain | 0 | 0 | chosen | selected | first',
                'none: it copies the chosen elements'
            ),
            (
                'aten.index_put_',
                'copy | accumulated | 0 | 1 | least | source | first',
                'none: it copies the values to the chosen elements; 1 for each value if it adds them'
            ),
            (
                'aten.scatter',
                'copy | plain | 0 | 0 | scattered | index | first',
                'none: it copies to the chosen elements; another op copies the tensor, if it is not in place'
            ),
            (
                'aten.index_fill',
                'fill | plain | 0 | 0 | scattered | selected | first',
                'none: it fills the chosen elements'
            ),
            (
                'aten.index_copy',
                'copy | plain | 0 | 0 | scattered | source | first',
                'none: it copies to the chosen elements'
            ),
            (
                'aten.scatter_add aten.scatter_reduce',
                'elementwise | plain | 0 | 1 | scattered | index | first',
                '1 for each index'
            ),
            (
                'aten.index_add aten.index_reduce',
                'elementwise | plain | 0 | 1 | scattered | source | first',
                '1 for each element of the source'
            ),
            (
                'aten._embedding_bag aten._embedding_bag_forward_only',
                'embedding | bags | 1 | 0 | looked up | bags | bags',
                '1 for each index and element of its row; 1 more for a weight; a division for each element of a mean'
            ),
            (
                'aten._embedding_bag_dense_backward',
                'embedding | bags | 1 | 0 | least | unknown | first',
                '1 for each index and element of its row, 1 more for a weight, and for a mean a division'
            ),
            (
                '_C_cache_ops.reshape_and_cache _C_cache_ops.reshape_and_cache_flash
                _C_cache_ops.concat_and_cache_mla aiter.reshape_and_cache aiter.reshape_and_cache_flash
                aiter.concat_and_cache_mla sgl_kernel.store_kv_cache',
                'copy | plain | 0 | 0 | slots | unknown | first',
                'none: it copies into a cache; its conversion is not counted'
            ),
            ('llama.update_cache', 'copy | plain | 0 | 0 | update | first | first', 'none: it copies into a cache'),
            (
                'aten.full_like aten.zeros_like aten.ones_like aten.fill aten.zero aten.normal_ aten.uniform_
                aten.random_ aten.exponential_ aten.bernoulli_ aten.geometric_ aten.cauchy_ aten.log_normal_',
                'fill | plain | 0 | 0 | made | first | first',
                'none: it fills; random numbers count as nothing'
            ),
            (
                'aten.full aten.zeros aten.ones aten.arange aten.scalar_tensor aten.eye aten.rand aten.randn
                aten.randint aten.rand_like aten.randn_like aten.randint_like aten.randperm aten.new_zeros
                aten.new_ones aten.new_full aten.linspace',
                'fill | plain | 0 | 0 | made | unknown | first',
                'none: it fills'
            ),
            (
                'aten.view aten.permute aten.transpose aten.t aten.expand aten.unsqueeze aten.squeeze aten.slice
                aten.select aten.split aten.split_with_sizes aten.chunk aten.narrow aten.unbind aten.detach
                aten.alias aten.movedim aten.unflatten aten._assert_tensor_metadata aten._assert_scalar
                aten.sym_constrain_range_for_size aten.sym_size aten._unsafe_view aten._reshape_alias aten.as_strided
                aten.view_as aten.expand_as aten.unfold aten.diagonal aten.swapaxes aten.swapdims aten.adjoint
                aten.mT aten.mH aten.numpy_T aten.real aten.imag aten.view_as_real aten.view_as_complex
                aten.resolve_conj aten.resolve_neg aten.conj aten._conj aten.moveaxis aten.broadcast_to
                aten.unsafe_split aten.unsafe_chunk aten.unsafe_split_with_sizes aten.tensor_split aten.lift_fresh
                aten.set_ aten.set_data aten.result_type aten.is_nonzero aten.item aten._fused_sdp_choice
                aten.requires_grad',
                'view | plain | 0 | 0 | nothing | first | first',
                'none: it gives another view of the same memory'
            ),
            (
                'aten.empty aten.empty_like aten.empty_strided aten.new_empty aten.new_empty_strided aten.resize_
                aten.resize_as_',
                'fill | plain | 0 | 0 | nothing | unknown | first',
                'none: it allocates'
            ),
            (
                'aten.select_backward aten.slice_backward aten.diagonal_backward aten.type_as',
                'copy | plain | 0 | 0 | depends | unknown | first',
                'none of its own: the ops that it calls count'
            ),
            (
                'aten.reshape aten.flatten aten.contiguous aten.to aten.dropout',
                'copy | plain | 0 | 0 | depends | unknown | first',
                'none: it copies, or gives a view of the same memory'
            )
    ) AS v (ops, rule, formula)
) AS k
ORDER BY 1;
