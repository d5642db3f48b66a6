-- The conditions, metrics that have no better, that the captures of two sides
-- were measured under, where the sides' ranges don't overlap and their medians are
-- 5 % apart or more; and their governors.
-- Columns:
--   name: the condition
--   detail: both sides' ranges in words
CREATE MACRO _differing_conditions(
    chosen  -- rows of `_sides` as a list
) AS TABLE
WITH
sides AS (
    SELECT unnest(chosen, recursive := true)
),
ranges AS (
    SELECT
        m.name,
        s.side,
        any_value(m.unit) AS unit,
        min(m.value) AS low,
        max(m.value) AS high,
        median(m.value) AS middle
    FROM sides AS s
    JOIN metrics AS m ON m.capture_id = s.capture_id
    WHERE m.better IS NULL
    GROUP BY m.name, s.side
),
governors AS (
    SELECT
        s.side,
        string_agg(DISTINCT l.value, ', ' ORDER BY l.value) AS governors
    FROM sides AS s
    JOIN labels AS l ON l.capture_id = s.capture_id AND l.key = 'governor'
    GROUP BY s.side
)
SELECT
    b.name,
    printf('%g to %g', b.low, b.high) || ' in base, '
    || printf('%g to %g', n.low, n.high) || ' in new' || coalesce(' ' || b.unit, '')
        AS detail
FROM ranges AS b
JOIN ranges AS n ON n.name = b.name AND n.side = 'new'
WHERE b.side = 'base'
    AND (b.low > n.high OR b.high < n.low)
    -- Few values of one distribution may lie apart by chance; not by so much.
    AND abs(n.middle - b.middle) >= 0.05 * abs(b.middle)
UNION ALL
SELECT 'governor', b.governors || ' in base, ' || n.governors || ' in new'
FROM governors AS b
JOIN governors AS n ON n.side = 'new'
WHERE b.side = 'base' AND b.governors <> n.governors;

-- The verdict as it is told: where conditions differ, that is what may have made
-- it slower or faster.
CREATE MACRO _told(
    verdict,  -- of `_compared`
    conditions  -- how many conditions differ
) AS (
    CASE
        WHEN verdict IN ('slower', 'faster') AND conditions > 0 THEN 'conditions differ'
        ELSE verdict
    END
);
