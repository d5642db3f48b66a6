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
