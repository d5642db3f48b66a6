-- What the times of a comparison are shown in.
-- Columns:
--   unit: the one asked for, or us, or cycles; NULL where one side counts cycles and the other time
--   divisor: what ticks are divided by for it; NULL likewise
CREATE MACRO _shown_scale(
    counted,  -- what the sides count: a list of ns, cycles, or both
    unit  -- as in `compare_ops`
) AS TABLE
SELECT
    CASE
        WHEN unit IS NOT NULL AND unit NOT IN ('ns', 'us', 'ms', 's', 'cycles')
            THEN error('no unit ' || unit || '; known are ns, us, ms, s, cycles')
        WHEN len(c.counted) <> 1 THEN NULL
        WHEN (c.counted[1] = 'cycles') <> (coalesce(unit, c.counted[1]) = 'cycles')
            AND unit IS NOT NULL THEN error(
            'the captures count ' || c.counted[1] || ', which can''t be told in '
            || unit
        )
        WHEN c.counted[1] = 'cycles' THEN 'cycles'
        ELSE coalesce(unit, 'us')
    END AS unit,
    CASE
        WHEN len(c.counted) = 1 THEN
            _divisor(c.counted[1], CASE c.counted[1] WHEN 'ns' THEN coalesce(unit, 'us') END)
    END AS divisor
FROM (SELECT counted AS counted) AS c;
