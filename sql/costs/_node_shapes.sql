-- The op that a node calls, without its overload, as in `cost_formulas`.
CREATE MACRO _costed_op(
    op_type  -- op type of the node: aten.addmm.default
) AS (array_to_string(string_split(op_type, '.')[:2], '.'));

-- Number of elements of these sizes; NULL if one isn't known.
CREATE MACRO _elements(
    sizes  -- sizes by dimension
) AS (list_reduce(sizes::DOUBLE[], lambda _a, _b: CASE WHEN _b >= 0 THEN _a * _b END, 1e0));

-- Bytes of an element; NULL if it is not a type of torch's.
CREATE MACRO _bytes_of_type(dtype) AS (
    CASE
        WHEN dtype IN ('bool', 'uint8', 'int8', 'float8_e5m2', 'float8_e4m3fn') THEN 1
        WHEN dtype IN ('int16', 'uint16', 'float16', 'bfloat16') THEN 2
        WHEN dtype IN ('int32', 'float32', 'complex32') THEN 4
        WHEN dtype IN ('int64', 'float64', 'complex64') THEN 8
        WHEN dtype = 'complex128' THEN 16
    END
);

-- One value or literal that a node of a record takes as an argument.
CREATE MACRO _node_inputs(record_key) AS TABLE
SELECT a.graph_id, a.node_index, a.position, a.argument, a.literal, a.value_index, v.node_index AS maker, v.sizes,
    _elements(v.sizes) AS elements,
    CASE
        WHEN v.dtype IS NULL AND v.sizes IS NULL THEN 0e0
        ELSE _elements(v.sizes) * _bytes_of_type(v.dtype)
    END AS bytes
FROM node_arguments AS a
LEFT JOIN node_values AS v ON v.record_id = a.record_id AND v.graph_id = a.graph_id AND v.value_index = a.value_index
WHERE a.record_id = record_key;

-- The sizes and arguments of one node of a record from which its cost is computed; NULL for arguments that it lacks and
-- where a size isn't known.
CREATE MACRO _node_shapes(record_key) AS TABLE
WITH taken AS (
    SELECT t.graph_id, t.node_index, min_by(t.elements, t.position) FILTER (WHERE t.position = 0) AS input_elements,
        min_by(t.sizes, t.position) FILTER (WHERE t.position = 0) AS input_sizes,
        min_by(t.sizes, CASE
            WHEN t.argument IN ('mat1', 'batch1', 'mat') THEN 0
            WHEN t.argument IN ('input', 'self') THEN 1
        END) AS factor_sizes,
        any_value(t.sizes) FILTER (WHERE t.argument = 'weight') AS weight_sizes,
        count(t.value_index) FILTER (WHERE t.argument IN ('weight', 'bias')) AS weights,
        min_by(t.sizes, CASE t.argument WHEN 'key_cache' THEN 0 WHEN 'key' THEN 1 END) AS key_sizes,
        count(*) FILTER (WHERE t.argument IN ('min', 'max')) AS bounds,
        any_value(try_cast(t.literal AS BOOLEAN)) FILTER (WHERE t.argument = 'transposed') AS is_transposed,
        any_value(try_cast(t.literal AS BOOLEAN)) FILTER (WHERE t.argument = 'is_causal') AS is_causal,
        any_value(t.literal) FILTER (WHERE t.argument = 'approximate') AS approximate,
        any_value(coalesce(
            try_cast(t.literal AS BIGINT[]), [try_cast(t.literal AS BIGINT)]
        )) FILTER (WHERE t.argument = 'kernel_size') AS window_sizes,
        any_value(try_cast(t.literal AS BIGINT)) FILTER (WHERE t.argument = 'start_pos') AS start_pos,
        count(t.value_index) FILTER (WHERE t.argument = 'attn_mask') > 0 AS has_mask,
        string_agg(t.sizes::VARCHAR, ' ' ORDER BY t.position, t.value_index) AS arguments,
        bool_or(len(list_filter(t.sizes, lambda n: n IS NULL)) > 0) AS is_symbolic
    FROM _node_inputs(record_key) AS t
    GROUP BY t.graph_id, t.node_index
),
input AS (
    SELECT v.graph_id, v.node_index, any_value(v.sizes) FILTER (WHERE v.output_index = 0) AS output_sizes,
        bool_or(len(list_filter(v.sizes, lambda n: n IS NULL)) > 0) AS is_symbolic
    FROM node_values AS v
    WHERE v.record_id = record_key AND v.node_index IS NOT NULL
    GROUP BY v.graph_id, v.node_index
)
SELECT p.graph_id, p.node_index, _costed_op(p.op_type) AS op, t.input_elements,
    _elements(g.output_sizes) AS output_elements, g.output_sizes, t.input_sizes, t.factor_sizes, t.weight_sizes,
    coalesce(t.weights, 0) AS weights, t.key_sizes, coalesce(t.bounds, 0) AS bounds, t.is_transposed, t.is_causal,
    t.approximate, t.window_sizes, t.start_pos, coalesce(t.has_mask, false) AS has_mask, t.arguments,
    coalesce(t.is_symbolic, false) OR coalesce(g.is_symbolic, false) AS is_symbolic
FROM op_nodes AS p
LEFT JOIN taken AS t ON t.graph_id = p.graph_id AND t.node_index = p.node_index
LEFT JOIN input AS g ON g.graph_id = p.graph_id AND g.node_index = p.node_index
WHERE p.record_id = record_key;
