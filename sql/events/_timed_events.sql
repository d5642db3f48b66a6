-- One event of the selected runs of a capture, with its times and columns of its run, but without names. It is for
-- queries that first add up many events by integers, and then join names.
CREATE MACRO _run_events(
    target,  -- a table with the capture_id of the capture
    steps, phase, method, runs
) AS TABLE
SELECT e.capture_id, e.run_index, e.event_index, e.parent_index, e.signature_index, e.execute_index, e.children,
    e.self_ticks, e.is_additive, e.is_execute, e.elapsed_ticks < 0 AND e.unwrapped_ticks IS NULL AS is_impossible,
    coalesce(_duration_ticks(e.elapsed_ticks, e.unwrapped_ticks), 0) AS duration_ticks,
    CASE
        WHEN e.event_index = e.execute_index THEN coalesce(_duration_ticks(e.elapsed_ticks, e.unwrapped_ticks), 0)
    END AS execute_ticks,
    r.scope, r.method, r.is_typical
FROM query_table(target) AS k
JOIN event_ticks AS e USING (capture_id)
JOIN (SELECT r.* FROM query_table(target) AS k JOIN runs AS r USING (capture_id)) AS r USING (run_index)
WHERE _is_selected_run(r.iteration, r.phase, r.scope, r.is_typical, steps, phase, method, runs);

-- One event of the selected runs of a capture, with its times, its names, and columns of its capture and run.
CREATE MACRO _timed_events(
    capture_key,
    unit,  -- unit of results, which is checked; NULL: the default one
    steps, phase, method, runs
) AS TABLE
SELECT e.* REPLACE (coalesce(e.duration_ticks, 0) AS duration_ticks),
    e.duration_ticks IS NULL AS is_impossible,
    coalesce(e.duration_ticks - coalesce(e.overlap_ticks, 0), 0) AS counted_ticks,
    coalesce(e.profiling_level = 'method_only', false) AS is_untraced,
    coalesce(unit, _default_unit(e.time_scale)) AS unit,
    CASE WHEN e.event_index = e.execute_index THEN coalesce(e.duration_ticks, 0) END AS execute_ticks,
    r.name AS run_name, r.scope, r.method, r.is_typical
FROM _capture_events(capture_key) AS e
JOIN _selected_runs(capture_key, steps, phase, method, runs) AS r USING (run_index);
