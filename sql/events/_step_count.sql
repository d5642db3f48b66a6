-- The number of a trace's profiler steps that are recorded; NULL if there are none.
CREATE MACRO _step_count(capture_key, steps, phase) AS (
    (
        SELECT nullif(count(*), 0)
        FROM trace_steps AS s
        JOIN runs AS r USING (capture_id, run_index)
        WHERE s.capture_id = capture_key AND _is_step_run(r.name) AND _is_recorded(r.iteration, r.phase, steps, phase)
    )
);

-- The one capture that an argument matches, as in `_scaled_capture`, and the number of its steps that are recorded.
CREATE MACRO _capture_with_steps(capture, unit, steps, phase) AS TABLE
SELECT c.*, _step_count(c.capture_id, steps, phase) AS step_count FROM _scaled_capture(capture, unit) AS c;
