-- The names of the arguments of one op of a trace by position, from torch's schemas, as far as costs depend on them:
-- traces don't name arguments. Of an argument whose name begins with ! only the sizes count, as it isn't read. An
-- argument named out is written; those that torch's own ops write into are in `_out_arguments`.
-- Columns:
--   op: the op, as in `cost_formulas`
--   names: the names of its arguments by position, as far as one matters
CREATE VIEW _argument_names AS
SELECT unnest(string_split_regex(k.ops, '\s+')) AS op, string_split_regex(k.names, '\s+') AS names
FROM (
    VALUES
        ('aten._int_mm aten._weight_int4pack_mm', 'self mat2'),
        ('aten.mm aten.bmm', 'self mat2 dtype'),
        ('aten.addmm aten.baddbmm aten._addmm_activation aten.addmv', 'bias self mat2 beta'),
        ('aten.mv aten.dot aten.matmul', 'self mat2'),
        ('bitsandbytes.int8_linear_matmul', 'self weight out'),
        ('bitsandbytes.int8_scaled_mm', 'self weight row_stats col_stats bias dtype'),
        ('primus_turbo_cpp_extension.hipblaslt_gemm', 'self mat2 dtype transposes_self transposes_mat2'),
        (
            'primus_turbo_cpp_extension.hipblaslt_gemm_fp8 primus_turbo_cpp_extension.turbo_gemm_fp8',
            'self scale_a mat2 scale_b dtype transposes_self transposes_mat2'
        ),
        (
            'primus_turbo_cpp_extension.ck_gemm_fp8',
            'self mat2 scale_a scale_b transposes_self transposes_mat2 dtype'
        ),
        (
            'primus_turbo_cpp_extension.ck_grouped_gemm primus_turbo_cpp_extension.hipblaslt_grouped_gemm
            primus_turbo_cpp_extension.ck_grouped_gemm_variable_k',
            'self mat2 lengths offsets transposes_self transposes_mat2'
        ),
        (
            'primus_turbo_cpp_extension.ck_grouped_gemm_fp8 primus_turbo_cpp_extension.hipblaslt_grouped_gemm_fp8
            primus_turbo_cpp_extension.ck_grouped_gemm_fp8_variable_k',
            'self mat2 scale_a scale_b lengths offsets transposes_self transposes_mat2 dtype'
        ),
        (
            'tex_ts.te_gemm_ts',
            'self scale_a place_a type_a transposes_a mat2 scale_b place_b type_b transposes_b out'
        ),
        ('aten.linear vllm.rocm_unquantized_gemm', 'self weight bias'),
        ('_rocm_C.wvSplitK _rocm_C.LLMM1 _Linear', 'weight self bias'),
        ('_LayerNormLinear', 'self scales shifts weight bias'),
        -- Of the forward call.
        ('_LinearBackward', 'weight self !bias'),
        ('_LayerNormLinearBackward', 'self !scales !shifts weight !bias'),
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
            'gradient query key value forward logsumexp seed offset attn_mask
            cum_seq_q cum_seq_k max_q max_k dropout_p is_causal'
        ),
        (
            'aiter.fmha_v3_fwd flash_attn._flash_attn_forward',
            'query key value dropout_p scale is_causal window_left window_right compute_log_sumexp'
        ),
        (
            'aiter.mha_fwd',
            'query key value dropout_p scale is_causal window_left window_right sink compute_log_sumexp randval
            cum_seq_q cum_seq_k out'
        ),
        (
            'aiter.mha_varlen_fwd',
            'query key value cum_seq_q cum_seq_k max_q max_k min_q dropout_p scale softcap zero is_causal window_left
            window_right sink compute_log_sumexp randval out block_table'
        ),
        (
            'aiter.fmha_v3_varlen_fwd',
            'query key value cum_seq_q cum_seq_k max_q max_k min_q dropout_p scale softcap zero is_causal window_left
            window_right compute_log_sumexp randval rounding out block_table'
        ),
        (
            'flash_attn._flash_attn_varlen_forward',
            'query key value cum_seq_q cum_seq_k max_q max_k dropout_p scale is_causal window_left window_right
            softcap alibi_slopes return_softmax block_table padding used_keys'
        ),
        (
            'flash_attn_3.fwd flash_attn_3._flash_attn_forward',
            'query key value new_key new_value query_value out cum_seq_q cum_seq_k cum_seq_new used_queries used_keys
            max_q max_k block_table batch_indices padding cos sin rotary_lengths query_scale key_scale value_scale
            scale is_causal window_left window_right'
        ),
        (
            'aten._flash_attention_forward',
            'query key value cum_seq_q cum_seq_k max_q max_k dropout_p is_causal mask scale window_left window_right
            used_keys alibi_slopes block_table'
        ),
        (
            'aten._efficient_attention_forward',
            'query key value attn_mask cum_seq_q cum_seq_k max_q max_k dropout_p mask_type compute_log_sumexp scale
            used_keys window_left'
        ),
        (
            'aiter.mha_bwd',
            'gradient query key value forward logsumexp dropout_p scale is_causal window_left window_right
            deterministic out out2 out3'
        ),
        (
            'aiter.fmha_v3_bwd',
            'gradient query key value forward logsumexp dropout_p scale is_causal window_left window_right
            deterministic atomic rounding out out2 out3'
        ),
        (
            'aiter.mha_varlen_bwd',
            'gradient query key value forward logsumexp cum_seq_q cum_seq_k max_q max_k dropout_p scale zero is_causal
            window_left window_right deterministic out out2 out3'
        ),
        (
            'aiter.fmha_v3_varlen_bwd',
            'gradient query key value forward logsumexp cum_seq_q cum_seq_k max_q max_k dropout_p scale zero is_causal
            window_left window_right deterministic atomic rounding out out2 out3'
        ),
        (
            'flash_attn._flash_attn_backward',
            'gradient query key value forward logsumexp out out2 out3 dropout_p scale is_causal window_left
            window_right'
        ),
        (
            'flash_attn._flash_attn_varlen_backward',
            'gradient query key value forward logsumexp out out2 out3 cum_seq_q cum_seq_k max_q max_k dropout_p scale
            is_causal window_left window_right'
        ),
        (
            'flash_attn_3.bwd',
            'gradient query key value forward logsumexp out out2 out3 cum_seq_q cum_seq_k used_queries used_keys max_q
            max_k scale is_causal window_left window_right'
        ),
        (
            'flash_attn_3._flash_attn_backward',
            'gradient query key value forward logsumexp cum_seq_q cum_seq_k used_queries used_keys max_q max_k
            out out2 out3 scale is_causal window_left window_right'
        ),
        (
            'aten._flash_attention_backward',
            'gradient query key value forward logsumexp cum_seq_q cum_seq_k max_q max_k dropout_p is_causal
            seed offset scale window_left window_right'
        ),
        (
            'aten._efficient_attention_backward',
            'gradient query key value attn_mask forward cum_seq_q cum_seq_k max_q max_k logsumexp dropout_p seed
            offset mask_type bias_requires_grad scale splits window_left'
        ),
        (
            'aten._cudnn_attention_forward',
            'query key value attn_mask cum_seq_q cum_seq_k max_q max_k compute_log_sumexp dropout_p is_causal debug
            scale used_keys block_table'
        ),
        (
            'aten._cudnn_attention_backward',
            'gradient query key value forward logsumexp seed offset attn_mask cum_seq_q cum_seq_k max_q max_k dropout_p
            is_causal'
        ),
        (
            '_flashmla_C.fwd_kvcache_mla sgl_kernel.fwd_kvcache_mla',
            'query !key_cache value_size lengths !block_table scale is_causal schedule splits is_fp8 !chosen_keys'
        ),
        (
            'sgl_kernel.cutlass_mla_decode _C.cutlass_mla_decode',
            'out query query_rope !key_cache lengths !block_table'
        ),
        (
            '_C.sm100_cutlass_mla_decode',
            'out sums query query_rope !key_cache lengths !block_table'
        ),
        ('aiter.mla_decode_stage1_asm_fwd', 'query !key_cache query_bounds page_bounds !pages'),
        ('inductor.flex_attention', 'query key value logsumexp'),
        ('inductor.flex_attention_backward', 'query key value logsumexp'),
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
            'aten.max_pool2d_with_indices_backward aten.max_pool3d_with_indices_backward',
            'gradient !self kernel_size stride padding dilation ceil_mode indices'
        ),
        (
            'aten.adaptive_avg_pool1d aten.adaptive_avg_pool2d aten.adaptive_avg_pool3d aten._adaptive_avg_pool2d
            aten._adaptive_avg_pool3d aten.adaptive_max_pool2d aten.adaptive_max_pool3d aten.upsample_nearest1d
            aten.upsample_nearest2d aten.upsample_nearest3d aten._upsample_nearest_exact1d
            aten._upsample_nearest_exact2d aten._upsample_nearest_exact3d aten.upsample_linear1d
            aten.upsample_bilinear2d aten.upsample_trilinear3d aten.upsample_bicubic2d',
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
        ('aten.gather aten.index_select', 'self dim indices'),
        ('aten.topk aten.kthvalue', 'self k dim'),
        ('aten.sort', 'self first second third'),
        ('aten.median aten.std_mean aten.nansum aten.count_nonzero aten._aminmax', 'self dim'),
        ('aten.glu', 'self dim'),
        ('aten.glu_backward', 'gradient self dim'),
        ('aten.huber_loss aten.smooth_l1_loss', 'self target reduction'),
        ('aten.binary_cross_entropy', 'self target weight reduction'),
        ('aten.scatter aten.scatter_add aten.scatter_reduce', '!self dim indices !source'),
        ('aten.index_add aten.index_copy aten.index_reduce', '!self dim indices !source'),
        ('aten.index_fill', '!self dim indices !source'),
        ('aten.index_put_', '!self !indices source accumulate'),
        (
            'aten._embedding_bag aten._embedding_bag_forward_only',
            '!weight indices offsets scales mode sparse sample_weights include_last'
        ),
        (
            'aten._embedding_bag_dense_backward',
            'gradient indices offset2bag bag_size maximum_indices number scales mode sample_weights'
        ),
        ('aten.nll_loss_forward aten.nll_loss2d_forward', '!self target !weight reduction'),
        ('aten.nll_loss_backward aten.nll_loss2d_backward', 'gradient !self target !weight reduction'),
        ('aten._ctc_loss aten._cudnn_ctc_loss', 'self targets input_lengths target_lengths'),
        ('aten._ctc_loss_backward', 'gradient self targets input_lengths target_lengths'),
        ('aten._fft_c2c', 'self dim'),
        ('aten._fft_r2c', 'self dim normalization onesided'),
        ('aten._fft_c2r', 'self dim normalization last_size'),
        (
            'aten._cudnn_rnn',
            'self !list stride buffer hx cx mode hidden_size proj_size layers batch_first dropout train bidirectional'
        ),
        (
            'aten._cudnn_rnn_backward',
            'self !list stride buffer hx cx output gradient gradient_hy gradient_cy mode hidden_size proj_size layers
            batch_first dropout train bidirectional batch_sizes state !reserve output_mask'
        ),
        ('aten.miopen_rnn', 'self !list stride hx cx mode hidden_size layers batch_first dropout train bidirectional'),
        (
            'aten.miopen_rnn_backward',
            'self !list stride buffer hx cx output gradient gradient_hy gradient_cy mode hidden_size layers
            batch_first dropout train bidirectional batch_sizes state !reserve output_mask'
        ),
        (
            'aten.mkldnn_rnn_layer',
            'self weight hidden_weight bias hidden_bias hx cx reverse batch_sizes mode hidden_size layers'
        ),
        ('aten.mkldnn_rnn_layer_backward', 'self weight hidden_weight'),
        ('aten._thnn_fused_lstm_cell aten._thnn_fused_gru_cell', 'gates hidden_gates cx input_bias hidden_bias'),
        ('aten._thnn_fused_lstm_cell_backward_impl', 'gradient gradient_cy cx'),
        (
            'aten.grid_sampler_2d aten.grid_sampler_3d aten.cudnn_grid_sampler',
            '!self grid interpolation'
        ),
        (
            'aten.grid_sampler_2d_backward aten.grid_sampler_3d_backward',
            'gradient !self grid interpolation border align output_mask'
        ),
        ('torchvision.roi_align', '!self regions scale height width samples'),
        ('aten.batch_norm_stats', 'self'),
        ('aten.batch_norm_elemt', 'self weight bias'),
        ('aten.batch_norm_backward_reduce aten.batch_norm_backward_elemt', 'gradient self'),
        (
            'aten.avg_pool2d_backward aten.avg_pool3d_backward',
            'gradient !self kernel_size stride padding ceil_mode'
        ),
        (
            'aten._adaptive_avg_pool2d_backward aten._adaptive_avg_pool3d_backward aten.adaptive_max_pool2d_backward
            aten.adaptive_max_pool3d_backward',
            'gradient !self indices'
        ),
        (
            'aten.upsample_nearest1d_backward aten.upsample_nearest2d_backward aten.upsample_nearest3d_backward
            aten._upsample_nearest_exact1d_backward aten._upsample_nearest_exact2d_backward
            aten._upsample_nearest_exact3d_backward aten.upsample_linear1d_backward aten.upsample_bilinear2d_backward
            aten.upsample_trilinear3d_backward aten.upsample_bicubic2d_backward',
            'gradient output_size size'
        ),
        (
            'aten._fused_adam aten._fused_adamw',
            'self grads means squares maxima steps rate beta1 beta2 weight_decay eps amsgrad'
        ),
        ('aten._fused_adagrad', 'self grads sums steps rate rate_decay weight_decay'),
        ('aten._fused_sgd', 'self grads momenta weight_decay momentum rate dampening nesterov maximize is_first_step')
) AS k (ops, names);
