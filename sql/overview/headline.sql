-- Rows of `headline` of each capture, with columns to order them by.
CREATE MACRO _headline(
    loads,  -- a table with rows of `_load_parts`, of all runs
    taxes,  -- a table with rows of `_run_taxes`, of all runs
    method,  -- only runs of this method; NULL: all
    runs  -- typical, all
) AS TABLE
WITH executes AS (
    SELECT t.capture_id, t.scope AS part, t.execute, t.tax_percent,
        100e0 * t.delegates / nullif(t.execute, 0) AS delegated_percent, t.note, t.unit
    FROM query_table(taxes) AS t
    WHERE _is_selected_run(NULL, NULL, t.scope, t.is_typical, NULL, NULL, method, runs)
),
loads AS (
    SELECT l.capture_id, l.component, l.scope AS part, l.total, l.unit
    FROM query_table(loads) AS l
    WHERE l.component IN ('Program::load_method', 'first run excess') AND (method IS NULL OR l.scope = method)
    -- The first run of a later block may log other events, but is not a warm-up.
    QUALIFY l.component = 'Program::load_method' OR row_number() OVER (
        PARTITION BY l.capture_id, l.component, l.scope ORDER BY l.run_index
    ) = 1
),
measured AS (
    SELECT x.capture_id, 1 AS place, 'execute' AS number, x.part, x.execute AS value, x.unit, NULL AS note
    FROM executes AS x
    UNION ALL
    SELECT l.capture_id, CASE l.component WHEN 'first run excess' THEN 3 ELSE 2 END,
        CASE l.component WHEN 'first run excess' THEN l.component ELSE 'load' END, l.part, l.total, l.unit, NULL
    FROM loads AS l
    WHERE l.component = 'Program::load_method' OR l.total > 0
    UNION ALL
    SELECT x.capture_id, 4, 'framework tax', x.part, x.tax_percent, 'percent', x.note FROM executes AS x
    UNION ALL
    SELECT x.capture_id, 5, 'delegated time', x.part, x.delegated_percent, 'percent', NULL
    FROM executes AS x
    WHERE x.note IS DISTINCT FROM 'no operators traced'
)
SELECT m.capture_id, row_number() OVER (PARTITION BY m.capture_id ORDER BY m.place, m.part)::INTEGER AS place, m.number,
    m.part, median(m.value) AS value, CASE WHEN count(*) > 1 THEN fsum(m.value) / count(*) END AS mean,
    CASE WHEN count(*) > 1 THEN quantile_cont(m.value, 0.1) END AS low,
    CASE WHEN count(*) > 1 THEN quantile_cont(m.value, 0.9) END AS high, count(*) AS runs, any_value(m.unit) AS unit,
    max(m.note) AS note
FROM measured AS m
WHERE m.value IS NOT NULL
GROUP BY m.capture_id, m.place, m.number, m.part;

-- One key figure of a capture. A figure that is unknown has no row, and is never zero. Times and the framework tax are
-- medians over typical runs, see `typical_runs`; with several runs, they have a mean, a 10th and a 90th percentile.
-- First run excess is the time by which the first run is longer than the others; it has no row if the first run is not
-- longer.
-- Needs: dump; else: step_breakdown
-- Shown: number!, part!, value AS median! (time), unit!, mean (time), low (time), high (time), runs#, note
-- Columns:
--   number: name of the figure: execute; load; first run excess; framework tax; delegated time
--   part: the method, or the name of the runs if it is unknown
--   value: value of the figure: the median over runs
--   mean: mean over runs, which the times of ops add up to; NULL for a single value
--   low: 10th percentile over runs; NULL for a single value
--   high: 90th percentile over runs; NULL for a single value
--   runs: number of runs it is computed from
--   unit: unit of value, low and high; percent
--   note: remark about the value; NULL if there is none
CREATE MACRO headline(capture, unit := NULL, method := NULL, runs := 'typical') AS TABLE
WITH target AS MATERIALIZED (FROM _capture_with_method(capture, unit, method)),
loads_of_figures AS (FROM _load_breakdown('target') AS l),
runs_of_figures AS (
    SELECT r.*, a.time_scale, a.unit, coalesce(a.profiling_level = 'method_only', false) AS is_untraced
    FROM target AS a
    JOIN runs AS r USING (capture_id)
    WHERE r.executes IS NOT NULL
),
taxes_of_figures AS (FROM _run_taxes('runs_of_figures') AS x)
SELECT h.number, h.part, h.value, h.mean, h.low, h.high, h.runs, h.unit, h.note
FROM _headline(
    'loads_of_figures', 'taxes_of_figures', method, runs
) AS h
ORDER BY h.place;
