-- Nanoseconds in a unit of time; NULL if it is not a unit of time.
CREATE MACRO _nanoseconds(unit) AS (
    CASE unit WHEN 'ns' THEN 1 WHEN 'us' THEN 1000 WHEN 'ms' THEN 1000000 WHEN 's' THEN 1000000000 END
);

-- The unit in which a value is stored: its own, or the capture's time scale.
CREATE MACRO _stored_unit(
    value_unit,  -- ticks, us, cycles, bytes, count, unknown
    time_scale  -- unit of one tick of the capture
) AS (CASE value_unit WHEN 'ticks' THEN time_scale ELSE value_unit END);

-- The unit in which a value is shown: for times, the requested unit; for other values, the unit in which they are
-- stored.
CREATE MACRO _display_unit(written, unit) AS (
    CASE WHEN _nanoseconds(written) + _nanoseconds(unit) IS NULL THEN written ELSE unit END
);

-- Factor for showing a value in a unit: value * _multiplier / _divisor, see `_scale`. One of the two is 1, so a whole
-- number of ticks is rounded only once, at the division by a power of ten.
CREATE MACRO _multiplier(written, unit) AS (greatest(coalesce(_nanoseconds(written) / _nanoseconds(unit), 1), 1));

-- Divisor for showing a value in a unit, see `_multiplier`.
CREATE MACRO _divisor(written, unit) AS (_multiplier(unit, written));

-- The factors from one unit to another, for `_in_unit`. They are computed once per capture or row, because planning
-- them for each value would take longer than reading the rows.
CREATE MACRO _scale(written, unit) AS ({'multiplier': _multiplier(written, unit), 'divisor': _divisor(written, unit)});

-- A value in the unit in which it is shown.
CREATE MACRO _in_unit(value, scale) AS (value * scale['multiplier'] / scale['divisor']);

-- The one capture that an argument matches, the unit of results, and the factors from ticks to that unit.
CREATE MACRO _scaled_capture(capture, unit) AS TABLE
SELECT c.*, _scale(c.time_scale, c.unit) AS scale FROM _capture(capture, unit) AS c;

-- The capture of a key, the unit of results, and the factors from ticks to that unit.
CREATE MACRO _scaled_key(capture_key, unit) AS TABLE
SELECT c.*, u.unit, _scale(c.time_scale, u.unit) AS scale
FROM (SELECT capture_key AS capture_id, unit AS unit) AS u
JOIN captures AS c USING (capture_id);

-- All captures, the default units of their times, and the factors from ticks to these units.
CREATE MACRO _scaled_captures() AS TABLE
SELECT c.*, _default_unit(c.time_scale) AS unit, _scale(c.time_scale, _default_unit(c.time_scale)) AS scale
FROM captures AS c;

-- The sum of a whole number over the rows to which a condition applies; NULL if the sum exceeds BIGINT.
CREATE MACRO _sum_where(number, condition) AS (try_cast(sum(CASE WHEN condition THEN number ELSE 0 END) AS BIGINT));

-- The unit of the times of a capture if none is requested.
CREATE MACRO _default_unit(time_scale) AS (CASE time_scale WHEN 'cycles' THEN 'cycles' ELSE 'us' END);
