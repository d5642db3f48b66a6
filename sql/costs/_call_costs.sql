-- Bytes of an element by the number of its type in c10's ScalarType, as an argument dtype is written; NULL for another
-- number.
CREATE MACRO _bytes_of_type_number(number) AS (
    CASE
        WHEN number IN ('0', '1', '11', '23', '24', '25', '26') THEN 1
        WHEN number IN ('2', '5', '15') THEN 2
        WHEN number IN ('3', '6', '8') THEN 4
        WHEN number IN ('4', '7', '9') THEN 8
        WHEN number = '10' THEN 16
    END
);

-- The sum of numbers; NULL if one is unknown.
CREATE MACRO _whole_sum(numbers) AS (list_reduce(numbers::DOUBLE[], lambda _a, _b: _a + _b, 0e0));

-- The bytes of these tensors in memory; NULL if sizes or a type aren't known.
CREATE MACRO _bytes_of_tensors(tensors) AS (
    _whole_sum(list_transform(tensors, lambda _t: _t.held_bytes))
);

-- The operations of a sample of a grid: for each element of the output a multiplication for each neighbour and their sum;
-- for each element of its gradient a multiplication and an addition for each, and for the gradient of the grid four steps
-- for each neighbour and dimension, less the last. NULL if they aren't known.
CREATE MACRO _sampled_flops(
    interpolation,  -- 0: linear, 1: nearest, 2: cubic
    is_deep,  -- of three dimensions
    asked,  -- for which gradients; NULL: for none
    elements
) AS (
    elements * CASE
        WHEN asked IS NULL THEN CASE interpolation
            WHEN '0' THEN CASE WHEN is_deep THEN 15 ELSE 7 END
            WHEN '1' THEN 0
            WHEN '2' THEN 35
        END
        WHEN interpolation = '0' AND is_deep THEN 16 * asked[1]::BIGINT + 72
        WHEN interpolation = '0' THEN 8 * asked[1]::BIGINT + 24
        WHEN interpolation = '1' THEN asked[1]::BIGINT
    END
);

