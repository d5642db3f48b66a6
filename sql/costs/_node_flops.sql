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

-- Rows with `flops`, the operations of one call by its formula, not yet rounded to whole numbers; NULL if a size or
-- argument that the formula needs isn't known, and for formulas of traces alone.
CREATE MACRO _with_flops(
    shapes  -- a table of rows of `_node_shapes` or `_call_shapes`, with counts, per_input and per_output of `cost_formulas`
) AS TABLE
SELECT s.*,
    CASE s.counts
        WHEN 'plain' THEN
            CASE WHEN s.per_input = 0 THEN 0 ELSE s.per_input * s.input_elements END
            + CASE WHEN s.per_output = 0 THEN 0 ELSE s.per_output * s.output_elements END
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
        WHEN 'norm' THEN (s.per_input + s.weights) * s.input_elements
        WHEN 'window' THEN s.output_elements * (
            s.per_output + CASE len(s.window_sizes)
                WHEN 1 THEN s.window_sizes[1]::DOUBLE ** regexp_extract(s.op, '(\d)d', 1)::INTEGER
                ELSE _elements(s.window_sizes)
            END
        )
        WHEN 'adaptive window' THEN s.per_output * s.output_elements
            + CASE
                WHEN len(s.input_sizes) = len(s.output_sizes)
                    THEN _adaptive_windows(s.input_sizes, s.output_sizes, regexp_extract(s.op, '(\d)d', 1)::INTEGER)
            END
    END AS flops
FROM query_table(shapes) AS s;

-- The operations of one node of a record, by `cost_formulas`.
CREATE MACRO _node_flops(record_key) AS TABLE
WITH shaped AS MATERIALIZED (
    SELECT q.*, c.counts, c.per_input, c.per_output, c.moves, c.formula
    FROM _node_shapes(record_key) AS q
    LEFT JOIN cost_formulas AS c ON c.op = q.op
)
SELECT n.graph_id, n.node_index, n.op, n.flops, n.moves, n.counts, n.formula, n.is_symbolic, n.arguments, n.output_sizes
FROM _with_flops('shaped') AS n;
