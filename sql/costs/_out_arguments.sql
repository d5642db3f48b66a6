-- The tensors that calls of ops of a trace write into, by torch's schemas: they follow the other arguments, so the
-- number of arguments tells such a call from others, if the last one is a tensor. Ops of `cost_formulas` alone.
-- Columns:
--   op: the op, as in `cost_formulas`
--   given: number of arguments of the call
--   outs: how many of them, at the end, are written
CREATE VIEW _out_arguments AS
SELECT unnest(string_split_regex(k.ops, '\s+')) AS op, k.given, k.outs
FROM (
    VALUES
        (
            2, 1,
            'aten._conj_physical aten._foreach_abs aten._foreach_ceil aten._foreach_cos aten._foreach_erf
            aten._foreach_erfc aten._foreach_exp aten._foreach_expm1 aten._foreach_floor aten._foreach_log
            aten._foreach_log10 aten._foreach_log1p aten._foreach_log2 aten._foreach_max aten._foreach_neg
            aten._foreach_reciprocal aten._foreach_round aten._foreach_rsqrt aten._foreach_sigmoid aten._foreach_sign
            aten._foreach_sin aten._foreach_sqrt aten._foreach_tan aten._foreach_tanh aten._foreach_trunc
            aten._foreach_zero aten.abs aten.acos aten.acosh aten.alias_copy aten.all aten.any aten.arange aten.asin
            aten.asinh aten.atan aten.atanh aten.bitwise_not aten.ceil aten.cos aten.cosh aten.digamma aten.erf
            aten.erfc aten.erfinv aten.exp aten.exp2 aten.expm1 aten.eye aten.floor aten.frac aten.hardsigmoid
            aten.hardswish aten.isinf aten.isnan aten.isneginf aten.isposinf aten.lgamma aten.lift_fresh_copy aten.log
            aten.log10 aten.log1p aten.log2 aten.logical_not aten.median aten.mish aten.neg aten.nonzero aten.ones
            aten.rand aten.randn aten.randperm aten.reciprocal aten.relu aten.round aten.rsqrt aten.scalar_tensor
            aten.sgn aten.sigmoid aten.sign aten.signbit aten.silu aten.sin aten.sinh aten.sqrt aten.square
            aten.squeeze_copy aten.t_copy aten.tan aten.tanh aten.trunc aten.zero aten.zeros'
        ),
        (
            3, 1,
            'aten._adaptive_avg_pool2d aten._adaptive_avg_pool2d_backward aten._adaptive_avg_pool3d
            aten._adaptive_avg_pool3d_backward aten._foreach_add aten._foreach_clamp_max aten._foreach_clamp_min
            aten._foreach_div aten._foreach_maximum aten._foreach_minimum aten._foreach_mul aten._foreach_norm
            aten._foreach_pow aten._foreach_sub aten._int_mm aten._pin_memory aten._unsafe_view
            aten.adaptive_avg_pool1d aten.adaptive_avg_pool2d aten.adaptive_avg_pool3d aten.atan2 aten.bitwise_and
            aten.bitwise_left_shift aten.bitwise_or aten.bitwise_right_shift aten.bitwise_xor aten.bmm aten.cat
            aten.clamp_max aten.clamp_min aten.clone aten.copysign aten.count_nonzero aten.cudnn_grid_sampler aten.div
            aten.dot aten.empty aten.empty_like aten.empty_strided aten.eq aten.eye aten.fill aten.flip
            aten.floor_divide aten.fmax aten.fmin aten.fmod aten.full aten.ge aten.gelu aten.glu aten.gt
            aten.hardshrink aten.hardsigmoid_backward aten.hardswish_backward aten.heaviside aten.index aten.le
            aten.leaky_relu aten.logical_and aten.logical_or aten.logical_xor aten.logit aten.lt aten.masked_select
            aten.matmul aten.max aten.maximum aten.mean aten.min aten.minimum aten.mm aten.mul aten.mv aten.ne
            aten.new_empty aten.new_ones aten.new_zeros aten.norm aten.ones_like aten.permute_copy aten.pixel_shuffle
            aten.pixel_unshuffle aten.pow aten.prelu aten.prod aten.rand aten.rand_like aten.randint aten.randn
            aten.randn_like aten.randperm aten.reflection_pad1d aten.reflection_pad2d aten.reflection_pad3d
            aten.remainder aten.repeat aten.replication_pad1d aten.replication_pad2d aten.replication_pad3d aten.round
            aten.sigmoid_backward aten.silu_backward aten.softshrink aten.squeeze_copy aten.stack aten.sum
            aten.tanh_backward aten.tril aten.triu aten.true_divide aten.unbind_copy aten.unsqueeze_copy
            aten.view_copy aten.xlogy aten.zeros_like'
        ),
        (3, 2, 'aten._aminmax aten.log_sigmoid_forward'),
        (
            4, 1,
            'aten._amp_foreach_non_finite_check_and_unscale aten._foreach_add aten._foreach_copy aten._foreach_lerp
            aten._foreach_norm aten._foreach_sub aten._log_softmax aten._masked_scale aten._softmax aten._to_copy
            aten._upsample_nearest_exact1d aten.adaptive_max_pool2d_backward aten.adaptive_max_pool3d_backward
            aten.add aten.all aten.amax aten.amin aten.any aten.arange aten.argmax aten.argmin aten.bincount aten.bmm
            aten.clamp aten.constant_pad_nd aten.copy aten.cumprod aten.cumsum aten.div aten.expand_copy
            aten.full_like aten.gelu_backward aten.glu_backward aten.hardshrink_backward aten.hardtanh
            aten.index_select aten.lerp aten.linear aten.linspace aten.log_sigmoid_backward aten.log_softmax
            aten.logsumexp aten.masked_fill aten.mm aten.mse_loss aten.native_dropout_backward aten.new_empty_strided
            aten.new_full aten.norm aten.rand_like aten.randint aten.randint_like aten.randn_like aten.roll aten.rsub
            aten.select_copy aten.softmax aten.softplus aten.softshrink_backward aten.split_copy
            aten.split_with_sizes_copy aten.sub aten.threshold aten.threshold_backward aten.transpose_copy
            aten.unsafe_split aten.unsafe_split_with_sizes aten.upsample_nearest1d aten.upsample_nearest2d aten.where'
        ),
        (4, 2, 'aten.adaptive_max_pool2d aten.adaptive_max_pool3d aten.batch_norm_stats aten.cummax aten.cummin'),
        (
            5, 1,
            'aten._fft_c2c aten._fft_c2r aten._fft_r2c aten._foreach_addcdiv aten._foreach_addcmul
            aten._log_softmax_backward_data aten._softmax_backward_data aten._upsample_nearest_exact1d_backward
            aten._upsample_nearest_exact2d aten.addcdiv aten.addcmul aten.binary_cross_entropy aten.elu aten.gather
            aten.hardtanh_backward aten.huber_loss aten.index_copy aten.index_fill aten.index_put
            aten.leaky_relu_backward aten.mean aten.mse_loss_backward aten.nan_to_num aten.nansum aten.narrow_copy
            aten.norm aten.prod aten.randint aten.randint_like aten.scatter aten.scatter_add aten.select_backward
            aten.select_scatter aten.smooth_l1_loss aten.softplus_backward aten.std aten.sum aten.upsample_bilinear2d
            aten.upsample_linear1d aten.upsample_nearest1d_backward aten.upsample_nearest2d aten.var'
        ),
        (
            5, 2,
            'aten._aminmax aten._fused_dropout aten.aminmax aten.max aten.median aten.min aten.native_dropout aten.sort'
        ),
        (
            6, 1,
            'aten._upsample_nearest_exact2d_backward aten._upsample_nearest_exact3d aten.addmm aten.addmv aten.baddbmm
            aten.binary_cross_entropy_backward aten.diagonal_backward aten.embedding aten.embedding_dense_backward
            aten.grid_sampler_2d aten.grid_sampler_3d aten.huber_loss_backward aten.index_add aten.linalg_vector_norm
            aten.norm aten.randint_like aten.scalar_tensor aten.scatter aten.slice_copy aten.smooth_l1_loss_backward
            aten.upsample_bicubic2d aten.upsample_bilinear2d aten.upsample_linear1d_backward
            aten.upsample_nearest2d_backward aten.upsample_nearest3d'
        ),
        (6, 2, 'aten.kthvalue aten.sort aten.std_mean aten.var_mean'),
        (
            7, 1,
            'aten._addmm_activation aten._slow_conv2d_forward aten._upsample_nearest_exact3d_backward aten.addmm
            aten.avg_pool1d aten.baddbmm aten.batch_norm_elemt aten.elu_backward aten.empty_like aten.index_reduce
            aten.ones aten.ones_like aten.scatter_reduce aten.slice_backward aten.slice_scatter aten.thnn_conv2d
            aten.upsample_bicubic2d_backward aten.upsample_bilinear2d_backward aten.upsample_nearest3d_backward
            aten.upsample_trilinear3d aten.zeros aten.zeros_like'
        ),
        (7, 2, 'aten._thnn_fused_gru_cell aten.nll_loss2d_forward aten.nll_loss_forward aten.topk'),
        (7, 3, 'aten.unique_consecutive'),
        (
            8, 1,
            'aten._conv_depthwise2d aten._to_copy aten.avg_pool2d aten.avg_pool3d aten.cudnn_convolution_relu
            aten.empty aten.full aten.full_like aten.mkldnn_convolution aten.nll_loss2d_backward
            aten.nll_loss_backward aten.upsample_trilinear3d_backward'
        ),
        (8, 2, 'aten._ctc_loss aten.max_pool2d_with_indices aten.max_pool3d_with_indices'),
        (8, 3, 'aten._thnn_fused_lstm_cell aten.native_layer_norm'),
        (8, 5, 'aten._thnn_fused_gru_cell_backward'),
        (
            9, 1,
            'aten._scaled_mm aten.avg_pool2d_backward aten.avg_pool3d_backward aten.batch_norm_backward_elemt
            aten.max_pool2d_with_indices_backward aten.max_pool3d_with_indices_backward'
        ),
        (9, 2, 'aten._cudnn_ctc_loss aten.grid_sampler_2d_backward aten.grid_sampler_3d_backward'),
        (9, 3, 'aten._native_batch_norm_legit aten._thnn_fused_lstm_cell_backward_impl'),
        (
            10, 1,
            'aten._ctc_loss_backward aten.convolution aten.convolution_overrideable aten.cudnn_convolution
            aten.cudnn_convolution_add_relu aten.miopen_convolution aten.miopen_depthwise_convolution'
        ),
        (10, 3, 'aten._native_batch_norm_legit_no_training'),
        (
            11, 1,
            'aten._embedding_bag_dense_backward aten.cudnn_convolution_transpose aten.miopen_convolution_transpose'
        ),
        (
            11, 3,
            'aten._native_batch_norm_legit aten.miopen_batch_norm aten.miopen_batch_norm_backward
            aten.native_batch_norm aten.native_group_norm aten.native_layer_norm_backward'
        ),
        (11, 4, 'aten._batch_norm_with_update'),
        (12, 1, 'aten._fused_adagrad'),
        (12, 3, 'aten.cudnn_batch_norm_backward'),
        (12, 4, 'aten.batch_norm_backward_reduce aten.cudnn_batch_norm'),
        (13, 1, 'aten._fused_sgd'),
        (13, 3, 'aten.native_batch_norm_backward aten.native_group_norm_backward'),
        (13, 4, 'aten._embedding_bag aten._embedding_bag_forward_only'),
        (14, 1, 'aten._convolution'),
        (14, 3, 'aten.convolution_backward'),
        (16, 1, 'aten._fused_adam aten._fused_adamw'),
        (19, 5, 'aten.miopen_rnn'),
        (20, 4, 'aten.mkldnn_rnn_layer'),
        (21, 5, 'aten._cudnn_rnn'),
        (25, 4, 'aten.miopen_rnn_backward'),
        (26, 4, 'aten._cudnn_rnn_backward'),
        (30, 7, 'aten.mkldnn_rnn_layer_backward')
) AS k (given, outs, ops);
