-- One event of the selected runs of a capture with its times, its names and its capture's and run's columns.
CREATE MACRO _timed_events(
    capture_key,
    unit,  -- unit of results, which is checked; NULL: the default one
    steps, phase, method, runs
) AS TABLE
SELECT e.* REPLACE (coalesce(e.duration_ticks, 0) AS duration_ticks, coalesce(e.is_execute, false) AS is_execute),
    e.duration_ticks IS NULL AS is_impossible,
    coalesce(e.duration_ticks - coalesce(e.overlap_ticks, 0), 0) AS counted_ticks,
    coalesce(e.profiling_level = 'method_only', false) AS is_untraced,
    coalesce(unit, _default_unit(e.time_scale)) AS unit,
    CASE WHEN e.event_index = e.execute_index THEN coalesce(e.duration_ticks, 0) END AS execute_ticks,
    r.name AS run_name, r.scope, r.method, r.is_typical
FROM _capture_events(capture_key) AS e
JOIN _selected_runs(capture_key, steps, phase, method, runs) AS r USING (run_index);

-- Events within an execute.
CREATE MACRO _execute_times(capture_key, unit, steps, phase, method, runs) AS TABLE
FROM _timed_events(capture_key, unit, steps, phase, method, runs) AS t WHERE t.execute_index IS NOT NULL;
