-- The rows of `step_breakdown`, unordered.
CREATE MACRO _step_breakdown(
    target  -- a table with a row of `_scaled_capture`
) AS TABLE
SELECT t.run_index, t.step, t.place,
    ['Kernel', 'Memcpy', 'Memset', 'Communication', 'Runtime', 'DataLoader', 'CPU Exec', 'Other'][t.place] AS category,
    _in_unit(t.ticks, a.scale) AS time, 100 * t.ticks::DOUBLE / nullif(t.step_ticks, 0) AS share_percent, a.unit
FROM query_table(target) AS a
JOIN (
    SELECT s.capture_id, s.run_index, s.step, s.end_ticks - s.start_ticks AS step_ticks,
        unnest([1, 2, 3, 4, 5, 6, 7, 8]) AS place,
        unnest([
            s.kernel_ticks, s.memcpy_ticks, s.memset_ticks, s.communication_ticks,
            s.runtime_ticks, s.data_loader_ticks, s.cpu_exec_ticks, s.other_ticks
        ]) AS ticks
    FROM trace_steps AS s
    WHERE s.start_ticks IS NOT NULL
) AS t ON t.capture_id = a.capture_id;

-- The time of one step of a trace in one category, as in the overview of torch-tb-profiler. Each moment of a step
-- counts once, for the first category that applies of Kernel, Memcpy, Memset, Communication, Runtime, DataLoader, CPU
-- Exec and Other, so that a step's rows add up to the step. A step lasts until its last launched device event ends, and
-- the next one begins there; without device events, the time that several steps share counts for each of them. Steps at
-- the end of a trace whose kernels were not all recorded are excluded. It differs from the plug-in as follows. Runtime
-- calls, DataLoaders and communication are also recognized in the form that torch has written since 2021. Kernels of
-- communication are recognized by their family and come before copies and fills, so their time is what
-- `device_breakdown` calls exposed. Communication on the host counts only if the trace has no kernels. A step repeated
-- for a device is not a separate step. If the first category fills all steps, later categories are not counted in
-- addition.
-- Needs: torch_trace; else: execute_breakdown
-- Shown: step!#, category!, time!~, share_percent!%, unit
-- Share: of the step
-- Columns:
--   run_index: the run
--   step: number of the step in the trace, of a server's steps by order; 0 if the trace has no steps
--   category: Kernel, Memcpy, Memset, Communication, Runtime, DataLoader, CPU Exec or Other
--   time: time of the step in that category
--   share_percent: time in percent of the step; NULL for an empty step
--   unit: the requested unit of time
CREATE MACRO step_breakdown(capture, unit := NULL) AS TABLE
WITH target AS MATERIALIZED (FROM _scaled_capture(capture, unit))
SELECT b.run_index, b.step, b.category, b.time, b.share_percent, b.unit
FROM _step_breakdown('target') AS b
ORDER BY b.run_index, b.place;

-- The mean time of one category of `step_breakdown` over the steps of a trace, as in the overview of torch-tb-profiler.
-- Needs: torch_trace; else: execute_breakdown
-- Shown: category!, time!~, share_percent!%, steps#, unit
-- Share: of the mean step
-- Columns:
--   category: a category of `step_breakdown`; Step is the sum of all, the mean step time
--   steps: number of steps
--   time: mean time over the steps
--   share_percent: time in percent of the mean step; NULL if that is empty
--   unit: the requested unit of time
CREATE MACRO average_step(capture, unit := NULL, steps := NULL, phase := NULL) AS TABLE
WITH target AS MATERIALIZED (FROM _scaled_capture(capture, unit)),
averaged AS (
    SELECT coalesce(b.category, 'Step') AS category, count(DISTINCT b.run_index) AS steps,
        fsum(b.time) / count(DISTINCT b.run_index) AS time, any_value(b.unit) AS unit
    FROM target AS a
    JOIN runs AS r USING (capture_id)
    JOIN _step_breakdown('target') AS b USING (run_index)
    WHERE _is_recorded(r.iteration, r.phase, steps, phase)
    GROUP BY GROUPING SETS ((b.category), ())
    HAVING count(*) > 0
)
SELECT v.category, v.steps, v.time,
    100e0 * v.time / nullif(max(CASE WHEN v.category = 'Step' THEN v.time END) OVER (), 0) AS share_percent, v.unit
FROM averaged AS v
ORDER BY
    list_position(
        ['Step', 'Kernel', 'Memcpy', 'Memset', 'Communication', 'Runtime', 'DataLoader', 'CPU Exec', 'Other'],
        v.category
    );
