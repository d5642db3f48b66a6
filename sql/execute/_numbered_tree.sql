-- One node of `time_tree`, without its path: paths of nested nodes take memory that grows with the square of their
-- depth.
CREATE MACRO _numbered_tree(capture, "by", unit, steps, phase, method, runs) AS TABLE
WITH RECURSIVE target AS (
    SELECT c.unit, c.scale, c.format = 'torch_trace' AS is_trace,
        CASE
            WHEN "by" = 'module' THEN _linked_key(capture, c.capture_id, c.name, r.record_id, r.name, r.is_complete)
            WHEN "by" IS NULL OR "by" = 'event' THEN c.capture_id
            ELSE error('by must be ''module'' or ''event'', not ' || "by")
        END AS capture_id,
        CASE WHEN "by" IS NOT NULL THEN "by" WHEN r.is_complete THEN 'module' ELSE 'event' END AS parted_by
    FROM _scaled_capture_with_method(capture, unit, method) AS c
    LEFT JOIN records AS r USING (record_id)
),
-- The capture's key, for the query that applies.
keys AS MATERIALIZED (
    SELECT a.unit, a.scale, CASE WHEN a.is_trace THEN a.capture_id END AS trace_key,
        CASE WHEN NOT a.is_trace AND a.parted_by = 'module' THEN a.capture_id END AS module_key,
        CASE WHEN NOT a.is_trace AND a.parted_by = 'event' THEN a.capture_id END AS event_key
    FROM target AS a
),
within AS MATERIALIZED (
    SELECT e.*
    FROM _execute_nodes(
        (SELECT k.module_key FROM keys AS k), (SELECT k.event_key FROM keys AS k), steps, phase, method, runs
    ) AS e
    UNION ALL BY NAME
    FROM _trace_nodes((SELECT k.trace_key FROM keys AS k), steps, phase, method, runs) AS t
),
nodes AS MATERIALIZED (
    SELECT w.*, row_number() OVER (ORDER BY w.level, w.place) AS node,
        row_number() OVER (
            PARTITION BY w.level, w.outer_place
            ORDER BY w.kind = 'rest', w.total_ticks DESC, w.name, w.kind, w.place
        ) AS position
    FROM within AS w
),
-- Each step covers twice as many levels as the step before, because events may be nested thousands of levels deep.
-- `nodes` counts a node and the nodes less than 2^step levels below it; `ancestor` is the node 2^step levels above it.
sized AS (
    SELECT 0 AS step, n.node, o.node AS ancestor, n.position, 1::BIGINT AS nodes
    FROM nodes AS n
    LEFT JOIN nodes AS o ON o.level = n.level - 1 AND o.place = n.outer_place
    UNION ALL
    SELECT s.step + 1, s.node, a.ancestor, s.position, s.nodes + coalesce(b.nodes, 0)
    FROM sized AS s
    LEFT JOIN sized AS a ON a.node = s.ancestor
    LEFT JOIN (
        SELECT d.ancestor, sum(d.nodes)::BIGINT AS nodes FROM sized AS d GROUP BY d.ancestor
    ) AS b ON b.ancestor = s.node
    WHERE 2 ** s.step < (SELECT max(m.level) FROM nodes AS m)
),
placed AS MATERIALIZED (
    SELECT s.node, o.ancestor, s.nodes,
        1 + coalesce(sum(s.nodes) OVER (
            PARTITION BY o.ancestor
            ORDER BY s.position
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ), 0)::BIGINT AS distance
    FROM sized AS s
    JOIN sized AS o ON o.node = s.node AND o.step = 0
    WHERE s.step = (SELECT max(t.step) FROM sized AS t)
),
-- A node follows its parent and all nodes within its earlier siblings. `distance` is first the distance to the parent,
-- then to the node 2^step levels above, and at last to the total.
numbered AS (
    SELECT 0 AS step, p.node, p.ancestor, p.distance FROM placed AS p
    UNION ALL
    SELECT i.step + 1, i.node, a.ancestor, i.distance + coalesce(a.distance, 0)
    FROM numbered AS i
    LEFT JOIN numbered AS a ON a.node = i.ancestor
    WHERE 2 ** i.step < (SELECT max(m.level) FROM nodes AS m)
),
indexed AS MATERIALIZED (
    SELECT n.*,
        -- In a dump, all self times are within executes.
        coalesce(n.step_ticks, n.self_ticks) AS executed_ticks, i.distance AS node_index,
        i.distance - p.distance AS parent_index, p.nodes
    FROM numbered AS i
    JOIN placed AS p USING (node)
    JOIN nodes AS n USING (node)
    WHERE i.step = (SELECT max(t.step) FROM numbered AS t)
),
-- The self times within executes, or steps, up to each node.
so_far AS MATERIALIZED (
    SELECT i.node_index, sum(i.executed_ticks) OVER (ORDER BY i.node_index) AS ticks FROM indexed AS i
),
total AS MATERIALIZED (
    SELECT try_cast(sum(n.total_ticks) FILTER (n.level = 1) AS BIGINT) AS ticks, 1 + count(*) AS nodes,
        -- Several methods have no common number of executes.
        CASE
            WHEN count(*) FILTER (n.level = 1 AND n.kind IN ('method', 'run')) < 2 THEN any_value(n.executes)
        END AS executes
    FROM nodes AS n
    HAVING count(*) > 0
),
shown AS (
    SELECT i.node_index, i.parent_index, i.level, i.nodes, i.name, i.kind, i.module_path, i.calls, i.executes,
        i.self_ticks, i.total_ticks, i.executed_ticks,
        -- Sums over the node and its descendants, which follow it.
        l.ticks - f.ticks + i.executed_ticks AS executed_total
    FROM indexed AS i
    JOIN so_far AS f USING (node_index)
    JOIN so_far AS l ON l.node_index = i.node_index + i.nodes - 1
    UNION ALL
    SELECT 0, NULL, 0, t.nodes, 'total', 'total', NULL, 0, t.executes, 0, t.ticks, 0,
        (SELECT max_by(f.ticks, f.node_index) FROM so_far AS f)
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
FROM shown AS i CROSS JOIN keys AS a CROSS JOIN total AS t;
