-- The debug handles of one event as the Inspector determines them, for results that are equal to the Inspector's even
-- where these are wrong. All blocks, with any record, use the first method named forward. Framework and user events
-- have the handles of instruction 0, because they are written with this number. A delegate's event has the handles of
-- the last key in the backend's map that is a part of its id.
CREATE MACRO _inspector_handles(capture_key) AS TABLE
WITH target AS (
    SELECT k.capture_id, k.record_id,
        (
            SELECT any_value(h.method) FROM debug_handles AS h WHERE h.record_id = k.record_id AND h.method = 'forward'
        ) AS forward
    FROM captures AS k
    WHERE k.capture_id = capture_key
),
slots AS (
    SELECT a.record_id, s.block_index, s.slot, s.label, s.instruction_id, coalesce(a.forward, m.method) AS method,
        coalesce(s.delegate_debug_id::VARCHAR, s.delegate_debug_str) AS delegate_id,
        s.delegate_debug_id IS NULL AS is_text
    FROM target AS a
    JOIN signatures AS s USING (capture_id)
    LEFT JOIN linked_methods AS m USING (capture_id, block_index)
    QUALIFY row_number() OVER (PARTITION BY s.block_index, s.slot ORDER BY s.signature_index) = 1
),
instructions_handles AS (
    SELECT h.record_id, h.method, h.instruction_id, list(h.debug_handle ORDER BY h.position) AS debug_handles
    FROM debug_handles AS h
    GROUP BY ALL
),
ids_handles AS (
    SELECT d.record_id, d.method, d.instruction_id, d.delegate_debug_id, min(d.id_index) AS place,
        list(d.debug_handle ORDER BY d.position) AS debug_handles
    FROM delegate_debug_handles AS d
    GROUP BY ALL
)
SELECT s.block_index, s.slot, s.label, s.method,
    CASE WHEN s.delegate_id IS NULL OR d.backend IS NULL THEN i.debug_handles ELSE k.debug_handles END AS debug_handles,
    CASE WHEN s.delegate_id IS NOT NULL OR s.label = 'DELEGATE_CALL' THEN d.backend END AS backend, d.outputs
FROM slots AS s
JOIN instructions_handles AS i USING (record_id, method, instruction_id)
LEFT JOIN delegates AS d USING (record_id, method, instruction_id)
LEFT JOIN ids_handles AS k
    ON k.record_id = s.record_id
    AND k.method = s.method
    AND k.instruction_id = s.instruction_id
    AND contains(s.delegate_id, k.delegate_debug_id)
QUALIFY row_number() OVER (
    PARTITION BY s.block_index, s.slot
    ORDER BY s.is_text AND k.delegate_debug_id = s.delegate_id DESC NULLS LAST, k.place DESC
) = 1;

-- One node to which the Inspector assigns an event: a node of a graph with one of the event's debug handles. Three
-- framework events have none.
CREATE MACRO _inspector_nodes(capture_key) AS TABLE
WITH handles AS (
    SELECT h.block_index, h.slot, h.method, unnest(h.debug_handles) AS debug_handle,
        generate_subscripts(h.debug_handles, 1) AS position
    FROM _inspector_handles(capture_key) AS h
    WHERE h.label NOT IN ('Method::init', 'Program::load_method', 'Method::execute')
)
SELECT h.block_index, h.slot, h.position, n.graph_id, n.node_index
FROM captures AS k CROSS JOIN handles AS h
JOIN _handled_nodes AS n USING (record_id, method, debug_handle)
WHERE k.capture_id = capture_key;
