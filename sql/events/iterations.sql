-- The time of one event in one run. Runs of one name are numbered from 0 (`iteration`); rows of the same event follow
-- each other in that order.
-- Columns:
--   block_index: the event block
--   block: name of its runs
--   method: the method that ran; if unknown, the name of the runs, numbered if runs of that name ran several programs
--   event_index: position in the run's list of events
--   event_name: the event's label
--   kind: framework, user, operator_call, kernel, delegate_call, delegate, control
--   instruction_id: the instruction; NULL where none is named
--   iteration: position of the run among those of its name, from 0
--   run_index: the run
--   duration: end less start; NULL if the times are impossible
--   unit: unit of duration: the requested one; values that are not times keep theirs
CREATE MACRO iterations(
    capture, unit := NULL, steps := NULL, phase := NULL, method := NULL, runs := 'all'
) AS TABLE
WITH
target AS MATERIALIZED (FROM _capture(capture, unit))
SELECT
    r.block_index, r.name AS block, r.scope AS method, t.event_index, t.event_name, t.kind, t.instruction_id,
    r.iteration, r.run_index, t.inclusive AS duration, t.unit
FROM _event_times(
    (SELECT a.capture_id FROM target AS a),
    (SELECT a.unit FROM target AS a),
    steps, phase, method, runs
) AS t
CROSS JOIN target AS a
JOIN runs AS r USING (capture_id, run_index)
ORDER BY r.block_index, t.event_index, r.run_index;
