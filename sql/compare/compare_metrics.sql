-- Needs etq: in DuckDB alone, it is an error.
-- The change of one metric from base to new, between the medians of the captures' values, with a t-test on logarithms
-- (on the values if some are not positive); q is corrected for the number of metrics that have a better direction.
-- Shown: name!, verdict! (verdict), change_percent! (change), base! (time), new! (time), unit, note
-- Columns:
--   name: the metric
--   verdict: better, worse, ~ (no difference that counts), not decided, too few, conditions differ, differs (a condition whose ranges don't overlap), added, removed
--   change_percent: change from base to new in percent of base; NULL if base is 0
--   base: median over captures of base; NULL if the metric is added
--   new: median over captures of new; NULL if the metric is removed
--   unit: unit of both; NULL where unknown
--   better: lower or higher; NULL for conditions, and where unknown or not the same in all captures
--   p: probability of a difference this large by chance
--   q: p, corrected for the number of metrics that have a better direction
--   note: what is needed for a verdict; NULL if nothing
--   base_captures: number of captures of base that have it
--   new_captures: number of captures of new that have it
CREATE MACRO compare_metrics(
    base, new,
    alpha := 0.05,  -- accepted share of false positives among the verdicts better and worse
    min_effect := NULL,  -- smallest change that counts, as a fraction; NULL: 0.02
    allow_mismatch := false  -- whether to give verdicts although conditions differ
) AS TABLE
WITH sides AS MATERIALIZED (FROM _compared_sides(base, new)),
of_captures AS (
    SELECT m.name, m.unit,
        CASE WHEN min(min(m.better)) OVER same = max(max(m.better)) OVER same THEN min(min(m.better)) OVER same END
            AS better,
        s.side = 'new' AS is_new, NULL::DOUBLE AS position, median(m.value) AS value
    FROM sides AS s
    JOIN _measured_metrics AS m USING (capture_id)
    GROUP BY m.name, m.unit, s.capture_id, s.side
    WINDOW same AS (PARTITION BY m.name, m.unit)
),
judged AS (
    FROM _value_changes(
        (SELECT list(c) FROM of_captures AS c), 'metric', 'sides', alpha, min_effect, allow_mismatch
    )
)
SELECT j.name, j.verdict, 100 * j.change AS change_percent, j.base, j.new, j.unit, j.better, j.p, j.q, j.note,
    j.base_captures, j.new_captures
FROM judged AS j
ORDER BY j.better IS NULL, j.name, j.unit;
