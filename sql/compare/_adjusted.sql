-- Samples of captures that are compared, with what all ops of a capture have in
-- common taken off: its size factor, the median over ops of how much more than
-- over all captures they took. Ops of a coarse clock and ops that some capture
-- lacks have no say in it, nor, at the second time, have ops that moved by more
-- than 2 % beside it, unless they are over two thirds. With fewer than three
-- ops that have a say, no factor is known, and none is taken off.
-- A capture is disturbed if its factor is far from its side's: by 3 % and by 5
-- standard deviations, as told by the median deviation; of captures that are
-- compared one by one, by 5 % from that of all. Where no factor is known, the
-- total stands for it.
-- Columns:
--   comparison: which of the comparisons
--   capture_id: the capture
--   side: base, new or history
--   position: the capture's place in time, as given
--   level: total, op or module, as given
--   scope: method, as given
--   item: what was measured, as given
--   ticks: the time, as given
--   resolution: what the times are multiples of, as given
--   is_coarse: whether that is coarse, as given
--   log_ticks: natural logarithm of ticks; NULL where they are 0
--   factor: logarithm of the capture's size factor; 0 where none is known
--   has_factor: whether one is known
--   off: by how much the capture is off its side, as a logarithm
--   is_disturbed: whether the capture is disturbed
--   is_single: whether captures are compared one by one: there is a history
CREATE MACRO _adjusted(
    samples  -- rows as those of `_samples`, as a list
) AS TABLE
WITH
given AS MATERIALIZED (
    SELECT unnest(samples, recursive := true)
),
logs AS MATERIALIZED (
    SELECT g.*, CASE WHEN g.ticks > 0 THEN ln(g.ticks) END AS log_ticks
    FROM given AS g
),
sides AS MATERIALIZED (
    SELECT
        s.*,
        bool_or(s.side = 'history') OVER in_all AS is_single,
        count(*) OVER in_all AS captures
    FROM (
        SELECT DISTINCT l.comparison, l.capture_id, l.side
        FROM logs AS l
        WHERE l.level <> 'module'
    ) AS s
    WINDOW in_all AS (PARTITION BY s.comparison)
),
items AS (
    SELECT l.comparison, l.level, l.item, median(l.log_ticks) AS middle
    FROM logs AS l
    JOIN sides AS s
        ON s.comparison = l.comparison AND s.capture_id = l.capture_id
    WHERE l.level <> 'module'
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
        count(*) FILTER (WHERE d.level = 'op') >= 3 AS has_factor,
        median(d.deviation) FILTER (WHERE d.level = 'op') AS factor,
        avg(d.deviation) FILTER (WHERE d.level = 'total') AS of_total
    FROM sides AS s
    LEFT JOIN deviations AS d
        ON d.comparison = s.comparison AND d.capture_id = s.capture_id
    GROUP BY s.comparison, s.capture_id, s.side, s.is_single
),
offs AS (
    SELECT
        f.*,
        CASE WHEN f.has_factor THEN f.factor ELSE f.of_total END
        - median(CASE WHEN f.has_factor THEN f.factor ELSE f.of_total END) OVER (
            PARTITION BY f.comparison, CASE WHEN f.is_single THEN '' ELSE f.side END
        ) AS off
    FROM first_factors AS f
),
disturbed AS MATERIALIZED (
    SELECT
        o.*,
        -- Of a capture without a precise time, nobody knows.
        coalesce(abs(o.off) > greatest(
            CASE WHEN o.is_single THEN 0.05 ELSE 0.03 END,
            5 * 1.4826
            * median(abs(o.off)) OVER (PARTITION BY o.comparison)
        ), false) AS is_disturbed
    FROM offs AS o
),
moved AS (
    SELECT
        d.comparison,
        d.item,
        NOT coalesce(abs(exp(
            avg(d.deviation - c.factor) FILTER (WHERE c.side = 'new')
            - avg(d.deviation - c.factor) FILTER (WHERE c.side = 'base')
        ) - 1) <= 0.02, false) AS has_moved
    FROM deviations AS d
    JOIN disturbed AS c
        ON c.comparison = d.comparison AND c.capture_id = d.capture_id
    WHERE d.level = 'op' AND NOT c.is_disturbed AND NOT c.is_single
    GROUP BY d.comparison, d.item
),
staying AS (
    SELECT m.comparison, m.item
    FROM moved AS m
    WINDOW in_all AS (PARTITION BY m.comparison)
    QUALIFY NOT m.has_moved
        AND 3 * count(*) FILTER (WHERE NOT m.has_moved) OVER in_all
            >= count(*) OVER in_all
),
second_factors AS (
    SELECT d.comparison, d.capture_id, median(d.deviation) AS factor
    FROM deviations AS d
    JOIN staying AS t ON t.comparison = d.comparison AND t.item = d.item
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
    CASE WHEN c.has_factor THEN coalesce(f.factor, c.factor) ELSE 0 END AS factor,
    c.has_factor,
    c.off,
    c.is_disturbed,
    c.is_single
FROM logs AS l
JOIN disturbed AS c
    ON c.comparison = l.comparison AND c.capture_id = l.capture_id
LEFT JOIN second_factors AS f
    ON f.comparison = l.comparison AND f.capture_id = l.capture_id;
