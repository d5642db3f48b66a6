-- One value of a record's graphs that has the elements of an op's output. Nodes of one op share a debug handle. The
-- op's outputs are those of the one node whose values other ops take, or the graph returns. If that node only changes
-- the shape, the value that it takes has the same elements.
CREATE MACRO _op_results(record_key) AS TABLE
WITH RECURSIVE handled AS MATERIALIZED (
    SELECT g.stage, g.method, g.graph_id, h.node_index, h.debug_handle, p.op
    FROM graphs AS g
    JOIN node_debug_handles AS h USING (record_id, graph_id)
    JOIN op_nodes AS p USING (record_id, graph_id, node_index)
    WHERE g.record_id = record_key
),
made AS MATERIALIZED (
    SELECT h.*, v.output_index, v.value_index
    FROM handled AS h
    JOIN node_values AS v ON v.record_id = record_key AND v.graph_id = h.graph_id AND v.node_index = h.node_index
),
uses AS (
    SELECT m.graph_id, m.debug_handle, m.node_index, u.node_index IS NOT NULL AS is_within
    FROM made AS m
    JOIN node_arguments AS a ON a.record_id = record_key AND a.graph_id = m.graph_id AND a.value_index = m.value_index
    LEFT JOIN handled AS u
        ON u.graph_id = a.graph_id AND u.node_index = a.node_index AND u.debug_handle = m.debug_handle
    UNION ALL
    SELECT m.graph_id, m.debug_handle, m.node_index, false
    FROM made AS m
    JOIN graph_outputs AS o ON o.record_id = record_key AND o.graph_id = m.graph_id AND o.value_index = m.value_index
),
inner_nodes AS (
    SELECT u.graph_id, u.debug_handle, u.node_index
    FROM uses AS u
    GROUP BY u.graph_id, u.debug_handle, u.node_index
    HAVING bool_and(u.is_within)
),
last_nodes AS (
    SELECT h.*, min(h.node_index) OVER same_op = max(h.node_index) OVER same_op AS is_one
    FROM handled AS h
    LEFT JOIN inner_nodes AS i USING (graph_id, debug_handle, node_index)
    WHERE i.node_index IS NULL
    WINDOW same_op AS (PARTITION BY h.graph_id, h.debug_handle)
),
chain AS (
    SELECT n.stage, n.method, n.graph_id, n.debug_handle, n.node_index, NULL::INTEGER AS output_index,
        NULL::INTEGER AS result_index, 0 AS depth, n.op, n.node_index AS result_node
    FROM last_nodes AS n
    WHERE n.is_one
    UNION ALL
    SELECT c.stage, c.method, c.graph_id, c.debug_handle, m.node_index, m.output_index, 0 AS result_index,
        c.depth + 1 AS depth, m.op, c.result_node
    FROM chain AS c
    JOIN node_arguments AS a
        ON a.record_id = record_key AND a.graph_id = c.graph_id AND a.node_index = c.node_index AND a.position = 0
    JOIN made AS m ON m.graph_id = a.graph_id AND m.value_index = a.value_index AND m.debug_handle = c.debug_handle
    WHERE _keeps_elements(c.op) AND c.depth < 8
)
SELECT c.stage, c.method, c.graph_id, c.debug_handle, c.node_index, c.output_index, c.result_index, c.depth,
    c.result_node, NULL AS problem
FROM chain AS c
UNION ALL
SELECT DISTINCT
    n.stage, n.method, n.graph_id, n.debug_handle, NULL, NULL, NULL, 0, NULL, 'several nodes have results of the op'
FROM last_nodes AS n
WHERE NOT n.is_one;

-- Whether an op's output has the elements of its first argument, in the same order.
CREATE MACRO _keeps_elements(op) AS (
    string_split(op, '.')[1] IN (
        'view_copy', 'view', '_unsafe_view', 'reshape', 'squeeze_copy', 'squeeze', 'unsqueeze_copy', 'unsqueeze',
        'flatten', 'clone', '_clone_dim_order', 'alias_copy', 'alias', 'detach_copy', 'detach', 'contiguous'
    )
);
