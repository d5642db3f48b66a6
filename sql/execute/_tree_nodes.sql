-- One node of `time_tree` of a capture with executes: a place with events, or a place that contains such places.
CREATE MACRO _execute_nodes(capture_key, "by", steps, phase, method, runs) AS TABLE
WITH
-- Executes are those of the method, or, if only one method ran, of all.
leaves AS (
    SELECT l.*,
        (sum(l.executes) OVER (
            PARTITION BY CASE WHEN l.places[1].kind IN ('method', 'run') THEN l.places[1] END
        ))::BIGINT AS method_executes
    FROM _tree_leaves(capture_key, "by", steps, phase, method, runs) AS l
),
parts AS (
    SELECT l.places[1:i.level] AS places, i.level, CASE WHEN len(l.places) = i.level THEN l.calls ELSE 0 END AS calls,
        CASE WHEN len(l.places) = i.level THEN l.self_ticks ELSE 0 END AS self_ticks, l.method_executes,
        l.self_ticks AS total_ticks
    FROM leaves AS l CROSS JOIN LATERAL (SELECT unnest(range(1, len(l.places) + 1)) AS level) AS i
),
placed AS (
    SELECT p.places, p.level, row_number() OVER (PARTITION BY p.level ORDER BY p.places) AS place,
        sum(p.calls)::BIGINT AS calls, any_value(p.method_executes) AS executes,
        try_cast(sum(p.self_ticks) AS BIGINT) AS self_ticks, try_cast(sum(p.total_ticks) AS BIGINT) AS total_ticks
    FROM parts AS p
    GROUP BY p.places, p.level
)
SELECT p.level, p.place, coalesce(o.place, 0) AS outer_place, p.places[-1].name AS name, p.places[-1].kind AS kind,
    p.places[-1].module_path AS module_path, p.calls, p.executes, p.self_ticks, p.total_ticks
FROM placed AS p
LEFT JOIN placed AS o ON o.level = p.level - 1 AND o.places = p.places[1:p.level - 1];

-- One node of `time_tree` of a trace: events of one name whose parents belong to one node. Device events are excluded
-- because no event contains them. The profiler's own event is excluded because it contains all other events.
CREATE MACRO _trace_nodes(capture_key, steps, phase, method, runs) AS TABLE
WITH RECURSIVE timed AS MATERIALIZED (
    SELECT t.run_index, t.event_index, t.parent_run_index, t.parent_index, t.counted_ticks, t.self_ticks,
        CASE WHEN _is_step_run(t.run_name) THEN t.self_ticks ELSE 0 END AS step_ticks, t.family, t.kind
    FROM _timed_events(capture_key, NULL, steps, phase, method, runs) AS t
    WHERE t.is_additive
        AND coalesce(t.category, '') <> 'Trace'
        AND NOT EXISTS (
            FROM device_events AS d
            WHERE d.capture_id = capture_key AND d.run_index = t.run_index AND d.event_index = t.event_index
        )
),
-- From recorded events without a parent to their children, level by level.
placed AS (
    SELECT 1 AS level, dense_rank() OVER (ORDER BY t.family, t.kind) AS place, 0::BIGINT AS outer_place, t.*
    FROM timed AS t
    WHERE NOT EXISTS (FROM timed AS o WHERE o.run_index = t.parent_run_index AND o.event_index = t.parent_index)
    UNION ALL
    SELECT p.level + 1, dense_rank() OVER (ORDER BY p.place, t.family, t.kind), p.place, t.*
    FROM placed AS p
    JOIN timed AS t ON t.parent_run_index = p.run_index AND t.parent_index = p.event_index
)
SELECT p.level, p.place, p.outer_place, p.family AS name, p.kind, count(*) AS calls,
    _step_count(capture_key, steps, phase) AS executes, try_cast(sum(p.self_ticks) AS BIGINT) AS self_ticks,
    try_cast(sum(p.step_ticks) AS BIGINT) AS step_ticks, try_cast(sum(p.counted_ticks) AS BIGINT) AS total_ticks
FROM placed AS p
GROUP BY p.level, p.place, p.outer_place, p.family, p.kind;
