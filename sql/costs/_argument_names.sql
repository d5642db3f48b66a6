-- The names of the arguments of one op of a trace by position, from torch's schemas, as far as costs depend on them:
-- traces don't name arguments. Of an argument whose name begins with ! only the sizes count, as it isn't read. An
-- argument named out is written; those that torch's own ops write into are in `_out_arguments`.
-- Columns:
--   op: the op, as in `cost_formulas`
--   names: the names of its arguments by position, as far as one matters
CREATE VIEW _argument_names AS
SELECT unnest(string_split_regex(k.ops, '\s+')) AS op, string_split(k.names, ' ') AS names
FROM (
    VALUES
        ('aten._int_mm aten._weight_int4pack_mm', 'self mat2'),
        ('aten.mm aten.bmm', 'self mat2 dtype'),
        ('aten.addmm aten.baddbmm aten._addmm_activation aten.addmv', 'bias self mat2 beta'),
        ('aten.mv aten.dot aten.matmul', 'self mat2'),
        ('aten.linear vllm.rocm_unquantized_gemm', 'self weight bias'),
        ('_rocm_C.wvSplitK _rocm_C.LLMM1', 'weight self bias'),
        ('_C.awq_gemm', 'self mat2 scales zeros'),
        ('aten._grouped_mm', 'self mat2 offs bias dtype'),
        ('aten._scaled_grouped_mm', 'self mat2 scale_a scale_b offs bias scale_result dtype'),
        ('aten._scaled_mm', 'self mat2 scale_a scale_b bias scale_result dtype'),
        ('_C.cutlass_scaled_mm', 'out self mat2 scale_a scale_b bias'),
        (
            'sgl_kernel.fp8_scaled_mm sgl_kernel.int8_scaled_mm sgl_kernel.fp8_blockwise_scaled_mm',
            'self mat2 scale_a scale_b dtype bias'
        ),
        (
            'vllm.inplace_fused_experts vllm.outplace_fused_experts sglang.inplace_fused_experts
            sglang.outplace_fused_experts',
            'self w1 w2 topk_weights topk_ids'
        ),
        ('aiter.fmoe_g1u1 aiter.fmoe_fp8_blockscale_g1u1', 'out self w1 w2 ids weights experts valid topk'),
        ('aiter.ck_moe_stage1', 'self w1 !down ids experts valid out topk'),
        ('aiter.ck_moe_stage2', 'self !up w1 ids experts valid out topk'),
        (
            'aiter.moe_cktile2stages_gemm1_ck aiter.moe_cktile2stages_gemm2_ck',
            'self w1 out ids experts valid topk'
        ),
        (
            'aten.convolution aten._convolution aten.convolution_overrideable',
            'self weight bias stride padding dilation transposed output_padding groups'
        ),
        ('aten.conv1d aten.conv2d aten.conv3d', 'self weight bias stride padding dilation groups'),
        ('aten.cudnn_convolution', 'self weight padding stride dilation groups'),
        ('aten.cudnn_convolution_relu', 'self weight bias stride padding dilation groups'),
        ('aten.cudnn_convolution_add_relu', 'self weight z alpha bias stride padding dilation groups'),
        (
            'aten.miopen_convolution aten.miopen_depthwise_convolution aten.mkldnn_convolution',
            'self weight bias padding stride dilation groups'
        ),
        ('aten._slow_conv2d_forward aten.thnn_conv2d', 'self weight kernel_size bias stride padding'),
        ('aten._conv_depthwise2d', 'self weight kernel_size bias stride padding dilation'),
        (
            'aten.conv_transpose1d aten.conv_transpose2d aten.conv_transpose3d',
            'self weight bias stride padding output_padding groups dilation'
        ),
        ('aten.cudnn_convolution_transpose', 'self weight padding output_padding stride dilation groups'),
        ('aten.miopen_convolution_transpose', 'self weight bias padding output_padding stride dilation groups'),
        (
            'aten.convolution_backward',
            'gradient self weight bias_sizes stride padding dilation transposed output_padding groups output_mask'
        ),
        ('aten.cudnn_convolution_backward_input', 'sizes gradient weight padding stride dilation groups'),
        ('aten.cudnn_convolution_backward_weight', 'sizes gradient self padding stride dilation groups'),
        ('aten.scaled_dot_product_attention', 'query key value attn_mask dropout_p is_causal'),
        (
            'aten._scaled_dot_product_flash_attention aten._scaled_dot_product_flash_attention_for_cpu',
            'query key value dropout_p is_causal'
        ),
        ('aten._scaled_dot_product_fused_attention_overrideable', 'query key value attn_mask dropout_p is_causal'),
        (
            'aten._scaled_dot_product_efficient_attention aten._scaled_dot_product_cudnn_attention',
            'query key value attn_mask compute_log_sumexp dropout_p is_causal'
        ),
        (
            'aten._scaled_dot_product_flash_attention_backward',
            'gradient query key value forward logsumexp cum_seq_q cum_seq_k max_q max_k dropout_p is_causal'
        ),
        (
            'aten._scaled_dot_product_flash_attention_for_cpu_backward',
            'gradient query key value forward logsumexp dropout_p is_causal'
        ),
        (
            'aten._scaled_dot_product_efficient_attention_backward',
            'gradient query key value attn_mask forward logsumexp seed offset dropout_p output_mask is_causal'
        ),
        (
            'aten._scaled_dot_product_cudnn_attention_backward',
            'gradient query key value forward logsumexp seed offset attn_mask '
            || 'cum_seq_q cum_seq_k max_q max_k dropout_p is_causal'
        ),
        (
            'aiter.fmha_v3_fwd flash_attn._flash_attn_forward',
            'query key value dropout_p scale is_causal window_left window_right compute_log_sumexp'
        ),
        ('vllm.unified_attention aiter.mha_batch_prefill', 'query key value'),
        ('vllm.unified_attention_with_output sglang.unified_attention_with_output', 'query key value out'),
        ('aten.clamp', 'self min max'),
        ('aten.gelu', 'self approximate'),
        ('aten.gelu_backward', 'gradient self approximate'),
        (
            '_C.silu_and_mul _C.mul_and_silu _C.gelu_and_mul _C.gelu_tanh_and_mul _C.gelu_quick _C.gelu_new
            _C.swigluoai_and_mul sgl_kernel.silu_and_mul sgl_kernel.gelu_and_mul sgl_kernel.gelu_tanh_and_mul
            flashinfer.silu_and_mul flashinfer.gelu_and_mul flashinfer.gelu_tanh_and_mul aiter.silu_and_mul
            aiter.gelu_and_mul aiter.gelu_tanh_and_mul _C.static_scaled_fp8_quant _C.dynamic_scaled_fp8_quant
            _C.dynamic_per_token_scaled_fp8_quant aiter.dynamic_per_token_scaled_quant aiter.dynamic_per_tensor_quant',
            'out self'
        ),
        (
            'sgl_kernel.sgl_per_token_quant_fp8 sgl_kernel.sgl_per_token_group_quant_fp8 _C.per_token_group_fp8_quant
            _moe_C.moe_sum aiter.moe_sum',
            'self out'
        ),
        ('_C.rotary_embedding sgl_kernel.rotary_embedding', 'positions query key head_size table'),
        (
            'sgl_kernel.apply_rope_pos_ids_cos_sin_cache flashinfer.apply_rope_pos_ids_cos_sin_cache',
            'query key out out2 table positions'
        ),
        (
            '_C_cache_ops.reshape_and_cache _C_cache_ops.reshape_and_cache_flash aiter.reshape_and_cache
            aiter.reshape_and_cache_flash',
            'key value key_cache value_cache slots'
        ),
        ('sgl_kernel.store_kv_cache', 'key_cache value_cache slots key value'),
        ('_C_cache_ops.concat_and_cache_mla aiter.concat_and_cache_mla', 'key value key_cache slots'),
        ('_C_cache_ops.concat_mla_q sgl_kernel.concat_mla_absorb_q', 'self key out'),
        ('_moe_C.topk_softmax aiter.topk_softmax', 'out indices rows self'),
        ('sgl_kernel.topk_softmax', 'out indices self'),
        ('aten._softmax aten._log_softmax', 'self dim half_to_float'),
        ('aten.layer_norm aten.native_layer_norm', 'self normalized_shape weight bias'),
        ('aten.native_group_norm', 'self weight bias N C HxW group'),
        ('aten._fused_rms_norm aten.rms_norm', 'self normalized_shape weight'),
        ('aiter.rms_norm aiter.rmsnorm2d_fwd aiter.rmsnorm2d_fwd_ck', 'self weight'),
        ('aten.group_norm aiter._groupnorm_run', 'self group weight bias'),
        (
            'aiter.rmsnorm_quant aiter.rmsnorm2d_fwd_with_dynamicquant aiter.rmsnorm2d_fwd_with_dynamicquant_ck',
            'out self out2 weight'
        ),
        (
            'aiter.add_rmsnorm_quant aiter.rmsnorm2d_fwd_with_add_dynamicquant
            aiter.rmsnorm2d_fwd_with_add_dynamicquant_ck',
            'out self residual out2 out3 weight'
        ),
        (
            'aiter.add_rmsnorm aiter.rmsnorm2d_fwd_with_add aiter.rmsnorm2d_fwd_with_add_ck',
            'out self residual out2 weight'
        ),
        (
            '_C.rms_norm sgl_kernel.rmsnorm sgl_kernel.gemma_rmsnorm flashinfer.rmsnorm flashinfer.gemma_rmsnorm
            aiter.rmsnorm aiter.rms_norm_cu _C.rms_norm_static_fp8_quant',
            'out self weight'
        ),
        (
            '_C.fused_add_rms_norm sgl_kernel.fused_add_rmsnorm sgl_kernel.gemma_fused_add_rmsnorm
            flashinfer.fused_add_rmsnorm flashinfer.gemma_fused_add_rmsnorm aiter.fused_add_rms_norm_cu',
            'self residual weight'
        ),
        ('_C.fused_add_rms_norm_static_fp8_quant', 'out self residual weight'),
        (
            'aten.native_batch_norm aten.cudnn_batch_norm aten.miopen_batch_norm aten._native_batch_norm_legit',
            'self weight bias running_mean running_var training'
        ),
        (
            'aten._batch_norm_with_update aten._native_batch_norm_legit_no_training',
            'self weight bias running_mean running_var'
        ),
        ('aten.native_layer_norm_backward', 'gradient self normalized_shape mean rstd weight bias output_mask'),
        ('aten.native_group_norm_backward', 'gradient self mean rstd weight N C HxW group output_mask'),
        (
            'aten.native_batch_norm_backward',
            'gradient self weight running_mean running_var save_mean save_invstd training eps output_mask'
        ),
        ('aten.cudnn_batch_norm_backward aten.miopen_batch_norm_backward', 'self gradient weight'),
        ('aten._fused_rms_norm_backward', 'gradient self normalized_shape rstd weight output_mask'),
        (
            'aten.max_pool1d aten.max_pool2d aten.max_pool3d aten.max_pool2d_with_indices aten.max_pool3d_with_indices',
            'self kernel_size stride padding dilation ceil_mode'
        ),
        ('aten.avg_pool1d aten.avg_pool2d aten.avg_pool3d', 'self kernel_size stride padding ceil_mode'),
        (
            'aten.max_pool2d_with_indices_backward',
            'gradient !self kernel_size stride padding dilation ceil_mode indices'
        ),
        (
            'aten.adaptive_avg_pool1d aten.adaptive_avg_pool2d aten.adaptive_avg_pool3d aten._adaptive_avg_pool2d
            aten._adaptive_avg_pool3d aten.upsample_nearest1d aten.upsample_nearest2d aten.upsample_nearest3d
            aten.upsample_bilinear2d',
            'self output_size'
        ),
        (
            'aten.constant_pad_nd aten.reflection_pad1d aten.reflection_pad2d aten.reflection_pad3d
            aten.replication_pad1d aten.replication_pad2d aten.replication_pad3d',
            'self padding'
        ),
        (
            'aten.sum aten.mean aten.amax aten.amin aten.max aten.min aten.argmax aten.argmin aten.prod aten.any
            aten.all aten.var aten.var_mean aten.std aten.logsumexp',
            'self dim'
        ),
        ('aten.norm aten.linalg_vector_norm', 'self order dim'),
        ('aten.mse_loss', 'self target reduction'),
        ('aten.copy_', '!self source'),
        ('aten.cat aten.stack', 'tensors dim'),
        ('aten._foreach_copy', '!self source'),
        ('aten._foreach_norm', 'tensors order dtype'),
        ('aten.embedding', 'weight indices'),
        ('aten.gather aten.index_select', 'self dim indices')
) AS k (ops, names);
