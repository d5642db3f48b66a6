-- One event of a capture with its self time, its names and its capture's columns, for `_op_totals` and others to add
-- up, for one capture or many.
CREATE MACRO _timed_events(
    capture_key,
    unit,  -- unit of results, which is checked; NULL: the default one
    steps, phase, method, runs
) AS TABLE
SELECT t.capture_id, t.time_scale, coalesce(t.profiling_level = 'method_only', false) AS is_untraced,
    coalesce(unit, _default_unit(t.time_scale)) AS unit, t.run_index, t.event_index, t.parent_index, t.execute_index,
    t.signature_index, t.children, t.duration_ticks, t.self_ticks, t.is_impossible,
    CASE WHEN t.event_index = t.execute_index THEN t.duration_ticks END AS execute_ticks, t.is_execute, t.is_additive,
    t.scope, t.method, t.is_typical, t.block_index, t.kind, t.name, t.label, t.family, t.chain_index, t.instruction_id,
    t.value_unit
FROM _self_times(capture_key, steps, phase, method, runs) AS t;

-- Events within an execute.
CREATE MACRO _execute_times(capture_key, unit, steps, phase, method, runs) AS TABLE
FROM _timed_events(capture_key, unit, steps, phase, method, runs) AS t WHERE t.execute_index IS NOT NULL;
