-- The argument of that name; NULL if the op has none.
CREATE MACRO _argument(arguments, name) AS (
    list_filter(arguments, lambda a: a.name = name)[1]
);

-- The values of an argument that is a number or a list of numbers; NULL where not
-- written.
CREATE MACRO _numbers(argument) AS (
    CASE
        WHEN try_cast(argument.value AS BIGINT) IS NOT NULL
            THEN [try_cast(argument.value AS BIGINT)]
        ELSE try_cast(argument.value AS BIGINT[])
    END
);

-- The highest of the ranks of types, which are 0 for bool, 100 for integers, 200 for
-- floats and 300 for complex numbers, and the bytes of the type.
CREATE MACRO _highest_rank(tensors) AS (
    list_max(list_transform(tensors, lambda t: t.rank))
);

-- The bytes of the type that an elementwise op returns, by torch's rules of promotion:
-- that of its tensors with dimensions, unless one without is of a higher kind. A
-- number in Python is written as a double without dimensions; it counts as a float.
CREATE MACRO _promoted_bytes(tensors) AS (
    CASE
        WHEN _highest_rank(tensors) // 100
            = _highest_rank(list_filter(tensors, lambda t: len(t.sizes) > 0)) // 100
            THEN _highest_rank(list_filter(tensors, lambda t: len(t.sizes) > 0))
        WHEN _highest_rank(tensors) = 208
            AND list_max(list_transform(tensors, lambda t: len(t.sizes))) > 0 THEN 204
        ELSE _highest_rank(tensors)
    END % 100
);

-- The arguments of one call of an op of a trace, of which costs are computed.
CREATE MACRO _call_arguments(
    calls  -- rows of call, op, shapes, dtypes, strides and inputs, as a list
) AS TABLE
WITH
given AS (
    SELECT
        g.held.call,
        g.held.op,
        n.names,
        try(from_json(g.held.shapes, '["JSON"]')) AS shapes,
        try(from_json(g.held.dtypes, '["VARCHAR"]')) AS dtypes,
        try(from_json(g.held.strides, '["JSON"]')) AS strides,
        try(from_json(g.held.inputs, '["VARCHAR"]')) AS inputs
    FROM (SELECT unnest(calls) AS held) AS g
    LEFT JOIN _argument_names AS n ON n.op = g.held.op
),
read AS (
    SELECT
        g.call,
        g.op,
        g.dtypes IS NOT NULL AS has_types,
        list_transform(
            g.shapes,
            lambda shape, i: {
                'name': ltrim(g.names[i], '!'),
                'is_read': coalesce(g.names[i] <> 'out' AND g.names[i][1] <> '!', true),
                'sizes': try_cast(shape AS BIGINT[]),
                'strides': try_cast(g.strides[i] AS BIGINT[]),
                'lists': try_cast(shape AS BIGINT[][]),
                'value': nullif(g.inputs[i], ''),
                'type': g.dtypes[i],
                'bytes': _bytes_of_traced_type(g.dtypes[i]),
                'rank': _bytes_of_traced_type(g.dtypes[i]) + CASE
                    WHEN g.dtypes[i] = 'bool' THEN 0
                    WHEN contains(g.dtypes[i], 'complex') THEN 300
                    WHEN g.dtypes[i] IN ('float', 'double')
                        OR starts_with(g.dtypes[i], 'c10::') THEN 200
                    ELSE 100
                END
            }
        ) AS arguments
    FROM given AS g
),
parted AS (
    SELECT
        r.*,
        list_filter(
            r.arguments,
            lambda a: CASE
                WHEN r.has_types THEN a.bytes IS NOT NULL
                ELSE len(a.sizes) > 0 AND a.sizes[1] IS NOT NULL
            END
        ) AS tensors,
        list_filter(
            r.arguments, lambda a: len(a.lists) > 0 AND a.lists[1] IS NOT NULL
        )[1].lists AS listed
    FROM read AS r
)
SELECT
    p.*,
    list_filter(p.tensors, lambda t: t.name IS DISTINCT FROM 'out')[1] AS first_tensor,
    coalesce(
        _argument(p.arguments, 'query'),
        _argument(p.arguments, 'self'),
        list_filter(p.tensors, lambda t: t.name IS DISTINCT FROM 'out')[1]
    ) AS main
