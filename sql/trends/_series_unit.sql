-- The unit in which times of series are shown, for captures that don't count cycles.
CREATE MACRO _series_unit(
    unit  -- as in `trend`
) AS (
    CASE
        WHEN unit IS NULL THEN 'us'
        WHEN _nanoseconds(unit) IS NOT NULL THEN unit
        ELSE error(
            'unknown unit of time ' || unit || '; known are ns, us, ms, s'
        )
    END
);
