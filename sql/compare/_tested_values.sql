-- One value's change from base to new, by the medians of the captures' values, with
-- a t-test on logarithms (or on the values, if some are not positive); p is
-- corrected for the number of values that have a better direction.
-- Columns:
--   name: name of the value
--   unit: its unit; NULL where unknown
--   better: lower or higher; NULL for conditions and where unknown
--   base_captures: number of captures of base that have it
--   new_captures: number of captures of new that have it
--   base: median over captures of base; NULL if none has it
--   new: median over captures of new; NULL if none has it
--   is_apart: whether the ranges of both sides don't overlap
--   change: change from base to new as a fraction of base; NULL if base is 0
--   change_low: lower end of the change's 95 % interval, by the t-test; NULL if there are too few captures for one
--   change_high: upper end of that interval
--   p: probability of a difference this large by chance
--   q: p, corrected for the number of values that have a better direction
CREATE MACRO _tested_values(
    of_captures  -- rows of name, unit, better, is_new and value, one per capture and name, as a list
) AS TABLE
WITH
of_captures AS (
    SELECT unnest(of_captures, recursive := true)
),
scaled AS (
    SELECT
        c.*,
        min(c.value) OVER (PARTITION BY c.name, c.unit) > 0 AS is_log,
        CASE
            WHEN min(c.value) OVER (PARTITION BY c.name, c.unit) > 0
                THEN ln(greatest(c.value, 1e-300))
            ELSE c.value
        END AS scaled
    FROM of_captures AS c
),
-- Less the least of their side: sums of these don't depend on the order of rows, and
-- are 0 if all are equal.
shifted AS (
    SELECT
        s.*,
        s.scaled - min(s.scaled) OVER (PARTITION BY s.name, s.unit, s.is_new) AS above
    FROM scaled AS s
),
added AS (
    SELECT
        s.name,
        s.unit,
        any_value(s.better) AS better,
        any_value(s.is_log) AS is_log,
        count(*) FILTER (WHERE NOT s.is_new) AS base_captures,
        count(*) FILTER (WHERE s.is_new) AS new_captures,
        median(s.value) FILTER (WHERE NOT s.is_new) AS base,
        median(s.value) FILTER (WHERE s.is_new) AS new,
        min(s.value) FILTER (WHERE NOT s.is_new)
            > max(s.value) FILTER (WHERE s.is_new)
        OR max(s.value) FILTER (WHERE NOT s.is_new)
            < min(s.value) FILTER (WHERE s.is_new) AS is_apart,
        min(s.scaled) FILTER (WHERE s.is_new)
        + fsum(s.above) FILTER (WHERE s.is_new) / count(*) FILTER (WHERE s.is_new)
        - min(s.scaled) FILTER (WHERE NOT s.is_new)
        - fsum(s.above) FILTER (WHERE NOT s.is_new)
        / count(*) FILTER (WHERE NOT s.is_new) AS difference,
        (
            fsum(s.above * s.above)
            - fsum(s.above) FILTER (WHERE s.is_new)
            * fsum(s.above) FILTER (WHERE s.is_new) / count(*) FILTER (WHERE s.is_new)
            - fsum(s.above) FILTER (WHERE NOT s.is_new)
            * fsum(s.above) FILTER (WHERE NOT s.is_new)
            / count(*) FILTER (WHERE NOT s.is_new)
        ) / nullif(count(*) - 2, 0) AS variance
    FROM shifted AS s
    GROUP BY s.name, s.unit
),
tested AS (
    SELECT
        a.*,
        (a.new - a.base) / nullif(abs(a.base), 0) AS change,
        sqrt(greatest(0, a.variance) * (1 / a.base_captures + 1 / a.new_captures))
        * _student_quantile(
            0.025, greatest(1, a.base_captures + a.new_captures - 2)
        ) AS width,
        CASE
            WHEN a.variance > 0 THEN _student_p(
                a.difference
                / sqrt(a.variance * (1 / a.base_captures + 1 / a.new_captures)),
                a.base_captures + a.new_captures - 2
            )
            -- Both sides are constant.
            WHEN a.variance <= 0 THEN CASE WHEN a.is_apart THEN 0 ELSE 1 END
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
)
SELECT
    c.name,
    c.unit,
    c.better,
    c.base_captures,
    c.new_captures,
    c.base,
    c.new,
    c.is_apart,
    c.change,
    CASE
        WHEN c.is_log THEN exp(c.difference - c.width) - 1
        ELSE (c.difference - c.width) / nullif(abs(c.base), 0)
    END AS change_low,
    CASE
        WHEN c.is_log THEN exp(c.difference + c.width) - 1
        ELSE (c.difference + c.width) / nullif(abs(c.base), 0)
    END AS change_high,
    c.p,
    c.q
FROM corrected AS c;
