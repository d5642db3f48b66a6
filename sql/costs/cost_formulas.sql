-- One op whose cost is known, and how it is counted; `node_costs` applies the
-- formula to sizes. A multiplication and an addition are two operations; a
-- comparison, division, square root, exponential, logarithm, sine, tanh, erf or
-- rounding is one; operations on integers count equally. A factor that belongs to
-- an addition (alpha, beta) doesn't count. For products, convolutions and attention
-- the results equal those of torch's FlopCounterMode: a sum of K products is 2 K
-- operations, which includes the bias; padding counts as if it were multiplied;
-- attention counts the two products, for all positions, masked or not.
-- FlopCounterMode has no formulas for other ops, nor for a matrix by a vector (mv,
-- addmv, dot); these are counted here.
-- Columns:
--   op: the op without its overload: aten.addmm
--   counts: plain: per_input and per_output; else the name of the formula
--   per_input: operations for each element of its first argument
--   per_output: operations for each element of its first output
--   moves: bytes that go through memory: all: each argument read once, each output written once; nothing; chosen: reads as much as it writes, and indices; made: only writes; update: reads and writes the first argument; cache, depends: not determined by shapes
--   formula: how its operations are counted, as text
CREATE VIEW cost_formulas AS
SELECT
    unnest(k.ops) AS op,
    k.counts,
    k.per_input,
    k.per_output,
    k.moves,
    k.formula
