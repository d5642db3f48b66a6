-- The time of a node in an execute of its method, over the typical runs of a capture. Nodes that no event is known to
-- have run have no row.
CREATE MACRO _times_in_graph(
    capture_key,  -- key of a capture that has a record; NULL: no rows
    unit,
    stage  -- stage of the graphs; only edge graphs have times
) AS TABLE
SELECT n.graph_id, n.node_index, n.per_execute AS self_time
FROM _node_totals(capture_key, unit, NULL, NULL, NULL, 'typical') AS n
WHERE n.calls > 0 AND stage = 'edge_dialect_exported_program';

-- One node of a side of a comparison of graphs.
CREATE MACRO _nodes_of_side(
    side  -- the row of `_graph_side`
) AS TABLE
WITH target AS MATERIALIZED (SELECT _row.* FROM (SELECT side AS _row)),
outputs AS (
    SELECT v.graph_id, v.node_index, string_agg(coalesce(v.dtype, 'none'), ', ' ORDER BY v.output_index) AS dtypes,
        string_agg(coalesce('[' || array_to_string(
            list_transform(v.sizes, lambda s: coalesce(s::VARCHAR, '?')), ', '
        ) || ']', 'none'), ', ' ORDER BY v.output_index) AS shapes
    FROM node_values AS v
    JOIN target AS a USING (record_id)
    WHERE v.node_index IS NOT NULL
    GROUP BY v.graph_id, v.node_index
)
SELECT p.graph_id, p.node_index, g.method, p.subgraph, p.name, p.op_type, p.module_path, o.dtypes, o.shapes, d.backend,
    t.self_time, a.unit
FROM target AS a
JOIN graphs AS g USING (record_id, stage)
JOIN op_nodes AS p USING (record_id, graph_id)
LEFT JOIN outputs AS o USING (graph_id, node_index)
LEFT JOIN _node_delegates(
    (SELECT r.record_id FROM target AS r), (SELECT r.program_id FROM target AS r),
    (SELECT r.capture_id FROM target AS r)
) AS d ON d.graph_id = p.graph_id AND d.node_index = p.node_index AND a.is_delegated
LEFT JOIN _times_in_graph(
    (SELECT r.capture_id FROM target AS r), (SELECT r.unit FROM target AS r), (SELECT r.stage FROM target AS r)
) AS t ON t.graph_id = p.graph_id AND t.node_index = p.node_index;

