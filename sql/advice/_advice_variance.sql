-- Rule: runs of the same events vary much, (p90 - p10) / p50. The number of
-- captures per side that show a change of 5 % is n = 2 (1.96 + 0.84)^2 s^2 /
-- ln(1.05)^2, the usual sample size for 5 % false alarms and 80 % power, where a
-- capture's p25 is the sample and s its spread between captures. In 60 real
-- captures of 3 models on a shared machine, s was 0.15 of the spread within a
-- capture (0.13 to 0.15 by model, robustly); 5 per side is the smallest number that
-- detected 94 % or more there.
CREATE MACRO _advice_variance(
    runs,  -- rows of `_advice_runs` as a list
    spread_percent := 20,  -- spread in percent from which it is reported: captures on a quiet machine have 5 to 11 %, one in ten over 20
    least_runs := 10,  -- smallest number of runs of a block for percentiles
    captures_share := 0.15,  -- spread between captures as a fraction of that within one
    most_captures := 50  -- number of captures up to which the estimate is meaningful
) AS TABLE
WITH
input AS (
    SELECT unnest(runs, recursive := true)
),
blocks AS (
    SELECT
        g.block_index,
        count(*) AS runs,
        fsum(g.execute) AS total,
        quantile_cont(g.execute, 0.1) AS p10,
        median(g.execute) AS p50,
        quantile_cont(g.execute, 0.9) AS p90,
        any_value(g.unit) AS unit
    FROM input AS g
    WHERE NOT g.is_first AND g.execute IS NOT NULL
    GROUP BY g.block_index
    HAVING count(*) >= least_runs
),
spread AS (
    SELECT b.*, (b.p90 - b.p10) / nullif(b.p50, 0) AS spread
    FROM blocks AS b
),
varying AS (
    SELECT
        s.*,
        greatest(
            5,
            ceil(2 * (1.96 + 0.84) ** 2 * (captures_share * s.spread / ln(1.05)) ** 2)
        )::BIGINT AS captures
    FROM spread AS s
    WHERE 100e0 * s.spread >= spread_percent
    QUALIFY row_number() OVER (ORDER BY s.total DESC, s.block_index) = 1
)
SELECT
    'variance' AS rule,
    CASE
        WHEN t.spread >= 1 THEN 'high' WHEN t.spread >= 0.5 THEN 'medium' ELSE 'low'
    END AS severity,
    'Runs that log the same events take from ' || _advice_time(t.p10, t.unit)
    || ' (p10) to ' || _advice_time(t.p90, t.unit) || ' (p90), a spread of '
    || _advice_percent(100e0 * t.spread) || ' around the median of '
    || _advice_time(t.p50, t.unit) || ': to detect a change of 5 %, '
    || CASE
        WHEN t.captures > most_captures THEN 'more than ' || most_captures
        ELSE 'about ' || t.captures
    END || ' captures per side are needed.' AS finding,
    _advice_count(t.runs, 'run') || ' of block ' || t.block_index
    || ', without the first run' AS evidence,
    NULL::DOUBLE AS time_at_stake,
    NULL::DOUBLE AS share_percent,
    'Check that these runs had the same method and inputs. Fix the clock and pin the '
    || 'threads to cores, let the device cool and rest, and compare percentiles of '
    || 'several captures taken in turns, not averages of one.' AS remedy
FROM varying AS t;
