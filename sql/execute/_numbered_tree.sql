-- One node of `time_tree`, without its path: paths of nested nodes take memory that grows with the square of their
-- depth.
CREATE MACRO _numbered_tree(capture, "by", unit, steps, phase, method, runs) AS TABLE
WITH RECURSIVE target AS MATERIALIZED (
    SELECT c.unit, c.scale, c.record_id, c.format = 'torch_trace' AS is_trace,
        CASE
            WHEN "by" = 'module' THEN _linked_key(capture, c.capture_id, c.name, r.record_id, r.name, r.is_complete)
            WHEN "by" IS NULL OR "by" = 'event' THEN c.capture_id
            ELSE error('by must be ''module'' or ''event'', not ' || "by")
        END AS capture_id,
        CASE WHEN "by" IS NOT NULL THEN "by" WHEN r.is_complete THEN 'module' ELSE 'event' END AS parted_by
    FROM _scaled_capture_with_method(capture, unit, method) AS c
    LEFT JOIN records AS r USING (record_id)
),
dump_of_tree AS (FROM target AS a WHERE NOT a.is_trace),
trace_of_tree AS (FROM target AS a WHERE a.is_trace),
within AS (
    FROM _execute_nodes('dump_of_tree', steps, phase, method, runs) AS e
    UNION ALL BY NAME
    FROM _trace_nodes('trace_of_tree', steps, phase, method, runs) AS t
),
nodes AS MATERIALIZED (
    SELECT w.*, row_number() OVER (ORDER BY w.level, w.place) AS node,
        row_number() OVER (
            PARTITION BY w.level, w.outer_place
            ORDER BY w.kind = 'rest', w.total_ticks DESC, w.name, w.kind, w.place
        ) AS position,
        max(w.level) OVER () AS levels
    FROM within AS w
),
-- Each step covers twice as many levels as the step before, because events may be nested thousands of levels deep; the
-- last one covers all. `nodes` counts a node and the nodes less than 2^step levels below it; `ancestor` is the node
-- 2^step levels above it.
sized AS (
    SELECT 0 AS step, n.levels, n.node, o.node AS parent, o.node AS ancestor, n.position, 1::BIGINT AS nodes
    FROM nodes AS n
    LEFT JOIN nodes AS o ON o.level = n.level - 1 AND o.place = n.outer_place
    UNION ALL
    SELECT s.step + 1, s.levels, s.node, s.parent, a.ancestor, s.position, s.nodes + coalesce(b.nodes, 0)
    FROM sized AS s
    LEFT JOIN sized AS a ON a.node = s.ancestor
    LEFT JOIN (
        SELECT d.ancestor, sum(d.nodes)::BIGINT AS nodes FROM sized AS d GROUP BY d.ancestor
    ) AS b ON b.ancestor = s.node
    WHERE 2 ** s.step < s.levels
),
-- A node follows its parent and all nodes within its earlier siblings. `distance` is first the distance to the parent,
-- then to the node 2^step levels above, and at last to the total.
numbered AS (
    SELECT 0 AS step, s.levels, s.node, s.parent AS ancestor, s.nodes,
        1 + coalesce(sum(s.nodes) OVER (
            PARTITION BY s.parent
            ORDER BY s.position
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ), 0)::BIGINT AS distance,
        distance AS to_parent
    FROM sized AS s
    WHERE 2 ** s.step >= s.levels
    UNION ALL
    SELECT i.step + 1, i.levels, i.node, a.ancestor, i.nodes, i.distance + coalesce(a.distance, 0), i.to_parent
    FROM numbered AS i
    LEFT JOIN numbered AS a ON a.node = i.ancestor
    WHERE 2 ** i.step < i.levels
),
indexed AS MATERIALIZED (
    SELECT n.*,
        -- In a dump, all self times are within executes.
        coalesce(n.step_ticks, n.self_ticks) AS executed_ticks, i.distance AS node_index,
        i.distance - i.to_parent AS parent_index, i.nodes,
        -- The self times within executes, or steps, up to the node.
        sum(coalesce(n.step_ticks, n.self_ticks)) OVER (ORDER BY i.distance) AS ticks_so_far
    FROM numbered AS i
    JOIN nodes AS n USING (node)
    WHERE 2 ** i.step >= i.levels
),
total AS MATERIALIZED (
    SELECT try_cast(sum(i.total_ticks) FILTER (i.level = 1) AS BIGINT) AS ticks, 1 + count(*) AS nodes,
        -- Several methods have no common number of executes.
        CASE
            WHEN count(*) FILTER (i.level = 1 AND i.kind IN ('method', 'run')) < 2 THEN any_value(i.executes)
        END AS executes,
        sum(i.executed_ticks) AS executed_ticks
    FROM indexed AS i
    HAVING count(*) > 0
),
shown AS (
    SELECT i.node_index, i.parent_index, i.level, i.nodes, i.name, i.kind, i.module_path, i.calls, i.executes,
        i.self_ticks, i.total_ticks, i.executed_ticks,
        -- Sums over the node and its descendants, which follow it.
        l.ticks_so_far - i.ticks_so_far + i.executed_ticks AS executed_total
    FROM indexed AS i
    JOIN indexed AS l ON l.node_index = i.node_index + i.nodes - 1
    UNION ALL
    SELECT 0, NULL, 0, t.nodes, 'total', 'total', NULL, 0, t.executes, 0, t.ticks, 0, t.executed_ticks
    FROM total AS t
)
SELECT i.node_index, i.parent_index, i.level::INTEGER AS depth, i.nodes, i.name, i.kind, i.module_path, i.calls,
    _in_unit(coalesce(i.self_ticks, 0), a.scale) AS self_time, _in_unit(i.total_ticks, a.scale) AS total,
    100e0 * CASE WHEN t.executes IS NULL THEN i.total_ticks ELSE i.executed_total END
    / nullif(max(CASE WHEN t.executes IS NULL THEN i.total_ticks ELSE i.executed_total END) OVER ()::DOUBLE, 0)
        AS share_percent,
    a.unit AS unit, i.self_ticks, i.total_ticks,
    nullif(i.executes, 0) AS executes,
    _in_unit(coalesce(i.executed_ticks, 0)::DOUBLE, a.scale) / nullif(i.executes, 0) AS self_per_execute,
    _in_unit(i.executed_total::DOUBLE, a.scale) / nullif(i.executes, 0) AS per_execute
FROM shown AS i CROSS JOIN target AS a CROSS JOIN total AS t;
