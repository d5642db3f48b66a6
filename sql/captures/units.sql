-- Nanoseconds in a unit of time; NULL if it is not a unit of time.
CREATE MACRO _nanoseconds(scale) AS (
    CASE scale WHEN 'ns' THEN 1 WHEN 'us' THEN 1000 WHEN 'ms' THEN 1000000 WHEN 's' THEN 1000000000 END
);

-- The unit that a value is stored in: its own, or the capture's time scale.
CREATE MACRO _stored_unit(
    value_unit,  -- ticks, us, cycles, bytes, count, unknown
    time_scale  -- unit of one tick of the capture
) AS (
    CASE value_unit WHEN 'ticks' THEN time_scale ELSE value_unit END
);

-- The unit that a value is shown in: times in the requested unit, others in the unit they are stored in.
CREATE MACRO _display_unit(written, unit) AS (
    CASE WHEN _nanoseconds(written) + _nanoseconds(unit) IS NULL THEN written ELSE unit END
);

-- Factor for showing a value in a unit: value * _multiplier / _divisor, see `_in_unit`. One of the two is 1, so a whole
-- number of ticks is rounded only once, at the division by a power of ten.
CREATE MACRO _multiplier(written, unit) AS (
    greatest(coalesce(_nanoseconds(written) // _nanoseconds(unit), 1), 1)::DOUBLE
);

-- Divisor for showing a value in a unit, see `_multiplier`.
CREATE MACRO _divisor(written, unit) AS (
    greatest(coalesce(_nanoseconds(unit) // _nanoseconds(written), 1), 1)::DOUBLE
);

-- A value in the unit in which it is shown.
CREATE MACRO _in_unit(value, written, unit) AS (
    value * _multiplier(written, unit) / _divisor(written, unit)
);

-- The sum of a whole number over the rows to which a condition applies; NULL if it is larger than BIGINT.
CREATE MACRO _sum_where(number, condition) AS (
    try_cast(sum(CASE WHEN condition THEN number ELSE 0 END) AS BIGINT)
);

-- The unit of the times of a capture if none is requested.
CREATE MACRO _default_unit(time_scale) AS (
    CASE time_scale WHEN 'cycles' THEN 'cycles' ELSE 'us' END
);
