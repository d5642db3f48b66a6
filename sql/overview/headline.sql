-- One key figure of a capture. A figure that is unknown has no row, and is never zero. Times and the framework tax are
-- medians over typical runs, see `typical_runs`, with mean, 10th and 90th percentile if there are several; first run
-- excess is that of the first run, without a row if it is not longer than the others.
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
WITH
target AS MATERIALIZED (FROM _capture(capture, unit)),
executes AS (
    SELECT
        t.scope AS part, t.execute, t.tax_percent,
        100e0 * t.delegates / nullif(t.execute, 0) AS delegated_percent,
        t.note, t.unit
    FROM _run_taxes(
        (SELECT a.capture_id FROM target AS a),
        (SELECT a.unit FROM target AS a),
        NULL, NULL, method, runs
    ) AS t
),
loads AS (
    SELECT l.component, r.scope AS part, l.total, l.unit
    FROM _load_breakdown((SELECT a.capture_id FROM target AS a), (SELECT a.unit FROM target AS a)) AS l
    CROSS JOIN target AS a
    JOIN runs AS r USING (capture_id, run_index)
    WHERE l.component IN ('Program::load_method', 'first run excess') AND (method IS NULL OR r.scope = method)
    -- The first run of a later block may log other events, but is not a warm-up.
    QUALIFY l.component = 'Program::load_method' OR row_number() OVER (
        PARTITION BY l.component, r.scope ORDER BY l.run_index
    ) = 1
),
measured AS (
    SELECT
        1 AS place, 'execute' AS number, x.part, x.execute AS value, x.unit,
        NULL AS note
    FROM executes AS x
    UNION ALL
    SELECT
        CASE l.component WHEN 'first run excess' THEN 3 ELSE 2 END,
        CASE l.component WHEN 'first run excess' THEN l.component ELSE 'load' END,
        l.part, l.total, l.unit, NULL
    FROM loads AS l
    WHERE l.component = 'Program::load_method' OR l.total > 0
    UNION ALL
    SELECT 4, 'framework tax', x.part, x.tax_percent, 'percent', x.note
    FROM executes AS x
    UNION ALL
    SELECT 5, 'delegated time', x.part, x.delegated_percent, 'percent', NULL
    FROM executes AS x
    WHERE x.note IS DISTINCT FROM 'no operators traced'
)
SELECT
    m.number, m.part, median(m.value) AS value,
    CASE WHEN count(*) > 1 THEN fsum(m.value) / count(*) END AS mean,
    CASE WHEN count(*) > 1 THEN quantile_cont(m.value, 0.1) END AS low,
    CASE WHEN count(*) > 1 THEN quantile_cont(m.value, 0.9) END AS high,
    count(*) AS runs, any_value(m.unit) AS unit, max(m.note) AS note
FROM measured AS m
WHERE m.value IS NOT NULL
GROUP BY m.place, m.number, m.part
ORDER BY m.place, m.part;