FROM parted AS p;

-- The sizes of the output of a convolution; NULL where its arguments aren't written.
CREATE MACRO _convolved_sizes(
    sizes,  -- sizes of the input
    weight,  -- sizes of the weight
    stride, padding, dilation, output_padding, groups,
    is_transposed
) AS (
    CASE
        WHEN is_transposed THEN [sizes[1], weight[2] * groups] || list_transform(
            sizes[3:],
            lambda size, i: (size - 1) * stride[least(i, len(stride))]
                - 2 * padding[least(i, len(padding))]
                + dilation[least(i, len(dilation))] * (weight[i + 2] - 1)
                + output_padding[least(i, len(output_padding))] + 1
        )
        ELSE [sizes[1], weight[1]]
            || _window_sizes(sizes[3:], weight[3:], stride, padding, dilation, 0)
    END
);

-- The sizes of one call of an op of a trace from which its cost is computed, as
-- `_node_shapes` has those of nodes. Traces don't have the sizes of outputs: they
-- follow from the arguments, by `sizes` of `cost_formulas`.
CREATE MACRO _call_shapes(
    calls  -- rows of call, op, shapes, dtypes, strides and inputs, as a list
) AS TABLE
WITH
named AS (
    SELECT
        a.call,
        a.op,
        a.has_types,
        a.arguments,
        a.tensors,
        a.listed,
        a.first_tensor,
        a.main.sizes AS input_sizes,
        a.main.type AS main_type,
        _argument(a.arguments, 'mat2').sizes AS other_sizes,
        _argument(a.arguments, 'weight').sizes AS weight_sizes,
        _argument(a.arguments, 'key').sizes AS key_sizes,
        _argument(a.arguments, 'gradient').sizes AS gradient_sizes,
        coalesce(
            contains(a.op, 'transpose')
            OR try_cast(_argument(a.arguments, 'transposed').value AS BOOLEAN),
            false
        ) AS is_transposed,
        _numbers(_argument(a.arguments, 'kernel_size')) AS window_sizes,
        _numbers(_argument(a.arguments, 'stride')) AS stride,
        _numbers(_argument(a.arguments, 'padding')) AS padding,
        coalesce(_numbers(_argument(a.arguments, 'dilation')), [1]) AS dilation,
        coalesce(_numbers(_argument(a.arguments, 'output_padding')), [0])
            AS output_padding,
        coalesce(try_cast(_argument(a.arguments, 'groups').value AS BIGINT), 1)
            AS groups,
        coalesce(
            try_cast(_argument(a.arguments, 'ceil_mode').value AS BOOLEAN)::BIGINT, 0
        ) AS rounds_up,
        try_cast(_argument(a.arguments, 'output_mask').value AS BOOLEAN[]) AS asked,
        f.sizes AS rule,
        coalesce(try_cast(regexp_extract(a.op, '(\d)d', 1) AS INTEGER), 0) AS dimensions
    FROM _call_arguments(calls) AS a
    LEFT JOIN cost_formulas AS f ON f.op = a.op
),
sized AS (
    SELECT
        n.*,
        CASE
            WHEN _argument(n.arguments, 'out') IS NOT NULL
                THEN _argument(n.arguments, 'out').sizes
            WHEN n.rule = 'first' THEN n.first_tensor.sizes
            WHEN n.rule = 'broadcast' OR n.rule = 'reduced' AND len(n.tensors) > 1
                OR n.rule = 'loss' AND _argument(n.arguments, 'reduction').value = '0'
                THEN _broadcast_sizes(list_transform(n.tensors, lambda t: t.sizes))
            WHEN n.rule = 'loss' THEN []
            WHEN n.rule = 'product' THEN n.input_sizes[:-2]
                || CASE
                    WHEN len(n.other_sizes) > 1 THEN n.other_sizes[-1:]
                    WHEN n.other_sizes IS NULL THEN n.weight_sizes[:1]
                    ELSE []
                END
            WHEN n.rule = 'packed product'
                THEN n.input_sizes[:-2] || [8 * n.other_sizes[1]]
            WHEN n.rule = 'grouped product' THEN CASE
                WHEN len(n.input_sizes) = 2 AND len(n.other_sizes) = 2
                    THEN _argument(n.arguments, 'offs').sizes
                        || [n.input_sizes[1], n.other_sizes[2]]
                WHEN len(n.input_sizes) = 3 AND len(n.other_sizes) = 2
                    THEN [n.input_sizes[2], n.other_sizes[2]]
                ELSE n.input_sizes[:-2] || n.other_sizes[-1:]
            END
            WHEN n.rule = 'convolution' THEN _convolved_sizes(
                n.input_sizes, n.weight_sizes, n.stride, n.padding, n.dilation,
                n.output_padding, n.groups, n.is_transposed
            )
            WHEN n.rule = 'attention'
                THEN n.input_sizes[:-2] || _argument(n.arguments, 'value').sizes[-1:]
            WHEN n.rule = 'window' THEN n.input_sizes[:-n.dimensions - 1]
                || _window_sizes(
                    n.input_sizes[-n.dimensions:], n.window_sizes,
                    CASE
                        WHEN len(n.stride) = 0 THEN n.window_sizes
                        ELSE n.stride
                    END,
                    n.padding, n.dilation, n.rounds_up
                )
            WHEN n.rule = 'adaptive window' THEN n.input_sizes[:-n.dimensions - 1]
                || _numbers(_argument(n.arguments, 'output_size'))
            WHEN n.rule = 'reduced' THEN list_transform(
                n.input_sizes,
                lambda size, i: CASE
                    WHEN len(n.arguments) < 3
                        OR _argument(n.arguments, 'dim').value IS NULL
                        OR _argument(n.arguments, 'dim').value = '[]'
                        OR list_contains(list_transform(
                            _numbers(_argument(n.arguments, 'dim')),
                            lambda d: CASE
                                WHEN d < 0 THEN d + len(n.input_sizes) ELSE d
                            END
                        ), i - 1) THEN 1
                    ELSE size
                END
            )
            WHEN n.rule = 'embedding'
                THEN _argument(n.arguments, 'indices').sizes || n.weight_sizes[-1:]
            WHEN n.rule = 'index' THEN _argument(n.arguments, 'indices').sizes
            WHEN n.rule = 'selected' THEN list_transform(
                n.input_sizes,
                lambda size, i: CASE
                    WHEN i - 1 = _argument(n.arguments, 'dim').value::BIGINT
                        THEN coalesce(_argument(n.arguments, 'indices').sizes[1], 1)
                    ELSE size
                END
            )
        END AS output_sizes
    FROM named AS n
)
SELECT
    z.*,
    coalesce(
        _elements(z.input_sizes),
        _whole_sum(list_transform(z.listed, lambda s: _elements(s)))
    ) AS input_elements,
    CASE
        WHEN z.rule = 'sum' OR z.rule = 'first' AND z.first_tensor IS NULL
            THEN _whole_sum(list_transform(z.listed, lambda s: _elements(s)))
        ELSE _elements(z.output_sizes)
    END AS output_elements,
    coalesce(z.input_sizes, []) AS factor_sizes,
    len(list_filter(z.tensors, lambda t: t.name IN ('weight', 'bias'))) AS weights,
    len(list_filter(
        z.arguments,
        lambda a: a.name IN ('min', 'max') AND (a.value IS NOT NULL OR a.bytes > 0)
    )) AS bounds,
    try_cast(_argument(z.arguments, 'is_causal').value AS BOOLEAN) AS is_causal,
    '"' || _argument(z.arguments, 'approximate').value || '"' AS approximate,
    NULL::BIGINT AS start_pos,
    false AS has_mask