-- The operations of one call of an op of a trace: by `_with_flops`, or by further formulas for ops that only traces have. For complex numbers, a sum of products has four multiplications for one of real numbers, and as many
-- additions; an elementwise addition has two operations, and a multiplication six; those of other ops are NULL.
CREATE MACRO _call_flops(
    shapes  -- a table of the rows of `_call_shapes`
) AS TABLE
WITH counted AS (
    SELECT s.call, s.op, s.family, s.counts, s.per_input, s.per_output,
        coalesce(_highest_rank(s.tensors) >= 300, false) AS is_complex,
        CASE s.counts
            WHEN 'grouped product' THEN 2 * s.input_elements * s.other_sizes[-1]
                / CASE WHEN len(s.input_sizes) = 3 AND len(s.other_sizes) = 2 THEN s.input_sizes[1] ELSE 1 END
            WHEN 'packed product' THEN 2 * s.output_elements * s.input_sizes[-1]
            -- A packed weight holds several elements of the dimension that is summed over in one.
            WHEN 'experts' THEN CASE
                WHEN s.main_type NOT IN ('unsigned char', 'c10::Float4_e2m1fn_x2')
                    AND s.input_sizes[-1] % nullif(s.named['w1'].sizes[-1], 0) = 0
                    AND coalesce(s.named['w2'].sizes[2] = s.input_sizes[-1], s.named['w2'] IS NULL) THEN
                    2e0 * s.input_sizes[1] * s.chosen * s.input_sizes[-1] * (
                        s.named['w1'].sizes[2]
                        + coalesce(s.named['w2'].row_elements / nullif(s.named['w1'].sizes[-1], 0), 0)
                    )
            END
            WHEN 'assumed experts' THEN s.input_elements * s.chosen * 2e0 * s.assumed['expert_width']::DOUBLE
                * s.assumed['matrices']::DOUBLE
            WHEN 'unwritten operations' THEN s.fused.flops
            WHEN 'gating' THEN (s.per_input + s.output_sizes[-1]) * s.input_elements
            WHEN 'rotation' THEN s.per_input * s.rotated
            WHEN 'convolution backward' THEN
                2 * CASE WHEN s.is_transposed THEN s.input_elements ELSE s.named['gradient'].elements END
                * s.named['weight'].row_elements
                * CASE WHEN s.op = 'aten.convolution_backward' THEN s.asked[1]::BIGINT + s.asked[2]::BIGINT ELSE 1 END
            WHEN 'attention by position' THEN CASE
                WHEN s.has_no_window THEN 2 * (s.input_elements + s.output_elements) * s.key_length
                        * _causal_part(s.is_causal, s.query_length, s.key_length)
            END
            WHEN 'attention by position backward' THEN CASE
                WHEN s.has_no_window THEN (6 * s.input_elements + 4 * s.named['gradient'].elements) * s.key_length
                        * _causal_part(s.is_causal, s.query_length, s.key_length)
            END
            -- Functions of other libraries may have this name.
            WHEN 'weight product' THEN CASE WHEN s.is_by_weight THEN 2 * s.output_elements * s.input_sizes[-1] END
            WHEN 'weight product backward' THEN CASE
                WHEN s.is_by_weight AND s.products IN (1, 2) THEN 2 * s.output_elements * s.input_sizes[-1] * s.products
            END
            WHEN 'latent attention' THEN
                (s.per_input * s.heads.query_elements + s.per_output * s.heads.value_elements) * coalesce(
                    CASE
                        WHEN s.heads.rows = s.lengths.generated
                            THEN s.lengths.generated_seen / nullif(s.heads.rows, 0)
                    END,
                    s.assumed['seen_keys']::DOUBLE
                )
            WHEN 'masked attention' THEN
                (s.per_input * s.heads.query_elements + s.per_output * s.heads.value_elements)
                * least(s.assumed['seen_keys']::DOUBLE, s.heads.most / nullif(s.heads.rows, 0))
                + 0 * s.assumed['seen_keys']::DOUBLE
            WHEN 'paged attention' THEN CASE
                WHEN s.input_sizes[1] >= s.lengths.queries AND (len(s.outs) > 0 OR len(s.input_sizes) = 3)
                    THEN 2 * (s.input_elements + s.output_elements) / nullif(s.input_sizes[1], 0) * s.lengths.seen
                WHEN s.lengths IS NULL AND (len(s.outs) > 0 OR len(s.input_sizes) = 3)
                    THEN 2 * (s.input_elements + s.output_elements) * s.assumed['seen_keys']::DOUBLE
            END
            WHEN 'attention backward' THEN
                (6 * s.input_elements + 4 * s.named['gradient'].elements) * s.key_sizes[-2]
                * _causal_part(s.is_causal, s.input_sizes[-2], s.key_sizes[-2])
            WHEN 'gelu backward' THEN CASE s.approximate WHEN '"tanh"' THEN 18 ELSE 11 END * s.output_elements
            WHEN 'norm' THEN s.input_elements * (
                s.weights + CASE WHEN s.named['training'].value = 'False' THEN 2 ELSE s.per_input END
            )
            WHEN 'transposed product' THEN
                2 * s.output_elements * s.input_elements / nullif(s.output_sizes[1], 0)
            WHEN 'transposed grouped product' THEN 2 * s.input_elements * s.output_sizes[-1]
            WHEN 'product by elements' THEN
                2 * sqrt(s.input_elements) * sqrt(s.named['mat2'].elements) * sqrt(s.output_elements)
            WHEN 'gradient' THEN s.per_input * s.named['gradient'].elements
            WHEN 'windows of gradient' THEN s.named['gradient'].elements * (
                s.per_input + CASE len(s.window_sizes)
                    WHEN 1 THEN s.window_sizes[1]::DOUBLE ** s.dimensions
                    ELSE _elements(s.window_sizes)
                END
            )
            WHEN 'adaptive windows of gradient' THEN s.per_input * s.named['gradient'].elements
                + _adaptive_windows(s.input_sizes, s.gradient_sizes, s.dimensions)
            WHEN 'sort' THEN s.input_elements * log2(greatest(s.input_sizes[s.dims[-1] + 1], 1))
            WHEN 'transform' THEN s.per_input
                * CASE WHEN s.op = 'aten._fft_c2r' THEN s.output_elements ELSE s.input_elements END
                * CASE WHEN s.op = 'aten._fft_c2c' THEN 1 ELSE 0.5 END
                * log2(greatest(list_product(list_transform(
                    s.dims,
                    lambda d: CASE WHEN s.op = 'aten._fft_c2r' THEN s.output_sizes[d + 1] ELSE s.input_sizes[d + 1] END
                )), 1))
            WHEN 'accumulated' THEN CASE s.named['accumulate'].value
                WHEN 'True' THEN s.per_output * s.output_elements
                WHEN 'False' THEN 0
            END
            WHEN 'targets' THEN s.named['target'].elements
                * (s.per_output + CASE WHEN len(s.weight_sizes) > 0 THEN 1 ELSE 0 END)
            WHEN 'labels' THEN s.per_input * CASE WHEN s.per_input = 0 THEN 0 ELSE s.input_elements END
                + s.per_output * list_sum(list_transform(
                    _numbers(s.named['input_lengths']),
                    lambda length, i: length * (2 * _numbers(s.named['target_lengths'])[i] + 1)
                ))
            WHEN 'bags' THEN s.named['indices'].elements * coalesce(s.weight_sizes[2], s.gradient_sizes[-1])
                * (s.per_input + CASE WHEN len(s.named['sample_weights'].sizes) > 0 THEN 1 ELSE 0 END)
                + CASE s.named['mode'].value
                    WHEN '1' THEN coalesce(s.output_elements, s.named['gradient'].elements)
                    ELSE 0 * try_cast(s.named['mode'].value AS BIGINT)
                END
            WHEN 'recurrence' THEN CASE WHEN s.per_input = 1 OR NOT s.asked[4] THEN 2e0 ELSE 4e0 END
                * s.input_elements / nullif(s.input_sizes[-1], 0) * s.recurrence.directions * s.recurrence.hidden
                * (
                    s.recurrence.gates * (
                        s.input_sizes[-1] + s.recurrence.width
                        + (s.recurrence.layers - 1) * s.recurrence.width * (s.recurrence.directions + 1)
                    )
                    -- The state, from hidden to projected.
                    + CASE WHEN s.named['proj_size'].value > '0' THEN s.recurrence.width ELSE 0 END
                    * s.recurrence.layers
                )
            WHEN 'layer' THEN s.per_input * s.input_elements / nullif(s.input_sizes[-1], 0)
                * (s.named['weight'].elements + s.named['hidden_weight'].elements)
            WHEN 'cell' THEN s.output_elements * (
                s.per_output + CASE WHEN len(s.named['input_bias'].sizes) > 0 THEN 2 ELSE 0 END * s.per_input
            )
            WHEN 'sampled' THEN _sampled_flops(
                s.named['interpolation'].value, contains(s.op, '3d') OR len(s.input_sizes) = 5, s.asked,
                coalesce(s.named['gradient'].elements, s.output_elements)
            )
            WHEN 'regions' THEN CASE
                WHEN try_cast(s.named['samples'].value AS BIGINT) > 0
                    THEN s.output_elements * (8 * try_cast(s.named['samples'].value AS BIGINT) ** 2 + 1)
            END
            WHEN 'adam' THEN s.input_elements * (
                s.per_input + CASE WHEN s.weight_decay <> 0 THEN 2 ELSE 0 END
                + CASE WHEN s.named['amsgrad'].value = 'True' THEN 1 ELSE 0 END
            )
            WHEN 'sgd' THEN s.input_elements * (
                s.per_input + CASE WHEN s.weight_decay <> 0 THEN 2 ELSE 0 END
                + CASE
                    WHEN try_cast(s.named['momentum'].value AS DOUBLE) = 0 THEN 0
                    ELSE CASE WHEN s.named['is_first_step'].value = 'True' THEN 0 ELSE 3 END
                        + CASE WHEN s.named['nesterov'].value = 'True' THEN 2 ELSE 0 END
                END
            )
            ELSE s.flops
        END AS flops,
        s.heads, s.fused
    FROM _with_flops(shapes) AS s
)
SELECT s.call, s.is_complex,
    (s.per_input * s.heads.query_elements + s.per_output * s.heads.value_elements) / nullif(s.heads.rows, 0)
    * s.heads.most AS at_most,
    s.fused.at_least,
    CASE
        WHEN NOT s.is_complex THEN s.flops
        WHEN s.family IN ('GEMM', 'convolution') THEN 4 * s.flops
        WHEN s.family = 'transform' THEN s.flops
        WHEN s.counts = 'plain' AND s.per_input + s.per_output = 0 THEN s.flops
        WHEN s.op IN ('aten.add', 'aten.sub', 'aten.rsub', 'aten.neg', 'aten._foreach_add', 'aten._foreach_sub')
            THEN 2 * s.flops
        WHEN s.op IN ('aten.mul', 'aten._foreach_mul') THEN 6 * s.flops
    END AS flops
