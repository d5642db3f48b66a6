-- One node of `time_tree`, without its path: paths of nested nodes take memory that
-- grows with the square of their depth.
-- Columns:
--   node_index: as in `time_tree`
--   parent_index: as in `time_tree`
--   depth: as in `time_tree`
--   nodes: number of nodes that it contains, and itself: these follow it
--   name: as in `time_tree`
--   kind: as in `time_tree`
--   module_path: as in `time_tree`
--   calls: as in `time_tree`
--   self_time: as in `time_tree`
--   total: as in `time_tree`
--   share_percent: as in `time_tree`
--   unit: as in `time_tree`
--   self_ticks: as in `time_tree`
--   total_ticks: as in `time_tree`
CREATE MACRO _numbered_tree(
    capture,  -- as in `time_tree`
    "by",  -- as in `time_tree`
    unit,  -- as in `time_tree`
    steps,  -- as in `time_tree`
    phase,  -- as in `time_tree`
    method,  -- as in `time_tree`
    runs  -- as in `time_tree`
) AS TABLE
WITH RECURSIVE
target AS MATERIALIZED (
    SELECT
        c.time_scale,
        c.unit,
        c.format = 'torch_trace' AS is_trace,
        CASE
            WHEN "by" = 'module'
                THEN _linked_key(
                    c.capture_id, c.name, r.record_id, r.name, r.is_complete
                )
            WHEN "by" IS NULL OR "by" = 'event' THEN c.capture_id
            ELSE error('by must be ''module'' or ''event'', not ' || "by")
        END AS capture_id,
        CASE
            WHEN "by" IS NOT NULL THEN "by"
            WHEN r.is_complete THEN 'module'
            ELSE 'event'
        END AS parted_by
    FROM _capture(capture, unit) AS c
    LEFT JOIN records AS r ON r.record_id = c.record_id
),
within AS MATERIALIZED (
    SELECT e.*
    FROM _execute_nodes(
        (SELECT a.capture_id FROM target AS a WHERE NOT a.is_trace),
        (SELECT a.parted_by FROM target AS a),
        steps, phase, method, runs
    ) AS e
    UNION ALL BY NAME
    SELECT t.*
    FROM _trace_nodes(
        (SELECT a.capture_id FROM target AS a WHERE a.is_trace),
        steps, phase, method, runs
    ) AS t
),
nodes AS MATERIALIZED (
    SELECT
        w.*,
        row_number() OVER (
            PARTITION BY w.level, w.outer_place
            ORDER BY
                w.kind = 'rest', w.total_ticks DESC, w.name, w.kind, w.place
        ) AS position
    FROM within AS w
),
-- From the deepest nodes to the outermost, level by level.
sized AS (
    SELECT n.level, n.place, n.outer_place, n.position, 1::BIGINT AS nodes
    FROM nodes AS n
    WHERE n.level = (SELECT max(m.level) FROM nodes AS m)
    UNION ALL
    SELECT n.level, n.place, n.outer_place, n.position, 1 + coalesce(c.nodes, 0)
    FROM (
        SELECT DISTINCT s.level - 1 AS level FROM sized AS s
    ) AS l
    JOIN nodes AS n ON n.level = l.level
    LEFT JOIN (
        SELECT s.outer_place, sum(s.nodes)::BIGINT AS nodes
        FROM sized AS s
        GROUP BY s.outer_place
    ) AS c ON c.outer_place = n.place
),
placed AS MATERIALIZED (
    SELECT
        s.level,
        s.place,
        s.outer_place,
        s.nodes,
        coalesce(sum(s.nodes) OVER (
            PARTITION BY s.level, s.outer_place
            ORDER BY s.position
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ), 0)::BIGINT AS before
    FROM sized AS s
),
-- From the total to the leaves: a node follows its parent and all within its earlier siblings.
numbered AS (
    SELECT
        0 AS level,
        0::BIGINT AS place,
        0::BIGINT AS node_index,
        NULL::BIGINT AS parent_index,
        1 + sum(p.nodes)::BIGINT AS nodes
    FROM placed AS p
    WHERE p.level = 1
    HAVING count(*) > 0
    UNION ALL
    SELECT
        p.level,
        p.place,
        o.node_index + 1 + p.before,
        o.node_index,
        p.nodes
    FROM numbered AS o
    JOIN placed AS p ON p.level = o.level + 1 AND p.outer_place = o.place
),
total AS MATERIALIZED (
    SELECT try_cast(sum(n.total_ticks) AS BIGINT) AS ticks
    FROM nodes AS n
    WHERE n.level = 1
)
SELECT
    i.node_index,
    i.parent_index,
    i.level AS depth,
    i.nodes,
    coalesce(n.name, 'total') AS name,
    coalesce(n.kind, 'total') AS kind,
    n.module_path,
    coalesce(n.calls, 0) AS calls,
    coalesce(n.self_ticks, 0) * _multiplier(a.time_scale, a.unit)
    / _divisor(a.time_scale, a.unit) AS self_time,
    CASE WHEN i.level = 0 THEN t.ticks ELSE n.total_ticks END
    * _multiplier(a.time_scale, a.unit) / _divisor(a.time_scale, a.unit) AS total,
    100 * CASE WHEN i.level = 0 THEN t.ticks ELSE n.total_ticks END
    / nullif(t.ticks::DOUBLE, 0) AS share_percent,
    a.unit AS unit,
    CASE WHEN i.level = 0 THEN 0 ELSE n.self_ticks END AS self_ticks,
    CASE WHEN i.level = 0 THEN t.ticks ELSE n.total_ticks END AS total_ticks
FROM numbered AS i
CROSS JOIN target AS a
CROSS JOIN total AS t
LEFT JOIN nodes AS n ON n.level = i.level AND n.place = i.place;
