-- The conditions (metrics without a better direction) that differ between two lists of captures: the ranges don't
-- overlap, and the medians are at least 5 % apart (a few values of one distribution may be apart by chance); or the
-- governors differ.
CREATE MACRO _differing_conditions(base_captures, new_captures) AS TABLE
WITH sides AS (SELECT unnest(base_captures) AS capture_id, 'base' AS side UNION ALL SELECT unnest(new_captures), 'new'),
ranges AS (
    SELECT m.name, any_value(m.unit) AS unit, min(m.value) FILTER (WHERE s.side = 'base') AS base_low,
        max(m.value) FILTER (WHERE s.side = 'base') AS base_high,
        median(m.value) FILTER (WHERE s.side = 'base') AS base_middle,
        min(m.value) FILTER (WHERE s.side = 'new') AS new_low, max(m.value) FILTER (WHERE s.side = 'new') AS new_high,
        median(m.value) FILTER (WHERE s.side = 'new') AS new_middle
    FROM sides AS s
    JOIN metrics AS m USING (capture_id)
    -- Conditions after a capture may be caused by it.
    WHERE m.better IS NULL AND NOT ends_with(m.name, '_after')
    GROUP BY m.name
),
governors AS (
    SELECT string_agg(DISTINCT l.value, ', ' ORDER BY l.value) FILTER (WHERE s.side = 'base') AS base,
        string_agg(DISTINCT l.value, ', ' ORDER BY l.value) FILTER (WHERE s.side = 'new') AS new
    FROM sides AS s
    JOIN labels AS l USING (capture_id)
    WHERE l.key = 'governor'
)
SELECT r.name,
    printf('%g to %g', r.base_low, r.base_high) || ' in base, '
    || printf('%g to %g', r.new_low, r.new_high) || ' in new' || coalesce(' ' || r.unit, '') AS detail
FROM ranges AS r
WHERE (r.base_low > r.new_high OR r.base_high < r.new_low)
    AND abs(r.new_middle - r.base_middle) >= 0.05 * abs(r.base_middle)
UNION ALL
SELECT 'governor', g.base || ' in base, ' || g.new || ' in new' FROM governors AS g WHERE g.base <> g.new;
