-- The time in kernels with tensor cores in percent of all; NULL if, for kernels with more than a tenth of the time, the
-- use of tensor cores is unknown.
CREATE MACRO _tensor_percent(
    tensor_ticks,  -- ticks of kernels with tensor cores
    unknown_ticks,  -- ticks of kernels for which the use of tensor cores is unknown
    ticks
) AS (CASE WHEN unknown_ticks <= ticks / 10 THEN 100 * tensor_ticks::DOUBLE / nullif(ticks, 0) END);

-- Whether tensor cores could run an op, by its name: torch-tb-profiler's list of the ops that autocast runs in half
-- precision, and their backward ops, with those of newer versions of torch.
CREATE MACRO _could_use_tensor_cores(label) AS (
    label IN (
        'aten::_convolution', 'aten::conv1d', 'aten::conv2d', 'aten::conv3d', 'aten::conv_tbc',
        'aten::conv_transpose1d', 'aten::conv_transpose2d', 'aten::conv_transpose3d', 'aten::convolution',
        'aten::cudnn_convolution', 'aten::cudnn_convolution_transpose', 'aten::prelu', 'aten::addmm', 'aten::addmv',
        'aten::addr', 'aten::matmul', 'aten::mm', 'aten::mv', 'aten::linear', 'aten::addbmm', 'aten::baddbmm',
        'aten::bmm', 'aten::chain_matmul', 'aten::linalg_multi_dot', 'aten::_thnn_fused_lstm_cell',
        'aten::_thnn_fused_gru_cell', 'aten::lstm_cell', 'aten::gru_cell', 'aten::rnn_tanh_cell', 'aten::rnn_relu_cell',
        'CudnnConvolutionBackward', 'BmmBackward0', 'aten::cudnn_convolution_transpose_backward',
        'CudnnConvolutionTransposeBackward', 'MmBackward', 'aten::cudnn_convolution_backward_weight', 'aten::addmm_',
        'AddmvBackward', 'MvBackward', 'aten::cudnn_convolution_transpose_backward_weight',
        'aten::cudnn_convolution_transpose_backward_input', 'AddmmBackward', 'aten::cudnn_convolution_backward_input',
        'AddbmmBackward', 'aten::cudnn_convolution_backward', 'aten::convolution_backward',
        'aten::convolution_overrideable', 'aten::convolution_backward_overrideable',
        'aten::_convolution_double_backward', 'aten::cudnn_convolution_relu', 'aten::cudnn_convolution_add_relu',
        'aten::miopen_convolution', 'aten::miopen_convolution_relu', 'aten::miopen_convolution_add_relu',
        'aten::miopen_convolution_transpose', 'aten::_addmm_activation', 'aten::scaled_dot_product_attention',
        'aten::_scaled_dot_product_efficient_attention', 'aten::_scaled_dot_product_efficient_attention_backward',
        'aten::_efficient_attention_forward', 'aten::_efficient_attention_backward'
    )
);
