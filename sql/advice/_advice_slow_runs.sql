-- Rule: runs that are not typical took so much longer than typical ones that totals
-- and averages over all runs represent neither.
CREATE MACRO _advice_slow_runs(
    runs,  -- rows of `_advice_runs` as a list
    outliers_percent := 5  -- share of all time in percent that their excess must have: the limit of medium severity
) AS TABLE
WITH
input AS (
    SELECT unnest(runs, recursive := true)
),
outliers AS (
    SELECT
        g.*,
        row_number() OVER (ORDER BY g.execute DESC, g.run_index) AS place
    FROM input AS g
    WHERE g.is_outlier AND g.execute > g.middle
),
excesses AS (
    SELECT
        count(*) AS outliers,
        sum(o.execute - o.middle) AS excess,
        max(o.execute) AS slowest,
        max(o.middle) FILTER (WHERE o.place = 1) AS middle,
        string_agg('run ' || o.run_index || ' ' || _advice_time(o.execute, o.unit), ', '
            ORDER BY o.place) FILTER (WHERE o.place <= 5) AS words,
        any_value(o.unit) AS unit,
        (SELECT count(*) FROM input AS g) AS all_runs,
        (SELECT fsum(g.execute) FROM input AS g) AS all_time
    FROM outliers AS o
)
SELECT
    'slow runs' AS rule,
    _advice_severity(100e0 * t.excess / t.all_time) AS severity,
    t.outliers || ' of ' || _advice_count(t.all_runs, 'run') || ' took longer '
    || 'than typical, the slowest ' || _advice_time(t.slowest, t.unit) || ' against '
    || _advice_time(t.middle, t.unit) || ': '
    || _advice_percent(100e0 * t.excess / t.all_time)
    || ' of all time is this excess.' AS finding,
    t.words AS evidence,
    t.excess / t.all_runs AS time_at_stake,
    100e0 * t.excess / t.all_time AS share_percent,
    'See whether some ops or all of them grow in the slow runs: etq slow. If all '
    || 'grow equally, measure again with nothing else on the device.' AS remedy
FROM excesses AS t
WHERE 100e0 * t.excess / t.all_time >= outliers_percent;
