-- Samples of captures that are compared, normalized: without the common shift of
-- their capture. This is the capture's size factor, the median over ops of the
-- ratio of the op's time to its median over all captures. Ops with a coarse clock,
-- ops that some capture lacks and ops that one side calls more often are not used. In
-- a second pass only ops that did not move from base to new are used, see `_op_groups`.
-- With fewer than three such ops, or fewer than half of those of any capture, the
-- factor is unknown, and nothing is normalized. So it is if ops are scattered: if they
-- have no ratio in common, or it can't be determined which of two groups moved.
-- A capture is disturbed if its factor differs from each side's by 3 % and by 5
-- standard deviations, estimated by the median deviation: where the machine has two
-- states, each side may have most captures in another one. For single captures, if
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
--   op: its op type, as in the input
--   ticks: the time, as in the input
--   resolution: value that the times are multiples of, as in the input
--   is_coarse: whether that resolution is coarse for the time, as in the input
--   log_ticks: natural logarithm of ticks; NULL if they are 0
--   factor: logarithm of the capture's size factor; 0 if unknown
--   has_factor: whether the size factor is known
--   is_scattered: whether it is unknown as ops have no ratio in common, or as it can't be determined which of two groups moved
--   off: deviation of the capture from its side, or from all captures if is_single, or has_factor is false and is_scattered, too, as a logarithm
--   is_disturbed: whether the capture is disturbed
--   is_single: whether each side is a single capture, compared with a history
--   other_shift: how far the other group of ops moved, common shift included, as a logarithm; NULL if no two groups moved apart
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
capture_offsets AS (
    SELECT
        t.*,
        -- Without a factor the state is the total, which is what is judged: its median
        -- is over all captures.
        t.state - median(t.state) OVER (
            PARTITION BY
                t.comparison,
                CASE WHEN t.has_factor AND NOT t.is_single THEN t.side ELSE '' END
        ) AS off,
        CASE
            WHEN NOT t.has_factor OR t.is_single THEN NULL
            WHEN t.side = 'new' THEN
                t.state - median(t.state) FILTER (WHERE t.side = 'base') OVER in_all
            ELSE t.state - median(t.state) FILTER (WHERE t.side = 'new') OVER in_all
        END AS off_other,
        CASE
            WHEN t.has_factor OR t.is_single THEN 0
            ELSE
                median(t.state) OVER (PARTITION BY t.comparison, t.side)
                - median(t.state) OVER in_all
        END AS off_side
    FROM (
        SELECT f.*, CASE WHEN f.has_factor THEN f.factor ELSE f.of_total END AS state
        FROM first_factors AS f
    ) AS t
    WINDOW in_all AS (PARTITION BY t.comparison)
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
        coalesce(least(abs(m.off), abs(m.off_other)) > m.most, false)
        AND coalesce(abs(m.off_side) <= m.most, false)
        AND NOT (m.is_single AND m.is_of_another_program) AS is_disturbed
    FROM limited AS m
),
used_deviations AS (
    SELECT d.comparison, d.capture_id, c.side, d.item, d.deviation, c.factor
    FROM deviations AS d
    JOIN disturbed AS c
        ON c.comparison = d.comparison AND c.capture_id = d.capture_id
    WHERE d.level = 'op' AND c.has_factor AND NOT c.is_disturbed AND NOT c.is_single
),
op_groups AS MATERIALIZED (
    FROM _op_groups((SELECT list(u) FROM used_deviations AS u))
),
groups AS (
    SELECT DISTINCT g.comparison, g.other, g.is_scattered FROM op_groups AS g
),
second_factors AS (
    SELECT d.comparison, d.capture_id, median(d.deviation) AS factor
    FROM deviations AS d
    JOIN op_groups AS t ON t.comparison = d.comparison AND t.item = d.item
    WHERE d.level = 'op' AND t.is_unmoved
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
    l.op,
    l.ticks,
    l.resolution,
    l.is_coarse,
    l.log_ticks,
    CASE
        WHEN c.has_factor AND NOT coalesce(g.is_scattered, false)
            THEN coalesce(f.factor, c.factor)
        ELSE 0
    END AS factor,
    c.has_factor AND NOT coalesce(g.is_scattered, false) AS has_factor,
    coalesce(g.is_scattered, false) AS is_scattered,
    c.off,
    c.is_disturbed,
    c.is_single,
    g.other AS other_shift
FROM logs AS l
JOIN disturbed AS c
    ON c.comparison = l.comparison AND c.capture_id = l.capture_id
LEFT JOIN second_factors AS f
    ON f.comparison = l.comparison AND f.capture_id = l.capture_id
LEFT JOIN groups AS g ON g.comparison = l.comparison;
