-- One node of `time_tree` of a trace: events of one name whose parents belong to one node. Device events are excluded
-- because no event contains them. The profiler's own event is excluded because it contains all other events.
CREATE MACRO _trace_nodes(
    target,  -- a table of the trace: capture_id
    steps, phase, method, runs
) AS TABLE
WITH RECURSIVE timed AS MATERIALIZED (
    SELECT e.run_index, e.event_index, coalesce(e.parent_run_index, e.run_index) AS parent_run_index, e.parent_index,
        coalesce(
            _duration_ticks(e.elapsed_ticks, e.unwrapped_ticks) - coalesce(e.overlap_ticks, 0), 0
        ) AS counted_ticks,
        e.self_ticks, CASE WHEN _is_step_run(r.name) THEN e.self_ticks ELSE 0 END AS step_ticks, s.family, s.kind
    FROM query_table(target) AS a
    JOIN event_ticks AS e USING (capture_id)
    JOIN (SELECT s.* FROM query_table(target) AS a JOIN signatures AS s USING (capture_id)) AS s USING (signature_index)
    JOIN (SELECT r.* FROM query_table(target) AS a JOIN runs AS r USING (capture_id)) AS r USING (run_index)
    LEFT JOIN (FROM query_table(target) AS a JOIN device_events AS d USING (capture_id)) AS d
        ON d.run_index = e.run_index AND d.event_index = e.event_index
    WHERE e.is_additive
        AND coalesce(s.category, '') <> 'Trace'
        AND d.event_index IS NULL
        AND _is_selected_run(r.iteration, r.phase, r.scope, r.is_typical, steps, phase, method, runs)
),
-- From recorded events without a parent to their children, level by level.
placed AS (
    SELECT 1 AS level, dense_rank() OVER (ORDER BY t.family, t.kind) AS place, 0::BIGINT AS outer_place, t.*
    FROM timed AS t
    LEFT JOIN timed AS o ON o.run_index = t.parent_run_index AND o.event_index = t.parent_index
    WHERE o.event_index IS NULL
    UNION ALL
    SELECT p.level + 1, dense_rank() OVER (ORDER BY p.place, t.family, t.kind), p.place, t.*
    FROM placed AS p
    JOIN timed AS t ON t.parent_run_index = p.run_index AND t.parent_index = p.event_index
)
SELECT p.level, p.place, p.outer_place, p.family AS name, p.kind, count(*) AS calls, n.number AS executes,
    try_cast(sum(p.self_ticks) AS BIGINT) AS self_ticks, try_cast(sum(p.step_ticks) AS BIGINT) AS step_ticks,
    try_cast(sum(p.counted_ticks) AS BIGINT) AS total_ticks
FROM placed AS p CROSS JOIN (
    SELECT nullif(count(*), 0) AS number
    FROM query_table(target) AS a
    JOIN trace_steps AS s USING (capture_id)
    JOIN runs AS r USING (capture_id, run_index)
    WHERE _is_step_run(r.name) AND _is_recorded(r.iteration, r.phase, steps, phase)
) AS n
GROUP BY p.level, p.place, p.outer_place, p.family, p.kind, n.number;
