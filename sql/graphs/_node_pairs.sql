-- One node of one of two graphs with its counterpart in the other. Nodes of one record are matched by their debug
-- handles, which an exported node shares with the edge nodes made from it. Other nodes are matched in rounds. Each
-- round uses less specific keys, and pairs the nodes of equal keys in order; a round marked * does so only if a key is
-- equally frequent on both sides. The keys, with the name of each round: context* (module, op, outputs, and the ops
-- around the node); neighbours (op, and the counterparts of the nodes around it); module* (module, op and outputs, then
-- without outputs); neighbours (the same without the op); order (module and op); module* (module and outputs); order
-- (op and outputs).
CREATE MACRO _node_pairs(
    base_record_key,  -- key of the record of base
    base_stage,  -- stage of its graphs, in `graphs`
    new_record_key,  -- key of the record of new
    new_stage  -- stage of its graphs, in `graphs`
) AS TABLE
WITH nodes AS MATERIALIZED (
    SELECT true AS is_base, 2 * b.node AS id, b.* FROM _graph_nodes(base_record_key, base_stage) AS b
    UNION ALL
    SELECT false, 2 * n.node + 1, n.* FROM _graph_nodes(new_record_key, new_stage) AS n
),
edges AS MATERIALIZED (
    SELECT f.id AS from_id, t.id AS to_id, e.position
    FROM op_edges AS e
    JOIN nodes AS f ON f.graph_id = e.graph_id AND f.node_index = e.from_node
    JOIN nodes AS t ON t.graph_id = e.graph_id AND t.node_index = e.to_node AND t.is_base = f.is_base
    WHERE e.record_id = CASE WHEN f.is_base THEN base_record_key ELSE new_record_key END
),
-- Nodes of one record that share a debug handle, or are the same.
related AS MATERIALIZED (
    SELECT DISTINCT b.id AS base_id, n.id AS new_id,
        (n.op_type = b.op_type)::INTEGER * 2 + (n.outputs = b.outputs)::INTEGER AS likeness
    FROM node_debug_handles AS h
    JOIN node_debug_handles AS o USING (record_id, debug_handle)
    JOIN nodes AS b ON b.is_base AND b.graph_id = h.graph_id AND b.node_index = h.node_index
    JOIN nodes AS n ON NOT n.is_base AND n.graph_id = o.graph_id AND n.node_index = o.node_index AND n.method = b.method
    WHERE h.record_id = base_record_key AND base_record_key = new_record_key AND base_stage <> new_stage
    UNION ALL
    SELECT b.id, n.id, 3
    FROM nodes AS b
    JOIN nodes AS n ON NOT n.is_base AND n.node = b.node
    WHERE b.is_base AND base_record_key = new_record_key AND base_stage = new_stage
),
best AS (
    SELECT r.base_id, r.new_id
    FROM related AS r
    QUALIFY row_number() OVER (PARTITION BY r.base_id ORDER BY r.likeness DESC, r.new_id) = 1
        AND row_number() OVER (PARTITION BY r.new_id ORDER BY r.likeness DESC, r.base_id) = 1
),
given AS MATERIALIZED (
    SELECT b.base_id AS id, b.base_id AS label FROM best AS b
    UNION ALL
    SELECT b.new_id, b.base_id FROM best AS b
),
rest AS MATERIALIZED (
    FROM nodes AS n
    WHERE n.id NOT IN (SELECT r.base_id FROM related AS r) AND n.id NOT IN (SELECT r.new_id FROM related AS r)
),
by_context AS MATERIALIZED (
    FROM _paired_nodes((
        SELECT list(struct_pack(is_base := r.is_base, id := r.id, key := [
            r.method, r.subgraph, r.module_path, r.op_type, r.outputs, r.inputs, r.users
        ])) FROM rest AS r
    ), true)
),
rest_1 AS MATERIALIZED (FROM rest AS r WHERE r.id NOT IN (SELECT c.id FROM by_context AS c)),
labels_1 AS MATERIALIZED (FROM given UNION ALL FROM by_context),
around_1 AS MATERIALIZED (FROM _labels_around((SELECT list(l) FROM labels_1 AS l), (SELECT list(e) FROM edges AS e))),
by_neighbours AS MATERIALIZED (
    FROM _paired_nodes((
        SELECT list(struct_pack(is_base := r.is_base, id := r.id, key := [
            r.method, r.subgraph, r.op_type, a.inputs, a.users
        ])) FROM rest_1 AS r JOIN around_1 AS a ON a.id = r.id
    ), false)
),
rest_2 AS MATERIALIZED (FROM rest_1 AS r WHERE r.id NOT IN (SELECT c.id FROM by_neighbours AS c)),
by_module AS MATERIALIZED (
    FROM _paired_nodes((
        SELECT list(struct_pack(is_base := r.is_base, id := r.id, key := [
            r.method, r.subgraph, r.module_path, r.op_type, r.outputs
        ])) FROM rest_2 AS r
    ), true)
),
rest_3 AS MATERIALIZED (FROM rest_2 AS r WHERE r.id NOT IN (SELECT c.id FROM by_module AS c)),
by_op AS MATERIALIZED (
    FROM _paired_nodes((
        SELECT list(struct_pack(is_base := r.is_base, id := r.id, key := [
            r.method, r.subgraph, r.module_path, r.op_type
        ])) FROM rest_3 AS r
    ), true)
),
rest_4 AS MATERIALIZED (FROM rest_3 AS r WHERE r.id NOT IN (SELECT c.id FROM by_op AS c)),
labels_4 AS MATERIALIZED (FROM labels_1 UNION ALL FROM by_neighbours UNION ALL FROM by_module UNION ALL FROM by_op),
around_4 AS MATERIALIZED (FROM _labels_around((SELECT list(l) FROM labels_4 AS l), (SELECT list(e) FROM edges AS e))),
by_place AS MATERIALIZED (
    FROM _paired_nodes((
        SELECT list(struct_pack(is_base := r.is_base, id := r.id, key := [
            r.method, r.subgraph, a.inputs, a.users
        ])) FROM rest_4 AS r JOIN around_4 AS a ON a.id = r.id
    ), false)
),
rest_5 AS MATERIALIZED (FROM rest_4 AS r WHERE r.id NOT IN (SELECT c.id FROM by_place AS c)),
by_order AS MATERIALIZED (
    FROM _paired_nodes((
        SELECT list(struct_pack(is_base := r.is_base, id := r.id, key := [
            r.method, r.subgraph, r.module_path, r.op_type
        ])) FROM rest_5 AS r
    ), false)
),
rest_6 AS MATERIALIZED (FROM rest_5 AS r WHERE r.id NOT IN (SELECT c.id FROM by_order AS c)),
by_outputs AS MATERIALIZED (
    FROM _paired_nodes((
        SELECT list(struct_pack(is_base := r.is_base, id := r.id, key := [
            r.method, r.subgraph, r.module_path, r.outputs
        ])) FROM rest_6 AS r WHERE r.outputs <> ''
    ), true)
),
rest_7 AS MATERIALIZED (FROM rest_6 AS r WHERE r.id NOT IN (SELECT c.id FROM by_outputs AS c)),
moved AS MATERIALIZED (
    FROM _paired_nodes((
        SELECT list(struct_pack(is_base := r.is_base, id := r.id, key := [
            r.method, r.subgraph, r.op_type, r.outputs
        ])) FROM rest_7 AS r
    ), false)
),
matched AS MATERIALIZED (
    SELECT g.id, g.label, CASE WHEN base_stage = new_stage THEN 'graph' ELSE 'debug_handle' END AS basis FROM given AS g
    UNION ALL
    SELECT c.id, c.label, 'context' FROM by_context AS c
    UNION ALL
    SELECT c.id, c.label, 'neighbours' FROM by_neighbours AS c
    UNION ALL
    SELECT c.id, c.label, 'module' FROM by_module AS c
    UNION ALL
    SELECT c.id, c.label, 'module' FROM by_op AS c
    UNION ALL
    SELECT c.id, c.label, 'neighbours' FROM by_place AS c
    UNION ALL
    SELECT c.id, c.label, 'order' FROM by_order AS c
    UNION ALL
    SELECT c.id, c.label, 'module' FROM by_outputs AS c
    UNION ALL
    SELECT c.id, c.label, 'order' FROM moved AS c
),
labelled AS (SELECT n.*, m.label, m.basis FROM nodes AS n LEFT JOIN matched AS m USING (id))
SELECT b.graph_id AS base_graph, b.node_index AS base_node, n.graph_id AS new_graph, n.node_index AS new_node, b.basis,
    CASE WHEN n.id IS NOT NULL AND b.id IS NOT NULL THEN (
        (n.op_type = b.op_type)::INTEGER + (n.outputs = b.outputs)::INTEGER
        + (n.module_path = b.module_path)::INTEGER + (n.inputs = b.inputs)::INTEGER + (n.users = b.users)::INTEGER
    ) / 5 END AS score,
    CASE
        WHEN n.id IS NULL THEN (SELECT min(r.new_id) FROM related AS r WHERE r.base_id = b.id)
        WHEN b.id IS NULL THEN (SELECT min(r.base_id) FROM related AS r WHERE r.new_id = n.id)
    END // 2 % 4294967296 AS origin