FROM counted AS s;

-- The operations of a kernel that Inductor wrote, as far as its name shows them; it has the kernel's ops, each once, at
-- most ten. `flops` is 0 if all of them copy; otherwise `at_least` is one for each arithmetic op and each element of
-- its loops. A kernel that reduces has at least one for each element. NULL if the name has other ops, of which only a
-- part may be in the kernel, or if the loops are unknown.
CREATE MACRO _fused_flops(
    label,
    elements,  -- of its tensors, as a list
    loop_before,  -- size of a loop, as `_overwriting_calls` has it
    last_loop  -- the same
) AS (
    list_transform(
        [{
            'is_long': len(string_split(label, '_')) > 12, 'is_reduction': NOT starts_with(label, 'triton_poi'),
            'loops': CASE
                WHEN NOT starts_with(label, 'triton_poi') OR list_contains(elements, loop_before * last_loop)
                    THEN loop_before * last_loop
                WHEN list_contains(elements, last_loop) THEN last_loop
            END,
            'words': CASE
                WHEN regexp_full_match(
                    label,
                    'triton_\w{3}_fused(_(_to_copy|_unsafe_view|clone|copy|permute|transpose|t|view|expand|unsqueeze'
                    || '|squeeze|repeat|slice|detach|alias|add|sub|rsub|mul|div|neg|abs|exp|exp2|expm1|log|log2|log1p'
                    || '|sqrt|rsqrt|reciprocal|pow|sin|cos|tan|tanh|erf|relu|maximum|minimum|where|floor|ceil|round'
                    || '|eq|ne|lt|le|gt|ge|(bitwise|logical)_(and|or|xor|not)))+_\d+'
                ) THEN list_filter(
                    string_split(regexp_replace(label, '(bitwise|logical)_|^triton_..._fused|_\d+$', '', 'g'), '_'),
                    lambda _w: NOT list_contains(
                        [
                            '', 'to', 'copy', 'unsafe', 'view', 'clone', 'permute', 'transpose', 't', 'expand',
                            'unsqueeze', 'squeeze', 'repeat', 'slice', 'detach', 'alias'
                        ],
                        _w
                    )
                )
            END
        }],
        lambda _k: {
            'flops': CASE WHEN NOT _k.is_reduction AND NOT _k.is_long AND len(_k.words) = 0 THEN 0e0 END,
            'at_least': CASE
                WHEN _k.is_reduction THEN _k.loops
                WHEN len(_k.words) > 0 THEN len(_k.words) * _k.loops
            END
        }
    )[1]
);

