-- One event of one run, named by what the run is an iteration of: the
-- iterations of an event block's event stand one after the other.
-- Columns:
--   block_index: the event block
--   block: name of its runs
--   method: the method that ran; where that is not known, the name of the runs, numbered where these ran several programs
--   event_index: position in the run's list of events
--   event_name: the event's label
--   kind: framework, user, operator_call, kernel, delegate_call, delegate, control
--   instruction_id: the instruction; NULL where none is named
--   iteration: position of the run among those of its name, from 0
--   run_index: the run
--   duration: from start to end; NULL where the times are impossible
--   unit: unit of duration: the one asked for; for what is no time, its own
CREATE MACRO iterations(
    capture,  -- name, hash prefix, @latest or selector
    unit := NULL,  -- ns, us, ms, s, cycles; NULL: us (cycles where ticks are cycles)
    skip_first := 0,  -- runs of each name to leave out at the start, as in `schedule`
    wait := 0,  -- as in `schedule`
    warmup := 0,  -- as in `schedule`
    active := 1,  -- as in `schedule`
    repeat := 0,  -- as in `schedule`
    skip_first_wait := 0,  -- as in `schedule`
    phase := NULL,  -- runs of that phase alone: load, prefill, decode, other; NULL: all
    method := NULL,  -- runs of that method alone, as the column `method` has it; NULL: all
    runs := 'all'  -- typical: only runs that took about as long as most of their event block, see `typical_runs`; all
) AS TABLE
SELECT
    r.block_index,
    r.name AS block,
    r.scope AS method,
    t.event_index,
    t.event_name,
    t.kind,
    t.instruction_id,
    r.iteration,
    r.run_index,
    t.inclusive AS duration,
    t.unit
FROM event_times(
    capture, unit, skip_first, wait, warmup, active, repeat, skip_first_wait, phase,
    method, runs
) AS t
CROSS JOIN _capture(capture, NULL) AS a
JOIN runs AS r ON r.capture_id = a.capture_id AND r.run_index = t.run_index
ORDER BY r.block_index, t.event_index, r.run_index;
