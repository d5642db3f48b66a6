-- One event of a capture with its self time, its names and its capture's columns, for `_op_totals` and others to add
-- up, for one capture or many.
CREATE MACRO _timed_events(
    capture_key,
    unit,  -- unit of results, which is checked; NULL: the default one
    steps, phase, method, runs
) AS TABLE
SELECT c.capture_id, c.time_scale, coalesce(c.profiling_level = 'method_only', false) AS is_untraced,
    coalesce(unit, _default_unit(c.time_scale)) AS unit, t.run_index, t.event_index, t.parent_index, t.execute_index,
    t.signature_index, t.children, t.duration_ticks, t.self_ticks, t.is_impossible,
    CASE WHEN t.event_index = t.execute_index THEN t.duration_ticks END AS execute_ticks, t.is_execute, t.is_additive,
    r.scope, r.method, r.is_typical, s.block_index, s.kind, s.name, s.label, s.family, s.chain_index, s.instruction_id,
    s.value_unit
FROM _self_times(capture_key, steps, phase, method, runs) AS t
-- Filters read the capture's rows alone, also of a lake of many captures.
CROSS JOIN (FROM captures AS c WHERE c.capture_id = capture_key) AS c
JOIN (FROM signatures AS s WHERE s.capture_id = capture_key) AS s USING (signature_index)
JOIN (FROM runs AS r WHERE r.capture_id = capture_key) AS r USING (run_index);

-- Events within an execute.
CREATE MACRO _execute_times(capture_key, steps, phase, method, runs) AS TABLE
FROM _timed_events(capture_key, NULL, steps, phase, method, runs) AS t WHERE t.execute_index IS NOT NULL;