-- Whether one call of a kernel that Inductor wrote reads and writes its first tensor (`overwrites`); NULL if unknown. Such
-- tensors come first, then those that it reads, then those that it writes, then the sizes of its loops: one or two,
-- before which there may be other numbers; a reduction has the inner one last. What it writes has an element for each
-- turn of the outer loops or of all: if the last tensor hasn't, the first is overwritten. The result of a product is a
-- matrix that kernels view with more dimensions, which they only read. Ops that take one tensor of full size write
-- another, if there are two.
CREATE MACRO _overwriting_calls(
    shapes  -- a table of the rows of `_call_shapes`
) AS TABLE
WITH looped AS (
    SELECT s.call, s.op, s.label, s.tensors, s.last_loop, s.loop_before
    FROM query_table(shapes) AS s
    WHERE s.moves = 'named'
),
written AS (
    SELECT s.*,
        CASE
            WHEN s.op = 'inductor.reduction' THEN [s.loop_before, s.loop_before * s.last_loop]
            WHEN list_contains(list_transform(s.tensors, lambda _t: _t.elements), s.loop_before * s.last_loop)
                THEN [s.loop_before * s.last_loop]
            ELSE [s.last_loop]
        END AS written_sizes
    FROM looped AS s
)
SELECT s.call,
    CASE
        WHEN s.last_loop IS NULL THEN NULL
        WHEN NOT list_contains(s.written_sizes, s.tensors[1].elements) THEN false
        WHEN NOT list_contains(s.written_sizes, s.tensors[-1].elements) THEN true
        WHEN contains(s.label, 'view') AND len(s.tensors[1].sizes) > 2 AND len(s.tensors[-1].sizes) = 2
            AND s.tensors[1].elements = s.tensors[-1].elements THEN true
        WHEN regexp_full_match(
            s.label,
            'triton_(poi|red|per)_fused(_(_to_copy|_unsafe_view|clone|permute|transpose|view|expand|unsqueeze|squeeze'
            || '|slice|gelu|silu|relu|sigmoid|tanh|exp|log|neg|abs|sin|cos|sqrt|rsqrt|_softmax|_log_softmax|mean|sum'
            || '|amax|amin|argmax|argmin|var_mean|native_layer_norm|_fused_rms_norm))+_\d+'
        ) THEN len(s.tensors) = 1
    END AS overwrites
FROM written AS s;

