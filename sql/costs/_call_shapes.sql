-- The sizes that result from broadcasting tensors: for each dimension, from the last, the size that isn't 1.
CREATE MACRO _broadcast_sizes(
    shapes  -- the tensors' sizes, as a list of lists
) AS (
    list_transform(
        range(1 - coalesce(list_max(list_transform(shapes, lambda s: len(s))), 0), 1),
        lambda back: list_reduce(
            list_transform(list_filter(shapes, lambda s: len(s) + back >= 1), lambda s: s[len(s) + back]),
            lambda a, b: CASE WHEN a = 1 THEN b ELSE a END
        )
    )
);

-- The sizes of the output of a convolution or pooling in its last dimensions. A list of one value is that of each
-- dimension.
CREATE MACRO _window_sizes(
    sizes,  -- sizes of the input in these dimensions
    kernel,  -- sizes of the window
    stride, padding, dilation,
    rounding  -- added before the division: stride - 1 to round up, else 0
) AS (
    list_transform(
        sizes,
        lambda size, i: (
            size + 2 * padding[least(i, len(padding))]
            - dilation[least(i, len(dilation))] * (kernel[least(i, len(kernel))] - 1)
            - 1 + rounding * (stride[least(i, len(stride))] - 1)
        ) // nullif(stride[least(i, len(stride))], 0) + 1
    )
);

-- The sizes of the output of a convolution; NULL where its arguments aren't written.
CREATE MACRO _convolved_sizes(
    sizes,  -- sizes of the input
    weight,  -- sizes of the weight
    stride, padding, dilation, output_padding, groups, is_transposed
) AS (
    CASE
        WHEN is_transposed THEN [sizes[1], weight[2] * groups] || list_transform(
            sizes[3:],
            lambda size, i: (size - 1) * stride[least(i, len(stride))]
                - 2 * padding[least(i, len(padding))]
                + dilation[least(i, len(dilation))] * (weight[i + 2] - 1)
                + output_padding[least(i, len(output_padding))] + 1
        )
        ELSE [sizes[1], weight[1]] || _window_sizes(sizes[3:], weight[3:], stride, padding, dilation, 0)
    END
);

-- The length of the sequences of queries or keys; NULL if several sequences in one tensor have different lengths, or if it
-- isn't written whether they have.
CREATE MACRO _sequence_length(
    sizes,
    bounds,  -- argument: where sequences begin and end in one tensor
    longest,  -- argument: their greatest length
    place  -- of positions, from the end, where each sequence is apart
) AS (
    CASE
        WHEN coalesce(len(bounds.sizes), 0) = 0 THEN sizes[place]
        WHEN sizes[-3] = (bounds.sizes[1] - 1) * try_cast(longest.value AS BIGINT) THEN longest.value::BIGINT
    END
);

-- What a call of latent attention (MLA) has: `rows` of queries and `sequences`, the elements of queries and values of all
-- heads, and `most`, how many positions all rows may see: chosen ones, or those of all pages. Some versions have the
-- rotated part of queries apart.
CREATE MACRO _latent_sizes(named, tensors) AS (
    list_transform(
        [{
            'query': named['query'], 'rope': named['query_rope'], 'cache': named['key_cache'],
            'chosen': named['chosen_keys'], 'table': named['block_table'], 'pages': named['pages'],
            'rows': named['query'].elements / nullif(_elements(named['query'].sizes[-2:]), 0),
            'sequences': coalesce(named['query_bounds'].sizes[1] - 1, named['query'].sizes[1]),
            'value_size': coalesce(
                named['out'].sizes[-1], try_cast(named['value_size'].value AS BIGINT),
                -- Its parts of the results: by parts, rows and heads.
                list_filter(tensors, lambda _t: _t.place > 6 AND len(_t.sizes) = 4)[1].sizes[-1]
            )
        }],
        lambda s: {
            'rows': s.rows, 'sequences': s.sequences,
            'query_elements': s.query.elements + CASE
                WHEN len(s.rope.sizes) = len(s.query.sizes) AND s.rope.sizes[-1] < s.query.sizes[-1]
                    THEN s.rope.elements
                WHEN s.query.sizes[-1] > s.value_size THEN 0
            END,
            'value_elements': s.query.elements / nullif(s.query.sizes[-1], 0) * s.value_size,
            'row_bytes': CASE WHEN len(s.cache.sizes) >= 3 THEN s.cache.sizes[-1] * s.cache.bytes END,
            'most': CASE
                WHEN len(s.chosen.sizes) = 3 THEN s.rows * s.chosen.sizes[3]
                WHEN len(s.table.sizes) = 2 THEN s.rows * s.table.sizes[2] * s.cache.sizes[2]
                WHEN len(s.pages.sizes) = 1
                    THEN s.rows / nullif(s.sequences, 0) * s.pages.sizes[1] * s.cache.sizes[2]
            END
        }
    )[1]
);

