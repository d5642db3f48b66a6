-- The executes of one run, compared with the executes of the typical runs of its event block.
CREATE MACRO _compared_executes(
    executes  -- a table with capture_id, run_index and execute_ticks
) AS TABLE
WITH executed AS (
    SELECT r.scope, r.block_index, x.run_index, x.execute_ticks, r.is_typical, r.phase,
        median(CASE WHEN r.is_typical THEN x.execute_ticks END) OVER (PARTITION BY r.block_index, r.phase) AS middle
    FROM query_table(executes) AS x
    JOIN runs AS r USING (capture_id, run_index)
)
SELECT x.scope, x.block_index, x.run_index, x.phase, x.execute_ticks, x.is_typical,
    NOT x.is_typical AND coalesce(x.execute_ticks >= x.middle, false) AS is_slower,
    NOT x.is_typical AND coalesce(x.execute_ticks < x.middle, false) AS is_faster
FROM executed AS x;

-- Rows of `typical_runs` of a capture, unordered, and one row for all its blocks together.
CREATE MACRO _typical_runs_of(
    executes,  -- as for `_compared_executes`
    unit, scale
) AS TABLE
SELECT x.scope AS method, x.block_index, count(*) AS all_runs, count(*) FILTER (WHERE x.is_typical) AS typical,
    count(*) FILTER (WHERE x.is_slower) AS slower, count(*) FILTER (WHERE x.is_faster) AS faster,
    _in_unit(
        sum(x.execute_ticks) FILTER (WHERE x.is_typical)::DOUBLE
            / nullif(count(x.execute_ticks) FILTER (WHERE x.is_typical), 0),
        scale
    ) AS typical_execute,
    _in_unit(sum(x.execute_ticks)::DOUBLE / nullif(count(x.execute_ticks), 0), scale) AS all_execute,
    100 * coalesce(sum(x.execute_ticks) FILTER (WHERE NOT x.is_typical), 0)::DOUBLE
    / nullif(sum(x.execute_ticks), 0)::DOUBLE AS other_percent,
    unit AS unit
FROM _compared_executes(executes) AS x
GROUP BY GROUPING SETS ((x.scope, x.block_index), ());

-- The executes of `_compared_executes`, from the events of chosen runs.
CREATE MACRO _typical_runs(capture_key, unit, steps, phase, method) AS TABLE
WITH target AS MATERIALIZED (FROM _scaled_key(capture_key, unit)),
executes_of_runs AS (FROM _executes((SELECT a.capture_id FROM target AS a), steps, phase, method, 'all') AS x)
FROM _typical_runs_of('executes_of_runs', (SELECT a.unit FROM target AS a), (SELECT a.scale FROM target AS a)) AS t;

-- The effect of excluding runs that are not typical: one row for each method and event block with an execute. A run is
-- typical if the logarithm of its execute time lies within Tukey's outer fences. These are beyond the quartiles of its
-- block (and phase) by three times the interquartile range, but at least 10 %. The quartiles don't include the first
-- run of a method. With fewer than three other runs, all are typical. Views that aggregate runs use typical runs only,
-- unless `runs := 'all'` is given.
-- Needs: dump; else: step_breakdown
-- Shown: method, block_index#, all_runs!#, typical!#, slower#, faster#, typical_execute!~, all_execute!~,
--   other_percent%, unit
-- Columns:
--   method: the method that ran; if unknown, the name of the runs, numbered if runs of that name ran several programs
--   block_index: the event block
--   all_runs: number of runs with an execute
--   typical: number of typical runs
--   slower: number of runs that are not typical and longer than the median of the typical ones of their phase
--   faster: number of runs that are not typical and shorter
--   typical_execute: mean execute time of the typical runs
--   all_execute: mean execute time of all runs
--   other_percent: share of the total time in runs that are not typical, in percent
--   unit: unit of typical_execute and all_execute
CREATE MACRO typical_runs(capture, unit := NULL, steps := NULL, phase := NULL, method := NULL) AS TABLE
WITH target AS MATERIALIZED (
    FROM _capture_with_method(capture, unit, method)
)
FROM _typical_runs((SELECT a.capture_id FROM target AS a), (SELECT a.unit FROM target AS a), steps, phase, method) AS t
WHERE t.block_index IS NOT NULL
ORDER BY t.block_index, t.method;
