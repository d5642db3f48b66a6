-- Samples of captures that are compared, normalized: without the common shift of
-- their capture. This is the capture's size factor, the median over ops of the
-- ratio of the op's time to its median over all captures. Ops with a coarse clock,
-- ops that some capture lacks and ops that one side calls more often are not used. In a second pass only ops
-- that did not move from base to new are used: of the groups of ops that moved
-- by the same ratio, each with a quarter of the ops' weight (the inverse of their
-- variance), the group that moved least. With fewer than three such ops, or fewer than
-- half of those of any capture, the factor is unknown, and nothing is normalized. So
-- it is if most ops, by weight, moved less than that group: they have no ratio in
-- common.
-- A capture is disturbed if its factor differs from its side's by 3 % and by 5
-- standard deviations, estimated by the median deviation; for single captures, if
-- it differs from that of all by 5 %. If the factor is unknown, it is disturbed if
-- its total differs so from that of all captures of both sides, and most of its side
-- do not.
-- Columns:
--   comparison: index of the comparison
--   capture_id: the capture
--   side: base, new or history
--   position: position of the capture in time, as in the input
--   level: total, op or module, as in the input
--   scope: scope, as in the input
--   item: key of what was measured, as in the input
--   ticks: the time, as in the input
--   resolution: value that the times are multiples of, as in the input
--   is_coarse: whether that resolution is coarse for the time, as in the input
--   log_ticks: natural logarithm of ticks; NULL if they are 0
--   factor: logarithm of the capture's size factor; 0 if unknown
--   has_factor: whether the size factor is known
--   is_scattered: whether it is unknown as most ops moved less than the group that moved least
--   off: deviation of the capture from its side, or from all captures if is_single, or has_factor is false and is_scattered, too, as a logarithm
--   is_disturbed: whether the capture is disturbed
--   is_single: whether each side is a single capture, compared with a history
--   other_shift: how far the group of ops moved that moved most, common shift included, as a logarithm; NULL if no two groups moved apart
CREATE MACRO _normalized_samples(
    samples  -- rows of `_comparison_samples` or `_module_samples` as a list
) AS TABLE
WITH
input AS MATERIALIZED (
    SELECT unnest(samples, recursive := true)
),
logs AS MATERIALIZED (
    SELECT g.*, CASE WHEN g.ticks > 0 THEN ln(g.ticks) END AS log_ticks
    FROM input AS g
),
sides AS MATERIALIZED (
    SELECT
        s.*,
        bool_or(s.side = 'history') OVER in_all AS is_single,
        count(*) OVER in_all AS captures,
        min(s.ops) OVER in_all AS least_ops
    FROM (
        SELECT
            l.comparison,
            l.capture_id,
            l.side,
            count(l.log_ticks) FILTER (WHERE l.level = 'op' AND NOT l.is_coarse) AS ops
        FROM logs AS l
        WHERE l.level IN ('total', 'op')
        GROUP BY l.comparison, l.capture_id, l.side
    ) AS s
    WINDOW in_all AS (PARTITION BY s.comparison)
),
items AS (
    SELECT l.comparison, l.level, l.item, median(l.log_ticks) AS middle
    FROM logs AS l
    JOIN sides AS s
        ON s.comparison = l.comparison AND s.capture_id = l.capture_id
    WHERE l.level IN ('total', 'op')
        AND l.item NOT IN (SELECT r.item FROM logs AS r WHERE r.level = 'call')
    GROUP BY l.comparison, l.level, l.item
    HAVING count(l.log_ticks) = max(s.captures)
        AND 2 * count(*) FILTER (WHERE l.is_coarse) < count(*)
),
deviations AS MATERIALIZED (
    SELECT
        l.comparison,
        l.capture_id,
        l.level,
        l.item,
        l.log_ticks - i.middle AS deviation
    FROM logs AS l
    JOIN items AS i
        ON i.comparison = l.comparison AND i.level = l.level AND i.item = l.item
),
first_factors AS MATERIALIZED (
    SELECT
        s.comparison,
        s.capture_id,
        s.side,
        s.is_single,
        count(*) FILTER (WHERE d.level = 'op') >= 3
        AND 2 * count(*) FILTER (WHERE d.level = 'op') >= any_value(s.least_ops)
            AS has_factor,
        2 * count(*) FILTER (WHERE d.level = 'op') < any_value(s.least_ops)
            AS is_of_another_program,
        median(d.deviation) FILTER (WHERE d.level = 'op') AS factor,
        avg(d.deviation) FILTER (WHERE d.level = 'total') AS of_total
    FROM sides AS s
    LEFT JOIN deviations AS d
        ON d.comparison = s.comparison AND d.capture_id = s.capture_id
    GROUP BY s.comparison, s.capture_id, s.side, s.is_single
),
capture_states AS (
    SELECT
        f.*,
        CASE WHEN f.has_factor THEN f.factor ELSE f.of_total END AS state
    FROM first_factors AS f
),
capture_offsets AS (
    SELECT
        t.*,
        -- Without a factor the state is the total, and the total is what is judged:
        -- its median is over all captures, whatever their side.
        t.state - median(t.state) OVER (
            PARTITION BY
                t.comparison,
                CASE WHEN t.has_factor AND NOT t.is_single THEN t.side ELSE '' END
        ) AS off,
        CASE
            WHEN t.has_factor OR t.is_single THEN 0
            ELSE
                median(t.state) OVER (PARTITION BY t.comparison, t.side)
                - median(t.state) OVER (PARTITION BY t.comparison)
        END AS off_side
    FROM capture_states AS t
),
limited AS (
    SELECT
        o.*,
        greatest(
            CASE WHEN o.is_single THEN 0.05 ELSE 0.03 END,
            5 * 1.4826
            * median(abs(o.off)) OVER (PARTITION BY o.comparison)
        ) AS most
    FROM capture_offsets AS o
),
disturbed AS MATERIALIZED (
    SELECT
        m.*,
        -- Without a precise time it is unknown whether a capture is disturbed. Where
        -- most of a side are off, that is what is compared.
        coalesce(abs(m.off) > m.most AND abs(m.off_side) <= m.most, false)
        AND NOT (m.is_single AND m.is_of_another_program) AS is_disturbed
    FROM limited AS m
),
-- How far each op's mean moved, common shift included, and the error of that.
moved AS (
    SELECT
        d.comparison,
        d.item,
        avg(d.deviation) FILTER (WHERE c.side = 'new')
        - avg(d.deviation) FILTER (WHERE c.side = 'base') AS shift,
        coalesce(
            (
                count(*) FILTER (WHERE c.side = 'base')
                * var_pop(d.deviation - c.factor) FILTER (WHERE c.side = 'base')
                + count(*) FILTER (WHERE c.side = 'new')
                * var_pop(d.deviation - c.factor) FILTER (WHERE c.side = 'new')
            ) / nullif(count(*) - 2, 0) * (
                1 / count(*) FILTER (WHERE c.side = 'base')
                + 1 / count(*) FILTER (WHERE c.side = 'new')
            ),
            0
        ) AS squared_error
    FROM deviations AS d
    JOIN disturbed AS c
        ON c.comparison = d.comparison AND c.capture_id = d.capture_id
    WHERE d.level = 'op' AND NOT c.is_disturbed AND NOT c.is_single
    GROUP BY d.comparison, d.item
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
chosen AS MATERIALIZED (
    SELECT
        p.comparison,
        arg_min(p.middle, (abs(p.middle), p.item)) AS middle,
        arg_max(p.middle, (abs(p.middle), p.item)) AS other
    FROM peaks AS p
    -- Sums of the same ops may differ in their last digits.
    WHERE p.near_weight >= 0.999999 * p.nearest_weight
        AND p.ops >= 3
        AND 4 * p.near_weight >= p.all_weight
    GROUP BY p.comparison
),
scattered AS (
    SELECT s.comparison
    FROM scaled AS s
    JOIN chosen AS c ON c.comparison = s.comparison
    GROUP BY s.comparison
    HAVING
        2 * coalesce(
            sum(s.weight) FILTER (WHERE abs(s.shift) < abs(c.middle) - 2 * s.width), 0
        ) > sum(s.weight)
),
unmoved AS (
    SELECT s.comparison, s.item
    FROM scaled AS s
    JOIN chosen AS c ON c.comparison = s.comparison
    WHERE abs(s.shift - c.middle) <= 2 * s.width
),
second_factors AS (
    SELECT d.comparison, d.capture_id, median(d.deviation) AS factor
    FROM deviations AS d
    JOIN unmoved AS t ON t.comparison = d.comparison AND t.item = d.item
    WHERE d.level = 'op'
    GROUP BY d.comparison, d.capture_id
)
SELECT
    l.comparison,
    l.capture_id,
    l.side,
    l.position,
    l.level,
    l.scope,
    l.item,
    l.ticks,
    l.resolution,
    l.is_coarse,
    l.log_ticks,
    CASE
        WHEN c.has_factor AND t.comparison IS NULL THEN coalesce(f.factor, c.factor)
        ELSE 0
    END AS factor,
    c.has_factor AND t.comparison IS NULL AS has_factor,
    t.comparison IS NOT NULL AS is_scattered,
    c.off,
    c.is_disturbed,
    c.is_single,
    -- Peaks of the same group may be near each other.
    CASE WHEN abs(g.other - g.middle) >= 0.03 THEN g.other END AS other_shift
FROM logs AS l
JOIN disturbed AS c
    ON c.comparison = l.comparison AND c.capture_id = l.capture_id
LEFT JOIN scattered AS t ON t.comparison = l.comparison
LEFT JOIN second_factors AS f
    ON f.comparison = l.comparison AND f.capture_id = l.capture_id
LEFT JOIN chosen AS g ON g.comparison = l.comparison;
