-- Where time goes, as a tree: what is within what, for a flame chart or an
-- icicle. Each node's total is its self time and the totals of the nodes directly
-- within it, exactly, in whole ticks, and the first node's is the total.
-- Of an ETDump that is the time of its executes: by module, the model's modules
-- within each other, and in them their ops, by the linked record, within their
-- methods where several ran; by event, the methods (or runs), in them their kernels and delegates' calls, and in these what
-- delegates did. Rows in parentheses take what belongs to no op: the cost of
-- OPERATOR_CALLs beside their kernels, (framework), what no event covers,
-- (unattributed), and what an unmapped delegate spends on layout.
-- Of a trace it is the time of its events on the host, all threads together: by
-- event, those of one name within those of one name.
-- What is on another clock, or no time, is left out: see `op_totals`.
-- Engines: duckdb (a recursive query numbers nodes by a window at each step, which Spark refuses)
-- Columns:
--   node_index: the node, from 0, which is the total; each is followed by what is within it, the largest first, and what is in parentheses last
--   parent_index: the node that it is directly within; NULL for the total
--   depth: number of nodes that it is within
--   path: names of the nodes that it is within, without the total, and its own
--   name: module (its path within the one around it), method, run, op or event; (model): the model itself
--   kind: total; module; method, or run where its method isn't known; rest for rows in parentheses; kernel, delegate, delegate_call, operator_call (without a kernel), control, user, slice (of a trace) for events
--   module_path: of modules, and of ops in them; NULL for all else
--   calls: number of events that stand there, and not further within it
--   self_time: time of these events without what is within it
--   total: own, with all that is within it
--   share_percent: total in percent of the first node's
--   unit: unit of self_time and total
--   self_ticks: self_time in ticks, a whole number
--   total_ticks: total in ticks, a whole number
CREATE MACRO time_tree(
    capture,  -- name, hash prefix, @latest or selector
    "by" := NULL,  -- module, event; NULL: module where a record is linked, else event
    unit := NULL,  -- ns, us, ms, s, cycles; NULL: us (cycles where ticks are cycles)
    skip_first := 0,  -- number of runs of each name to skip at the start, as in `schedule`
    wait := 0,  -- as in `schedule`
    warmup := 0,  -- as in `schedule`
    active := 1,  -- as in `schedule`
    repeat := 0,  -- as in `schedule`
    skip_first_wait := 0,  -- as in `schedule`
    phase := NULL,  -- only runs of this phase: load, prefill, decode or other; NULL: all runs
    method := NULL,  -- only runs of this method, as in the column `method`; NULL: all runs
    runs := 'typical'  -- typical (only typical runs, see `typical_runs`) or all
) AS TABLE
WITH RECURSIVE
target AS MATERIALIZED (
    SELECT
        c.time_scale,
        c.unit,
        k.format = 'torch_trace' AS is_trace,
        CASE
            WHEN "by" = 'module' THEN _linked_capture_id(capture)
            WHEN "by" IS NULL OR "by" = 'event' THEN c.capture_id
            ELSE error('by is ''module'' or ''event'', not ' || "by")
        END AS capture_id,
        CASE
            WHEN "by" IS NOT NULL THEN "by"
            WHEN r.is_complete THEN 'module'
            ELSE 'event'
        END AS parted_by
    FROM _capture(capture, unit) AS c
    JOIN captures AS k ON k.capture_id = c.capture_id
    LEFT JOIN records AS r ON r.record_id = k.record_id
),
within AS MATERIALIZED (
    SELECT e.*
    FROM _execute_nodes(
        (SELECT a.capture_id FROM target AS a WHERE NOT a.is_trace),
        (SELECT a.parted_by FROM target AS a),
        skip_first, wait, warmup, active, repeat, skip_first_wait, phase,
        method, runs
    ) AS e
    UNION ALL BY NAME
    SELECT t.*
    FROM _trace_nodes(
        (SELECT a.capture_id FROM target AS a WHERE a.is_trace),
        skip_first, wait, warmup, active, repeat, skip_first_wait, phase,
        method, runs
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
-- From the total inwards, each with the way to it.
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
