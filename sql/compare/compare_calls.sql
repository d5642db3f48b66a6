-- One op, runtime call, annotation, kernel or copy whose number of calls per step (of an ETDump, per run) differs
-- between every capture of base and every one of new. Numbers of calls are exact: there is no test, and one capture per
-- side is enough. Items whose numbers overlap between the sides have no row, nor do items of steps or methods that the
-- other side lacks.
-- Shown: name!, change!, base_calls!#, new_calls!#, calls_difference!#, kind, method
-- Columns:
--   name: the op, call, annotation, kernel or copy
--   kind: as in `op_times`
--   method: the method that ran; for a trace, the kind of its steps
--   change: added, removed, more calls or fewer calls
--   base_calls: calls per step, mean over the captures of base
--   new_calls: calls per step, mean over the captures of new
--   calls_difference: new_calls minus base_calls
CREATE MACRO compare_calls(base, new) AS TABLE
WITH sides AS MATERIALIZED (
    SELECT c.capture_id, c.side = 'new' AS is_new FROM _sided_captures(base, new) AS c
),
steps AS MATERIALIZED (
    SELECT s.is_new, s.capture_id, o.scope, max(o.runs) AS steps
    FROM sides AS s
    JOIN op_times AS o ON o.capture_id = s.capture_id AND o.phase IS NULL AND o.kind = 'framework'
    GROUP BY s.is_new, s.capture_id, o.scope
),
compared AS MATERIALIZED (
    SELECT
        t.scope, count(*) FILTER (WHERE NOT t.is_new) AS base_captures, count(*) FILTER (WHERE t.is_new) AS new_captures
    FROM steps AS t
    GROUP BY t.scope
    HAVING count(DISTINCT t.is_new) = 2
),
counted AS (
    SELECT t.is_new, t.scope, o.kind, o.family AS name, sum(o.calls)::DOUBLE / t.steps AS calls
    FROM steps AS t
    JOIN op_times AS o
        ON o.capture_id = t.capture_id AND o.phase IS NULL AND regexp_replace(o.scope, ' on devices$', '') = t.scope
    WHERE NOT _is_step_total(o.kind) AND o.kind NOT IN ('device_op', 'device_annotation')
    GROUP BY t.is_new, t.capture_id, t.scope, t.steps, o.kind, o.family
),
-- A capture without an op has no row of it.
ranges AS (
    SELECT c.name, c.kind, c.scope, count(*) FILTER (WHERE NOT c.is_new) < k.base_captures AS is_missing_in_base,
        count(*) FILTER (WHERE c.is_new) < k.new_captures AS is_missing_in_new,
        min(c.calls) FILTER (WHERE NOT c.is_new) AS base_least, max(c.calls) FILTER (WHERE NOT c.is_new) AS base_most,
        min(c.calls) FILTER (WHERE c.is_new) AS new_least, max(c.calls) FILTER (WHERE c.is_new) AS new_most,
        coalesce(fsum(c.calls) FILTER (WHERE NOT c.is_new), 0) / k.base_captures AS base_calls,
        coalesce(fsum(c.calls) FILTER (WHERE c.is_new), 0) / k.new_captures AS new_calls
    FROM counted AS c
    JOIN compared AS k USING (scope)
    GROUP BY c.name, c.kind, c.scope, k.base_captures, k.new_captures
),
changed AS (
    SELECT r.*,
        CASE
            WHEN r.base_most IS NULL AND NOT r.is_missing_in_new THEN 'added'
            WHEN r.new_most IS NULL AND NOT r.is_missing_in_base THEN 'removed'
            WHEN r.new_least > r.base_most AND NOT r.is_missing_in_new THEN 'more calls'
            WHEN r.new_most < r.base_least AND NOT r.is_missing_in_base THEN 'fewer calls'
        END AS change
    FROM ranges AS r
)
SELECT d.name, d.kind, d.scope AS method, d.change, d.base_calls, d.new_calls,
    d.new_calls - d.base_calls AS calls_difference
FROM changed AS d
WHERE d.change IS NOT NULL
ORDER BY list_position(['added', 'removed', 'more calls', 'fewer calls'], d.change),
    abs(d.new_calls - d.base_calls) DESC, d.kind, d.name, d.scope;
