-- What the times of a comparison are shown in.
-- Columns:
--   unit: the one asked for, or us, or cycles; NULL where one side counts cycles and the other time
--   divisor: what ticks are divided by for it; NULL likewise
CREATE MACRO _shown_scale(
    counted,  -- what the sides count: a list of ns, cycles, or both
    unit  -- as in `compare_ops`
) AS TABLE
SELECT
    c.shown AS unit,
    CASE WHEN c.shown IS NOT NULL THEN _divisor(c.counts, c.shown) END AS divisor
FROM (
    SELECT
        counted[1] AS counts,
        CASE
            WHEN unit IS NOT NULL AND unit NOT IN ('ns', 'us', 'ms', 's', 'cycles')
                THEN error('no unit ' || unit || '; known are ns, us, ms, s, cycles')
            WHEN counted[2] IS NOT NULL THEN NULL
            WHEN (counted[1] = 'cycles') <> (unit = 'cycles') THEN error(
                'the captures count ' || counted[1] || ', which can''t be told in '
                || unit
            )
            WHEN counted[1] = 'cycles' THEN 'cycles'
            ELSE coalesce(unit, 'us')
        END AS shown
) AS c;