FROM sized AS z;

-- The operations of one call of an op of a trace, as `_flops` has them, and those of
-- ops that only traces have.
CREATE MACRO _call_flops(
    f,  -- row of `cost_formulas`
    s  -- row of `_call_shapes`
) AS (
    CASE f.counts
        WHEN 'grouped product' THEN 2 * _elements(s.input_sizes) * s.other_sizes[-1]
            / CASE
                WHEN len(s.input_sizes) = 3 AND len(s.other_sizes) = 2
                    THEN s.input_sizes[1]
                ELSE 1
            END
        WHEN 'packed product' THEN 2 * s.output_elements * s.input_sizes[-1]
        WHEN 'experts' THEN
            2e0 * s.input_sizes[1] * _argument(s.arguments, 'topk_ids').sizes[-1] * (
                _elements(_argument(s.arguments, 'w1').sizes[2:])
                + _elements(_argument(s.arguments, 'w2').sizes[2:])
            )
        WHEN 'convolution backward' THEN
            2 * _elements(CASE
                WHEN s.is_transposed THEN s.input_sizes ELSE s.gradient_sizes
            END) * _elements(s.weight_sizes[2:])
            * CASE
                WHEN s.op = 'aten.convolution_backward'
                    THEN s.asked[1]::BIGINT + s.asked[2]::BIGINT
                ELSE 1
            END
        WHEN 'attention backward' THEN
            5 * (
                _elements(s.input_sizes)
                + _elements(_argument(s.arguments, 'gradient').sizes)
            ) * s.key_sizes[-2]
            * _causal_part(s.is_causal, s.input_sizes[-2], s.key_sizes[-2])
        WHEN 'gelu backward' THEN
            CASE s.approximate WHEN '"tanh"' THEN 18 ELSE 11 END * s.output_elements
        WHEN 'norm' THEN s.input_elements * (
            s.weights
            + CASE
                WHEN _argument(s.arguments, 'training').value = 'False' THEN 2
                ELSE f.per_input
            END
        )
        ELSE _flops(f, s)
    END
);

