-- The difference of one item between two sides of several captures each, without
-- what follows from the state of the machine, and the variance that is left.
-- Disturbed captures are excluded, and levels that begin with `all` are with them, so that
-- a verdict can be compared with what it would be if nothing was left out. A busy machine slows some ops more than others: the
-- part of an op's times that follows the common shift of their captures is removed.
-- It is estimated within the sides, by a slope that is shrunk towards 0 as if its
-- standard deviation among ops were 1; slope_freedom is the part of it that is left. The
-- state of the machine moves from side to side by as much as within a side: by twice its
-- standard deviation at most, by twice the error of the mean if the sides were measured
-- in turns. A larger shift, as that of another clock, changes all ops by one ratio: the
-- part that ops follow becomes smaller, and is 0 from twice that limit.
-- Columns:
--   comparison: index of the comparison
--   level: total, op or module; after `all ` with disturbed captures, if there are any
--   scope: scope, as in the input
--   item: key of what was measured
--   op: its op type; NULL where unknown
--   base_captures: number of captures of base that have it; disturbed captures are excluded
--   new_captures: number of captures of new that have it; disturbed captures are excluded
--   base_ticks: median time in captures of base, in ticks
--   new_ticks: median time in captures of new, in ticks
--   base_total: the same of base's total
--   resolution: value that the times are multiples of, in ticks
--   is_coarse: whether the clock is coarse for most of the times
--   is_interleaved: whether the sides' captures alternate in time at least as often as the smaller side has captures
--   base_values: logarithms of the times in base without the common shift and what follows it; of totals of the times
--   new_values: those in new
--   difference: mean of these in new less that in base
--   factor_difference: mean common shift of captures in new less that in base
--   freedom: degrees of freedom of the variance
--   variance: variance of these values within the sides; NULL if there are too few
--   per_capture: variance of the difference if theirs is 1, with that of the slope
CREATE MACRO _item_differences(
    normalized  -- rows of `_normalized_samples` or ones made like them, as a list
) AS TABLE
WITH
input AS MATERIALIZED (
    SELECT unnest(normalized, recursive := true)
),
kept AS MATERIALIZED (
    SELECT
        g.comparison,
        CASE WHEN w.is_whole THEN 'all ' ELSE '' END || g.level AS level,
        g.scope,
        g.item,
        g.op,
        g.side = 'new' AS is_new,
        g.ticks,
        g.resolution,
        g.is_coarse,
        CASE g.level WHEN 'total' THEN 0 ELSE g.factor END AS factor,
        g.log_ticks - CASE g.level WHEN 'total' THEN 0 ELSE g.factor END AS value
    FROM input AS g
    CROSS JOIN (VALUES (false), (true)) AS w (is_whole)
    WHERE g.side <> 'history'
        AND g.log_ticks IS NOT NULL
        AND CASE
            WHEN w.is_whole THEN g.comparison IN (
                SELECT d.comparison FROM input AS d WHERE d.is_disturbed
            )
            ELSE NOT g.is_disturbed
        END
),
orders AS (
    SELECT
        c.comparison,
        len(list_filter(c.captures, lambda c: c.position IS NULL)) = 0
        AND len(list_filter(
            range(2, len(c.captures) + 1),
            lambda i: c.captures[i].is_new <> c.captures[i - 1].is_new
        )) >= least(
            len(list_filter(c.captures, lambda c: c.is_new)),
            len(list_filter(c.captures, lambda c: NOT c.is_new))
        ) AS is_interleaved
    FROM (
        SELECT
            g.comparison,
            list_sort(list_distinct(list(struct_pack(
                position := g.position,
                capture_id := g.capture_id,
                is_new := g.side = 'new'
            )))) AS captures
        FROM input AS g
        WHERE g.side <> 'history'
        GROUP BY g.comparison
    ) AS c
),
added AS (
    SELECT
        k.comparison,
        k.level,
        k.scope,
        k.item,
        min(k.op) AS op,
        count(*) FILTER (WHERE NOT k.is_new) AS base_captures,
        count(*) FILTER (WHERE k.is_new) AS new_captures,
        median(k.ticks) FILTER (WHERE NOT k.is_new) AS base_ticks,
        median(k.ticks) FILTER (WHERE k.is_new) AS new_ticks,
        -- Equal values have no variance, however their mean is rounded.
        CASE
            WHEN min(k.value) FILTER (WHERE NOT k.is_new)
                = max(k.value) FILTER (WHERE NOT k.is_new)
                THEN min(k.value) FILTER (WHERE NOT k.is_new)
            ELSE avg(k.value) FILTER (WHERE NOT k.is_new)
        END AS base_mean,
        CASE
            WHEN min(k.value) FILTER (WHERE k.is_new)
                = max(k.value) FILTER (WHERE k.is_new)
                THEN min(k.value) FILTER (WHERE k.is_new)
            ELSE avg(k.value) FILTER (WHERE k.is_new)
        END AS new_mean,
        avg(k.factor) FILTER (WHERE NOT k.is_new) AS base_factor,
        avg(k.factor) FILTER (WHERE k.is_new) AS new_factor,
        count(*) FILTER (WHERE NOT k.is_new)
        * var_pop(k.factor) FILTER (WHERE NOT k.is_new)
        + count(*) FILTER (WHERE k.is_new)
        * var_pop(k.factor) FILTER (WHERE k.is_new) AS factor_squares,
        count(*) FILTER (WHERE NOT k.is_new)
        * covar_pop(k.value, k.factor) FILTER (WHERE NOT k.is_new)
        + count(*) FILTER (WHERE k.is_new)
        * covar_pop(k.value, k.factor) FILTER (WHERE k.is_new) AS products,
        list(struct_pack(value := k.value, factor := k.factor))
            FILTER (WHERE NOT k.is_new) AS base_values,
        list(struct_pack(value := k.value, factor := k.factor))
            FILTER (WHERE k.is_new) AS new_values,
        max(k.resolution) AS resolution,
        -- One capture of few runs may have round times by chance.
        2 * count(*) FILTER (WHERE k.is_coarse) >= count(*) AS is_coarse
    FROM kept AS k
    GROUP BY k.comparison, k.level, k.scope, k.item
),
best AS (
    SELECT
        a.*,
        coalesce(a.products / nullif(a.factor_squares, 0), 0) AS best_slope,
        o.is_interleaved,
        coalesce(2 * sqrt(
            a.factor_squares / nullif(a.base_captures + a.new_captures - 2, 0)
            * CASE
                WHEN o.is_interleaved THEN 1 / a.base_captures + 1 / a.new_captures
                ELSE 1
            END
        ), 0) AS most,
        t.base_ticks AS base_total
    FROM added AS a
    JOIN orders AS o ON o.comparison = a.comparison
    LEFT JOIN added AS t
        ON t.comparison = a.comparison
        AND t.scope = a.scope
        AND t.level = CASE WHEN a.level LIKE 'all %' THEN 'all total' ELSE 'total' END
    WHERE a.base_captures > 0 AND a.new_captures > 0
),
-- With the squares that the best slope without a prior leaves, of each value: the
-- difference of two sums of squares would be imprecise.
fitted AS (
    SELECT
        b.*,
        list_sum(list_transform(
            b.base_values,
            lambda e: power(
                e.value - b.base_mean - b.best_slope * (e.factor - b.base_factor), 2
            )
        )) + list_sum(list_transform(
            b.new_values,
            lambda e: power(
                e.value - b.new_mean - b.best_slope * (e.factor - b.new_factor), 2
            )
        )) AS least_squares
    FROM best AS b
),
-- The prior counts as much as one capture with a shift of 1; an op varies by 0.1 % at
-- least.
weighed AS (
    SELECT
        f.*,
        greatest(0.000001, f.least_squares)
        / nullif(f.base_captures + f.new_captures - 3, 0) AS prior_squares
    FROM fitted AS f
),
-- Where factors hardly differ, a quotient by their squares alone would be imprecise.
sloped AS (
    SELECT
        w.*,
        coalesce(w.products / (w.factor_squares + w.prior_squares), 0) AS slope,
        sign(w.new_factor - w.base_factor) * greatest(0, least(
            abs(w.new_factor - w.base_factor),
            2 * w.most - abs(w.new_factor - w.base_factor)
        )) AS state_difference,
        coalesce(w.factor_squares / (w.factor_squares + w.prior_squares), 0)
            AS slope_freedom
    FROM weighed AS w
)
SELECT
    s.comparison,
    s.level,
    s.scope,
    s.item,
    s.op,
    s.base_captures,
    s.new_captures,
    s.base_ticks,
    s.new_ticks,
    s.base_total,
    s.resolution,
    s.is_coarse,
    s.is_interleaved,
    list_transform(
        s.base_values, lambda b: b.value - s.slope * b.factor
    ) AS base_values,
    list_transform(
        s.new_values,
        lambda n: n.value - s.slope * (
            n.factor - s.new_factor + s.base_factor + s.state_difference
        )
    ) AS new_values,
    s.new_mean - s.base_mean - s.slope * s.state_difference AS difference,
    s.new_factor - s.base_factor AS factor_difference,
    s.base_captures + s.new_captures - 2 - round(s.slope_freedom)::INTEGER AS freedom,
    (
        s.least_squares + coalesce(
            power((1 - s.slope_freedom) * s.products, 2)
            / nullif(s.factor_squares, 0),
            0
        )
    ) / nullif(s.base_captures + s.new_captures - 2 - s.slope_freedom, 0) AS variance,
    1 / s.base_captures + 1 / s.new_captures + coalesce(
        power(s.slope_freedom * s.state_difference, 2)
        / nullif(s.factor_squares, 0),
        0
    ) AS per_capture
FROM sloped AS s;