FROM (
    VALUES
        (
            [
                'aten.mm', 'aten.addmm', 'aten.bmm', 'aten.baddbmm', 'aten.matmul',
                'aten.linear', 'aten.mv', 'aten.addmv', 'aten.dot', 'aten._scaled_mm'
            ],
            'product', 0, 0, 'all',
            '2 for each element of the output and of the dimension that is summed over'
        ),
        (
            [
                'aten.convolution', 'aten._convolution', 'aten.conv1d', 'aten.conv2d',
                'aten.conv3d'
            ],
            'convolution', 0, 0, 'all',
            '2 for each element of the output (transposed: of the input) and of the '
            || 'weight of one of its channels'
        ),
        (
            ['aten.conv_transpose1d', 'aten.conv_transpose2d', 'aten.conv_transpose3d'],
            'transposed convolution', 0, 0, 'all',
            '2 for each element of the input and of the weight of one of its channels'
        ),
        (
            [
                'aten.scaled_dot_product_attention',
                'aten._scaled_dot_product_flash_attention',
                'aten._scaled_dot_product_flash_attention_for_cpu',
                'aten._scaled_dot_product_efficient_attention',
                'aten._scaled_dot_product_cudnn_attention',
                'aten._scaled_dot_product_fused_attention_overrideable'
            ],
            'attention', 0, 0, 'all',
            '2 for each position of the keys and each element of queries and output'
        ),
        (
            ['llama.custom_sdpa', 'llama.sdpa_with_kv_cache'],
            'cached attention', 0, 0, 'cache',
            '4 for each element of the queries and each position of the cache up to '
            || 'the last query; all positions where there is a mask'
        ),
        (
            [
                'aten.add', 'aten.sub', 'aten.rsub', 'aten.mul', 'aten.div', 'aten.abs',
                'aten.neg', 'aten.relu', 'aten.reciprocal', 'aten.sqrt', 'aten.rsqrt',
                'aten.exp', 'aten.exp2', 'aten.expm1', 'aten.log', 'aten.log2',
                'aten.log10', 'aten.log1p', 'aten.pow', 'aten.sin', 'aten.cos',
                'aten.tan', 'aten.asin', 'aten.acos', 'aten.atan', 'aten.atan2',
                'aten.sinh', 'aten.cosh', 'aten.tanh', 'aten.erf', 'aten.floor',
                'aten.ceil', 'aten.round', 'aten.trunc', 'aten.sign', 'aten.remainder',
                'aten.fmod', 'aten.floor_divide', 'aten.maximum', 'aten.minimum',
                'aten.eq', 'aten.ne', 'aten.lt', 'aten.le', 'aten.gt', 'aten.ge',
                'aten.where', 'aten.masked_fill', 'aten.logical_and',
                'aten.logical_or', 'aten.logical_not', 'aten.logical_xor',
                'aten.bitwise_and', 'aten.bitwise_or', 'aten.bitwise_not',
                'aten.bitwise_xor', 'aten.isnan', 'aten.isinf', 'aten.square'
            ],
            'plain', 0, 1, 'all', '1 for each element of the output'
        ),
        (
            [
                'aten.relu6', 'aten.hardtanh', 'aten.leaky_relu', 'aten.prelu',
                'aten.addcmul', 'aten.addcdiv', 'aten.lerp',
                'quantized_decomposed.dequantize_per_tensor',
                'quantized_decomposed.dequantize_per_channel',
                'quantized_decomposed.dequantize_per_token',
                'quantized_decomposed.dequantize_per_channel_group',
                'torchao.dequantize_affine'
            ],
            'plain', 0, 2, 'all',
            '2 for each element of the output: two comparisons, a comparison or a '
            || 'subtraction and a multiplication, or two steps of arithmetic'
        ),
        (
            ['aten.softplus'], 'plain', 0, 3, 'all',
            '3 for each element of the output: exponential, addition, logarithm'
        ),
        (
            ['aten.sigmoid', 'aten.hardsigmoid', 'aten.elu'], 'plain', 0, 4, 'all',
            '4 for each element: negation, exponential, addition, division; of a '
            || 'hardsigmoid addition, two comparisons, division; of an elu comparison, '
            || 'exponential, subtraction, multiplication'
        ),
        (
            [
                'aten.silu', 'aten.hardswish',
                'quantized_decomposed.quantize_per_tensor',
                'quantized_decomposed.quantize_per_channel',
                'quantized_decomposed.quantize_per_token',
                'quantized_decomposed.quantize_per_channel_group',
                'torchao.quantize_affine'
            ],
            'plain', 0, 5, 'all',
            '5 for each element: sigmoid and a multiplication; to quantize: '
            || 'multiplication, rounding, addition, two comparisons'
        ),
        (
            ['aten.clamp'], 'clamp', 0, 0, 'all',
            '1 for each element of the output and each of the bounds that are given'
        ),
        (
            ['aten.gelu'], 'gelu', 0, 0, 'all',
            '5 for each element: erf, an addition, three multiplications; approximated '
            || 'by tanh 9: tanh, two additions, six multiplications'
        ),
        (
            [
                'aten.softmax', 'aten._softmax', 'aten._safe_softmax',
                'aten.log_softmax', 'aten._log_softmax'
            ],
            'plain', 0, 5, 'all',
            '5 for each element: comparison for the maximum, subtraction, exponential, '
            || 'addition, division (of a log_softmax: subtraction)'
        ),
        (
            ['aten.layer_norm', 'aten.native_layer_norm', 'aten.group_norm',
             'aten.native_group_norm', 'aten.instance_norm'],
            'norm', 6, 0, 'all',
            'for each element of the input 1 for the mean, 3 for the variance, 2 to '
            || 'normalize, and 1 each for weight and bias; nothing for the group itself'
        ),
        (
            ['aten.batch_norm', 'aten._native_batch_norm_legit_no_training'],
            'norm', 2, 0, 'all',
            'for each element of the input 2 to normalize by known mean and variance, '
            || 'and 1 each for weight and bias; nothing for the channel itself'
        ),
        (
            ['aten.rms_norm', 'aten._fused_rms_norm'], 'norm', 3, 0, 'all',
            'for each element of the input a square, an addition, a multiplication, '
            || 'and 1 for the weight; nothing for the group itself'
        ),
        (
            ['aten.max_pool1d', 'aten.max_pool2d', 'aten.max_pool3d',
             'aten.max_pool2d_with_indices', 'aten.max_pool3d_with_indices'],
            'window', 0, 0, 'all',
            '1 for each element of the output and of the window'
        ),
        (
            ['aten.avg_pool1d', 'aten.avg_pool2d', 'aten.avg_pool3d'],
            'window', 0, 1, 'all',
            '1 for each element of the output and of the window, and a division'
        ),
        (
            ['aten.adaptive_avg_pool1d', 'aten.adaptive_avg_pool2d',
             'aten.adaptive_avg_pool3d', 'aten._adaptive_avg_pool2d',
             'aten._adaptive_avg_pool3d'],
            'adaptive window', 0, 1, 'all',
            '1 for each element of the output and of its window, and a division; m '
            || 'windows over n elements have n + m - gcd(n, m) together'
        ),
        (
            ['aten.sum', 'aten.amax', 'aten.amin', 'aten.max', 'aten.min',
             'aten.argmax', 'aten.argmin', 'aten.prod', 'aten.any', 'aten.all',
             'aten.cumsum', 'aten.cumprod'],
            'plain', 1, 0, 'all', '1 for each element of the input'
        ),
        (
            ['aten.mean'], 'plain', 1, 1, 'all',
            '1 for each element of the input, and a division for each of the output'
        ),
        (
            ['aten.linalg_vector_norm', 'aten.norm'], 'plain', 2, 1, 'all',
            '2 for each element of the input, and a root for each of the output'
        ),
        (
            ['aten.var', 'aten.var_mean'], 'plain', 4, 2, 'all',
            'for each element of the input 1 for the mean and 3 for the variance, and '
            || 'two divisions for each of the output'
        ),
        (
            ['aten.std'], 'plain', 4, 3, 'all',
            'as var, and a root for each element of the output'
        ),
        (
            ['aten.logsumexp'], 'plain', 4, 2, 'all',
            'for each element of the input comparison, subtraction, exponential, '
            || 'addition; for each of the output logarithm and addition'
        ),
        (
            [
                'quantized_decomposed.choose_qparams',
                'quantized_decomposed.choose_qparams_per_token_asymmetric',
                'torchao.choose_qparams_affine'
            ],
            'plain', 2, 0, 'all', '2 for each element of the input: two comparisons'
        ),
        (
            [
                'aten.view_copy', 'aten.permute_copy', 'aten.expand_copy',
                'aten.unsqueeze_copy', 'aten.squeeze_copy', 'aten.t_copy',
                'aten.transpose_copy', 'aten.clone', 'aten.copy', 'aten._to_copy',
                'aten.cat', 'aten.stack', 'aten.repeat', 'aten.flip', 'aten.roll',
                'aten.constant_pad_nd', 'aten.pixel_shuffle', 'aten.slice_scatter',
                'aten.select_scatter', 'aten.index_put', 'aten.alias_copy',
                'aten.upsample_nearest2d', 'dim_order_ops._clone_dim_order',
                'dim_order_ops._to_dim_order_copy', 'aten.lift_fresh_copy'
            ],
            'plain', 0, 0, 'all', 'none: it copies'
        ),
        (
            [
                'aten.slice_copy', 'aten.select_copy', 'aten.split_copy',
                'aten.split_with_sizes_copy', 'aten.narrow_copy', 'aten.unbind_copy',
                'aten.embedding', 'aten.index', 'aten.index_select', 'aten.gather'
            ],
            'plain', 0, 0, 'chosen', 'none: it copies the chosen elements'
        ),
        (
            ['llama.update_cache'], 'plain', 0, 0, 'update',
            'none: it copies into a cache'
        ),
        (
            [
                'aten.full', 'aten.full_like', 'aten.zeros', 'aten.zeros_like',
                'aten.ones', 'aten.ones_like', 'aten.empty', 'aten.empty_like',
                'aten.arange', 'aten.scalar_tensor', 'aten.eye'
            ],
            'plain', 0, 0, 'made', 'none: it fills'
        ),
        (
            [
                'aten.view', 'aten.permute', 'aten.transpose', 'aten.t', 'aten.expand',
                'aten.unsqueeze', 'aten.squeeze', 'aten.slice', 'aten.select',
                'aten.split', 'aten.split_with_sizes', 'aten.chunk', 'aten.narrow',
                'aten.unbind', 'aten.detach', 'aten.alias', 'aten.movedim',
                'aten.unflatten', 'aten._assert_tensor_metadata', 'aten._assert_scalar',
                'aten.sym_constrain_range_for_size', 'aten.sym_size'
            ],
            'plain', 0, 0, 'nothing', 'none: it gives another view of the same memory'
        ),
        (
            ['aten.reshape', 'aten.flatten', 'aten.contiguous', 'aten.to',
             'aten.dropout'],
            'plain', 0, 0, 'depends',
            'none: it copies, or gives a view of the same memory'
        )
) AS k (ops, counts, per_input, per_output, moves, formula)
ORDER BY 1;
