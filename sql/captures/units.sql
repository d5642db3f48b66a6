-- How many nanoseconds a unit of time is; NULL for what is none.
CREATE MACRO _nanoseconds(
    scale  -- ns, us, ms, s, or anything else
) AS (
    CASE scale
        WHEN 'ns' THEN 1
        WHEN 'us' THEN 1000
        WHEN 'ms' THEN 1000000
        WHEN 's' THEN 1000000000
    END
);

-- The unit that a value is written in: its own, or the capture's time scale.
CREATE MACRO _written_unit(
    value_unit,  -- ticks, us, cycles, bytes, count, unknown
    time_scale  -- what one tick of the capture is
) AS (
    CASE value_unit WHEN 'ticks' THEN time_scale ELSE value_unit END
);

-- The unit that a value is shown in: times in the one asked for, all else in
-- the one it is written in.
CREATE MACRO _shown_unit(
    written,  -- unit that the value is written in
    unit  -- ns, us, ms, s, cycles
) AS (
    CASE
        WHEN _nanoseconds(written) + _nanoseconds(unit) IS NULL THEN written
        ELSE unit
    END
);

-- A value is shown as itself * _multiplier / _divisor. One of the two is 1, so
-- that whole numbers of ticks are rounded once, by a power of ten.
CREATE MACRO _multiplier(
    written,  -- unit that the value is written in
    unit  -- ns, us, ms, s, cycles
) AS (
    greatest(coalesce(_nanoseconds(written) // _nanoseconds(unit), 1), 1)::DOUBLE
);

-- See `_multiplier`.
CREATE MACRO _divisor(
    written,  -- unit that the value is written in
    unit  -- ns, us, ms, s, cycles
) AS (
    greatest(coalesce(_nanoseconds(unit) // _nanoseconds(written), 1), 1)::DOUBLE
);