-- The sum of numbers; NULL if one isn't known.
CREATE MACRO _whole_sum(numbers) AS (
    CASE
        WHEN NOT list_contains(list_transform(numbers, lambda n: n IS NULL), true)
            THEN coalesce(list_sum(numbers), 0)
    END
);

-- The bytes of these tensors in memory; NULL if sizes or a type aren't known.
CREATE MACRO _bytes_of_tensors(tensors) AS (
    _whole_sum(list_transform(
        tensors, lambda t: _stored_elements(t.sizes, t.strides) * t.bytes
    ))
);

-- The bytes that one call of an op of a trace writes for each element of its output.
CREATE MACRO _written_bytes(
    f,  -- row of `cost_formulas`
    s  -- row of `_call_shapes`
) AS (
    CASE
        WHEN _argument(s.arguments, 'out') IS NOT NULL
            THEN _argument(s.arguments, 'out').bytes
        WHEN _argument(s.arguments, 'dtype').value IS NOT NULL
            THEN _bytes_of_type_number(_argument(s.arguments, 'dtype').value)
        WHEN _argument(s.arguments, 'half_to_float').value = 'True' THEN 4
        ELSE CASE f.writes
            WHEN 'first' THEN s.first_tensor.bytes
            WHEN 'first, statistics' THEN s.first_tensor.bytes
            WHEN 'promoted' THEN _promoted_bytes(s.tensors)
            WHEN 'bool' THEN 1
            WHEN 'indices' THEN 8
            WHEN 'int32' THEN 4
            WHEN 'first, indices' THEN
                s.first_tensor.bytes
                + CASE WHEN len(s.arguments) > 1 AND len(s.tensors) = 1 THEN 8 ELSE 0 END
            WHEN 'first, mask' THEN s.first_tensor.bytes + 1
            WHEN 'first, first' THEN 2 * s.first_tensor.bytes
            WHEN 'sums' THEN
                CASE WHEN s.first_tensor.rank < 200 THEN 8 ELSE s.first_tensor.bytes END
        END
    END
);

