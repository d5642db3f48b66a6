-- The unit in which a comparison shows times, from the list of units that the sides count (ns, cycles); NULL if one
-- side counts cycles and the other time.
CREATE MACRO _shown_unit(counted, unit) AS (
    CASE
        WHEN unit NOT IN ('ns', 'us', 'ms', 's', 'cycles')
            THEN error('unknown unit ' || unit || '; known are ns, us, ms, s, cycles')
        WHEN counted[2] IS NOT NULL THEN NULL
        WHEN (counted[1] = 'cycles') <> (unit = 'cycles') THEN error(
            'the captures count ' || counted[1] || ', which cannot be converted to ' || unit
        )
        WHEN counted[1] = 'cycles' THEN 'cycles'
        ELSE coalesce(unit, 'us')
    END
);
