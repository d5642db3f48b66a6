-- One node of a record's graphs of a stage, with the keys to match nodes by.
CREATE MACRO _graph_nodes(
    record_key,
    stage  -- stage of its graphs, in `graphs`
) AS TABLE
WITH nodes AS MATERIALIZED (
    SELECT p.graph_id, p.node_index, p.graph_id::BIGINT * 4294967296 + p.node_index AS node, g.method, p.subgraph,
        coalesce(p.module_path, '') AS module_path, p.op_type
    FROM graphs AS g
    JOIN op_nodes AS p USING (record_id, graph_id)
    WHERE g.record_id = record_key AND g.stage = stage
),
edges AS MATERIALIZED (
    SELECT e.graph_id::BIGINT * 4294967296 + e.from_node AS from_node,
        e.graph_id::BIGINT * 4294967296 + e.to_node AS to_node, e.position
    FROM op_edges AS e
    WHERE e.record_id = record_key
),
outputs AS (
    SELECT v.graph_id, v.node_index,
        string_agg(
            coalesce(v.dtype, 'none') || coalesce(
                '[' || array_to_string(list_transform(v.sizes, lambda s: coalesce(s::VARCHAR, '?')), ', ') || ']', ''
            ), ', ' ORDER BY v.output_index
        ) AS outputs
    FROM node_values AS v
    WHERE v.record_id = record_key AND v.node_index IS NOT NULL
    GROUP BY v.graph_id, v.node_index
),
inputs AS (
    SELECT e.to_node AS node, string_agg(n.op_type, ' ' ORDER BY e.position) AS ops
    FROM edges AS e
    JOIN nodes AS n ON n.node = e.from_node
    GROUP BY e.to_node
),
users AS (
    SELECT e.from_node AS node, string_agg(n.op_type, ' ' ORDER BY n.op_type) AS ops
    FROM edges AS e
    JOIN nodes AS n ON n.node = e.to_node
    GROUP BY e.from_node
)
SELECT n.graph_id, n.node_index, n.node, n.method, n.subgraph, n.module_path, n.op_type,
    coalesce(o.outputs, '') AS outputs, coalesce(i.ops, '') AS inputs, coalesce(u.ops, '') AS users
FROM nodes AS n
LEFT JOIN outputs AS o USING (graph_id, node_index)
LEFT JOIN inputs AS i USING (node)
LEFT JOIN users AS u USING (node);

-- One matched node, by equal keys and the order in the graphs.
CREATE MACRO _paired_nodes(
    keyed,  -- nodes of both sides as a list, each with is_base, id and key
    is_strict  -- whether a key must occur equally often on both sides
) AS TABLE
WITH placed AS (
    SELECT k.node.is_base AS is_base, k.node.id AS id, k.node.key AS key,
        row_number() OVER (PARTITION BY k.node.is_base, k.node.key ORDER BY k.node.id) AS place,
        count(*) OVER (PARTITION BY k.node.is_base, k.node.key) AS places
    FROM (SELECT unnest(keyed) AS node) AS k
),
pairs AS (
    SELECT b.id AS base_id, n.id AS new_id
    FROM placed AS b
    JOIN placed AS n ON n.key = b.key AND n.place = b.place AND (n.places = b.places OR NOT is_strict)
    WHERE b.is_base AND NOT n.is_base
)
SELECT p.base_id AS id, p.base_id AS label FROM pairs AS p
UNION ALL
SELECT p.new_id, p.base_id FROM pairs AS p;
