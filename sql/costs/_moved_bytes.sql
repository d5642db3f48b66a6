-- One value that a node of a record reads or writes. A value that it takes twice is read once.
CREATE MACRO _moved_bytes(record_key) AS TABLE
WITH ops AS (
    SELECT p.graph_id, p.node_index, p.moves FROM costed_nodes AS p WHERE p.record_id = record_key
),
taken AS MATERIALIZED (
    SELECT t.graph_id, t.node_index, t.value_index, any_value(v.node_index) AS maker, min(t.position) AS position,
        max(v.bytes) AS bytes
    FROM node_arguments AS t
    JOIN node_values AS v ON v.record_id = t.record_id AND v.graph_id = t.graph_id AND v.value_index = t.value_index
    WHERE t.record_id = record_key
    GROUP BY t.graph_id, t.node_index, t.value_index
),
input AS MATERIALIZED (
    SELECT v.graph_id, v.node_index, v.value_index, v.bytes
    FROM node_values AS v
    WHERE v.record_id = record_key AND v.node_index IS NOT NULL
),
all_given AS (
    SELECT g.graph_id, g.node_index, CASE WHEN count(*) = count(g.bytes) THEN sum(g.bytes) END AS bytes
    FROM input AS g
    GROUP BY g.graph_id, g.node_index
)
SELECT t.graph_id, t.node_index, t.value_index, t.maker, true AS is_read,
    CASE
        WHEN o.moves IN ('nothing', 'made') THEN 0
        WHEN o.moves = 'all' THEN t.bytes
        WHEN o.moves = 'update' THEN CASE WHEN t.position = 0 THEN t.bytes ELSE 0 END
        WHEN o.moves = 'chosen' AND t.position = 0 THEN a.bytes
        WHEN o.moves = 'chosen' THEN t.bytes
    END AS bytes
FROM taken AS t
JOIN ops AS o ON o.graph_id = t.graph_id AND o.node_index = t.node_index
LEFT JOIN all_given AS a ON a.graph_id = t.graph_id AND a.node_index = t.node_index
UNION ALL
SELECT g.graph_id, g.node_index, g.value_index, g.node_index AS maker, false AS is_read,
    CASE
        WHEN o.moves = 'nothing' THEN 0
        WHEN o.moves IN ('all', 'chosen', 'made') THEN g.bytes
        WHEN o.moves = 'update' THEN t.bytes
    END AS bytes
FROM input AS g
JOIN ops AS o ON o.graph_id = g.graph_id AND o.node_index = g.node_index
LEFT JOIN taken AS t
    ON o.moves = 'update' AND t.graph_id = g.graph_id AND t.node_index = g.node_index AND t.position = 0;