-- The number of means and deviations that a normalization writes besides: of each part
-- of that shape, each group of channels, or each channel.
CREATE MACRO _statistics(
    s  -- row of `_call_shapes`
) AS (
    CASE
        WHEN _argument(s.arguments, 'out') IS NOT NULL THEN 0
        WHEN contains(s.op, 'rms') THEN 1
        ELSE 2
    END * CASE
        WHEN _argument(s.arguments, 'normalized_shape') IS NOT NULL
            THEN s.input_elements
                / _elements(_numbers(_argument(s.arguments, 'normalized_shape')))
        WHEN _argument(s.arguments, 'group') IS NOT NULL
            THEN s.input_sizes[1] * _argument(s.arguments, 'group').value::BIGINT
        ELSE s.input_sizes[2]
    END
);

-- The cost of one call of an op of a trace by its arguments.
CREATE MACRO _call_costs(
    calls  -- rows of call, op, shapes, dtypes, strides and inputs, as a list
) AS TABLE
WITH
shaped AS MATERIALIZED (FROM _call_shapes(calls)),
written AS (
    SELECT
        s.call,
        s.op,
        f.counts,
        f.moves,
        s.has_types,
        s.main_type,
        s.listed,
        _call_flops(f, s) AS flops,
        CASE
            WHEN f.sizes <> 'gradients' THEN s.output_elements * _written_bytes(f, s)
            -- The gradients have the sizes and types of what they are of.
            WHEN s.op = 'aten.convolution_backward' THEN
                (
                    s.asked[1]::BIGINT * _elements(s.input_sizes)
                    + s.asked[2]::BIGINT * _elements(s.weight_sizes)
                    + s.asked[3]::BIGINT * s.gradient_sizes[2]
                ) * s.first_tensor.bytes
            WHEN f.counts = 'attention backward' THEN
                (
                    _elements(s.input_sizes) + _elements(s.key_sizes)
                    + _elements(_argument(s.arguments, 'value').sizes)
                ) * s.first_tensor.bytes
            WHEN f.family = 'pooling'
                THEN _elements(s.input_sizes) * s.first_tensor.bytes
        END
        + CASE
            WHEN f.writes = 'first, statistics' THEN 4 * _statistics(s)
            ELSE 0
        END
        -- The sums of exponentials of attention, one float for each query; the efficient
        -- one pads the queries to a multiple of 32.
        + CASE
            WHEN f.counts <> 'attention'
                OR _argument(s.arguments, 'compute_log_sumexp').value = 'False' THEN 0
            WHEN contains(s.op, 'efficient')
                THEN 128 * _elements(s.input_sizes[:-3])
                    * ceil(s.input_sizes[-2] / 32)
            ELSE 4 * _elements(s.input_sizes[:-2])
        END AS bytes_written,
        CASE
            WHEN f.moves IN ('made', 'nothing') THEN 0e0
            WHEN s.listed IS NOT NULL THEN NULL
            WHEN f.moves = 'all'
                THEN _bytes_of_tensors(list_filter(s.tensors, lambda t: t.is_read))
            WHEN f.moves = 'chosen'
                THEN s.output_elements * _written_bytes(f, s)
                    + _bytes_of_tensors(s.tensors[2:])
        END AS bytes_read
    FROM shaped AS s
    LEFT JOIN cost_formulas AS f ON f.op = s.op
)
SELECT
    w.call,
    w.main_type AS type,
    try_cast(w.flops AS BIGINT) AS flops,
    try_cast(w.bytes_read AS BIGINT) AS bytes_read,
    try_cast(CASE WHEN w.moves = 'nothing' THEN 0 ELSE w.bytes_written END AS BIGINT)
        AS bytes_written,
    CASE
        WHEN w.counts IS NULL THEN 'no formula for ' || w.op
        WHEN w.flops IS NULL THEN 'an argument that its formula needs is not written'
        WHEN w.flops > 9e18 THEN 'too many to be true'
        WHEN w.bytes_read + w.bytes_written IS NOT NULL THEN NULL
        WHEN w.moves = 'experts' THEN 'bytes: which experts are used is not written'
        WHEN NOT w.has_types THEN 'bytes: types are not written'
        WHEN w.listed IS NOT NULL THEN 'bytes: types of lists of tensors are not written'
        ELSE 'bytes: an argument that the size of its output needs is not written'
    END AS reason
FROM written AS w;