-- What a call of FlexAttention's kernel has: the elements of queries and values of all heads, and `most`, how many
-- positions all rows may see, which is their number and that of the keys. Its kernel takes the tensors that views are
-- made of: by heads and positions, or by positions and heads, as the sums of exponentials tell. NULL for others.
CREATE MACRO _masked_sizes(named) AS (
    list_transform(
        [{
            'query': named['query'], 'key': named['key'], 'value': named['value'], 'sums': named['logsumexp'].sizes,
            'place': CASE
                WHEN named['query'].sizes[:-2] = named['logsumexp'].sizes THEN 3
                WHEN [named['query'].sizes[1], named['query'].sizes[3], named['query'].sizes[2]]
                    = named['logsumexp'].sizes THEN 2
            END
        }],
        lambda s: CASE
            WHEN len(s.query.sizes) = 4 AND len(s.key.sizes) = 4 AND s.key.sizes[4] = s.query.sizes[4]
                AND s.key.sizes[:3] = s.value.sizes[:3] AND s.key.sizes[1] IN (1, s.query.sizes[1])
                AND s.sums[2] % nullif(s.key.sizes[5 - s.place], 0) = 0
                THEN {
                    'rows': _elements(s.sums), 'sequences': s.query.sizes[1], 'query_elements': s.query.elements,
                    'value_elements': _elements(s.sums) * s.value.sizes[4], 'row_bytes': NULL::BIGINT,
                    'most': _elements(s.sums) * s.key.sizes[s.place]
                }
        END
    )[1]
);