-- Bytes of one call of an op of a trace: `output_bytes`, of its output by its size; `input_bytes`, of the tensors that it
-- reads, each once; `slots`, how many slots of a cache are written: NULL for a cache of keys and values whose rows hold
-- more, such as scales.
CREATE MACRO _call_bytes(
    shapes  -- a table of the rows of `_call_shapes`
) AS TABLE
SELECT s.call,
    CASE
        WHEN s.is_sized_by_outs THEN
            _whole_sum(list_transform(s.outs, lambda _t: _t.elements * _t.bytes))
            + CASE s.writes WHEN 'out, first' THEN s.output_elements * s.first_tensor.bytes ELSE 0 END
        ELSE s.output_elements * CASE
            WHEN len(s.outs) = 1 THEN s.outs[1].bytes
            WHEN s.named['dtype'].value IS NOT NULL THEN _bytes_of_type_number(s.named['dtype'].value)
            WHEN s.named['half_to_float'].value = 'True' THEN 4
            ELSE CASE s.writes
                WHEN 'first' THEN s.first_tensor.bytes
                WHEN 'first, statistics' THEN s.first_tensor.bytes
                WHEN 'promoted' THEN _promoted_bytes(s.tensors)
                WHEN 'bool' THEN 1
                WHEN 'indices' THEN 8
                WHEN 'int32' THEN 4
                WHEN 'first, indices' THEN
                    s.first_tensor.bytes + CASE WHEN s.given > 1 AND len(s.tensors) = 1 THEN 8 ELSE 0 END
                WHEN 'first, mask' THEN s.first_tensor.bytes + 1
                WHEN 'first, first' THEN 2 * s.first_tensor.bytes
                WHEN 'bags' THEN s.first_tensor.bytes
                WHEN 'five' THEN 5 * s.first_tensor.bytes
                WHEN 'six' THEN 6 * s.first_tensor.bytes
                WHEN 'seven' THEN 7 * s.first_tensor.bytes
                WHEN 'two floats' THEN 8
                WHEN 'four floats' THEN 16
                WHEN 'lists but 1' THEN (len(s.listed) / len(s.first_list) - 1) * s.first_tensor.bytes
                WHEN 'lists but 2' THEN (len(s.listed) / len(s.first_list) - 2) * s.first_tensor.bytes
                WHEN 'transformed' THEN s.first_tensor.bytes
                    * CASE s.op WHEN 'aten._fft_r2c' THEN 2 WHEN 'aten._fft_c2r' THEN 0.5 ELSE 1 END
                WHEN 'sums' THEN CASE WHEN s.first_tensor.rank < 200 THEN 8 ELSE s.first_tensor.bytes END
            END
        END
    END AS output_bytes,
    -- An addition that is multiplied by zero isn't read.
    _bytes_of_tensors(list_filter(
        s.tensors,
        lambda _t: _t.is_read
            AND NOT (_t.name = 'bias' AND coalesce(try_cast(s.named['beta'].value AS DOUBLE) = 0, false))
    )) AS input_bytes,
    CASE
        WHEN s.named['value_cache'] IS NOT NULL
            OR s.named['key_cache'].sizes[-1] = s.named['key'].sizes[-1] + s.named['value'].sizes[-1]
            THEN s.named['slots'].elements
    END AS slots
FROM query_table(shapes) AS s;

-- The bytes of the weights of one expert, as they are assumed.
CREATE MACRO _assumed_weights(
    assumed,
    token_size  -- elements of a token
) AS (
    token_size * assumed['expert_width']::DOUBLE * assumed['matrices']::DOUBLE * assumed['weight_bytes']::DOUBLE
);

