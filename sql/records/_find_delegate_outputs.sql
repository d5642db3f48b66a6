-- One output of a delegate's call, or of an event within it, that is the result of an op, or an op whose result among
-- the outputs is unknown: a row of the table `signature_outputs`, computed when a capture with logged values is linked
-- to a record that has delegates.
CREATE MACRO _find_delegate_outputs(capture_key, record_key, program_key) AS TABLE
WITH results AS MATERIALIZED (FROM _op_results(record_key) AS r WHERE r.stage = 'edge_dialect_exported_program'),
outputs AS MATERIALIZED (FROM _delegate_outputs(record_key, program_key, capture_key) AS o),
last_events AS MATERIALIZED (SELECT e.* FROM _last_events(capture_key) AS e WHERE e.kind <> 'kernel'),
calls AS (
    SELECT e.signature_index, e.debug_handle, r.graph_id, r.result_node, r.result_index, o.position, o.node_index,
        o.output_index, o.mapping, coalesce(r.problem, c.problem) AS problem, r.depth
    FROM last_events AS e
    JOIN results AS r USING (method, debug_handle)
    LEFT JOIN outputs AS o
        ON o.method = e.method
        AND o.instruction_id = e.instruction_id
        AND o.graph_id = r.graph_id
        AND o.node_index = r.node_index
        AND o.output_index = coalesce(r.output_index, o.output_index)
    LEFT JOIN outputs AS c ON c.method = e.method AND c.instruction_id = e.instruction_id AND c.problem IS NOT NULL
    WHERE e.kind = 'delegate_call'
),
found_in_calls AS (
    FROM calls AS c
    WHERE c.problem IS NULL AND c.position IS NOT NULL
    QUALIFY c.depth = min(c.depth) OVER (PARTITION BY c.signature_index, c.debug_handle)
),
-- Of several events within a call that have a handle, the last one computes the outputs of its op.
found_within AS (
    SELECT e.signature_index, e.debug_handle, r.graph_id, r.result_node, r.node_index
    FROM last_events AS e
    JOIN results AS r ON r.method = e.method AND r.debug_handle = e.debug_handle AND r.depth = 0
    JOIN (
        SELECT h.signature_index, max_by(h.debug_handle, h.position) AS debug_handle
        FROM _linked_handles(capture_key) AS h
        GROUP BY h.signature_index
    ) AS h ON h.signature_index = e.signature_index
    WHERE e.kind = 'delegate'
    QUALIFY e.slot = max(e.slot) OVER (
        PARTITION BY e.block_index, e.instruction_id, e.debug_handle
    ) AND h.debug_handle = e.debug_handle
),
found AS (
    SELECT c.signature_index, c.position, c.debug_handle, coalesce(c.result_index, c.output_index) AS result_index,
        c.graph_id, c.node_index, c.output_index, c.result_node, c.mapping, NULL AS problem
    FROM found_in_calls AS c
    UNION ALL
    SELECT f.signature_index, v.output_index, f.debug_handle, v.output_index, f.graph_id, f.node_index, v.output_index,
        f.result_node, 'exact', NULL
    FROM found_within AS f
    JOIN node_values AS v ON v.record_id = record_key AND v.graph_id = f.graph_id AND v.node_index = f.result_node
    UNION ALL
    SELECT DISTINCT c.signature_index, NULL, c.debug_handle, NULL, NULL, NULL, NULL, NULL, NULL, c.problem
    FROM calls AS c
    WHERE c.problem IS NOT NULL
)
SELECT f.signature_index, f.position, f.debug_handle, f.result_index, v.sizes, w.sizes AS result_sizes, f.mapping,
    f.problem
FROM found AS f
LEFT JOIN node_values AS v
    ON v.record_id = record_key
    AND v.graph_id = f.graph_id
    AND v.node_index = f.node_index
    AND v.output_index = f.output_index
LEFT JOIN node_values AS w
    ON w.record_id = record_key
    AND w.graph_id = f.graph_id
    AND w.node_index = f.result_node
    AND w.output_index = f.result_index;
