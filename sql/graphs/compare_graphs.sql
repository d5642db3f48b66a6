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
    base_stage := NULL,  -- exported, edge, delegated (edge with backends) or a stage in `graphs`; NULL: delegated, or exported if base and new are the same or have no edge graphs
    new_stage := NULL,  -- as base_stage; NULL: delegated, or exported without edge graphs
    unit := NULL,
    reference := NULL,  -- capture whose values are assumed to be right; NULL: base
    metric := 'mse'  -- of gaps: mse, l1 (sum), snr (dB), cosine, max_abs, max_rel (share of the right element)
) AS TABLE
WITH graph_sides AS MATERIALIZED (
    FROM _graph_sides(base, new, base_stage, new_stage, unit, reference := reference)
),
graph_nodes AS MATERIALIZED (FROM _graph_nodes('graph_sides')),
gaps AS MATERIALIZED (FROM _graph_gaps('graph_sides', reference, metric)),
-- The capture that shows which nodes delegates run: of a side that is a record, the capture that fits a method best.
shown_by AS (
    SELECT s.is_base, s.record_id, g.graph_id,
        coalesce(s.capture_id, max_by(m.capture_id, row(m.score, m.capture_id))) AS capture_id
    FROM graph_sides AS s
    JOIN graphs AS g USING (record_id, stage)
    LEFT JOIN captures AS k ON k.record_id = s.record_id AND s.capture_id IS NULL
    LEFT JOIN linked_methods AS m ON m.capture_id = k.capture_id AND m.method = g.method
    WHERE s.is_delegated
    GROUP BY s.is_base, s.record_id, s.capture_id, g.graph_id
),
backends AS (
    SELECT p.is_base, d.graph_id, d.node_index, d.backend
    FROM shown_by AS p
    JOIN placed_nodes AS d USING (capture_id, graph_id)
    UNION ALL
    SELECT p.is_base, d.graph_id, d.node_index, d.backend
    FROM shown_by AS p
    JOIN delegated_nodes AS d USING (record_id, graph_id)
    WHERE p.capture_id IS NULL
),
-- Only edge graphs have times. Nodes that no event is known to have run have none.
timed_sides AS MATERIALIZED (
    SELECT s.is_base, s.capture_id, s.record_id, s.unit, _scale(c.time_scale, s.unit) AS scale
    FROM graph_sides AS s
    JOIN captures AS c USING (capture_id)
    WHERE s.stage = 'edge_dialect_exported_program'
),
timed_captures AS MATERIALIZED (SELECT DISTINCT s.* EXCLUDE (is_base) FROM timed_sides AS s),
times AS (
    SELECT s.is_base, t.graph_id, t.node_index, t.per_execute
    FROM timed_sides AS s
    JOIN _node_times('timed_captures', NULL, NULL, NULL, 'typical') AS t USING (capture_id)
    WHERE t.calls > 0
),
nodes AS MATERIALIZED (
    SELECT n.*, m.label, m.basis, m.origin, d.backend, t.per_execute AS self_time, g.debug_handle, g.gap, g.grows,
        g.problem
    FROM graph_nodes AS n
    JOIN _matched_nodes('graph_nodes') AS m USING (id)
    LEFT JOIN backends AS d USING (is_base, graph_id, node_index)
    LEFT JOIN times AS t USING (is_base, graph_id, node_index)
    LEFT JOIN gaps AS g USING (is_base, graph_id, node_index)
),
compared AS (
    SELECT b.basis, coalesce(b.origin, n.origin) AS origin, b.node_index AS base_node, n.node_index AS new_node,
        coalesce(n.method, b.method) AS method, coalesce(n.subgraph, b.subgraph) AS subgraph, b.name AS base_name,
        n.name AS new_name, b.op_type AS base_op, n.op_type AS new_op,
        coalesce(n.module_path, b.module_path) AS module_path, b.shapes AS base_shapes, n.shapes AS new_shapes,
        b.dtypes AS base_dtypes, n.dtypes AS new_dtypes, b.backend AS base_backend, n.backend AS new_backend,
        b.self_time AS base_time, n.self_time AS new_time, b.gap AS base_gap, b.grows AS base_grows,
        (
            (n.op_type = b.op_type)::INTEGER + (n.outputs = b.outputs)::INTEGER + (n.module = b.module)::INTEGER
            + (n.inputs = b.inputs)::INTEGER + (n.users = b.users)::INTEGER
        ) / 5 AS score,
        CASE WHEN reference IS NOT NULL OR i.debug_handle IS NOT NULL THEN n.gap END AS new_gap,
        CASE WHEN new_gap IS NOT NULL THEN n.grows END AS new_grows,
        coalesce(CASE
            WHEN reference IS NOT NULL OR i.debug_handle IS NOT NULL THEN n.problem
        END, b.problem) AS gap_problem,
        CASE WHEN b.basis IS NOT NULL THEN nullif(concat_ws(
            ', ', CASE WHEN n.op_type <> b.op_type THEN 'op' END,
            CASE WHEN n.shapes IS DISTINCT FROM b.shapes THEN 'shape' END,
            CASE WHEN n.dtypes IS DISTINCT FROM b.dtypes THEN 'dtype' END,
            CASE WHEN n.backend IS DISTINCT FROM b.backend THEN 'backend' END
        ), '') END AS changed
    FROM (FROM nodes AS o WHERE o.is_base) AS b
    FULL JOIN (FROM nodes AS o WHERE NOT o.is_base) AS n USING (label)
    -- The same handle may belong to different nodes in two records.
    LEFT JOIN node_debug_handles AS i
        ON i.record_id = b.record_id
        AND i.graph_id = b.graph_id
        AND i.node_index = b.node_index
        AND i.debug_handle = n.debug_handle
),
units AS (
    SELECT CASE
        WHEN (b.unit = 'cycles') IS DISTINCT FROM (n.unit = 'cycles')
            AND b.unit IS NOT NULL AND n.unit IS NOT NULL THEN NULL
        ELSE coalesce(b.unit, n.unit)
    END AS unit
    FROM graph_sides AS b
    JOIN graph_sides AS n ON b.is_base AND NOT n.is_base
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
    c.base_grows, c.new_grows, _checked_metric(metric) AS metric, c.gap_problem, c.basis, c.score, c.origin, c.subgraph
FROM compared AS c CROSS JOIN units AS u
ORDER BY change = 'same', c.method, coalesce(c.new_node, c.origin, c.base_node), c.new_node, c.base_node;
