-- One event whose outputs may be those of an op: the last instruction with the op's debug handle, as all nodes of the
-- op come before the one with its outputs.
CREATE MACRO _last_events(capture_key) AS TABLE
WITH last_instructions AS (
    SELECT h.method, h.debug_handle, max(h.instruction_id) AS instruction_id
    FROM captures AS k
    JOIN debug_handles AS h USING (record_id)
    WHERE k.capture_id = capture_key
    GROUP BY h.method, h.debug_handle
),
handled AS (
    SELECT o.signature_index, s.kind, s.block_index, o.method, s.instruction_id,
        unnest(o.debug_handles) AS debug_handle, string_split(s.family, '.')[1] AS op, s.slot
    FROM signature_ops AS o
    JOIN signatures AS s USING (capture_id, signature_index)
    WHERE o.capture_id = capture_key
        AND s.kind IN ('kernel', 'delegate_call', 'delegate')
        AND s.chain_index = 0
)
SELECT DISTINCT h.* EXCLUDE (op), CASE h.op WHEN 'et_view' THEN 'view_copy' ELSE h.op END AS kernel_op
FROM handled AS h
JOIN last_instructions AS l USING (method, debug_handle, instruction_id);

-- One output of a kernel of a linked capture that is the result of an op, or an op whose result is no output: a row of
-- the table `signature_outputs`, computed when a capture with logged values is linked.
CREATE MACRO _find_kernel_outputs(capture_key, record_key) AS TABLE
WITH results AS MATERIALIZED (FROM _op_results(record_key) AS r WHERE r.stage = 'edge_dialect_exported_program'),
-- An op with a single node is that of its kernel, whatever the kernel's name.
sole_nodes AS (
    SELECT h.method, h.debug_handle
    FROM _handled_nodes AS h
    WHERE h.record_id = record_key
    GROUP BY h.method, h.debug_handle
    HAVING count(*) = 1
),
kernels AS (
    SELECT e.*, r.graph_id, r.result_node, r.problem, o.debug_handle IS NOT NULL AS is_sole
    FROM _last_events(capture_key) AS e
    JOIN results AS r ON r.method = e.method AND r.debug_handle = e.debug_handle AND r.depth = 0
    LEFT JOIN sole_nodes AS o ON o.method = e.method AND o.debug_handle = e.debug_handle
    WHERE e.kind = 'kernel'
),
matched AS (
    SELECT k.*, r.node_index, r.output_index, r.result_index
    FROM kernels AS k
    LEFT JOIN (
        SELECT r.*, string_split(p.op, '.')[1] AS op
        FROM results AS r
        JOIN op_nodes AS p ON p.record_id = record_key AND p.graph_id = r.graph_id AND p.node_index = r.node_index
    ) AS r ON r.graph_id = k.graph_id AND r.debug_handle = k.debug_handle AND (k.is_sole OR r.op = k.kernel_op)
    QUALIFY row_number() OVER (PARTITION BY k.signature_index, k.debug_handle ORDER BY r.depth) = 1
)
SELECT m.signature_index, v.output_index AS position, m.debug_handle,
    coalesce(m.result_index, v.output_index) AS result_index, v.sizes, w.sizes AS result_sizes,
    CASE WHEN v.output_index IS NOT NULL THEN 'exact' END AS mapping,
    CASE
        WHEN m.problem IS NOT NULL THEN m.problem
        WHEN m.node_index IS NULL THEN 'only values of other nodes of the op are logged'
    END AS problem
FROM matched AS m
LEFT JOIN node_values AS v
    ON v.record_id = record_key
    AND v.graph_id = m.graph_id
    AND v.node_index = m.node_index
    AND v.output_index = coalesce(m.output_index, v.output_index)
LEFT JOIN node_values AS w
    ON w.record_id = record_key
    AND w.graph_id = m.graph_id
    AND w.node_index = m.result_node
    AND w.output_index = coalesce(m.result_index, v.output_index);
