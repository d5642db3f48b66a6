-- The conditions (metrics without a better direction) that differ between the two sides of each comparison: the ranges
-- don't overlap, and the medians are at least 5 % apart (a few values of one distribution may be apart by chance); and
-- the labels of some keys that no capture of both sides has.
CREATE MACRO _conditions_of(
    sides,  -- the name of a table with columns comparison, is_new and capture_id
    keys,  -- keys of labels
    base,  -- text that follows the values of base
    new  -- text that follows the values of new
) AS TABLE
WITH measured AS (
    SELECT s.comparison, s.is_new, m.name, m.value, m.unit, NULL AS text
    FROM query_table(sides) AS s
    JOIN metrics AS m USING (capture_id)
    -- Conditions measured after a capture may be caused by it.
    WHERE m.better IS NULL AND NOT ends_with(m.name, '_after')
    UNION ALL
    SELECT s.comparison, s.is_new, l.key, NULL, NULL, l.value
    FROM query_table(sides) AS s
    JOIN labels AS l USING (capture_id)
    WHERE list_contains(keys, l.key)
)
SELECT r.comparison, r.name,
    coalesce(r.base_values, printf('%g to %g', r.base_low, r.base_high) || coalesce(' ' || r.unit, '')) || base || ', '
    || coalesce(r.new_values, printf('%g to %g', r.new_low, r.new_high) || coalesce(' ' || r.unit, '')) || new AS detail
FROM (
    SELECT m.comparison, m.name, any_value(m.unit) AS unit, min(m.value) FILTER (WHERE NOT m.is_new) AS base_low,
        max(m.value) FILTER (WHERE NOT m.is_new) AS base_high,
        median(m.value) FILTER (WHERE NOT m.is_new) AS base_middle, min(m.value) FILTER (WHERE m.is_new) AS new_low,
        max(m.value) FILTER (WHERE m.is_new) AS new_high, median(m.value) FILTER (WHERE m.is_new) AS new_middle,
        string_agg(DISTINCT m.text, ', ' ORDER BY m.text) FILTER (WHERE NOT m.is_new) AS base_values,
        string_agg(DISTINCT m.text, ', ' ORDER BY m.text) FILTER (WHERE m.is_new) AS new_values
    FROM measured AS m
    GROUP BY m.comparison, m.name, m.text IS NULL
) AS r
WHERE r.base_values <> r.new_values
    OR (r.base_low > r.new_high OR r.base_high < r.new_low)
    AND abs(r.new_middle - r.base_middle) >= 0.05 * abs(r.base_middle);
