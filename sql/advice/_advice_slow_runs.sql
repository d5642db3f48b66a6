-- Rule: runs that are not typical took so much longer than typical ones that
-- totals and averages over all runs say little of either.
-- Columns:
--   rule: as in `advice`
--   severity: as in `advice`
--   finding: as in `advice`
--   evidence: as in `advice`
--   time_at_stake: as in `advice`
--   share_percent: as in `advice`
--   remedy: as in `advice`
CREATE MACRO _advice_slow_runs(
    runs,  -- rows of `_advice_runs` as a list
    outliers_percent := 5  -- share of all time that their excess must be, in percent: as for medium severity
) AS TABLE
WITH
given AS (
    SELECT unnest(runs, recursive := true)
),
outliers AS (
    SELECT
        g.*,
        row_number() OVER (ORDER BY g.execute DESC, g.run_index) AS place
    FROM given AS g
    WHERE g.is_outlier AND g.execute > g.middle
),
told AS (
    SELECT
        count(*) AS outliers,
        sum(o.execute - o.middle) AS excess,
        max(o.execute) AS slowest,
        max(o.middle) FILTER (WHERE o.place = 1) AS middle,
        string_agg('run ' || o.run_index || ' ' || _advice_time(o.execute, o.unit), ', '
            ORDER BY o.place) FILTER (WHERE o.place <= 5) AS words,
        any_value(o.unit) AS unit,
        (SELECT count(*) FROM given AS g) AS all_runs,
        (SELECT sum(g.execute) FROM given AS g) AS all_time
    FROM outliers AS o
)
SELECT
    'slow runs' AS rule,
    _advice_severity(100 * t.excess / t.all_time) AS severity,
    t.outliers || ' of ' || _advice_count(t.all_runs, 'run') || ' took longer '
    || 'than typical, the slowest ' || _advice_time(t.slowest, t.unit) || ' against '
    || _advice_time(t.middle, t.unit) || ': '
    || _advice_percent(100 * t.excess / t.all_time)
    || ' of all time is that excess.' AS finding,
    t.words AS evidence,
    t.excess / t.all_runs AS time_at_stake,
    100 * t.excess / t.all_time AS share_percent,
    'See which ops grow in the slow runs, or whether all do: etq slow. Where all '
    || 'grow alike, measure again with nothing else on the device.' AS remedy
FROM told AS t
WHERE 100 * t.excess / t.all_time >= outliers_percent;
