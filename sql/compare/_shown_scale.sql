-- What the times of a comparison are shown in.
-- Columns:
--   counted: what the sides count, as given
--   unit: the one asked for, or us, or cycles; NULL where one side counts cycles and the other time
--   divisor: what ticks are divided by for it; NULL likewise
CREATE MACRO _shown_scale(
    counted,  -- what the sides count: a list of ns, cycles, or both
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
                THEN error('no unit ' || unit || '; known are ns, us, ms, s, cycles')
            WHEN g.counted[2] IS NOT NULL THEN NULL
            WHEN (g.counted[1] = 'cycles') <> (unit = 'cycles') THEN error(
                'the captures count ' || g.counted[1] || ', which can''t be told in '
                || unit
            )
            WHEN g.counted[1] = 'cycles' THEN 'cycles'
            ELSE coalesce(unit, 'us')
        END AS shown
    FROM (SELECT counted AS counted) AS g
) AS c;
