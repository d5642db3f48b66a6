-- The capture, if a runtime on a device wrote it. Traces have other rules, references none.
CREATE MACRO _advice_capture(capture_key, unit) AS TABLE
SELECT k.capture_id, k.record_id, k.profiling_level, k.unit, k.scale
FROM _scaled_key(capture_key, unit) AS k
WHERE k.format NOT IN ('torch_trace', 'reference');

-- Evidence: one clock of a capture (the runtime's, or that of its delegates' events) and its step: the largest power of
-- ten or two, of at least 8 ticks, of which at least 90 % of five or more durations above zero are multiples. By
-- chance, 10 % are multiples of ten and 12.5 % of eight. A step is too large for the durations that it times if half of
-- these are shorter than ten steps (one step is 10 % of them), or a quarter are zero.
CREATE MACRO _advice_clocks(capture_key, unit) AS TABLE
WITH durations AS (
    SELECT e.kind = 'delegate' AS is_delegate, e.duration_ticks AS ticks, count(*) AS number
    FROM _advice_capture(capture_key, unit) AS a
    JOIN (FROM events AS i WHERE i.capture_id = capture_key) AS e USING (capture_id)
    WHERE e.value_unit = 'ticks'
        AND e.clock <> 'synthetic'
        -- Events that are in no total need no precise clock.
        AND NOT e.is_detached
        AND e.duration_ticks IS NOT NULL
    GROUP BY ALL
),
steps AS (SELECT unnest([8, 16, 32, 64, 128, 256, 512, 1024, 10, 100, 1000, 10000, 100000, 1000000, 10000000]) AS step),
stepped AS (
    SELECT d.is_delegate, s.step
    FROM durations AS d CROSS JOIN steps AS s
    WHERE d.ticks > 0
    GROUP BY d.is_delegate, s.step
    HAVING sum(d.number) >= 5
        AND 100e0 * sum(d.number) FILTER (WHERE d.ticks % s.step = 0)
        >= 90 * sum(d.number)
),
ordered AS (
    SELECT d.*, sum(d.number) OVER (PARTITION BY d.is_delegate ORDER BY d.ticks) AS up_to,
        sum(d.number) OVER (PARTITION BY d.is_delegate) AS events
    FROM durations AS d
),
counted AS (
    SELECT o.is_delegate, sum(o.number)::BIGINT AS events,
        coalesce(sum(o.number) FILTER (WHERE o.ticks = 0), 0)::BIGINT AS zeros,
        min(o.ticks) FILTER (WHERE 2 * o.up_to >= o.events) AS middle,
        (SELECT max(s.step) FROM stepped AS s WHERE s.is_delegate = o.is_delegate) AS step
    FROM ordered AS o
    GROUP BY o.is_delegate
)
SELECT
    c.is_delegate, c.events, c.zeros, coalesce(c.middle < 10 * c.step, false) OR 4 * c.zeros >= c.events AS is_coarse,
    _in_unit(c.step, a.scale) AS step, _in_unit(c.middle, a.scale) AS middle, a.unit
FROM _advice_capture(capture_key, unit) AS a CROSS JOIN counted AS c;

-- The events within delegates whose mean time is below a step of their clock: each time is 0, or a step.
CREATE MACRO _delegates_below_clock(capture_key, unit) AS TABLE
SELECT count(*) AS events, d.step, d.unit
FROM (
    SELECT e.signature_index, c.step, c.unit
    FROM _advice_clocks(capture_key, unit) AS c
    JOIN captures AS a ON a.capture_id = capture_key
    JOIN events AS e
        ON e.capture_id = a.capture_id AND e.kind = 'delegate' AND e.value_unit = 'ticks' AND e.clock <> 'synthetic'
    WHERE c.is_delegate
    GROUP BY e.signature_index, c.step, c.unit, a.time_scale
    HAVING sum(e.duration_ticks) = 0
        OR sum(e.duration_ticks) * _multiplier(a.time_scale, c.unit)
        < c.step * count(e.duration_ticks) * _divisor(a.time_scale, c.unit)
) AS d
GROUP BY d.step, d.unit;
