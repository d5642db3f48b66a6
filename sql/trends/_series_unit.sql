-- The unit that times of series are told in, of captures that don't count cycles.
CREATE MACRO _series_unit(
    unit  -- as in `trend`
) AS (
    CASE
        WHEN unit IS NULL THEN 'us'
        WHEN _nanoseconds(unit) IS NOT NULL THEN unit
        ELSE error(
            'no unit ' || unit || ' that times are told in; known are ns, us, ms, s'
        )
    END
);
