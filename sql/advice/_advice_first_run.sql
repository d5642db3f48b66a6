-- Rule: the first run is an outlier: caches, pages and clocks are cold. Its share
-- is its excess over all runs of the capture, as in averages. This is normal, so
-- severity is at most medium.
CREATE MACRO _advice_first_run(
    runs,  -- rows of `_advice_runs` as a list
    loading,  -- rows of `load_breakdown` as a list
    excess_percent := 20  -- excess in percent of the median of the later runs from which it is reported: more than their usual spread
) AS TABLE
WITH
input AS (
    SELECT unnest(runs, recursive := true)
),
parts AS (
    SELECT unnest(loading, recursive := true)
),
later AS (
    SELECT
        g.block_index,
        count(*) AS runs,
        quantile_cont(g.execute, 0.9) AS p90
    FROM input AS g
    WHERE NOT g.is_first
    GROUP BY g.block_index
),
firsts AS (
    SELECT
        g.run_index,
        g.execute,
        g.middle,
        g.unit,
        p.total AS excess,
        l.runs
    FROM input AS g
    JOIN parts AS p
        ON p.run_index = g.run_index AND p.component = 'first run excess'
    JOIN later AS l ON l.block_index = g.block_index
    WHERE g.is_first
        AND g.execute > l.p90
        AND 100e0 * p.total >= excess_percent * g.middle
),
first_runs AS (
    SELECT
        f.*,
        (SELECT count(*) FROM input AS g) AS all_runs,
        (SELECT fsum(g.execute) FROM input AS g) AS all_time,
        sum(f.excess) OVER () AS all_excess,
        row_number() OVER (ORDER BY f.excess DESC, f.run_index) AS place,
        string_agg('run ' || f.run_index, ', ') OVER () AS words
    FROM firsts AS f
)
SELECT
    'first run' AS rule,
    CASE
        WHEN 100e0 * t.all_excess < 5 * t.all_time THEN 'low' ELSE 'medium'
    END AS severity,
    'The first run takes ' || _advice_time(t.execute, t.unit) || ', '
    || _advice_number(t.execute / t.middle) || ' times the median of the '
    || _advice_count(t.runs, 'run') || ' after it ('
    || _advice_time(t.middle, t.unit) || '): it is a warm-up.' AS finding,
    t.words || '; first run excess in load_breakdown' AS evidence,
    t.all_excess / t.all_runs AS time_at_stake,
    100e0 * t.all_excess / t.all_time AS share_percent,
    'Leave it out of averages and totals, as shares here do: --skip-first 1 '
    || '(steps := ''skip_first=1'').' AS remedy
FROM first_runs AS t
WHERE t.place = 1;
