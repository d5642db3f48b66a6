-- One node with a debug handle of a record's calls of delegates, as in `_node_delegates`, and how certain its call is.
-- Nodes of one handle in several calls are in the order of the calls; this order is certain only if each call depends
-- on all calls before it.
CREATE MACRO _certain_delegates(record_key, program_key, capture_key) AS TABLE
WITH RECURSIVE nodes AS MATERIALIZED (
    SELECT d.*, string_split(p.op, '.')[1] AS op
    FROM _node_delegates(record_key, program_key, capture_key) AS d
    JOIN op_nodes AS p ON p.record_id = record_key AND p.graph_id = d.graph_id AND p.node_index = d.node_index
),
-- Pairs of nodes of a handle in different places. Of nodes that delegates don't run, only those with the op of one that
-- they run can be taken for it.
pairs AS MATERIALIZED (
    SELECT
        u.graph_id, u.debug_handle, u.node_index AS from_node, v.node_index AS to_node, u.instruction_id AS from_call,
        v.instruction_id AS to_call, u.instruction_id IS NOT NULL AND v.instruction_id IS NOT NULL AS is_of_calls,
        'view_copy' IN (u.op, v.op) AS is_of_views
    FROM nodes AS u
    JOIN nodes AS v
        ON v.graph_id = u.graph_id
        AND v.debug_handle = u.debug_handle
        AND v.node_index > u.node_index
        AND v.instruction_id IS DISTINCT FROM u.instruction_id
    WHERE (u.op = v.op OR u.instruction_id <> v.instruction_id) AND u.basis <> 'graph'
),
bounds AS (
    SELECT p.graph_id, p.debug_handle, max(p.to_node) AS last_node FROM pairs AS p GROUP BY p.graph_id, p.debug_handle
),
reached AS (
    SELECT p.graph_id, p.debug_handle, p.from_node, p.from_node AS to_node FROM pairs AS p
    UNION
    SELECT r.graph_id, r.debug_handle, r.from_node, e.to_node
    FROM reached AS r
    JOIN bounds AS b USING (graph_id, debug_handle)
    JOIN op_edges AS e
        ON e.record_id = record_key AND e.graph_id = r.graph_id AND e.from_node = r.to_node AND e.to_node <= b.last_node
),
-- The possible instructions of a node: the call of its handle, if there is one call, or the kernels with its handle and
-- op, if there are as many nodes.
known AS MATERIALIZED (
    SELECT n.graph_id, n.node_index, n.instruction_id AS first_instruction, n.instruction_id AS last_instruction
    FROM nodes AS n
    WHERE n.instruction_id IS NOT NULL
        AND (n.graph_id, n.debug_handle) NOT IN (
            SELECT (p.graph_id, p.debug_handle) FROM pairs AS p WHERE p.is_of_calls
        )
    UNION ALL
    SELECT n.graph_id, n.node_index, k.first_instruction, k.last_instruction
    FROM (
        SELECT h.*, string_split(h.op, '.')[1] AS kernel_op,
            count(*) OVER (PARTITION BY h.graph_id, h.debug_handle, string_split(h.op, '.')[1]) AS nodes
        FROM _handled_nodes AS h
        WHERE h.record_id = record_key
    ) AS n
    JOIN (
        SELECT h.method, h.debug_handle, k.op, count(*) AS kernels, min(h.instruction_id) AS first_instruction,
            max(h.instruction_id) AS last_instruction
        FROM debug_handles AS h
        JOIN _kernel_ops(record_key, program_key, capture_key) AS k USING (method, instruction_id)
        WHERE h.record_id = record_key
        GROUP BY h.method, h.debug_handle, k.op
    ) AS k ON k.method = n.method AND k.debug_handle = n.debug_handle AND k.op = n.kernel_op AND k.kernels = n.nodes
),
-- Nodes before and after one of several calls, up to those whose instruction is known: its own is between these.
searched AS (
    SELECT DISTINCT n.graph_id, n.node_index, n.node_index AS found_node, d.is_forward,
        NULL::INTEGER AS first_instruction, NULL::INTEGER AS last_instruction
    FROM pairs AS p
    JOIN nodes AS n ON n.graph_id = p.graph_id AND n.node_index IN (p.from_node, p.to_node)
    CROSS JOIN (SELECT unnest([true, false]) AS is_forward) AS d
    WHERE p.is_of_calls
    UNION
    SELECT s.graph_id, s.node_index, CASE WHEN s.is_forward THEN e.to_node ELSE e.from_node END, s.is_forward,
        k.first_instruction, k.last_instruction
    FROM searched AS s
    JOIN op_edges AS e
        ON e.record_id = record_key
        AND e.graph_id = s.graph_id
        AND CASE WHEN s.is_forward THEN e.from_node ELSE e.to_node END = s.found_node
    LEFT JOIN known AS k
        ON k.graph_id = e.graph_id AND k.node_index = CASE WHEN s.is_forward THEN e.to_node ELSE e.from_node END
    WHERE s.first_instruction IS DISTINCT FROM s.last_instruction OR s.first_instruction IS NULL
),
limits AS (
    SELECT s.graph_id, s.node_index, max(s.first_instruction) FILTER (WHERE NOT s.is_forward) AS first_instruction,
        min(s.last_instruction) FILTER (WHERE s.is_forward) AS last_instruction
    FROM searched AS s
    GROUP BY s.graph_id, s.node_index
),
possible AS (
    SELECT n.graph_id, n.node_index, min(h.instruction_id) AS first_call, max(h.instruction_id) AS last_call
    FROM nodes AS n
    JOIN limits AS l USING (graph_id, node_index)
    JOIN delegates AS d ON d.record_id = record_key AND d.method = n.method
    JOIN debug_handles AS h
        ON h.record_id = d.record_id
        AND h.method = d.method
        AND h.instruction_id = d.instruction_id
        AND h.debug_handle = n.debug_handle
        AND h.instruction_id >= coalesce(l.first_instruction, 0)
        AND h.instruction_id <= coalesce(l.last_instruction, h.instruction_id)
    GROUP BY n.graph_id, n.node_index
),
open_handles AS (
    SELECT p.graph_id, p.debug_handle,
        bool_or(
            p.is_of_calls
            AND coalesce(
                p.from_call NOT BETWEEN u.first_call AND u.last_call
                OR p.to_call NOT BETWEEN v.first_call AND v.last_call
                OR (r.to_node IS NULL AND u.last_call > p.from_call AND v.first_call < p.to_call),
                true
            )
        ) AS is_open,
        bool_or(NOT p.is_of_calls AND (r.to_node IS NULL OR p.is_of_views)) AS is_inferred
    FROM pairs AS p
    LEFT JOIN reached AS r USING (graph_id, debug_handle, from_node, to_node)
    LEFT JOIN possible AS u ON u.graph_id = p.graph_id AND u.node_index = p.from_node
    LEFT JOIN possible AS v ON v.graph_id = p.graph_id AND v.node_index = p.to_node
    GROUP BY p.graph_id, p.debug_handle
)
SELECT n.method, n.graph_id, n.node_index, n.debug_handle, n.instruction_id, n.op,
    NOT coalesce(o.is_open, false) AS is_certain, coalesce(o.is_inferred, false) OR n.basis = 'handles' AS is_inferred
FROM nodes AS n
LEFT JOIN open_handles AS o USING (graph_id, debug_handle);
