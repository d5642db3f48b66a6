-- One event of a capture's blocks that belongs to an instruction, with what the
-- linked record says of it. Needs a linked record with an edge graph and maps.
-- Columns:
--   block_index: the event block
--   slot: position in the block's list of distinct events
--   signature_index: the event, in `signatures`
--   event_name: the event's label
--   method: the method that its block ran
--   instruction_id: the instruction
--   debug_handles: its debug handles, in order, with repeats; NULL where it has none
--   op_types: what the nodes of these handles call, handle by handle; empty where none has a node
--   own_op_type: what its own nodes call; NULL where it has none or they call several ops
--   module_path: the deepest module that all of its own nodes stand in; NULL where none is told
--   source_file: file of the user's line; NULL where it comes from several or none
--   source_line: that line; NULL where it comes from several or none
--   mapping: exact, or aligned within a delegate; NULL where it has no nodes
--   backend: the backend of its delegate; NULL for what no delegate ran
CREATE MACRO event_ops(
    capture  -- name, hash prefix, @latest or selector
) AS TABLE
WITH
nodes AS MATERIALIZED (
    SELECT n.* FROM event_nodes(capture) AS n
),
op_types AS (
    SELECT
        n.signature_index,
        list(n.op_type ORDER BY n.position) FILTER (WHERE n.mapping = 'exact')
            AS op_types
    FROM nodes AS n
    GROUP BY n.signature_index
),
handles AS (
    SELECT
        h.signature_index,
        list(h.debug_handle ORDER BY h.position) AS debug_handles
    FROM _event_handles(capture) AS h
    GROUP BY h.signature_index
)
SELECT
    e.block_index,
    e.slot,
    e.signature_index,
    e.label AS event_name,
    e.method,
    e.instruction_id,
    h.debug_handles,
    coalesce(o.op_types, []) AS op_types,
    m.op_type AS own_op_type,
    m.module_path,
    m.source_file,
    m.source_line,
    m.mapping,
    d.backend
FROM _instruction_events(capture) AS e
LEFT JOIN handles AS h ON h.signature_index = e.signature_index
LEFT JOIN op_types AS o ON o.signature_index = e.signature_index
LEFT JOIN _event_modules(capture) AS m ON m.signature_index = e.signature_index
LEFT JOIN delegates AS d
    ON d.record_id = e.record_id
    AND d.method = e.method
    AND d.instruction_id = e.instruction_id
    AND e.kind IN ('delegate', 'delegate_call')
ORDER BY e.block_index, e.slot, e.signature_index;
