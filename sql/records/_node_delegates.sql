-- One node of a record's edge graphs that has a debug handle of a delegate's call, and whether the delegate runs it.
-- Nodes of one decomposed op share a handle, and a delegate may have taken only some of them. The algorithm: a
-- delegate's call lists a handle once per node, including nodes that select one of several outputs. A node with the
-- handle of a kernel and the kernel's op belongs to the kernel. If there are several such nodes, it is the first if the
-- kernel precedes the delegates, else the last. If more nodes remain than delegates list, the last view_copy nodes are
-- in no program. If the ops of kernels are unknown, kernels are assumed to run the first and the last of the other
-- nodes.
CREATE MACRO _node_delegates(record_key, program_key, capture_key) AS TABLE
WITH
-- The number of nodes in delegates, by handle.
slots AS MATERIALIZED (
    SELECT h.method, h.debug_handle, h.instruction_id, any_value(d.backend) AS backend, count(*) AS entries
    FROM delegates AS d
    JOIN debug_handles AS h USING (record_id, method, instruction_id)
    WHERE d.record_id = record_key
    GROUP BY h.method, h.debug_handle, h.instruction_id
),
shared AS MATERIALIZED (
    SELECT s.method, s.debug_handle, min(s.instruction_id) AS first_call, sum(s.entries)::BIGINT AS entries
    FROM slots AS s
    GROUP BY s.method, s.debug_handle
),
kernels AS MATERIALIZED (
    SELECT h.method, h.debug_handle, k.op, count(*) FILTER (WHERE h.instruction_id < s.first_call) AS before,
        count(*) FILTER (WHERE h.instruction_id > s.first_call) AS after
    FROM shared AS s
    JOIN debug_handles AS h ON h.record_id = record_key AND h.method = s.method AND h.debug_handle = s.debug_handle
    LEFT JOIN delegates AS d
        ON d.record_id = h.record_id AND d.method = h.method AND d.instruction_id = h.instruction_id
    LEFT JOIN _kernel_ops(record_key, program_key, capture_key) AS k
        ON k.method = h.method AND k.instruction_id = h.instruction_id
    WHERE d.instruction_id IS NULL
    GROUP BY h.method, h.debug_handle, k.op
),
-- Nodes by name in a graph of the record that has the delegates' calls as nodes.
left_over AS (
    SELECT g.method, p.name
    FROM graphs AS g
    JOIN op_nodes AS p USING (record_id, graph_id)
    WHERE g.record_id = record_key AND p.subgraph = '' AND g.stage <> 'edge_dialect_exported_program'
    QUALIFY count(
        CASE WHEN p.op_type = 'higher_order.executorch_call_delegate' THEN 1 END
    ) OVER (PARTITION BY g.graph_id) = (
        SELECT count(*) FROM delegates AS d WHERE d.record_id = g.record_id AND d.method = g.method
    )
),
lowered AS (SELECT DISTINCT l.method FROM left_over AS l WHERE l.name = 'executorch_call_delegate'),
nodes AS (
    SELECT s.method, s.debug_handle, s.entries, g.graph_id, p.node_index, p.name, string_split(p.op, '.')[1] AS op,
        string_split(p.op, '.')[1] = 'view_copy' AS is_view
    FROM shared AS s
    JOIN graphs AS g ON g.record_id = record_key AND g.method = s.method AND g.stage = 'edge_dialect_exported_program'
    JOIN node_debug_handles AS n USING (record_id, graph_id, debug_handle)
    JOIN op_nodes AS p USING (record_id, graph_id, node_index)
    QUALIFY row_number() OVER (PARTITION BY g.graph_id, p.node_index ORDER BY n.debug_handle) = 1
),
-- A node counts together with the nodes that select its outputs, which records lack.
weighed AS (
    SELECT n.*,
        1 + count(v.value_name) FILTER (
            WHERE v.value_name <> n.name AND NOT starts_with(v.value_name, n.name || '_unused_')
        ) AS weight
    FROM nodes AS n
    LEFT JOIN (FROM node_values AS i WHERE i.record_id = record_key) AS v USING (graph_id, node_index)
    GROUP BY ALL
),
placed AS (
    SELECT w.*, row_number() OVER (PARTITION BY w.graph_id, w.debug_handle, w.op ORDER BY w.node_index) AS place,
        count(*) OVER (PARTITION BY w.graph_id, w.debug_handle, w.op) AS places
    FROM weighed AS w
),
named AS (
    SELECT w.*, l.method IS NOT NULL AS is_lowered,
        CASE
            WHEN l.method IS NOT NULL THEN o.name IS NOT NULL
            ELSE w.place <= coalesce(k.before, 0) OR w.place > w.places - coalesce(k.after, 0)
        END AS is_left
    FROM placed AS w
    LEFT JOIN kernels AS k USING (method, debug_handle, op)
    LEFT JOIN lowered AS l USING (method)
    LEFT JOIN left_over AS o USING (method, name)
),
unnamed AS (
    SELECT k.method, k.debug_handle, sum(k.before + k.after)::BIGINT AS kernels,
        coalesce(sum(k.before) FILTER (WHERE k.op IS NULL), 0) AS before,
        coalesce(sum(k.after) FILTER (WHERE k.op IS NULL), 0) AS after
    FROM kernels AS k
    GROUP BY k.method, k.debug_handle
),
guessed AS (
    SELECT n.*, coalesce(u.kernels, 0) AS kernels, coalesce(u.before + u.after, 0) AS guesses,
        n.is_left OR NOT n.is_lowered AND NOT n.is_view AND (
            row_number() OVER rest <= coalesce(u.before, 0)
            OR row_number() OVER rest > count(*) OVER (
                PARTITION BY n.graph_id, n.debug_handle, n.is_left, n.is_view
            ) - coalesce(u.after, 0)
        ) AS is_kernels
    FROM named AS n
    LEFT JOIN unnamed AS u USING (method, debug_handle)
    WINDOW rest AS (PARTITION BY n.graph_id, n.debug_handle, n.is_left, n.is_view ORDER BY n.node_index)
),
counted AS (
    SELECT g.*,
        -- The number of remaining nodes that no delegate has, and the number of remaining nodes that are views.
        coalesce(sum(g.weight) FILTER (WHERE NOT g.is_kernels) OVER handle, 0) - g.entries AS surplus,
        count(CASE WHEN NOT g.is_kernels AND g.is_view THEN 1 END) OVER handle AS views,
        row_number() OVER (
            PARTITION BY g.graph_id, g.debug_handle, g.is_kernels
            ORDER BY g.is_view DESC, g.node_index DESC
        ) AS place_from_end,
        min(g.op) FILTER (WHERE NOT g.is_left) OVER handle
        = max(g.op) FILTER (WHERE NOT g.is_left) OVER handle AS is_one_op
    FROM guessed AS g
    WINDOW handle AS (PARTITION BY g.graph_id, g.debug_handle)
),
decided AS (
    SELECT c.*,
        NOT c.is_kernels AND (
            c.is_lowered
            OR c.place_from_end > c.surplus
            OR c.guesses > 0 AND NOT c.is_view
        ) AS is_delegated,
        CASE
            WHEN c.is_lowered THEN 'graph'
            WHEN NOT c.is_left AND NOT coalesce(c.is_one_op, true)
                AND (c.guesses > 0 OR c.surplus > c.views) THEN 'handles'
            WHEN c.kernels > c.guesses THEN 'kernels'
            ELSE 'record'
        END AS basis
    FROM counted AS c
),
-- The nodes of a handle, assigned in order to the calls that have the handle.
assigned AS (
    SELECT d.graph_id, d.debug_handle, d.node_index, d.method, d.basis, d.is_delegated, NULL AS instruction_id,
        coalesce(
            sum(CASE WHEN d.is_delegated THEN d.weight ELSE 0 END) OVER (
                PARTITION BY d.graph_id, d.debug_handle
                ORDER BY d.node_index
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            ),
            0
        ) AS place
    FROM decided AS d
    UNION ALL
    SELECT g.graph_id, s.debug_handle, NULL AS node_index, s.method, NULL AS basis, false AS is_delegated,
        s.instruction_id,
        coalesce(
            sum(s.entries) OVER (
                PARTITION BY g.graph_id, s.debug_handle
                ORDER BY s.instruction_id
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            ),
            0
        ) AS place
    FROM slots AS s
    JOIN graphs AS g ON g.record_id = record_key AND g.method = s.method AND g.stage = 'edge_dialect_exported_program'
),
handle_calls AS (
    SELECT l.*,
        max(l.instruction_id) OVER (
            PARTITION BY l.graph_id, l.debug_handle
            ORDER BY l.place, l.node_index NULLS FIRST
            ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
        ) AS call
    FROM assigned AS l
)
SELECT c.method, c.graph_id, c.node_index, c.debug_handle, CASE WHEN c.is_delegated THEN c.call END AS instruction_id,
    CASE WHEN c.is_delegated THEN s.backend END AS backend, c.basis
FROM handle_calls AS c
JOIN slots AS s ON s.method = c.method AND s.debug_handle = c.debug_handle AND s.instruction_id = c.call
WHERE c.node_index IS NOT NULL;