-- One node of two op graphs, with its counterpart: of two records, such as those of two builds, or of one record at two
-- stages of its lowering. Nodes of one record are matched by their debug handles, which show from which node a node was
-- made; nodes of two records by module, op, outputs and the nodes around them, in order. Captures have times, see
-- `node_totals`; records have none. Captures with values have gaps, see `node_gaps`: of both sides to a reference, or
-- of new to base. Nodes that are the same come last.
-- Shown: change!, changed!, coalesce(base_name, '') AS base_name!, coalesce(new_name, '') AS new_name!,
--   coalesce(new_op, base_op) AS op!, module_path AS module, base_backend, new_backend, base_time! (time), new_time!
--   (time), unit, score#, base_gap#, new_gap#, gap_problem
-- Columns:
--   method: the method
--   change: same, changed, added, removed, split (a node made from one that has another counterpart) or merged (a node whose counterpart was made from several)
--   changed: what differs, of op, shape, dtype and backend, with commas between; NULL unless changed
--   base_node: node_index in base; NULL if there is none
--   new_node: node_index in new; NULL if there is none
--   base_name: name of the node in base
--   new_name: name of the node in new
--   base_op: its op type in base
--   new_op: its op type in new
--   module_path: path of its module in new, or else in base; NULL where none was kept
--   base_shapes: sizes of its outputs in base, as text; ? for a symbolic size
--   new_shapes: sizes of its outputs in new, as text
--   base_dtypes: element types of its outputs in base, as text
--   new_dtypes: element types of its outputs in new, as text
--   base_backend: the delegate that runs it in base; NULL if none does, and at other stages than delegated
--   new_backend: the delegate that runs it in new
--   base_time: mean self time in an execute of base, over typical runs; NULL if unknown
--   new_time: mean self time in an execute of new
--   difference: new_time minus base_time; NULL if either is unknown
--   unit: unit of times; NULL if neither side is a capture, or one counts cycles and the other time
--   base_gap: distance of the node's value in base from the reference's, in the metric; NULL without a reference or a value, and for graphs other than edge graphs
--   new_gap: distance of the node's value in new from the reference's, or, without a reference, from the value of its counterpart in base, if both nodes have the same debug handle
--   base_grows: whether the gap grows from this node of base on, see `node_gaps`; NULL if base_gap is NULL
--   new_grows: the same of new
--   metric: the metric of gaps
--   gap_problem: why a gap of values is NULL, or what is wrong with it, in new or else in base; NULL without a problem
--   basis: how it was matched: graph (the same graph), debug_handle, context, neighbours, module or order; NULL without a counterpart
--   score: share of op type, outputs, module, ops of inputs and ops of users that agree, from 0 to 1; NULL without a counterpart
--   origin: node_index of the node on the other side that it was split from or merged into; NULL for others
--   subgraph: names of the nested graphs that contain it, joined by /; empty at the top
CREATE MACRO compare_graphs(
    base,  -- capture (name, hash prefix, @latest or selector), or else record (name or hash prefix), that is the baseline
    new,  -- capture or record that is compared
    base_stage := NULL,  -- exported, edge, delegated (edge with backends) or a stage in `graphs`; NULL: delegated; exported if base and new are the same, or without edge graphs
    new_stage := NULL,  -- as base_stage; NULL: delegated, or exported without edge graphs
    unit := NULL,
    reference := NULL,  -- capture whose values are assumed to be right; NULL: base
    metric := 'mse'  -- of gaps: mse, l1 (sum), snr (dB), cosine, max_abs, max_rel (share of the right element)
) AS TABLE
WITH base_side AS MATERIALIZED (FROM _graph_side(base, base_stage, new, true, unit)),
new_side AS MATERIALIZED (FROM _graph_side(new, new_stage, base, false, unit)),
base_nodes AS MATERIALIZED (FROM _nodes_of_side((SELECT s FROM base_side AS s))),
new_nodes AS MATERIALIZED (FROM _nodes_of_side((SELECT s FROM new_side AS s))),
gaps AS MATERIALIZED (
    FROM _graph_gaps(
        (SELECT s.capture_id FROM base_side AS s), (SELECT s.capture_id FROM new_side AS s), reference, metric
    ) AS g
),
compared AS (
    SELECT p.basis, p.score, p.origin, b.node_index AS base_node, n.node_index AS new_node,
        coalesce(n.method, b.method) AS method, coalesce(n.subgraph, b.subgraph) AS subgraph, b.name AS base_name,
        n.name AS new_name, b.op_type AS base_op, n.op_type AS new_op,
        coalesce(n.module_path, b.module_path) AS module_path, b.shapes AS base_shapes, n.shapes AS new_shapes,
        b.dtypes AS base_dtypes, n.dtypes AS new_dtypes, b.backend AS base_backend, n.backend AS new_backend,
        b.self_time AS base_time, n.self_time AS new_time, g.gap AS base_gap, g.grows AS base_grows,
        CASE WHEN reference IS NOT NULL OR i.debug_handle IS NOT NULL THEN h.gap END AS new_gap,
        CASE WHEN new_gap IS NOT NULL THEN h.grows END AS new_grows,
        coalesce(CASE
            WHEN reference IS NOT NULL OR i.debug_handle IS NOT NULL THEN h.problem
        END, g.problem) AS gap_problem,
        CASE WHEN p.basis IS NOT NULL THEN nullif(concat_ws(
            ', ', CASE WHEN n.op_type <> b.op_type THEN 'op' END,
            CASE WHEN n.shapes IS DISTINCT FROM b.shapes THEN 'shape' END,
            CASE WHEN n.dtypes IS DISTINCT FROM b.dtypes THEN 'dtype' END,
            CASE WHEN n.backend IS DISTINCT FROM b.backend THEN 'backend' END
        ), '') END AS changed
    FROM _node_pairs(
        (SELECT s.record_id FROM base_side AS s), (SELECT s.stage FROM base_side AS s),
        (SELECT s.record_id FROM new_side AS s), (SELECT s.stage FROM new_side AS s)
    ) AS p
    LEFT JOIN base_nodes AS b ON b.graph_id = p.base_graph AND b.node_index = p.base_node
    LEFT JOIN new_nodes AS n ON n.graph_id = p.new_graph AND n.node_index = p.new_node
    LEFT JOIN gaps AS g ON g.is_base AND g.graph_id = p.base_graph AND g.node_index = p.base_node
    LEFT JOIN gaps AS h ON NOT h.is_base AND h.graph_id = p.new_graph AND h.node_index = p.new_node
    -- The same handle may belong to different nodes in two records.
    LEFT JOIN node_debug_handles AS i
        ON i.record_id = (SELECT s.record_id FROM base_side AS s)
        AND i.graph_id = p.base_graph
        AND i.node_index = p.base_node
        AND i.debug_handle = h.debug_handle
),
units AS (
    SELECT CASE
        WHEN (b.unit = 'cycles') IS DISTINCT FROM (n.unit = 'cycles')
            AND b.unit IS NOT NULL AND n.unit IS NOT NULL THEN NULL
        ELSE coalesce(b.unit, n.unit)
    END AS unit
    FROM base_side AS b CROSS JOIN new_side AS n
)
SELECT c.method,
    CASE
        WHEN c.base_node IS NULL AND c.origin IS NOT NULL THEN 'split'
        WHEN c.base_node IS NULL THEN 'added'
        WHEN c.new_node IS NULL AND c.origin IS NOT NULL THEN 'merged'
        WHEN c.new_node IS NULL THEN 'removed'
        WHEN c.changed IS NOT NULL THEN 'changed'
        ELSE 'same'
    END AS change,
    c.changed, c.base_node, c.new_node, c.base_name, c.new_name, c.base_op, c.new_op, c.module_path, c.base_shapes,
    c.new_shapes, c.base_dtypes, c.new_dtypes, c.base_backend, c.new_backend, c.base_time, c.new_time,
    CASE WHEN u.unit IS NOT NULL THEN c.new_time - c.base_time END AS difference, u.unit AS unit, c.base_gap, c.new_gap,
    c.base_grows, c.new_grows, lower(metric) AS metric, c.gap_problem, c.basis, c.score, c.origin, c.subgraph
FROM compared AS c CROSS JOIN units AS u
ORDER BY change = 'same', c.method, coalesce(c.new_node, c.origin, c.base_node), c.new_node, c.base_node;
