-- One node of the graphs of the sides of a comparison of graphs, with the keys to match nodes by. `id` is its key among
-- the nodes of both sides.
CREATE MACRO _graph_nodes(
    sides  -- the name of a table with columns is_base, record_id and stage
) AS TABLE
WITH nodes AS MATERIALIZED (
    SELECT s.is_base, s.record_id, s.stage, p.graph_id, p.node_index,
        2 * (p.graph_id::BIGINT * 4294967296 + p.node_index) + (NOT s.is_base)::INTEGER AS id, g.method, p.subgraph,
        p.module_path, coalesce(p.module_path, '') AS module, p.op_type, p.name
    FROM query_table(sides) AS s
    JOIN graphs AS g USING (record_id, stage)
    JOIN op_nodes AS p USING (record_id, graph_id)
),
edges AS MATERIALIZED (
    SELECT f.id AS from_id, t.id AS to_id, e.position, f.op_type AS from_op, t.op_type AS to_op
    FROM op_edges AS e
    JOIN nodes AS f ON f.record_id = e.record_id AND f.graph_id = e.graph_id AND f.node_index = e.from_node
    JOIN nodes AS t ON t.id = f.id + 2 * (e.to_node::BIGINT - e.from_node)
),
outputs AS (
    SELECT v.record_id, v.graph_id, v.node_index,
        string_agg(v.type || coalesce(v.shape, ''), ', ' ORDER BY v.output_index) AS outputs,
        string_agg(v.type, ', ' ORDER BY v.output_index) AS dtypes,
        string_agg(coalesce(v.shape, 'none'), ', ' ORDER BY v.output_index) AS shapes
    FROM (
        SELECT v.record_id, v.graph_id, v.node_index, v.output_index, coalesce(v.dtype, 'none') AS type,
            '[' || array_to_string(list_transform(v.sizes, lambda s: coalesce(s::VARCHAR, '?')), ', ') || ']' AS shape
        FROM node_values AS v
        WHERE v.node_index IS NOT NULL AND v.record_id IN (SELECT s.record_id FROM query_table(sides) AS s)
    ) AS v
    GROUP BY v.record_id, v.graph_id, v.node_index
),
inputs AS (
    SELECT e.to_id AS id, string_agg(e.from_op, ' ' ORDER BY e.position) AS ops FROM edges AS e GROUP BY e.to_id
),
users AS (
    SELECT e.from_id AS id, string_agg(e.to_op, ' ' ORDER BY e.to_op) AS ops FROM edges AS e GROUP BY e.from_id
)
SELECT n.*, coalesce(o.outputs, '') AS outputs, o.dtypes, o.shapes, coalesce(i.ops, '') AS inputs,
    coalesce(u.ops, '') AS users
FROM nodes AS n
LEFT JOIN outputs AS o USING (record_id, graph_id, node_index)
LEFT JOIN inputs AS i USING (id)
LEFT JOIN users AS u USING (id);
