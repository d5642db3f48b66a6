-- One metric's change from base to new, by the medians of the captures' values, in
-- a t-test on logarithms (or on the values, if some are not positive); p is
-- corrected for the number of metrics that have a better direction.
-- Columns:
--   name: the metric
--   verdict: better, worse, ~ (no difference that counts), too few, conditions differ, differs (a condition whose ranges don't overlap), added, removed
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
scaled AS (
    SELECT
        c.*,
        CASE
            WHEN min(c.value) OVER (PARTITION BY c.name, c.unit) > 0
                THEN ln(greatest(c.value, 1e-300))
            ELSE c.value
        END AS scaled
    FROM of_captures AS c
),
added AS (
    SELECT
        s.name,
        s.unit,
        any_value(s.better) AS better,
        count(*) FILTER (WHERE NOT s.is_new) AS base_captures,
        count(*) FILTER (WHERE s.is_new) AS new_captures,
        median(s.value) FILTER (WHERE NOT s.is_new) AS base,
        median(s.value) FILTER (WHERE s.is_new) AS new,
        min(s.value) FILTER (WHERE NOT s.is_new)
            > max(s.value) FILTER (WHERE s.is_new)
        OR max(s.value) FILTER (WHERE NOT s.is_new)
            < min(s.value) FILTER (WHERE s.is_new) AS is_apart,
        avg(s.scaled) FILTER (WHERE s.is_new)
        - avg(s.scaled) FILTER (WHERE NOT s.is_new) AS difference,
        (
            count(*) FILTER (WHERE NOT s.is_new)
            * var_pop(s.scaled) FILTER (WHERE NOT s.is_new)
            + count(*) FILTER (WHERE s.is_new)
            * var_pop(s.scaled) FILTER (WHERE s.is_new)
        ) / nullif(count(*) - 2, 0) AS variance
    FROM scaled AS s
    GROUP BY s.name, s.unit
),
tested AS (
    SELECT
        a.*,
        (a.new - a.base) / nullif(abs(a.base), 0) AS change,
        CASE
            WHEN a.variance > 0 THEN _student_p(
                a.difference
                / sqrt(a.variance * (1 / a.base_captures + 1 / a.new_captures)),
                a.base_captures + a.new_captures - 2
            )
            -- Both sides are constant.
            WHEN a.variance = 0 THEN CASE WHEN a.is_apart THEN 0 ELSE 1 END
        END AS p
    FROM added AS a
),
ranked AS (
    SELECT
        t.*,
        t.p IS NOT NULL AND t.better IS NOT NULL AS is_judged,
        row_number() OVER (
            PARTITION BY t.p IS NOT NULL AND t.better IS NOT NULL
            ORDER BY t.p, t.name, t.unit
        ) AS rank,
        count(*) OVER (PARTITION BY t.p IS NOT NULL AND t.better IS NOT NULL)
            AS tests
    FROM tested AS t
),
corrected AS (
    SELECT
        r.*,
        CASE
            WHEN r.is_judged THEN least(1, min(r.p * r.tests / r.rank) OVER (
                PARTITION BY r.is_judged
                ORDER BY r.rank DESC
                ROWS UNBOUNDED PRECEDING
            ))
        END AS q
    FROM ranked AS r
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
            ELSE '~'
        END AS verdict
    FROM corrected AS c
    CROSS JOIN (
        SELECT CASE WHEN allow_mismatch THEN 0 ELSE count(*) END AS conditions
        FROM _differing_conditions((SELECT list(k) FROM sides AS k)) AS x
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
