-- A node of the edge graph and an event of a linked capture that have a debug handle in common.
CREATE MACRO _nodes_of_handles(capture_key) AS TABLE
SELECT
    e.signature_index, e.kind, e.instruction_id, e.kernel_op, h.position, n.debug_handle, n.graph_id, n.node_index, n.op
FROM _instruction_events(capture_key) AS e
JOIN _event_handles(capture_key) AS h USING (signature_index)
JOIN _handled_nodes AS n USING (record_id, method, debug_handle);

-- One node of the edge graph to which an event in a capture's blocks belongs. Kernels and calls have the nodes of their
-- instruction's debug handles. Events of a delegate have the nodes in the backend's map. Without a map, they have the
-- node of the op in the delegate's graph with which they are aligned, or else the node with which they are aligned.
-- Framework and user events have none. Needs a linked record with an edge graph and maps.
-- Shown: event_name!, node_name!, op_type!, mapping, module_path AS module!, source_file, source_line#, score#, is_own,
--   node_index#, block_index#
-- Columns:
--   signature_index: the event, in `signatures`
--   block_index: the event block
--   slot: position in the block's list of distinct events
--   event_name: the event's label
--   position: position of the node among the event's nodes, from 0
--   debug_handle: debug handle by which the event refers to the node
--   node_index: the node, in `op_nodes`
--   graph_id: its graph
--   node_name: name of the node
--   op_type: op type of the node: aten.addmm.default
--   is_own: whether the event's kernel, or the call of the event's delegate, runs the node; true for all nodes of an event if the event runs none of them
--   mapping: exact, by the record's maps; aligned, by order and class within a delegate
--   score: for an aligned event, the share of its call's events that have a node, without changes of layout and type; 1 for exact
--   module_path: path of the node's module, innermost; NULL where none was kept
--   source_file: file of the user's line that made the node; NULL where none was kept
--   source_line: line in that file; NULL where none was kept
CREATE MACRO event_nodes(capture) AS TABLE
SELECT n.signature_index, s.block_index, s.slot, s.label AS event_name, n.position, n.debug_handle, n.node_index,
    n.graph_id, p.name AS node_name, p.op_type, n.is_own, n.mapping, n.score, p.module_path, p.source_file,
    p.source_line
FROM (SELECT _any_capture_id(capture) AS capture_id) AS a
JOIN captures AS c USING (capture_id)
JOIN signature_nodes AS n USING (capture_id)
JOIN signatures AS s USING (capture_id, signature_index)
JOIN op_nodes AS p USING (record_id, graph_id, node_index)
ORDER BY s.block_index, s.slot, n.signature_index, n.position;
