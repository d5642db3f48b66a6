-- One event within an execute, with its self time and its names.
CREATE MACRO _execute_times(capture_key, steps, phase, method, runs) AS TABLE
SELECT
    t.run_index, r.scope, t.event_index, t.parent_index, t.signature_index, s.block_index, s.kind, s.label, s.family,
    s.chain_index, s.instruction_id, s.value_unit, t.children, t.duration_ticks, t.self_ticks, t.is_impossible,
    CASE WHEN t.event_index = t.execute_index THEN t.duration_ticks END
        AS execute_ticks,
    t.is_execute, t.is_additive
FROM _self_times(capture_key, steps, phase, method, runs) AS t
-- Filters read the capture's rows alone, also of a lake of many captures.
JOIN (FROM signatures AS s WHERE s.capture_id = capture_key) AS s USING (signature_index)
JOIN (SELECT r.run_index, r.scope FROM runs AS r WHERE r.capture_id = capture_key) AS r USING (run_index)
WHERE t.execute_index IS NOT NULL;
