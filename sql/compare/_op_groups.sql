-- Groups of ops that moved from base to new by the same ratio, each with a quarter of
-- the ops' weight (the inverse of their variance). The group that moved least is taken
-- for the ops that the program did not change.
-- Columns:
--   comparison: index of the comparison
--   item: the op
--   is_unmoved: whether it is in the group that moved least
--   middle: how far that group moved, common shift included, as a logarithm; NULL without a group
--   other: mean of the ops that moved 4.5 % further up than that group, or further down, if these have a quarter of the weight; NULL if they don't
--   is_scattered: whether most ops, by weight, moved less than that group; or captures of a side differ so much that it can't be determined which ops moved less than others: those of that group or the others, or any without a group
CREATE MACRO _op_groups(
    deviations  -- rows of comparison, capture_id, side, item, deviation from the op's median, and factor of the capture, as a list
) AS TABLE
WITH
input AS MATERIALIZED (
    SELECT unnest(deviations, recursive := true)
),
-- The state of the machine within a side, which no change of the program moves.
states AS (
    SELECT w.comparison, w.capture_id, median(w.within) AS state
    FROM (
        SELECT
            g.comparison,
            g.capture_id,
            g.deviation - median(g.deviation)
                OVER (PARTITION BY g.comparison, g.item, g.side) AS within
        FROM input AS g
    ) AS w
    GROUP BY w.comparison, w.capture_id
),
shifts AS MATERIALIZED (
    SELECT
        f.comparison,
        avg(f.factor) FILTER (WHERE f.side = 'new')
        - avg(f.factor) FILTER (WHERE f.side = 'base') AS shift,
        sqrt(
            var_pop(f.factor) FILTER (WHERE f.side = 'new')
            / nullif(count(*) FILTER (WHERE f.side = 'new') - 1, 0)
            + var_pop(f.factor) FILTER (WHERE f.side = 'base')
            / nullif(count(*) FILTER (WHERE f.side = 'base') - 1, 0)
        ) AS error
    FROM (
        SELECT DISTINCT g.comparison, g.capture_id, g.side, g.factor FROM input AS g
    ) AS f
    GROUP BY f.comparison
),
stated AS (
    SELECT
        g.comparison,
        g.capture_id,
        NULL::BIGINT AS position,
        'op' AS level,
        '' AS scope,
        g.item,
        NULL::VARCHAR AS op,
        g.side,
        0 AS ticks,
        1 AS resolution,
        false AS is_coarse,
        g.deviation AS log_ticks,
        -- The machine's state moves from side to side by as much as within a side; what
        -- is more may be the program.
        s.state + CASE
            WHEN g.side = 'new'
                THEN greatest(-2 * f.error, least(2 * f.error, f.shift))
            ELSE 0
        END AS factor,
        false AS is_disturbed
    FROM input AS g
    JOIN states AS s ON s.comparison = g.comparison AND s.capture_id = g.capture_id
    JOIN shifts AS f ON f.comparison = g.comparison
),
-- How far each op's mean moved, common shift included, and the error of that.
moved AS (
    SELECT
        m.comparison,
        m.item,
        m.difference + m.factor_difference AS shift,
        coalesce(m.variance * m.per_capture, 0) AS squared_error
    FROM _item_differences((SELECT list(t) FROM stated AS t)) AS m
),
scaled AS (
    SELECT
        m.comparison,
        m.item,
        m.shift,
        m.shift / greatest(0.01, 1.5 * sqrt(median(m.squared_error) OVER in_all))
            AS scaled,
        greatest(0.01, 1.5 * sqrt(median(m.squared_error) OVER in_all)) AS width,
        1 / (0.0001 + m.squared_error) AS weight
    FROM moved AS m
    WHERE m.shift IS NOT NULL
    WINDOW in_all AS (PARTITION BY m.comparison)
),
-- Ops that moved by the same ratio are groups.
nearby AS (
    SELECT
        s.*,
        count(*) OVER near AS ops,
        sum(s.weight) OVER near AS near_weight,
        sum(s.weight) OVER (PARTITION BY s.comparison) AS all_weight,
        sum(s.weight * s.shift) OVER near / sum(s.weight) OVER near AS middle
    FROM scaled AS s
    WINDOW near AS (
        PARTITION BY s.comparison
        ORDER BY s.scaled
        RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING
    )
),
peaks AS (
    SELECT
        n.*,
        max(n.near_weight) OVER (
            PARTITION BY n.comparison
            ORDER BY n.scaled
            RANGE BETWEEN 2 PRECEDING AND 2 FOLLOWING
        ) AS nearest_weight
    FROM nearby AS n
),
chosen AS (
    SELECT
        p.comparison,
        arg_min(p.middle, (abs(p.middle), p.item)) AS middle
    FROM peaks AS p
    -- Sums of the same ops may differ in their last digits.
    WHERE p.near_weight >= 0.999999 * p.nearest_weight
        AND p.ops >= 3
        AND 4 * p.near_weight >= p.all_weight
    GROUP BY p.comparison
),
compared AS MATERIALIZED (
    SELECT
        s.*,
        c.middle,
        f.error,
        sum(s.weight) OVER in_all AS all_weight,
        sum(s.weight) FILTER (WHERE abs(s.shift) < abs(c.middle) - 2 * s.width)
            OVER in_all AS less_weight
    FROM scaled AS s
    JOIN shifts AS f ON f.comparison = s.comparison
    LEFT JOIN chosen AS c ON c.comparison = s.comparison
    WINDOW in_all AS (PARTITION BY s.comparison)
),
-- Of ops that moved further up and ops that moved further down, if both have a quarter
-- of the weight, those that moved about as far as the group.
others AS (
    SELECT w.comparison, arg_min(w.mean, abs(abs(w.mean) - abs(w.middle))) AS other
    FROM (
        SELECT
            c.comparison,
            any_value(c.middle) AS middle,
            sum(c.weight * c.shift) / sum(c.weight) AS mean
        FROM compared AS c
        WHERE abs(c.shift - c.middle) > 0.045
        GROUP BY c.comparison, c.shift > c.middle
        HAVING 4 * sum(c.weight) >= any_value(c.all_weight)
    ) AS w
    GROUP BY w.comparison
)
SELECT
    c.comparison,
    c.item,
    coalesce(abs(c.shift - c.middle) <= 2 * c.width, false) AS is_unmoved,
    c.middle,
    o.other,
    coalesce(
        CASE
            WHEN c.middle IS NULL THEN 2 * c.error >= 0.03
            ELSE 2 * coalesce(c.less_weight, 0) > c.all_weight
                OR abs(abs(o.other) - abs(c.middle)) < 2 * c.error
        END,
        false
    ) AS is_scattered
FROM compared AS c
LEFT JOIN others AS o ON o.comparison = c.comparison;
