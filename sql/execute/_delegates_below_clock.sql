-- The events within delegates whose mean time is below a step of their clock: each time is 0, or a step.
CREATE MACRO _delegates_below_clock(capture_key, unit) AS TABLE
WITH durations AS MATERIALIZED (FROM _clock_durations(capture_key) AS d WHERE d.clock = 'delegate')
SELECT count(*) AS events, _in_unit(d.step, c.scale) AS step, c.unit
FROM (
    SELECT e.signature_index, s.step
    FROM events AS e LEFT JOIN _clock_steps('durations') AS s ON true
    WHERE e.capture_id = capture_key
        AND e.kind = 'delegate'
        AND e.value_unit = 'ticks'
        AND e.clock <> 'synthetic'
        AND EXISTS (FROM durations)
    GROUP BY e.signature_index, s.step
    HAVING sum(e.duration_ticks) = 0 OR sum(e.duration_ticks) < s.step * count(e.duration_ticks)
) AS d
CROSS JOIN _scaled_key(capture_key, unit) AS c
GROUP BY d.step, c.scale, c.unit;
