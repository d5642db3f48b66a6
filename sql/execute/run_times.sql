-- One run that executed, classified as warm-up, typical or outlier.
CREATE MACRO _classified_runs(
    capture_key, unit, steps, phase, method, runs,
    later_runs := 3  -- a first run counts as a warm-up if at least this many runs follow
) AS TABLE
WITH timed_runs AS (FROM _timed_runs(capture_key, unit, steps, phase, method, runs) AS t),
run_taxes AS (
    SELECT r.run_index, r.block_index, t.execute, t.tax, t.tax_percent, r.phase,
        r.run_index = f.first_run
        AND count(CASE WHEN r.run_index <> f.first_run THEN 1 END)
            OVER (PARTITION BY r.block_index) >= later_runs AS is_first,
        r.is_typical, t.unit
    FROM _run_taxes('timed_runs') AS t
    JOIN runs AS r USING (capture_id, run_index)
    JOIN (
        SELECT q.scope, min(q.run_index) AS first_run FROM runs AS q WHERE q.capture_id = capture_key GROUP BY q.scope
    ) AS f ON f.scope = r.scope
),
blocks AS (
    SELECT t.block_index, t.phase, median(t.execute) AS middle
    FROM run_taxes AS t
    WHERE t.is_typical
    GROUP BY t.block_index, t.phase
)
SELECT t.run_index, t.block_index, t.execute, t.tax, t.tax_percent, t.is_first, t.is_typical,
    NOT t.is_first AND NOT t.is_typical AS is_outlier, b.middle, t.unit
FROM run_taxes AS t
LEFT JOIN blocks AS b ON b.block_index = t.block_index AND b.phase IS NOT DISTINCT FROM t.phase;

-- One run that executed: its time, and whether it is typical of its event block.
-- Needs: dump; else: step_breakdown
-- Shown: run_index!#, name, method, execute!~, is_typical!, is_warm_up, is_outlier, block_median~, block_index#, unit
-- Columns:
--   run_index: the run
--   name: name of the run
--   method: the method that ran; if unknown, the name of the runs, numbered if runs of that name ran several programs
--   block_index: its event block
--   execute: time of its Method::execute (or Method::step) events; NULL if the time is impossible
--   is_warm_up: whether it is the first run of its method, and at least 3 runs of the same event block follow
--   is_typical: whether its time is similar to the times of most runs of its block, see `typical_runs`
--   is_outlier: whether it is neither typical nor a warm-up
--   block_median: median of execute of the typical runs of its block and phase
--   unit: unit of execute and block_median
CREATE MACRO run_times(capture, unit := NULL, steps := NULL, phase := NULL, method := NULL, runs := 'all') AS TABLE
WITH target AS MATERIALIZED (
    FROM _capture_with_method(capture, unit, method)
)
SELECT j.run_index, r.name, r.scope AS method, j.block_index, j.execute, j.is_first AS is_warm_up, j.is_typical,
    j.is_outlier, j.middle AS block_median, j.unit
FROM _classified_runs(
    (SELECT a.capture_id FROM target AS a), (SELECT a.unit FROM target AS a), steps, phase, method, runs
) AS j
CROSS JOIN target AS a
JOIN runs AS r USING (capture_id, run_index)
ORDER BY j.run_index;
