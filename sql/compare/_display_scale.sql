-- The unit in which a comparison shows times, and the divisor of ticks for it, from the list of units that the sides
-- count (ns, cycles); both NULL if one side counts cycles and the other time.
CREATE MACRO _display_scale(counted, unit) AS TABLE
SELECT c.counted, c.shown AS unit, CASE WHEN c.shown IS NOT NULL THEN _divisor(c.counted[1], c.shown) END AS divisor
FROM (
    SELECT g.counted,
        CASE
            WHEN g.unit NOT IN ('ns', 'us', 'ms', 's', 'cycles')
                THEN error('unknown unit ' || g.unit || '; known are ns, us, ms, s, cycles')
            WHEN g.counted[2] IS NOT NULL THEN NULL
            WHEN (g.counted[1] = 'cycles') <> (g.unit = 'cycles') THEN error(
                'the captures count ' || g.counted[1] || ', which cannot be converted to ' || g.unit
            )
            WHEN g.counted[1] = 'cycles' THEN 'cycles'
            ELSE coalesce(g.unit, 'us')
        END AS shown
    FROM (SELECT counted AS counted, unit AS unit) AS g
) AS c;
