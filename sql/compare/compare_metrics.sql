-- One metric's change from base to new, by the medians of the captures' values, in
-- a t-test on logarithms (or on the values, if some are not positive); p is
-- corrected for the number of metrics that have a better direction.
-- Columns:
--   name: the metric
--   verdict: better, worse, ~ (no difference that counts), not decided, too few, conditions differ, differs (a condition whose ranges don't overlap), added, removed
--   change_percent: change from base to new in percent of base; NULL if base is 0
--   base: median over captures of base; NULL if the metric is added
--   new: median over captures of new; NULL if the metric is removed
--   unit: unit of both; NULL where unknown
--   better: lower or higher; NULL for conditions and where unknown
--   p: probability of a difference this large by chance
--   q: p, corrected for the number of metrics that have a better direction
--   note: what is needed for a verdict; NULL if nothing
--   base_captures: number of captures of base that have it
--   new_captures: number of captures of new that have it
CREATE MACRO compare_metrics(
    base,  -- name, hash prefix, @latest, or a selector of one or several captures
    new,  -- as `base`
    alpha := 0.05,  -- accepted share of false positives among the verdicts better and worse
    min_effect := NULL,  -- smallest change that counts, as a fraction; NULL: 0.02
    allow_mismatch := false  -- whether to give verdicts although conditions differ
) AS TABLE
WITH
sides AS (
    SELECT s.capture_id, s.side
    FROM _comparison_captures(base, new, NULL) AS s
    WHERE s.side <> 'history'
),
of_captures AS (
    SELECT
        m.name,
        m.unit,
        s.side = 'new' AS is_new,
        any_value(m.better) AS better,
        median(m.value) AS value
    FROM sides AS s
    JOIN metrics AS m ON m.capture_id = s.capture_id
    GROUP BY m.name, m.unit, s.capture_id, s.side
),
tested AS (
    SELECT unnest(
        needs_etq_to_compare_values((SELECT list(c) FROM of_captures AS c)),
        recursive := true
    )
),
judged AS (
    SELECT
        c.*,
        CASE
            WHEN c.base_captures = 0 THEN 'added'
            WHEN c.new_captures = 0 THEN 'removed'
            WHEN c.better IS NULL THEN CASE WHEN c.is_apart THEN 'differs' ELSE '~' END
            WHEN least(c.base_captures, c.new_captures) < 3 THEN 'too few'
            WHEN c.q < alpha AND c.new <> c.base
                AND coalesce(abs(c.change) >= coalesce(min_effect, 0.02), true)
                THEN CASE
                    WHEN d.conditions > 0 THEN 'conditions differ'
                    WHEN (c.new < c.base) = (c.better = 'lower') THEN 'better'
                    ELSE 'worse'
                END
            WHEN coalesce(
                greatest(-c.change_low, c.change_high) <= coalesce(min_effect, 0.02),
                c.new = c.base AND c.p = 1
            ) THEN '~'
            ELSE 'not decided'
        END AS verdict
    FROM tested AS c
    CROSS JOIN (
        SELECT CASE WHEN allow_mismatch THEN 0 ELSE count(*) END AS conditions
        FROM _differing_conditions(
            (SELECT list(b.capture_id) FROM sides AS b WHERE b.side = 'base'),
            (SELECT list(n.capture_id) FROM sides AS n WHERE n.side = 'new')
        ) AS x
    ) AS d
)
SELECT
    j.name,
    j.verdict,
    100 * j.change AS change_percent,
    j.base,
    j.new,
    j.unit,
    j.better,
    j.p,
    j.q,
    CASE j.verdict WHEN 'too few' THEN 'take at least 3 captures per side, better 5' END
        AS note,
    j.base_captures,
    j.new_captures
FROM judged AS j
WHERE _has_valid_options(alpha, min_effect)
ORDER BY j.better IS NULL, j.name, j.unit;
