-- One event within an execute, with its self time and its names.
-- Columns:
--   run_index: the run
--   scope: scope of the run
--   event_index: position in the run's list of events
--   parent_index: event_index of the event that contains it; NULL where none does
--   signature_index: the event's signature, in `signatures`
--   block_index: the event block
--   kind: framework, user, operator_call, kernel, delegate_call, delegate, control
--   label: display name
--   family: label without serial numbers and wrappers
--   chain_index: chain of its instruction; -1 belongs to no instruction
--   instruction_id: the instruction; NULL where none is named
--   value_unit: unit of its duration, as in `signatures`
--   children: number of its children whose times are subtracted
--   duration_ticks: end less start; 0 if the times are impossible
--   self_ticks: self time: duration_ticks less the children's
--   execute_ticks: duration_ticks of an execute; NULL for other events
--   is_additive: whether it can be added to others, as in `_self_times`
CREATE MACRO _execute_times(
    capture_key,  -- key of a capture
    steps,  -- as in `op_totals`
    phase,  -- only runs of this phase; NULL: all runs
    method,  -- only runs of this method; NULL: all runs
    runs  -- typical or all, see `typical_runs`
) AS TABLE
SELECT
    t.run_index,
    r.scope,
    t.event_index,
    t.parent_index,
    t.signature_index,
    s.block_index,
    s.kind,
    s.label,
    s.family,
    s.chain_index,
    s.instruction_id,
    s.value_unit,
    t.children,
    t.duration_ticks,
    t.self_ticks,
    CASE WHEN t.event_index = t.execute_index THEN t.duration_ticks END
        AS execute_ticks,
    t.is_additive
FROM _self_times(capture_key, steps, phase, method, runs) AS t
-- Filters read the capture's rows alone, also of a lake of many captures.
JOIN (SELECT s.* FROM signatures AS s WHERE s.capture_id = capture_key) AS s
    ON s.signature_index = t.signature_index
JOIN (SELECT r.run_index, r.scope FROM runs AS r WHERE r.capture_id = capture_key) AS r
    ON r.run_index = t.run_index
WHERE t.execute_index IS NOT NULL;