-- The bytes that one call of an op of a trace writes.
CREATE MACRO _written_bytes(
    shapes,  -- a table of the rows of `_call_shapes`
    moved  -- a table of the rows of `_call_bytes` and `_overwriting_calls`
) AS TABLE
SELECT s.call,
    CASE
        WHEN s.moves = 'rotated' THEN s.rotated * s.named['query'].bytes
        WHEN s.moves = 'slots' THEN
            m.slots * (
                s.named['key'].row_elements * s.named['key_cache'].bytes
                + s.named['value'].row_elements * coalesce(s.named['value_cache'], s.named['key_cache']).bytes
            )
        WHEN s.moves = 'products' THEN
            s.input_elements * s.first_tensor.bytes + s.named['weight'].elements * s.named['weight'].bytes
        WHEN s.moves = 'latent' THEN s.heads.value_elements * coalesce(
                s.named['out'].bytes,
                CASE WHEN s.named['query'].bytes = 2 AND s.named['value_size'] IS NOT NULL THEN 2 END
            )
        WHEN s.moves = 'named' THEN CASE WHEN m.overwrites THEN s.tensors[1].held_bytes ELSE 0 END
        WHEN s.rule <> 'gradients' THEN m.output_bytes
        -- Gradients have the sizes and types of the tensors that they belong to.
        WHEN s.op = 'aten.convolution_backward' THEN
            (
                s.asked[1]::BIGINT * s.input_elements
                + s.asked[2]::BIGINT * s.named['weight'].elements + s.asked[3]::BIGINT * s.gradient_sizes[2]
            ) * s.first_tensor.bytes
        WHEN s.counts IN ('attention backward', 'attention by position backward') THEN
            (s.input_elements + s.named['key'].elements + s.named['value'].elements) * s.first_tensor.bytes
        WHEN s.family = 'pooling' THEN s.input_elements * s.first_tensor.bytes
        -- As far as requested: that of the input, and those of weight and bias, which have the size of a part, or one
        -- value for each channel. cuDNN's and MIOpen's write all.
        WHEN s.family = 'normalization' THEN list_sum(list_transform(
                CASE WHEN contains(s.op, 'cudnn') OR contains(s.op, 'miopen') THEN [1, 1, 1] ELSE s.asked::BIGINT[] END,
                lambda _asked, i: _asked * CASE
                    WHEN i = 1 THEN s.input_elements * s.first_tensor.bytes
                    ELSE coalesce(s.named['weight'].bytes, s.first_tensor.bytes) * CASE
                        WHEN s.named['normalized_shape'] IS NOT NULL
                            THEN _elements(_numbers(s.named['normalized_shape']))
                        ELSE s.input_sizes[2]
                    END
                END
            ))
    END
    -- The bag of each index, and the sizes of bags.
    + CASE
        WHEN s.writes = 'bags'
            THEN s.named['indices'].elements * s.named['indices'].bytes + s.output_sizes[1] * s.named['offsets'].bytes
        ELSE 0
    END
    -- The means and deviations that a normalization also writes: one for each part of that shape, each group of
    -- channels, or each channel.
    + CASE
        WHEN s.writes <> 'first, statistics' OR s.writes IS NULL THEN 0
        ELSE 4 * CASE WHEN s.is_sized_by_outs THEN 0 WHEN contains(s.op, 'rms') THEN 1 ELSE 2 END * CASE
                WHEN s.named['normalized_shape'] IS NOT NULL
                    THEN s.input_elements / nullif(_elements(_numbers(s.named['normalized_shape'])), 0)
                WHEN s.named['group'] IS NOT NULL THEN s.input_sizes[1] * try_cast(s.named['group'].value AS BIGINT)
                ELSE s.input_sizes[2]
            END
    END
    -- The sums of exponentials of attention, one float for each query; the efficient one pads the queries to a multiple
    -- of 32.
    + CASE
        WHEN s.counts NOT IN ('attention', 'attention by position')
            OR s.named['compute_log_sumexp'].value = 'False' THEN 0
        WHEN s.op = 'aten._efficient_attention_forward' THEN
            128 * _elements(s.input_sizes[:-4]) * s.input_sizes[-2] * ceil(s.input_sizes[-3] / 32)
        WHEN contains(s.op, 'efficient') THEN 128 * _elements(s.input_sizes[:-3]) * ceil(s.input_sizes[-2] / 32)
        ELSE 4 * _elements(s.input_sizes[:-2])
    END AS bytes_written
FROM query_table(shapes) AS s
JOIN query_table(moved) AS m USING (call);

