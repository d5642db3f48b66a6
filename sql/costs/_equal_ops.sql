-- One op of a backend with equivalent ops in other backends, and the op that dispatches to them, by which calls on
-- different devices are matched. Its inputs are those that all of them take; other arguments differ.
-- Columns:
--   op: the op, as in `cost_formulas`
--   dispatched_as: the op that dispatches to it, or that stands for all of them
--   inputs: positions of the tensors that it has in common with them, in one order
--   has_all: whether all that is launched within a call of it belongs to that call; true of at most one of two ops that call each other
CREATE VIEW _equal_ops AS
SELECT unnest(string_split_regex(k.ops, '\s+')) AS op, k.dispatched_as, k.inputs, k.has_all
FROM (
    VALUES
        -- A bias is added by another op after cudnn_convolution, and within miopen_convolution: input and weight are
        -- what all take.
        ('aten.convolution', 'aten::convolution', [1, 2], true),
        (
            'aten._convolution aten.convolution_overrideable aten.cudnn_convolution aten.cudnn_convolution_transpose
            aten.miopen_convolution aten.miopen_convolution_transpose aten.miopen_depthwise_convolution
            aten.mkldnn_convolution aten._conv_depthwise2d aten.conv_depthwise3d',
            'aten::convolution', [1, 2], false
        ),
        ('aten.convolution_backward', 'aten::convolution_backward', [1, 2, 3], true),
        -- These take the input first, then the gradient.
        (
            'aten.cudnn_convolution_backward aten.miopen_convolution_backward
            aten.cudnn_convolution_transpose_backward aten.miopen_convolution_transpose_backward
            aten.miopen_depthwise_convolution_backward',
            'aten::convolution_backward', [2, 1, 3], true
        ),
        ('aten.batch_norm', 'aten::batch_norm', [1, 2], true),
        (
            'aten.native_batch_norm aten._native_batch_norm_legit aten._native_batch_norm_legit_no_training
            aten._batch_norm_with_update aten.cudnn_batch_norm aten.miopen_batch_norm',
            'aten::batch_norm', [1, 2], false
        ),
        ('aten.batch_norm_backward', 'aten::batch_norm_backward', [1, 2, 3], true),
        ('aten.native_batch_norm_backward', 'aten::batch_norm_backward', [1, 2, 3], false),
        (
            'aten.cudnn_batch_norm_backward aten.miopen_batch_norm_backward',
            'aten::batch_norm_backward', [2, 1, 3], false
        ),
        -- Inputs are query, key and value: not all ops take a mask. Calls that run products and a softmax count.
        ('aten.scaled_dot_product_attention', 'aten::scaled_dot_product_attention', [1, 2, 3], true),
        (
            'aten._scaled_dot_product_flash_attention aten._scaled_dot_product_flash_attention_for_cpu
            aten._scaled_dot_product_efficient_attention aten._scaled_dot_product_cudnn_attention
            aten._scaled_dot_product_fused_attention_overrideable',
            'aten::scaled_dot_product_attention', [1, 2, 3], false
        ),
        -- No op dispatches these: autograd calls them. The gradient comes first.
        (
            'aten._scaled_dot_product_flash_attention_backward
            aten._scaled_dot_product_flash_attention_for_cpu_backward
            aten._scaled_dot_product_efficient_attention_backward aten._scaled_dot_product_cudnn_attention_backward
            aten._scaled_dot_product_fused_attention_overrideable_backward',
            'aten::scaled_dot_product_attention_backward', [1, 2, 3, 4], true
        ),
        ('aten.lstm', 'aten::lstm', [1], true),
        ('aten.gru', 'aten::gru', [1], true),
        ('aten.grid_sampler', 'aten::grid_sampler', [1, 2], true),
        ('aten.grid_sampler_2d aten.cudnn_grid_sampler', 'aten::grid_sampler', [1, 2], false),
        ('aten.ctc_loss', 'aten::ctc_loss', [1, 2], true),
        ('aten._ctc_loss aten._cudnn_ctc_loss', 'aten::ctc_loss', [1, 2], false)
) AS k (ops, dispatched_as, inputs, has_all);
