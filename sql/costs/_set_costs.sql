-- The costs of one set of a record's nodes: the operations of all its nodes; the bytes that come from outside, and
-- those that are used outside or not at all. Values that nodes of a set pass to each other needn't go through memory.
CREATE MACRO _set_costs(
    target,  -- a table of the record: record_id
    sets  -- a table of the sets: item, is_additive, graph_id and nodes
) AS TABLE
WITH members AS MATERIALIZED (
    SELECT m.item, m.is_additive, m.graph_id, unnest(m.nodes) AS node_index FROM query_table(sets) AS m
),
costed AS MATERIALIZED (
    SELECT c.graph_id, c.node_index, c.moves, c.flops, c.bytes_read, c.reason
    FROM query_table(target) AS a
    JOIN costed_nodes AS c USING (record_id)
),
taken AS MATERIALIZED (
    SELECT t.graph_id, t.node_index, t.value_index, any_value(v.node_index) AS maker, min(t.position) AS position,
        max(v.bytes) AS bytes
    FROM query_table(target) AS a
    JOIN node_arguments AS t USING (record_id)
    JOIN node_values AS v ON v.record_id = t.record_id AND v.graph_id = t.graph_id AND v.value_index = t.value_index
    GROUP BY t.graph_id, t.node_index, t.value_index
),
input AS MATERIALIZED (
    SELECT v.graph_id, v.node_index, v.value_index, v.bytes
    FROM query_table(target) AS a
    JOIN node_values AS v USING (record_id)
    WHERE v.node_index IS NOT NULL
),
all_given AS (
    SELECT g.graph_id, g.node_index, CASE WHEN count(*) = count(g.bytes) THEN sum(g.bytes) END AS bytes
    FROM input AS g
    GROUP BY g.graph_id, g.node_index
),
-- One value that a node reads or writes. A value that it takes twice is read once.
moved AS MATERIALIZED (
    SELECT t.graph_id, t.node_index, t.value_index, t.maker, true AS is_read,
        CASE
            WHEN o.moves IN ('nothing', 'made') THEN 0
            WHEN o.moves = 'all' THEN t.bytes
            WHEN o.moves = 'update' THEN CASE WHEN t.position = 0 THEN t.bytes ELSE 0 END
            WHEN o.moves = 'chosen' AND t.position = 0 THEN a.bytes
            WHEN o.moves = 'chosen' THEN t.bytes
        END AS bytes
    FROM taken AS t
    JOIN costed AS o ON o.graph_id = t.graph_id AND o.node_index = t.node_index
    LEFT JOIN all_given AS a ON a.graph_id = t.graph_id AND a.node_index = t.node_index
    UNION ALL
    SELECT g.graph_id, g.node_index, g.value_index, g.node_index AS maker, false AS is_read,
        CASE
            WHEN o.moves = 'nothing' THEN 0
            WHEN o.moves IN ('all', 'chosen', 'made') THEN g.bytes
            WHEN o.moves = 'update' THEN t.bytes
        END AS bytes
    FROM input AS g
    JOIN costed AS o ON o.graph_id = g.graph_id AND o.node_index = g.node_index
    LEFT JOIN taken AS t
        ON o.moves = 'update' AND t.graph_id = g.graph_id AND t.node_index = g.node_index AND t.position = 0
),
uses AS (
    SELECT b.graph_id, b.value_index, list(b.node_index) AS users
    FROM moved AS b
    WHERE b.is_read
    GROUP BY b.graph_id, b.value_index
),
sides AS (
    SELECT m.item, b.is_read, b.value_index, max(b.bytes) AS bytes, bool_or(b.bytes IS NULL) AS is_unknown
    FROM members AS m
    JOIN moved AS b ON b.graph_id = m.graph_id AND b.node_index = m.node_index
    LEFT JOIN uses AS u ON u.graph_id = b.graph_id AND u.value_index = b.value_index
    LEFT JOIN (
        SELECT s.item, s.graph_id, list(s.node_index) AS nodes FROM members AS s GROUP BY s.item, s.graph_id
    ) AS s ON s.item = m.item AND s.graph_id = m.graph_id
    WHERE CASE
        WHEN b.is_read THEN NOT coalesce(list_contains(s.nodes, b.maker), false)
        ELSE u.users IS NULL OR NOT list_has_all(s.nodes, u.users)
    END
    GROUP BY m.item, b.is_read, b.value_index
),
bytes AS (
    SELECT
        d.item, bool_or(d.is_unknown) AS is_unknown, coalesce(sum(d.bytes) FILTER (WHERE d.is_read), 0) AS bytes_read,
        coalesce(sum(d.bytes) FILTER (WHERE NOT d.is_read), 0) AS bytes_written
    FROM sides AS d
    GROUP BY d.item
),
shared AS (
    SELECT m.is_additive, m.graph_id, m.node_index
    FROM members AS m
    GROUP BY m.is_additive, m.graph_id, m.node_index
    HAVING count(DISTINCT m.item) > 1
),
added AS (
    SELECT m.item, count(*) AS nodes, sum(c.flops) AS flops, count(c.flops) AS with_flops,
        count(c.bytes_read) AS with_bytes, count(c.reason) AS unknown, min_by(c.reason, m.node_index) AS reason,
        string_agg(DISTINCT p.op_type, ' ' ORDER BY p.op_type) AS op_types,
        CASE WHEN count(DISTINCT p.module_path) = 1 THEN min(p.module_path) END AS module_path,
        bool_or(h.node_index IS NOT NULL) AS is_shared
    FROM members AS m
    JOIN query_table(target) AS a ON true
    JOIN op_nodes AS p ON p.record_id = a.record_id AND p.graph_id = m.graph_id AND p.node_index = m.node_index
    JOIN costed AS c ON c.graph_id = m.graph_id AND c.node_index = m.node_index
    LEFT JOIN shared AS h ON h.is_additive = m.is_additive AND h.graph_id = m.graph_id AND h.node_index = m.node_index
    GROUP BY m.item
)
SELECT a.item, a.nodes, CASE WHEN a.nodes = a.with_flops THEN try_cast(a.flops AS BIGINT) END AS flops,
    CASE
        WHEN a.nodes = a.with_bytes AND NOT coalesce(b.is_unknown, false)
            THEN try_cast(coalesce(b.bytes_read, 0) AS BIGINT)
    END AS bytes_read,
    CASE
        WHEN a.nodes = a.with_bytes AND NOT coalesce(b.is_unknown, false)
            THEN try_cast(coalesce(b.bytes_written, 0) AS BIGINT)
    END AS bytes_written,
    a.unknown, a.reason, a.op_types, a.module_path, a.is_shared
FROM added AS a
LEFT JOIN bytes AS b ON b.item = a.item;
