-- One node of a tree of times, for a flame chart or an icicle. Each node's total is
-- its self time plus the totals of its children, exactly, in whole ticks; the first
-- node is the total. For an ETDump this is the time of its executes: by module,
-- with nested modules and their ops, from the linked record, and within methods if
-- several ran; by event, the methods (or runs), in these kernels and delegate
-- calls, and in these the delegates' events. Rows in parentheses have the time of
-- no op: the overhead of OPERATOR_CALLs, (framework), time that no event covers,
-- (unattributed), and the layout work of an unmapped delegate. For a trace it is
-- the time of its events on the host, all threads together: by event, those of one
-- name within those of one name. Values on another clock, or that are not times,
-- are excluded: see `op_totals`.
-- Engines: duckdb (a recursive query numbers nodes by a window at each step, which Spark refuses)
-- Columns:
--   node_index: key of the node, from 0, which is the total; each node is followed by its descendants, the largest child first, names in parentheses last
--   parent_index: the node's parent; NULL for the total
--   depth: number of nodes that contain it
--   path: names of the nodes that contain it, without the total, and its name
--   name: module (its path relative to its parent), method, run, op or event; (model): the model itself
--   kind: total; module; method, or run if its method is unknown; rest for rows in parentheses; kernel, delegate, delegate_call, operator_call (without a kernel), control, user, slice (of a trace) for events
--   module_path: path of a module, or of the module of an op; NULL for others
--   calls: number of events at the node, without those of its descendants
--   self_time: time of these events without their children
--   total: self_time with the total of all children
--   share_percent: total in percent of the first node's
--   unit: unit of self_time and total
--   self_ticks: self_time in ticks, a whole number
--   total_ticks: total in ticks, a whole number
CREATE MACRO time_tree(
    capture,  -- name, hash prefix, @latest or selector
    "by" := NULL,  -- module, event; NULL: module where a record is linked, else event
    unit := NULL,  -- ns, us, ms, s, cycles; NULL: us (cycles where ticks are cycles)
    steps := NULL,  -- runs to use, as a schedule: skip_first=1,active=3, see `schedule`; NULL: all
    phase := NULL,  -- only runs of this phase: load, prefill, decode or other; NULL: all runs
    method := NULL,  -- only runs of this method, as in the column `method`; NULL: all runs
    runs := 'typical'  -- typical (only typical runs, see `typical_runs`) or all
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
nodes AS (
    SELECT
        w.*,
        row_number() OVER (
            PARTITION BY w.level, w.outer_place
            ORDER BY
                w.kind = 'rest', w.total_ticks DESC, w.name, w.kind, w.place
        ) AS position
    FROM within AS w
),
-- From the total to the leaves, each with its path.
ordered AS (
    SELECT
        0 AS level,
        0::BIGINT AS place,
        NULL::BIGINT AS outer_place,
        'total' AS name,
        'total' AS kind,
        NULL::VARCHAR AS module_path,
        0::BIGINT AS calls,
        0::BIGINT AS self_ticks,
        try_cast(sum(n.total_ticks) AS BIGINT) AS total_ticks,
        []::BIGINT[] AS positions,
        []::VARCHAR[] AS path
    FROM nodes AS n
    WHERE n.level = 1
    HAVING count(*) > 0
    UNION ALL
    SELECT
        n.level,
        n.place,
        n.outer_place,
        n.name,
        n.kind,
        n.module_path,
        n.calls,
        n.self_ticks,
        n.total_ticks,
        o.positions || [n.position],
        o.path || [n.name]
    FROM ordered AS o
    JOIN nodes AS n ON n.level = o.level + 1 AND n.outer_place = o.place
),
numbered AS (
    SELECT o.*, row_number() OVER (ORDER BY o.positions) - 1 AS node_index
    FROM ordered AS o
)
SELECT
    n.node_index,
    o.node_index AS parent_index,
    n.level AS depth,
    n.path,
    n.name,
    n.kind,
    n.module_path,
    n.calls,
    n.self_ticks * _multiplier(a.time_scale, a.unit) / _divisor(a.time_scale, a.unit)
        AS self_time,
    n.total_ticks * _multiplier(a.time_scale, a.unit)
    / _divisor(a.time_scale, a.unit) AS total,
    100 * n.total_ticks / nullif(
        (SELECT o.total_ticks::DOUBLE FROM ordered AS o WHERE o.level = 0), 0
    ) AS share_percent,
    a.unit AS unit,
    n.self_ticks,
    n.total_ticks
FROM numbered AS n
CROSS JOIN target AS a
LEFT JOIN numbered AS o
    ON o.level = n.level - 1 AND o.place = n.outer_place
ORDER BY n.node_index;
