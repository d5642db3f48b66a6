-- One step of a trace with its time in each category of `step_breakdown`, in a column each.
-- Needs: torch_trace; else: execute_breakdown
-- Shown: step!#, total!~, host~, kernel~, memcpy~, memset~, communication~, runtime~, data_loader~, cpu_exec~, other~,
--   is_slow!, unit
-- Columns:
--   run_index: the run
--   step: number of the step in the trace; 0 if the trace has no steps
--   total: duration of the step with the work that it launched: the sum of all categories
--   host: time from the start of its annotation to its end, as in the file; NULL for a trace without steps and ops
--   kernel: time in category Kernel
--   memcpy: time in category Memcpy
--   memset: time in category Memset
--   communication: time in category Communication
--   runtime: time in category Runtime
--   data_loader: time in category DataLoader
--   cpu_exec: time in category CPU Exec
--   other: time in category Other
--   is_slow: whether the step is longer than typical: the logarithm of its duration is above the third quartile of the steps after the first by more than three times their interquartile range, and 10 %; false if these are fewer than three
--   unit: the requested unit of time
CREATE MACRO wide_steps(capture, unit := NULL) AS TABLE
WITH target AS MATERIALIZED (FROM _scaled_capture(capture, unit)),
-- The limit of `_find_typical_runs`.
measured AS (
    SELECT s.*, ln(greatest(s.end_ticks - s.start_ticks, 1)::DOUBLE) AS log_ticks
    FROM target AS a
    JOIN trace_steps AS s USING (capture_id)
    WHERE s.start_ticks IS NOT NULL
),
quartiles AS (
    SELECT quantile_cont(m.log_ticks, 0.25) AS lower, quantile_cont(m.log_ticks, 0.75) AS upper
    FROM measured AS m
    WHERE m.run_index > (SELECT min(f.run_index) FROM measured AS f)
    HAVING count(*) >= 3
)
SELECT s.run_index, s.step, _in_unit(s.end_ticks - s.start_ticks, a.scale) AS total,
    _in_unit(s.host_end_ticks - s.host_start_ticks, a.scale) AS host, _in_unit(s.kernel_ticks, a.scale) AS kernel,
    _in_unit(s.memcpy_ticks, a.scale) AS memcpy, _in_unit(s.memset_ticks, a.scale) AS memset,
    _in_unit(s.communication_ticks, a.scale) AS communication, _in_unit(s.runtime_ticks, a.scale) AS runtime,
    _in_unit(s.data_loader_ticks, a.scale) AS data_loader, _in_unit(s.cpu_exec_ticks, a.scale) AS cpu_exec,
    _in_unit(s.other_ticks, a.scale) AS other,
    coalesce(s.log_ticks > q.upper + greatest(3 * (q.upper - q.lower), ln(1.1)), false) AS is_slow, a.unit
FROM measured AS s CROSS JOIN target AS a
LEFT JOIN quartiles AS q ON true
ORDER BY s.run_index;