-- The cost of one call of an op of a trace by its arguments.
CREATE MACRO _call_costs(
    calls  -- as in `_call_arguments`
) AS TABLE
WITH call_shapes AS MATERIALIZED (FROM _call_shapes(calls) AS s),
call_bytes AS MATERIALIZED (
    FROM _call_bytes('call_shapes') AS b LEFT JOIN _overwriting_calls('call_shapes') AS o USING (call)
),
written AS (
    SELECT s.call, s.op, s.counts, s.moves, s.has_types, s.main_type, f.flops, f.at_most, f.at_least,
        f.is_complex, b.bytes_written,
        array_to_string(
            list_transform(
                s.all_tensors, lambda _t: coalesce(_short_type(_t.type), '') || replace(_t.sizes::VARCHAR, ', ', ',')
            ),
            ' '
        ) AS inputs,
        coalesce(s.query_length + s.key_length, 0) = 0 AS has_no_length,
        list_contains(list_transform(s.listed, lambda _t: _t.bytes IS NULL), true) AS has_untyped,
        CASE
            WHEN s.moves IN ('made', 'nothing') THEN 0e0
            WHEN s.moves IN ('all', 'named', 'least') THEN m.input_bytes
            WHEN s.moves = 'products' AND s.products = 2 THEN m.input_bytes + m.output_bytes
            WHEN s.moves = 'looked up' THEN
                m.input_bytes + s.named['indices'].elements * s.weight_sizes[2] * s.named['weight'].bytes
            WHEN s.moves = 'targets' THEN
                m.input_bytes
                + s.named['target'].elements * (
                    CASE WHEN contains(s.op, 'forward') THEN s.named['self'].bytes ELSE 0 END
                    + CASE WHEN len(s.weight_sizes) > 0 THEN s.named['weight'].bytes ELSE 0 END
                )
            WHEN s.moves = 'scattered' THEN
                m.input_bytes + m.output_bytes * CASE WHEN s.per_output = 0 THEN 0 ELSE 1 END
                + s.output_elements * CASE
                    WHEN len(s.named['source'].sizes) > 0 THEN s.named['source'].bytes
                    WHEN s.has_types THEN 0
                END
            -- One token has all of its experts.
            WHEN s.moves = 'experts' AND s.is_of_one_token THEN
                m.input_bytes - (1 - s.chosen / nullif(s.named['w1'].sizes[1], 0))
                * _bytes_of_tensors([s.named['w1'], s.named['w2']])
            WHEN s.moves = 'experts' AND s.assumed['used_experts'] IS NOT NULL THEN
                m.input_bytes - (
                    1 - least(s.assumed['used_experts']::DOUBLE / nullif(s.named['w1'].sizes[1], 0), 1)
                ) * _bytes_of_tensors([s.named['w1'], s.named['w2']])
            WHEN s.moves = 'assumed experts' THEN
                m.input_bytes + _assumed_weights(s.assumed, s.input_sizes[-1]) * CASE
                    WHEN s.assumed['used_experts'] IS NOT NULL THEN s.assumed['used_experts']::DOUBLE
                    WHEN s.input_elements = s.input_sizes[-1] THEN s.chosen
                END
            WHEN s.moves = 'chosen' THEN m.output_bytes + _bytes_of_tensors(s.tensors[2:])
            WHEN s.moves = 'rotated' THEN
                s.rotated * s.named['query'].bytes
                + s.named['positions'].elements * (
                    s.named['positions'].bytes + s.named['table'].sizes[-1] * s.named['table'].bytes
                )
            WHEN s.moves = 'paged' AND len(s.key_sizes) <= 3 AND s.input_sizes[1] >= s.lengths.queries THEN
                s.named['query'].bytes * (
                    s.input_elements
                    + s.lengths.keys * (s.named['key'].row_elements + s.named['value'].row_elements)
                )
            WHEN s.moves = 'latent' THEN
                s.heads.query_elements * s.named['query'].bytes + s.heads.row_bytes * CASE
                    WHEN s.heads.rows = s.lengths.generated THEN s.lengths.generated_keys
                    WHEN s.heads.rows = s.heads.sequences THEN s.heads.rows * s.assumed['seen_keys']::DOUBLE
                END
            WHEN s.moves = 'slots' THEN
                m.slots * (
                    s.named['key'].row_elements * s.named['key'].bytes
                    + s.named['value'].row_elements * s.named['value'].bytes + s.named['slots'].bytes
                )
        END AS bytes_read,
        CASE s.moves
            WHEN 'experts' THEN m.input_bytes + m.output_bytes
            WHEN 'masked' THEN m.input_bytes
            WHEN 'assumed experts' THEN
                m.input_bytes + m.output_bytes
                + _assumed_weights(s.assumed, s.input_sizes[-1]) * s.assumed['experts']::DOUBLE
        END AS most_bytes,
        s.assumed,
        CASE s.counts
            WHEN 'assumed experts'
                THEN ['top_k', 'experts', 'used_experts', 'expert_width', 'matrices', 'weight_bytes']
            WHEN 'experts' THEN
                CASE WHEN s.written_chosen IS NULL THEN ['top_k'] ELSE [] END
                || CASE WHEN s.is_of_one_token THEN [] ELSE ['used_experts'] END
            WHEN 'paged attention' THEN CASE WHEN s.lengths IS NULL THEN ['seen_keys'] END
            WHEN 'latent attention' THEN CASE
                WHEN s.heads.rows <> s.lengths.generated OR s.lengths IS NULL THEN ['seen_keys']
            END
            WHEN 'masked attention' THEN ['seen_keys']
        END AS assumable,
        s.moves IN ('least', 'products') OR s.moves = 'named' AND m.overwrites IS NULL AS is_least
    FROM call_shapes AS s
    JOIN call_bytes AS m USING (call)
    JOIN _written_bytes('call_shapes', 'call_bytes') AS b USING (call)
    JOIN _call_flops('call_shapes') AS f USING (call)
)
SELECT w.call, w.main_type AS type, w.inputs, w.most_bytes, w.is_least,
    CASE
        WHEN w.flops IS NOT NULL OR w.bytes_read IS NOT NULL THEN _assumed_text(w.assumed, w.assumable)
    END AS assumed, try_cast(w.flops AS BIGINT) AS flops,
    CASE WHEN w.flops IS NULL THEN try_cast(w.at_most AS BIGINT) END AS flops_at_most,
    try_cast(w.at_least AS BIGINT) AS flops_at_least,
    try_cast(w.bytes_read AS BIGINT) AS bytes_read,
    try_cast(
        CASE
            WHEN w.moves = 'nothing' THEN 0
            WHEN w.moves = 'least' THEN coalesce(w.bytes_written, 0)
            ELSE w.bytes_written
        END AS BIGINT
    ) AS bytes_written,
    CASE
        WHEN w.counts IS NULL THEN 'no formula for ' || w.op
        WHEN w.moves = 'named' AND w.bytes_read IS NOT NULL
            THEN CASE WHEN w.is_least THEN 'bytes: at least; whether it overwrites a tensor is not written' END
        WHEN w.moves = 'named' THEN 'bytes: an argument is not written'
        WHEN w.counts = 'unwritten lengths' THEN 'the lengths of its sequences are not written'
        WHEN w.counts IN ('paged attention', 'latent attention') AND w.flops IS NULL
            THEN 'the lengths of its sequences are not written: assume seen_keys'
        WHEN w.counts = 'masked attention' AND w.flops IS NULL AND w.at_most IS NOT NULL
            THEN 'what its mask leaves out is not written: assume seen_keys'
        WHEN w.flops IS NULL AND w.counts = 'weight product backward'
            THEN 'its forward call, which has its weight, or how many products it computes, is not known'
        WHEN w.counts = 'unwritten weights' THEN 'the weights of its experts are not written'
        WHEN w.counts = 'assumed experts' AND w.flops IS NULL
            THEN 'the weights of its experts are not written: assume top_k, expert_width and matrices'
        WHEN w.flops IS NULL AND starts_with(w.counts, 'attention by position') AND w.has_no_length
            THEN 'the lengths of its sequences are not written'
        WHEN w.flops IS NULL AND starts_with(w.counts, 'attention by position')
            THEN 'it has a window, or how its mask is aligned is not known'
        WHEN w.flops IS NULL AND w.counts = 'labels' THEN 'the lengths of its sequences are not written'
        WHEN w.flops IS NULL AND w.is_complex THEN 'its operations on complex numbers are not counted'
        WHEN w.flops IS NULL AND w.moves = 'experts' THEN 'how its experts are packed, or their number, is not written'
        WHEN w.flops IS NULL THEN 'an argument that its formula needs is not written'
        WHEN w.flops > 9e18 THEN 'too many to be true'
        WHEN w.is_least AND w.bytes_read IS NOT NULL
            THEN 'bytes: at least; not all that it moves follows from sizes'
        WHEN w.moves = 'nothing' OR w.bytes_read + w.bytes_written IS NOT NULL THEN NULL
        WHEN w.moves = 'slots' AND w.has_types THEN 'bytes: what is in a row of the cache is not written'
        WHEN w.moves = 'experts' THEN 'bytes: which experts are used is not written: assume used_experts'
        WHEN w.moves = 'products' THEN 'bytes: which of its products it computes is not known'
        WHEN w.moves = 'masked' THEN 'bytes: what its mask leaves out is not written'
        WHEN w.moves IN ('paged', 'latent') THEN 'bytes: the lengths of its sequences are not written'
        WHEN w.moves = 'assumed experts'
            THEN 'bytes: which experts are used is not written: assume used_experts and weight_bytes'
        WHEN NOT w.has_types THEN 'bytes: types are not written'
        WHEN w.has_untyped THEN 'bytes: types of lists of tensors are not written'
        WHEN w.op = 'aten.index' THEN 'bytes: sizes of its indices are not written'
        ELSE 'bytes: an argument that the size of its output needs is not written'
    END AS reason
FROM written AS w;
