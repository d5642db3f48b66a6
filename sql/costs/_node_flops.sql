-- Number of elements of all windows of an adaptive pooling, dimension by dimension: the i-th of m windows over n
-- elements goes from floor(i n / m) to ceil((i + 1) n / m), so all windows have n + m - gcd(n, m) elements.
CREATE MACRO _adaptive_windows(
    input_sizes,  -- sizes of the input
    output_sizes,  -- sizes of the output
    dimensions  -- number of the last dimensions that are pooled
) AS (
    list_aggregate(
        list_transform(
            range(len(output_sizes) + 1),
            lambda i: CASE
                WHEN i = 0 THEN 1e0
                WHEN i <= len(output_sizes) - dimensions THEN output_sizes[i]::DOUBLE
                ELSE input_sizes[i]::DOUBLE + output_sizes[i] - gcd(input_sizes[i], output_sizes[i])
            END
        ),
        'product'
    )
);

-- The part of the products of queries and keys that causal attention computes: half of them, as FlashAttention's own
-- benchmarks count. NULL if the lengths differ: how the mask is aligned then isn't known.
CREATE MACRO _causal_part(is_causal, queries, keys) AS (
    CASE WHEN is_causal IS NOT TRUE THEN 1e0 WHEN queries = keys THEN 0.5 END
);

-- The operations of one call, by its formula, not yet rounded to whole numbers; NULL if a size or argument that the
-- formula needs isn't known.
CREATE MACRO _flops(
    f,  -- row of `cost_formulas`
    s  -- row of `_node_shapes` or `_call_shapes`
) AS (
    CASE f.counts
        WHEN 'plain' THEN
            CASE WHEN f.per_input = 0 THEN 0 ELSE f.per_input * s.input_elements END
            + CASE WHEN f.per_output = 0 THEN 0 ELSE f.per_output * s.output_elements END
        WHEN 'product' THEN 2 * s.output_elements * s.factor_sizes[-1]
        WHEN 'convolution' THEN 2 * _elements(s.weight_sizes[2:]) * CASE
            WHEN s.is_transposed THEN s.input_elements
            WHEN s.op NOT IN ('aten.convolution', 'aten._convolution') OR NOT s.is_transposed THEN s.output_elements
        END
        WHEN 'transposed convolution' THEN 2 * s.input_elements * _elements(s.weight_sizes[2:])
        WHEN 'attention' THEN
            2 * (s.input_elements + s.output_elements) * s.key_sizes[-2]
            * _causal_part(s.is_causal, s.input_sizes[-2], s.key_sizes[-2])
        WHEN 'cached attention' THEN 4 * s.input_elements * CASE
            WHEN s.has_mask THEN s.key_sizes[2]
            ELSE s.start_pos + s.input_sizes[2]
        END
        WHEN 'clamp' THEN s.bounds * s.output_elements
        WHEN 'gelu' THEN CASE s.approximate WHEN '"tanh"' THEN 9 ELSE 5 END * s.output_elements
        WHEN 'norm' THEN (f.per_input + s.weights) * s.input_elements
        WHEN 'window' THEN s.output_elements * (
            f.per_output + CASE len(s.window_sizes)
                WHEN 1 THEN s.window_sizes[1]::DOUBLE ** regexp_extract(s.op, '(\d)d', 1)::INTEGER
                ELSE _elements(s.window_sizes)
            END
        )
        WHEN 'adaptive window' THEN f.per_output * s.output_elements
            + CASE
                WHEN len(s.input_sizes) = len(s.output_sizes)
                    THEN _adaptive_windows(s.input_sizes, s.output_sizes, regexp_extract(s.op, '(\d)d', 1)::INTEGER)
            END
    END
);

-- The operations of one node of a record, by `cost_formulas`.
CREATE MACRO _node_flops(record_key) AS TABLE
SELECT n.s.graph_id, n.s.node_index, n.s.op, _flops(n.f, n.s) AS flops, n.f.moves, n.f.counts, n.f.formula,
    n.s.is_symbolic, n.s.arguments, n.s.output_sizes
FROM (SELECT q AS s, c AS f FROM _node_shapes(record_key) AS q LEFT JOIN cost_formulas AS c ON c.op = q.op) AS n;
