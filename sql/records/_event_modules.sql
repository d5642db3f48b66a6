-- The place of one event in the model: the deepest module that contains all nodes that it runs, and the source line
-- that all of them come from.
CREATE MACRO _event_modules(capture_key) AS TABLE
WITH own_nodes AS MATERIALIZED (
    SELECT n.signature_index, n.position, n.graph_id, n.node_index, p.op_type, p.source_file, p.source_line, n.mapping,
        p.record_id
    FROM captures AS k
    JOIN signature_nodes AS n USING (capture_id)
    JOIN op_nodes AS p USING (record_id, graph_id, node_index)
    WHERE k.capture_id = capture_key AND n.is_own
),
placed AS (
    SELECT o.signature_index,
        min_by(
            {
                'record_id': o.record_id, 'graph_id': o.graph_id, 'node_index': o.node_index, 'op_type': o.op_type,
                'source_file': o.source_file, 'source_line': o.source_line, 'mapping': o.mapping
            },
            o.position
        ) AS first_node,
        count(*) AS nodes, count(DISTINCT o.op_type) AS op_types,
        count(DISTINCT (o.source_file, o.source_line)) FILTER (WHERE o.source_file IS NOT NULL) AS lines
    FROM own_nodes AS o
    GROUP BY o.signature_index
),
levels AS (
    SELECT o.signature_index, m.depth, any_value(m.module_path) AS module_path, count(*) AS nodes
    FROM own_nodes AS o
    JOIN node_modules AS m USING (record_id, graph_id, node_index)
    GROUP BY o.signature_index, m.depth
    HAVING count(DISTINCT m.module_path) = 1
),
deepest AS (
    SELECT l.signature_index, max_by(l.module_path, l.depth) AS module_path
    FROM levels AS l
    JOIN placed AS p USING (signature_index, nodes)
    GROUP BY l.signature_index
)
SELECT p.signature_index, CASE WHEN p.op_types = 1 THEN p.first_node.op_type END AS op_type,
    p.first_node.op_type AS first_op_type, v.sizes::VARCHAR AS output_shape, d.module_path,
    CASE WHEN p.lines = 1 THEN p.first_node.source_file END AS source_file,
    CASE WHEN p.lines = 1 THEN p.first_node.source_line END AS source_line, p.lines, p.first_node.mapping AS mapping
FROM placed AS p
LEFT JOIN deepest AS d USING (signature_index)
LEFT JOIN node_values AS v
    ON v.record_id = p.first_node.record_id
    AND v.graph_id = p.first_node.graph_id
    AND v.node_index = p.first_node.node_index
    AND v.output_index = 0;

-- The nodes, module and line of one event, from a capture's linked record: a row of the table `signature_ops`, computed
-- when the capture is linked, after its nodes.
CREATE MACRO _find_event_ops(capture_key) AS TABLE
WITH op_types AS (
    SELECT n.signature_index, list(p.op_type ORDER BY n.position) FILTER (WHERE n.mapping = 'exact') AS op_types
    FROM captures AS k
    JOIN signature_nodes AS n USING (capture_id)
    JOIN op_nodes AS p USING (record_id, graph_id, node_index)
    WHERE k.capture_id = capture_key
    GROUP BY n.signature_index
),
handles AS (
    SELECT h.signature_index, list(h.debug_handle ORDER BY h.position) AS debug_handles
    FROM _event_handles(capture_key) AS h
    GROUP BY h.signature_index
),
instruction_events AS MATERIALIZED (FROM _instruction_events(capture_key)),
modules AS MATERIALIZED (FROM _event_modules(capture_key)),
-- An event of a delegate without nodes has module and line of its call.
calls AS (
    SELECT e.block_index, e.chain_index, e.instruction_id, m.signature_index, m.module_path, m.source_file,
        m.source_line, m.lines
    FROM instruction_events AS e
    JOIN modules AS m USING (signature_index)
    WHERE e.kind = 'delegate_call'
    QUALIFY e.signature_index = min(e.signature_index) OVER (
        PARTITION BY e.block_index, e.chain_index, e.instruction_id
    )
)
SELECT e.signature_index, e.method, h.debug_handles, coalesce(o.op_types, []) AS op_types, m.op_type, m.first_op_type,
    m.output_shape, coalesce(m.module_path, c.module_path) AS module_path,
    coalesce(m.source_file, c.source_file) AS source_file, coalesce(m.source_line, c.source_line) AS source_line,
    coalesce(m.lines, c.lines, 0) AS lines,
    coalesce(m.mapping, CASE WHEN c.signature_index IS NOT NULL THEN 'call' END) AS mapping, d.backend
FROM instruction_events AS e
LEFT JOIN handles AS h USING (signature_index)
LEFT JOIN op_types AS o USING (signature_index)
LEFT JOIN modules AS m USING (signature_index)
LEFT JOIN calls AS c
    ON c.block_index = e.block_index
    AND c.chain_index = e.chain_index
    AND c.instruction_id = e.instruction_id
    AND m.signature_index IS NULL
    AND e.kind = 'delegate'
    AND _delegate_part(e.family) <> 'layout'
LEFT JOIN delegates AS d
    ON d.record_id = e.record_id
    AND d.method = e.method
    AND d.instruction_id = e.instruction_id
    AND e.kind IN ('delegate', 'delegate_call');
