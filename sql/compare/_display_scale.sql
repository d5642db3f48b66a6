-- The unit in which the times of a comparison are shown.
-- Columns:
--   counted: units that the sides count, as in the input
--   unit: the requested unit, or us, or cycles; NULL if one side counts cycles and the other time
--   divisor: number by which ticks are divided for that unit; NULL if unit is
CREATE MACRO _display_scale(
    counted,  -- list of the units that the sides count: ns, cycles, or both
    unit  -- as in `compare_ops`
) AS TABLE
SELECT
    c.counted,
    c.shown AS unit,
    CASE WHEN c.shown IS NOT NULL THEN _divisor(c.counted[1], c.shown) END AS divisor
FROM (
    SELECT
        g.counted,
        CASE
            WHEN unit IS NOT NULL AND unit NOT IN ('ns', 'us', 'ms', 's', 'cycles')
                THEN error(
                    'unknown unit ' || unit || '; known are ns, us, ms, s, cycles'
                )
            WHEN g.counted[2] IS NOT NULL THEN NULL
            WHEN (g.counted[1] = 'cycles') <> (unit = 'cycles') THEN error(
                'the captures count ' || g.counted[1]
                || ', which cannot be converted to ' || unit
            )
            WHEN g.counted[1] = 'cycles' THEN 'cycles'
            ELSE coalesce(unit, 'us')
        END AS shown
    FROM (SELECT counted AS counted) AS g
) AS c;
