-- One event of a capture's blocks that belongs to an instruction, with its ops, module and line in the linked record.
-- Needs a linked record with an edge graph and maps.
-- Shown: event_name!, instruction_id!#, array_to_string(op_types[:3], ', ') || CASE WHEN len(op_types) > 3 THEN ', ' ||
--   len(op_types) - 3 || ' more' ELSE '' END AS op_types!, module_path AS module!, source_file, source_line#, mapping,
--   backend, method, output_shape, block_index#
-- Columns:
--   block_index: the event block
--   slot: position in the block's list of distinct events
--   signature_index: the event, in `signatures`
--   event_name: the event's label
--   method: the method that its block ran
--   instruction_id: the instruction
--   debug_handles: its debug handles, in order, with repeats; NULL if there is none
--   op_types: op types of the nodes of these handles, in the order of the handles; empty if no handle has a node
--   own_op_type: op type of the nodes that it runs itself; NULL if it runs none, or nodes of several op types
--   output_shape: sizes of the first output of the first node that it runs itself, as text; NULL if unknown
--   module_path: deepest module that contains all nodes that the event runs itself; for a delegate's event without nodes, that contains all nodes of its call; NULL where unknown
--   source_file: file of the user's line; NULL if the event comes from several lines or none
--   source_line: line in that file; NULL if the event comes from several lines or none
--   mapping: exact; aligned (within a delegate); call, if module and line are those of its delegate's call; NULL for other events without nodes
--   backend: backend of its delegate; NULL if no delegate ran it
CREATE MACRO event_ops(capture) AS TABLE
SELECT s.block_index, s.slot, o.signature_index, s.label AS event_name, o.method, s.instruction_id, o.debug_handles,
    o.op_types, o.op_type AS own_op_type, o.output_shape, o.module_path, o.source_file, o.source_line, o.mapping,
    o.backend
FROM (SELECT _any_capture_id(capture) AS capture_id) AS a
JOIN signature_ops AS o USING (capture_id)
JOIN signatures AS s USING (capture_id, signature_index)
ORDER BY s.block_index, s.slot, o.signature_index;
