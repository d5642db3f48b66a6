-- Rule: too few runs for percentiles. With fewer than ten, p10 and p90 are the
-- fastest and the slowest run.
CREATE MACRO _advice_few_runs(
    runs,  -- rows of `_advice_runs` as a list
    least_runs := 10  -- smallest number of runs for percentiles
) AS TABLE
WITH
input AS (
    SELECT unnest(runs, recursive := true)
)
SELECT
    'few runs' AS rule,
    'low' AS severity,
    'The capture has ' || _advice_count(count(*), 'run')
    || ', warm-up included: too few for percentiles, or to separate noise from change.'
        AS finding,
    'runs ' || min(g.run_index) || ' to ' || max(g.run_index) AS evidence,
    NULL::DOUBLE AS time_at_stake,
    NULL::DOUBLE AS share_percent,
    'Record about 40 runs in a capture, and at least five captures of each build '
    || 'if builds are to be compared.' AS remedy
FROM input AS g
HAVING count(*) BETWEEN 1 AND least_runs - 1;
