-- One node of one of two graphs, with the label that it shares with its counterpart in the other; NULL if it has none.
-- Nodes of one record are matched by their debug handles, which an exported node shares with the edge nodes made from
-- it. Other nodes are matched in rounds. Each round uses less specific keys, and pairs the nodes of equal keys in order; a
-- round marked * does so only if a key is equally frequent on both sides. The keys, with the name of each round:
-- context* (module, op, outputs, and the ops around the node); neighbours (op, and the counterparts of the nodes around
-- it); module* (module, op and outputs, then without outputs); neighbours (the same without the op); order (module and
-- op); module* (module and outputs); order (op and outputs).
CREATE MACRO _matched_nodes(
    nodes  -- the name of a table with the rows of `_graph_nodes`
) AS TABLE
WITH RECURSIVE edges AS MATERIALIZED (
    SELECT f.id AS from_id, t.id AS to_id, e.position
    FROM op_edges AS e
    JOIN query_table(nodes) AS f
        ON f.record_id = e.record_id AND f.graph_id = e.graph_id AND f.node_index = e.from_node
    JOIN query_table(nodes) AS t ON t.id = f.id + 2 * (e.to_node::BIGINT - e.from_node)
),
-- Nodes of one record that share a debug handle, or are the same.
related AS (
    SELECT DISTINCT b.id AS base_id, n.id AS new_id, 'debug_handle' AS basis,
        (n.op_type = b.op_type)::INTEGER * 2 + (n.outputs = b.outputs)::INTEGER AS likeness
    FROM node_debug_handles AS h
    JOIN node_debug_handles AS o USING (record_id, debug_handle)
    JOIN query_table(nodes) AS b
        ON b.is_base AND b.record_id = h.record_id AND b.graph_id = h.graph_id AND b.node_index = h.node_index
    JOIN query_table(nodes) AS n
        ON NOT n.is_base AND n.record_id = o.record_id AND n.graph_id = o.graph_id AND n.node_index = o.node_index
        AND n.method = b.method AND n.stage <> b.stage
    UNION ALL
    SELECT b.id, n.id, 'graph', 3
    FROM query_table(nodes) AS b
    JOIN query_table(nodes) AS n ON b.is_base AND n.id = b.id + 1 AND n.record_id = b.record_id AND n.stage = b.stage
),
known AS (
    SELECT r.id, min(r.other) AS origin, min(CASE WHEN r.is_best THEN r.base_id END) AS label,
        min(r.basis) AS basis
    FROM (
        SELECT b.*, unnest([b.base_id, b.new_id]) AS id, unnest([b.new_id, b.base_id]) AS other
        FROM (
            SELECT r.*, row_number() OVER (PARTITION BY r.base_id ORDER BY r.likeness DESC, r.new_id) = 1
                AND row_number() OVER (PARTITION BY r.new_id ORDER BY r.likeness DESC, r.base_id) = 1 AS is_best
            FROM related AS r
        ) AS b
    ) AS r
    GROUP BY r.id
),
-- All nodes after each round. Only open nodes are still to be matched.
matched AS (
    SELECT 0 AS round, n.id, k.label, CASE WHEN k.label IS NOT NULL THEN k.basis END AS basis,
        k.id IS NULL AS is_open, k.origin
    FROM query_table(nodes) AS n
    LEFT JOIN known AS k USING (id)
    UNION ALL
    (
        WITH now AS MATERIALIZED (FROM matched AS m WHERE m.round < 8),
        -- The counterparts of the nodes around each node, as far as they are known.
        around AS (
            SELECT s.id,
                coalesce(string_agg(coalesce(s.label::VARCHAR, '?'), ' ' ORDER BY s.position)
                    FILTER (WHERE s.is_input), '') AS inputs,
                coalesce(string_agg(coalesce(s.label::VARCHAR, '?'), ' ' ORDER BY s.label)
                    FILTER (WHERE NOT s.is_input), '') AS users
            FROM (
                SELECT e.to_id AS id, true AS is_input, e.position, m.label
                FROM edges AS e
                JOIN now AS m ON m.id = e.from_id
                WHERE m.round IN (1, 4)
                UNION ALL
                SELECT e.from_id, false, 0, m.label
                FROM edges AS e
                JOIN now AS m ON m.id = e.to_id
                WHERE m.round IN (1, 4)
            ) AS s
            GROUP BY s.id
            HAVING count(s.label) > 0
        ),
        keyed AS (
            SELECT m.*, n.is_base, n.method, n.subgraph, CASE m.round
                WHEN 0 THEN [n.module, n.op_type, n.outputs, n.inputs, n.users]
                WHEN 1 THEN CASE WHEN a.id IS NOT NULL THEN [n.op_type, a.inputs, a.users] END
                WHEN 2 THEN [n.module, n.op_type, n.outputs]
                WHEN 4 THEN CASE WHEN a.id IS NOT NULL THEN [a.inputs, a.users] END
                WHEN 6 THEN CASE WHEN n.outputs <> '' THEN [n.module, n.outputs] END
                WHEN 7 THEN [n.op_type, n.outputs]
                ELSE [n.module, n.op_type]
            END AS key
            FROM now AS m
            JOIN query_table(nodes) AS n USING (id)
            LEFT JOIN around AS a USING (id)
        ),
        placed AS (
            SELECT k.*, row_number() OVER (same ORDER BY k.id) AS place, count(*) OVER same AS places
            FROM keyed AS k
            WINDOW same AS (PARTITION BY k.is_open, k.is_base, k.method, k.subgraph, k.key)
        ),
        paired AS (
            SELECT p.*, p.is_open AND p.key IS NOT NULL AND count(*) OVER pair = 2
                AND (p.round NOT IN (0, 2, 3, 6) OR min(p.places) OVER pair = max(p.places) OVER pair) AS is_paired,
                min(CASE WHEN p.is_base THEN p.id END) OVER pair AS base_id
            FROM placed AS p
            WINDOW pair AS (PARTITION BY p.is_open, p.method, p.subgraph, p.key, p.place)
        )
        SELECT p.round + 1, p.id, CASE WHEN p.is_paired THEN p.base_id ELSE p.label END,
            CASE WHEN p.is_paired
                THEN [
                    'context', 'neighbours', 'module', 'module', 'neighbours', 'order', 'module', 'order'
                ][p.round + 1]
                ELSE p.basis
            END,
            p.is_open AND NOT p.is_paired, p.origin
        FROM paired AS p
    )
)
SELECT m.id, m.label, m.basis, CASE WHEN m.label IS NULL THEN m.origin // 2 % 4294967296 END AS origin
FROM matched AS m
WHERE m.round = 8;
