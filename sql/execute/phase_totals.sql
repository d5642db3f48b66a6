-- The runs of a capture of one phase, and their executes.
-- Shown: coalesce(phase, '(no phase)') AS phase!, per_execute!~, min~, max~, runs!#, executes!#, total+~, first_run#,
--   last_run#, unit
-- Columns:
--   phase: load, prefill, decode, mixed, other; NULL for runs without a phase
--   runs: number of runs
--   first_run: run_index of the first
--   last_run: run_index of the last
--   executes: number of these runs that have a Method::execute or Method::step
--   total: total time of these executes; NULL if there are none, or if times are impossible
--   per_execute: total / executes
--   min: shortest time
--   max: longest time
--   unit: unit of total to max
CREATE MACRO phase_totals(capture, unit := NULL) AS TABLE
WITH target AS MATERIALIZED (FROM _scaled_capture(capture, unit)),
executes AS (
    SELECT x.run_index, x.execute_ticks
    FROM _executes((SELECT a.capture_id FROM target AS a), NULL, NULL, NULL, 'all') AS x
),
added AS (
    SELECT r.phase, count(*) AS runs, min(r.run_index) AS first_run, max(r.run_index) AS last_run,
        count(x.run_index) AS executes,
        CASE
            WHEN count(x.run_index) = count(x.execute_ticks) THEN try_cast(sum(x.execute_ticks) AS BIGINT)
        END AS ticks,
        min(x.execute_ticks) AS min_ticks, max(x.execute_ticks) AS max_ticks
    FROM target AS a
    JOIN runs AS r USING (capture_id)
    LEFT JOIN executes AS x USING (run_index)
    GROUP BY r.phase
)
SELECT d.phase, d.runs, d.first_run, d.last_run, d.executes, _in_unit(d.ticks, a.scale) AS total,
    _in_unit(d.ticks / d.executes, a.scale) AS per_execute, _in_unit(d.min_ticks, a.scale) AS min,
    _in_unit(d.max_ticks, a.scale) AS max, a.unit
FROM added AS d CROSS JOIN target AS a
ORDER BY d.first_run;