FROM (FROM labelled AS l WHERE l.is_base) AS b
FULL JOIN (FROM labelled AS l WHERE NOT l.is_base) AS n USING (label);

-- The counterparts of the nodes around each node, as far as they are known.
CREATE MACRO _labels_around(
    labels,  -- known labels as a list, each with id and label
    edges  -- edges as a list, each with from_id, to_id and position
) AS TABLE
WITH known AS MATERIALIZED (SELECT l.item.id AS id, l.item.label AS label FROM (SELECT unnest(labels) AS item) AS l),
used AS MATERIALIZED (
    SELECT e.item.from_id AS from_id, e.item.to_id AS to_id, e.item.position AS position
    FROM (SELECT unnest(edges) AS item) AS e
),
sides AS (
    SELECT e.to_id AS id, true AS is_input, e.position, k.label FROM used AS e LEFT JOIN known AS k ON k.id = e.from_id
    UNION ALL
    SELECT e.from_id, false, 0, k.label FROM used AS e LEFT JOIN known AS k ON k.id = e.to_id
)
SELECT s.id,
    coalesce(string_agg(coalesce(s.label::VARCHAR, '?'), ' ' ORDER BY s.position)
        FILTER (WHERE s.is_input), '') AS inputs,
    coalesce(string_agg(coalesce(s.label::VARCHAR, '?'), ' ' ORDER BY s.label)
        FILTER (WHERE NOT s.is_input), '') AS users
FROM sides AS s
GROUP BY s.id
HAVING count(s.label) > 0;
