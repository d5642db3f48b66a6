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
            'aten._foreach_abs aten._foreach_exp aten._foreach_log aten._foreach_neg aten._foreach_reciprocal
            aten._foreach_sqrt aten._foreach_zero aten.abs aten.acos aten.alias_copy aten.all aten.any aten.arange
            aten.asin aten.atan aten.bitwise_not aten.ceil aten.cos aten.cosh aten.erf aten.exp aten.exp2 aten.expm1
            aten.eye aten.floor aten.hardsigmoid aten.hardswish aten.isinf aten.isnan aten.lift_fresh_copy aten.log
            aten.log10 aten.log1p aten.log2 aten.logical_not aten.neg aten.ones aten.reciprocal aten.relu aten.round
            aten.rsqrt aten.sigmoid aten.sign aten.silu aten.sin aten.sinh aten.sqrt aten.square aten.squeeze_copy
            aten.t_copy aten.tan aten.tanh aten.trunc aten.zero aten.zeros'
        ),
        (
            3, 1,
            'aten._adaptive_avg_pool2d aten._adaptive_avg_pool3d aten._foreach_add aten._foreach_clamp_max
            aten._foreach_clamp_min aten._foreach_div aten._foreach_maximum aten._foreach_minimum aten._foreach_mul
            aten._foreach_norm aten._foreach_pow aten._foreach_sub aten._int_mm aten.adaptive_avg_pool1d
            aten.adaptive_avg_pool2d aten.adaptive_avg_pool3d aten.atan2 aten.bitwise_and aten.bitwise_or
            aten.bitwise_xor aten.bmm aten.cat aten.clamp_max aten.clamp_min aten.clone aten.div aten.dot aten.empty
            aten.eq aten.eye aten.fill aten.flip aten.floor_divide aten.fmod aten.full aten.ge aten.gelu aten.gt
            aten.index aten.le aten.leaky_relu aten.logical_and aten.logical_or aten.logical_xor aten.lt aten.matmul
            aten.max aten.maximum aten.mean aten.min aten.minimum aten.mm aten.mul aten.mv aten.ne aten.norm
            aten.permute_copy aten.pixel_shuffle aten.pow aten.prelu aten.prod aten.remainder aten.repeat aten.round
            aten.sigmoid_backward aten.silu_backward aten.squeeze_copy aten.stack aten.sum aten.tanh_backward
            aten.true_divide aten.unbind_copy aten.unsqueeze_copy aten.view_copy'
        ),
        (
            4, 1,
            'aten._foreach_add aten._foreach_copy aten._foreach_lerp aten._foreach_norm aten._foreach_sub
            aten._log_softmax aten._softmax aten.add aten.all aten.amax aten.amin aten.any aten.arange aten.argmax
            aten.argmin aten.bmm aten.clamp aten.constant_pad_nd aten.copy aten.cumprod aten.cumsum aten.div
            aten.expand_copy aten.gelu_backward aten.hardtanh aten.index_select aten.lerp aten.linear aten.log_softmax
            aten.logsumexp aten.masked_fill aten.mm aten.mse_loss aten.native_dropout_backward aten.norm aten.roll
            aten.rsub aten.select_copy aten.softmax aten.softplus aten.split_copy aten.split_with_sizes_copy aten.sub
            aten.threshold aten.threshold_backward aten.transpose_copy aten.upsample_nearest2d aten.where'
        ),
        (
            5, 1,
            'aten._foreach_addcdiv aten._foreach_addcmul aten._log_softmax_backward_data aten._softmax_backward_data
            aten.addcdiv aten.addcmul aten.elu aten.gather aten.hardtanh_backward aten.index_put
            aten.leaky_relu_backward aten.mean aten.mse_loss_backward aten.narrow_copy aten.norm aten.prod
            aten.select_scatter aten.std aten.sum aten.upsample_nearest2d aten.var'
        ),
        (5, 2, 'aten.max aten.min aten.native_dropout'),
        (
            6, 1,
            'aten.addmm aten.addmv aten.baddbmm aten.embedding aten.embedding_dense_backward aten.linalg_vector_norm
            aten.norm aten.scalar_tensor aten.slice_copy'
        ),
        (6, 2, 'aten.var_mean'),
        (
            7, 1,
            'aten._addmm_activation aten._slow_conv2d_forward aten.addmm aten.avg_pool1d aten.baddbmm aten.empty_like
            aten.ones aten.ones_like aten.slice_scatter aten.thnn_conv2d aten.zeros aten.zeros_like'
        ),
        (
            8, 1,
            'aten._conv_depthwise2d aten._to_copy aten.avg_pool2d aten.avg_pool3d aten.cudnn_convolution_relu
            aten.empty aten.full aten.full_like aten.mkldnn_convolution'
        ),
        (8, 2, 'aten.max_pool2d_with_indices aten.max_pool3d_with_indices'),
        (8, 3, 'aten.native_layer_norm'),
        (9, 1, 'aten._scaled_mm aten.max_pool2d_with_indices_backward'),
        (9, 3, 'aten._native_batch_norm_legit'),
        (
            10, 1,
            'aten.convolution aten.convolution_overrideable aten.cudnn_convolution aten.cudnn_convolution_add_relu
            aten.miopen_convolution aten.miopen_depthwise_convolution'
        ),
        (10, 3, 'aten._native_batch_norm_legit_no_training'),
        (11, 1, 'aten.cudnn_convolution_transpose aten.miopen_convolution_transpose'),
        (
            11, 3,
            'aten._native_batch_norm_legit aten.miopen_batch_norm aten.miopen_batch_norm_backward
            aten.native_batch_norm aten.native_group_norm aten.native_layer_norm_backward'
        ),
        (11, 4, 'aten._batch_norm_with_update'),
        (12, 3, 'aten.cudnn_batch_norm_backward'),
        (12, 4, 'aten.cudnn_batch_norm'),
        (13, 3, 'aten.native_batch_norm_backward aten.native_group_norm_backward'),
        (14, 1, 'aten._convolution'),
        (14, 3, 'aten.convolution_backward')
) AS k (given, outs, ops);
