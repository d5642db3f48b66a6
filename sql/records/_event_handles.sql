-- One event of a capture's blocks that belongs to an instruction, with the method that its block ran.
CREATE MACRO _instruction_events(capture_key) AS TABLE
SELECT k.record_id, s.signature_index, s.block_index, s.slot, s.kind, s.label, s.family,
    max(
        CASE WHEN s.kind = 'kernel' THEN string_split(s.family, '.')[1] END
    ) OVER (PARTITION BY s.block_index, s.instruction_id) AS kernel_op,
    m.method, s.chain_index, s.instruction_id,
    CASE
        WHEN s.kind = 'delegate' THEN coalesce(
            s.delegate_debug_id::VARCHAR,
            -- Vulkan writes its id among other fields.
            nullif(regexp_extract(s.delegate_debug_str, '"delegate_node_id"\s*:\s*(\d+)', 1), ''),
            s.delegate_debug_str
        )
    END AS delegate_id
FROM captures AS k
JOIN signatures AS s USING (capture_id)
JOIN linked_methods AS m USING (capture_id, block_index)
WHERE k.capture_id = capture_key
    AND s.kind IN ('operator_call', 'kernel', 'delegate_call', 'delegate')
    AND s.instruction_id IS NOT NULL
    AND s.chain_index <> -1
    AND m.method IS NOT NULL;

-- One node of an edge graph that has a debug handle, in order.
-- Columns:
--   record_id: the record
--   method: the graph's method
--   graph_id: the graph
--   node_index: the node
--   debug_handle: the handle
--   op: op of the node
CREATE VIEW _handled_nodes AS
SELECT g.record_id, g.method, g.graph_id, n.node_index, n.debug_handle, p.op
FROM graphs AS g
JOIN node_debug_handles AS n USING (record_id, graph_id)
JOIN op_nodes AS p USING (record_id, graph_id, node_index)
WHERE g.stage = 'edge_dialect_exported_program';

-- One debug handle of an event of a capture's blocks. Kernels and calls have the handles of their instruction. Events
-- of a delegate have the handles that the backend's map lists for their id. If the map lacks an id, keys that are a
-- part of the id are tried, the longest first, because some backends write more than the id. Keys that are numbers are
-- not tried, because they may match by chance.
CREATE MACRO _event_handles(capture_key) AS TABLE
WITH instruction_events AS MATERIALIZED (FROM _instruction_events(capture_key)),
delegate_keys AS (
    SELECT e.signature_index, d.delegate_debug_id
    FROM instruction_events AS e
    JOIN delegate_debug_handles AS d
        ON d.record_id = e.record_id
        AND d.method = e.method
        AND d.instruction_id = e.instruction_id
        AND (
            d.delegate_debug_id = e.delegate_id
            OR (contains(e.delegate_id, d.delegate_debug_id) AND NOT regexp_full_match(d.delegate_debug_id, '\d+'))
        )
    WHERE e.kind = 'delegate'
    QUALIFY row_number() OVER (
        PARTITION BY e.signature_index
        ORDER BY d.delegate_debug_id = e.delegate_id DESC, length(d.delegate_debug_id) DESC, d.delegate_debug_id
    ) = 1
)
SELECT e.signature_index, h.position, h.debug_handle
FROM instruction_events AS e
JOIN debug_handles AS h USING (record_id, method, instruction_id)
WHERE e.kind <> 'delegate'
UNION ALL
SELECT e.signature_index, d.position, d.debug_handle
FROM instruction_events AS e
JOIN delegate_keys AS k USING (signature_index)
JOIN delegate_debug_handles AS d USING (record_id, method, instruction_id, delegate_debug_id);

-- One debug handle of an event of a linked capture's blocks, as `_event_handles` found it.
CREATE MACRO _linked_handles(capture_key) AS TABLE
SELECT o.signature_index, generate_subscripts(o.debug_handles, 1) AS position, unnest(o.debug_handles) AS debug_handle
FROM signature_ops AS o
WHERE o.capture_id = capture_key;