-- The sizes of one call of an op of a trace that its cost is computed from, as in `_node_shapes` for nodes, with its
-- formula. Traces lack the sizes of outputs: these follow from the arguments, by `sizes` of `cost_formulas`.
CREATE MACRO _call_shapes(
    calls  -- as in `_call_arguments`
) AS TABLE
WITH named AS (
    SELECT a.call, a.op, a.label, a.formula.counts, a.formula.per_input, a.formula.per_output, a.formula.moves,
        a.formula.family, a.formula.writes, a.formula.sizes AS rule, a.lengths, a.assumed, a.products,
        a.has_types, a.named, a.given, a.all_tensors, a.tensors, a.outs, a.listed, a.is_of_lists, a.first_list,
        a.first_tensor,
        a.main.sizes AS input_sizes, a.main.type AS main_type,
        a.named['mat2'].sizes AS other_sizes, a.named['weight'].sizes AS weight_sizes,
        a.named['key'].sizes AS key_sizes, a.named['gradient'].sizes AS gradient_sizes,
        coalesce(
            contains(a.op, 'transpose')
            OR try_cast(a.named['transposed'].value AS BOOLEAN),
            false
        ) AS is_transposed,
        _numbers(a.named['kernel_size']) AS window_sizes, _numbers(a.named['stride']) AS stride,
        _numbers(a.named['padding']) AS padding, coalesce(_numbers(a.named['dilation']), [1]) AS dilation,
        coalesce(_numbers(a.named['output_padding']), [0]) AS output_padding,
        coalesce(try_cast(a.named['groups'].value AS BIGINT), 1) AS groups,
        coalesce(a.named['topk_ids'].sizes[-1], try_cast(a.named['topk'].value AS BIGINT)) AS written_chosen,
        coalesce(written_chosen, a.assumed['top_k']::DOUBLE) AS chosen,
        coalesce(
            len(a.named['weight'].sizes) = 2 AND len(a.main.sizes) >= 2
            AND a.named['weight'].sizes[2] = a.main.sizes[-1],
            false
        ) AS is_by_weight,
        coalesce(a.named['topk_ids'].sizes[1] = 1 AND a.named['w1'].bytes > 1, false) AS is_of_one_token,
        coalesce(try_cast(a.named['ceil_mode'].value AS BOOLEAN)::BIGINT, 0) AS rounds_up,
        try_cast(a.named['output_mask'].value AS BOOLEAN[]) AS asked,
        {
            'gates': CASE a.named['mode'].value WHEN '2' THEN 4 WHEN '3' THEN 3 WHEN '0' THEN 1 WHEN '1' THEN 1 END,
            'hidden': try_cast(a.named['hidden_size'].value AS BIGINT),
            'width': coalesce(
                nullif(try_cast(a.named['proj_size'].value AS BIGINT), 0),
                try_cast(a.named['hidden_size'].value AS BIGINT)
            ),
            'layers': try_cast(a.named['layers'].value AS BIGINT),
            'directions': CASE a.named['bidirectional'].value WHEN 'True' THEN 2 WHEN 'False' THEN 1 END
        } AS recurrence,
        try_cast(a.named['weight_decay'].value AS DOUBLE) AS weight_decay,
        -- The dimension that it sorts: a stable sort has one more argument before.
        list_transform(
            _numbers(a.named[
                CASE WHEN a.op <> 'aten.sort' THEN 'dim' WHEN a.given = 4 THEN 'second' ELSE 'first' END
            ]),
            lambda d: CASE WHEN d < 0 THEN d + len(a.main.sizes) ELSE d END
        ) AS dims,
        -- If an op of torch has no window, the argument isn't written.
        coalesce(
            coalesce(a.named['window_left'].value, CASE WHEN starts_with(a.op, 'aten.') THEN '-1' END) = '-1'
            AND (
                coalesce(a.named['window_right'].value, CASE WHEN starts_with(a.op, 'aten.') THEN '-1' END) = '-1'
                OR a.named['window_right'].value = '0' AND try_cast(a.named['is_causal'].value AS BOOLEAN)
            ),
            false
        ) AS has_no_window,
        -- A tensor without elements gets its size from the op.
        coalesce(
            a.formula.sizes = 'out' AND len(a.outs) > 0
            OR _whole_sum(list_transform(a.outs, lambda t: t.elements)) > 0,
            false
        ) AS is_sized_by_outs,
        coalesce(try_cast(regexp_extract(a.op, '(\d)d', 1) AS INTEGER), 0) AS dimensions,
        CASE WHEN contains(a.op, '_cudnn_attention') THEN -2 ELSE -3 END AS position_place,
        try_cast(a.named[a.given::VARCHAR].value AS DOUBLE) AS last_loop,
        try_cast(a.named[(a.given - 1)::VARCHAR].value AS DOUBLE) AS loop_before,
        CASE
            WHEN a.formula.counts = 'unwritten operations'
                THEN _fused_flops(a.label, list_transform(a.tensors, lambda _t: _t.elements), loop_before, last_loop)
        END AS fused,
        CASE a.formula.counts
            WHEN 'latent attention' THEN _latent_sizes(a.named, a.tensors)
            WHEN 'masked attention' THEN _masked_sizes(a.named)
        END AS heads
    FROM _call_arguments(calls) AS a
),
sized AS (
    SELECT n.*,
        CASE
            WHEN n.is_sized_by_outs THEN n.outs[1].sizes
            WHEN n.rule = 'first' THEN n.first_tensor.sizes
            WHEN n.rule = 'broadcast' OR n.rule = 'reduced' AND len(n.tensors) > 1
                OR n.rule = 'loss' AND n.named['reduction'].value = '0'
                THEN _broadcast_sizes(list_transform(n.tensors, lambda t: t.sizes))
            WHEN n.rule = 'loss' THEN []
            WHEN n.rule = 'product' THEN n.input_sizes[:-2]
                || CASE
                    WHEN len(n.other_sizes) > 1 THEN n.other_sizes[-1:]
                    WHEN n.other_sizes IS NULL THEN n.weight_sizes[:1]
                    ELSE []
                END
            WHEN n.rule = 'self' THEN n.input_sizes
            WHEN n.rule = 'transposed product' THEN [
                n.input_sizes[CASE n.named['transposes_self'].value WHEN 'True' THEN -1 WHEN 'False' THEN -2 END],
                n.other_sizes[CASE n.named['transposes_mat2'].value WHEN 'True' THEN -2 WHEN 'False' THEN -1 END]
            ]
            WHEN n.rule = 'transposed grouped product' THEN
                CASE
                    WHEN contains(n.op, 'variable_k') THEN n.named['lengths'].sizes || n.input_sizes[-1:]
                    ELSE n.input_sizes[:1]
                END
                || [n.other_sizes[CASE n.named['transposes_mat2'].value WHEN 'True' THEN -2 WHEN 'False' THEN -1 END]]
            WHEN n.rule = 'packed product' THEN n.input_sizes[:-2] || [8 * n.other_sizes[1]]
            WHEN n.rule = 'packed columns' THEN n.input_sizes[:-2] || [8 * n.other_sizes[2]]
            WHEN n.rule = 'grouped product' THEN CASE
                WHEN len(n.input_sizes) = 2 AND len(n.other_sizes) = 2
                    THEN n.named['offs'].sizes || [n.input_sizes[1], n.other_sizes[2]]
                WHEN len(n.input_sizes) = 3 AND len(n.other_sizes) = 2 THEN [n.input_sizes[2], n.other_sizes[2]]
                ELSE n.input_sizes[:-2] || n.other_sizes[-1:]
            END
            WHEN n.rule = 'convolution' THEN _convolved_sizes(
                n.input_sizes, n.weight_sizes, n.stride, n.padding, n.dilation,
                n.output_padding, n.groups, n.is_transposed
            )
            WHEN n.rule = 'attention' THEN n.input_sizes[:-2] || n.named['value'].sizes[-1:]
            WHEN n.rule = 'window' THEN n.input_sizes[:-n.dimensions - 1]
                || _window_sizes(
                    n.input_sizes[-n.dimensions:], n.window_sizes,
                    CASE WHEN len(n.stride) = 0 THEN n.window_sizes ELSE n.stride END,
                    n.padding, n.dilation, n.rounds_up
                )
            WHEN n.rule = 'adaptive window' THEN n.input_sizes[:-n.dimensions - 1] || _numbers(n.named['output_size'])
            WHEN n.rule = 'padded' AND list_min(n.padding || [0]) = 0 THEN list_transform(
                n.input_sizes,
                lambda size, i: size + coalesce(list_sum(n.padding[
                    2 * (len(n.input_sizes) - i) + 1:2 * (len(n.input_sizes) - i) + 2
                ]), 0)
            )
            WHEN n.rule = 'reduced' THEN list_transform(
                n.input_sizes,
                lambda size, i: CASE
                    WHEN n.given < 3 AND n.op <> 'aten.count_nonzero'
                        OR n.named['dim'].value IS NULL
                        OR n.named['dim'].value = '[]'
                        OR list_contains(list_transform(
                            _numbers(n.named['dim']), lambda d: CASE WHEN d < 0 THEN d + len(n.input_sizes) ELSE d END
                        ), i - 1) THEN 1
                    ELSE size
                END
            )
            WHEN n.rule = 'embedding' THEN n.named['indices'].sizes || n.weight_sizes[-1:]
            WHEN n.rule = 'index' THEN n.named['indices'].sizes
            WHEN n.rule = 'source' AND len(n.named['source'].sizes) > 0 THEN n.named['source'].sizes
            WHEN n.rule = 'targets' AND contains(n.op, 'forward') AND n.named['reduction'].value IN ('1', '2') THEN [2]
            WHEN n.rule = 'targets' AND n.named['reduction'].value IN ('0', '1', '2') THEN n.named['target'].sizes
            WHEN n.rule = 'given' THEN _numbers(n.named['size'])
            WHEN n.rule = 'channels' THEN n.input_sizes[2:2]
            WHEN n.rule = 'cell' THEN n.named['cx'].sizes
            WHEN n.rule = 'bags' AND n.named['include_last'].value IN ('True', 'False') THEN [
                n.named['offsets'].sizes[1] - (n.named['include_last'].value = 'True')::BIGINT, n.weight_sizes[2]
            ]
            WHEN n.rule = 'sampled' THEN n.input_sizes[:2] || n.named['grid'].sizes[2:-2]
            WHEN n.rule = 'regions' THEN n.named['regions'].sizes[:1] || n.input_sizes[2:2] || [
                try_cast(n.named['height'].value AS BIGINT), try_cast(n.named['width'].value AS BIGINT)
            ]
            WHEN n.rule = 'recurrence' THEN n.input_sizes[:-2] || [
                n.recurrence.width * CASE WHEN contains(n.op, 'layer') THEN 1 ELSE n.recurrence.directions END
            ]
            WHEN n.rule IN ('topk', 'halved', 'transformed') THEN list_transform(
                n.input_sizes,
                lambda size, i: CASE
                    WHEN i - 1 <> n.dims[-1] THEN size
                    WHEN n.rule = 'topk' THEN try_cast(n.named['k'].value AS BIGINT)
                    WHEN n.rule = 'halved' THEN size // 2
                    WHEN n.named['onesided'].value = 'True' THEN size // 2 + 1
                    ELSE coalesce(try_cast(n.named['last_size'].value AS BIGINT), size)
                END
            )
            WHEN n.rule = 'selected' AND try_cast(n.named['dim'].value AS BIGINT) IS NOT NULL THEN list_transform(
                n.input_sizes,
                lambda size, i: CASE
                    WHEN i - 1 = try_cast(n.named['dim'].value AS BIGINT) THEN coalesce(n.named['indices'].sizes[1], 1)
                    ELSE size
                END
            )
        END AS output_sizes,
        CASE
            WHEN n.is_of_lists THEN _whole_sum(list_transform(n.first_list, lambda t: t.elements))
            ELSE _elements(n.input_sizes)
        END AS input_elements
    FROM named AS n
)
SELECT z.*,
    CASE
        WHEN z.is_of_lists AND z.rule = 'each' THEN len(z.first_list)
        WHEN z.is_of_lists THEN z.input_elements
        ELSE _elements(z.output_sizes)
    END AS output_elements,
    coalesce(z.input_sizes, []) AS factor_sizes,
    len(list_filter(z.tensors, lambda t: t.name IN ('weight', 'bias'))) AS weights,
    len(list_filter([z.named['min'], z.named['max']], lambda a: a.value IS NOT NULL OR a.bytes > 0)) AS bounds,
    -- Elements of queries and keys that are rotated: of each head as many as a row of the table has. More tensors than
    -- these are caches that are written, too.
    CASE
        WHEN len(z.all_tensors) <= 6 THEN
            _whole_sum(list_transform(
                [z.named['query'], z.named['key']], lambda t: CASE WHEN len(t.sizes) = 0 THEN 0 ELSE t.elements END
            )) * z.named['table'].sizes[-1] / nullif(coalesce(
                try_cast(z.named['head_size'].value AS BIGINT),
                CASE WHEN len(z.named['query'].sizes) = 3 THEN z.named['query'].sizes[-1] END
            ), 0)
    END AS rotated,
    coalesce(try_cast(z.named['is_causal'].value AS BOOLEAN), z.named['mask_type'].value <> '0') AS is_causal,
    _sequence_length(z.input_sizes, z.named['cum_seq_q'], z.named['max_q'], z.position_place) AS query_length,
    CASE
        WHEN coalesce(len(z.named['block_table'].sizes), 0) + coalesce(len(z.named['used_keys'].sizes), 0) = 0
            THEN _sequence_length(z.key_sizes, z.named['cum_seq_k'], z.named['max_k'], z.position_place)
    END AS key_length,
    '"' || z.named['approximate'].value || '"' AS approximate, NULL::BIGINT AS start_pos, false AS has_mask
FROM sized AS z;
