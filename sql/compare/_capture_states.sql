-- The change that all ops have in common, of the comparisons in which it is known.
-- Columns:
--   comparison: index of the comparison
--   change: ratio of new to base, less 1, of the mean common shifts
--   base_captures: number of captures of base; disturbed captures are excluded
--   new_captures: number of captures of new; disturbed captures are excluded
CREATE MACRO _common_shifts(
    adjusted  -- rows of `_normalized_samples` as a list
) AS TABLE
WITH
input AS MATERIALIZED (
    SELECT unnest(adjusted, recursive := true)
)
SELECT
    f.comparison,
    exp(
        avg(f.factor) FILTER (WHERE f.side = 'new')
        - avg(f.factor) FILTER (WHERE f.side = 'base')
    ) - 1 AS change,
    count(*) FILTER (WHERE f.side = 'base') AS base_captures,
    count(*) FILTER (WHERE f.side = 'new') AS new_captures
FROM (
    SELECT DISTINCT g.comparison, g.capture_id, g.side, g.factor
    FROM input AS g
    WHERE g.has_factor AND (g.is_single OR NOT g.is_disturbed)
) AS f
GROUP BY f.comparison;

-- The captures that were disturbed, and slower for it.
-- Columns:
--   comparison: index of the comparison
--   has_factor: whether the common shift is known
--   slow_bases: number of these captures in base
--   slow_news: number of these captures in new
--   off: median deviation of those in new, as a logarithm
CREATE MACRO _slow_captures(
    adjusted  -- rows of `_normalized_samples` as a list
) AS TABLE
WITH
input AS MATERIALIZED (
    SELECT unnest(adjusted, recursive := true)
)
SELECT
    f.comparison,
    bool_and(f.has_factor) AS has_factor,
    count(*) FILTER (WHERE f.is_slow AND f.side = 'base') AS slow_bases,
    count(*) FILTER (WHERE f.is_slow AND f.side = 'new') AS slow_news,
    median(f.off) FILTER (WHERE f.is_slow AND f.side = 'new') AS off
FROM (
    SELECT DISTINCT
        g.comparison,
        g.capture_id,
        g.side,
        g.has_factor,
        g.off,
        g.is_disturbed AND g.off > 0 AS is_slow
    FROM input AS g
    WHERE g.side <> 'history'
) AS f
GROUP BY f.comparison;
