-- One step of a trace that has steps, as the host has it.
-- Columns:
--   capture_id: the capture
--   run_index: the run
--   step: number of the step
--   start_ticks: start of its annotation
--   end_ticks: end of its annotation
CREATE VIEW _written_steps AS
SELECT s.capture_id, s.run_index, s.step, s.host_start_ticks AS start_ticks, s.host_end_ticks AS end_ticks
FROM trace_steps AS s
JOIN runs AS r USING (capture_id, run_index)
WHERE _is_step_run(r.name);
