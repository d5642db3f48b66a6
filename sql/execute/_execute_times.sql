-- One event of a capture with its self time, its names and its capture's columns, for `_op_totals` and others to add
-- up, for one capture or many. As `_self_times`, but what is within each event is read by itself, by few columns: to
-- keep all events with all columns for it takes 75 MB more of a million, and to plan it 2 ms less.
CREATE MACRO _timed_events(
    capture_key,
    unit,  -- unit of results, which is checked; NULL: the default one
    steps, phase, method, runs
) AS TABLE
WITH selected_runs AS MATERIALIZED (FROM _selected_runs(capture_key, steps, phase, method, runs)),
selected_events AS (
    SELECT e.*, r.scope, r.method, r.is_typical
    FROM _capture_events(capture_key) AS e
    JOIN selected_runs AS r USING (run_index)
),
inner_events AS (
    SELECT c.capture_id, coalesce(e.parent_run_index, e.run_index) AS parent_run_index, e.parent_index,
        _duration_ticks(e.start_ticks, e.elapsed_ticks, c.clock_bits) AS duration_ticks, e.overlap_ticks, e.is_detached,
        s.clock = 'host' AND s.value_unit = 'ticks' AS is_host_ticks
    FROM (FROM event_ticks AS i WHERE i.capture_id = capture_key) AS e
    JOIN selected_runs AS r USING (run_index)
    JOIN (FROM signatures AS i WHERE i.capture_id = capture_key) AS s USING (signature_index)
    CROSS JOIN (FROM captures AS i WHERE i.capture_id = capture_key) AS c
),
inner_times AS (FROM _inner_times_of('inner_events'))
SELECT t.capture_id, t.time_scale, coalesce(t.profiling_level = 'method_only', false) AS is_untraced,
    coalesce(unit, _default_unit(t.time_scale)) AS unit, t.run_index, t.event_index, t.parent_index, t.execute_index,
    t.signature_index, t.children, t.duration_ticks, t.self_ticks, t.is_impossible,
    CASE WHEN t.event_index = t.execute_index THEN t.duration_ticks END AS execute_ticks, t.is_execute, t.is_additive,
    t.scope, t.method, t.is_typical, t.block_index, t.kind, t.name, t.label, t.family, t.chain_index, t.instruction_id,
    t.value_unit
FROM _self_times_of('selected_events', 'inner_times') AS t;

-- Events within an execute.
CREATE MACRO _execute_times(capture_key, unit, steps, phase, method, runs) AS TABLE
FROM _timed_events(capture_key, unit, steps, phase, method, runs) AS t WHERE t.execute_index IS NOT NULL;
