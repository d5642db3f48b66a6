-- Whether a clock's step is too large for the durations that it times: half of the
-- durations are shorter than ten steps (one step is 10 % of them), or a quarter of
-- them are zero.
CREATE MACRO _is_coarse(
    events,  -- number of durations
    zeros,  -- number of those that are zero
    middle,  -- their median
    step  -- the clock's step in ticks; NULL if no coarse step was found
) AS (
    coalesce(middle < 10 * step, false) OR 4 * zeros >= events
);

-- Evidence: one clock of a capture (the runtime's, or that of its delegates'
-- events) and its step. A step is the largest power of ten or two, of at least 8
-- ticks, of which nearly all durations are multiples.
CREATE MACRO _advice_clocks(
    capture_key,  -- key of a capture
    unit,  -- unit of results: one that `_capture` has checked
    multiples_percent := 90,  -- share in percent of the durations above zero that must be multiples of a step: by chance, 10 % are multiples of ten and 12.5 % of eight
    least_events := 5  -- smallest number of durations above zero from which a step is derived
) AS TABLE
WITH
target AS MATERIALIZED (
    SELECT c.* FROM _advice_capture(capture_key, unit) AS c
),
durations AS (
    SELECT
        e.kind = 'delegate' AS is_delegate,
        e.duration_ticks AS ticks,
        count(*) AS number
    FROM target AS a
    JOIN (SELECT i.* FROM events AS i WHERE i.capture_id = capture_key) AS e
        ON e.capture_id = a.capture_id
    WHERE e.value_unit = 'ticks'
        AND e.clock <> 'synthetic'
        -- Events that are in no total need no precise clock.
        AND NOT e.is_detached
        AND e.duration_ticks IS NOT NULL
    GROUP BY ALL
),
steps AS (
    SELECT unnest([8, 16, 32, 64, 128, 256, 512, 1024]) AS step
    UNION ALL
    SELECT unnest([10, 100, 1000, 10000, 100000, 1000000, 10000000])
),
stepped AS (
    SELECT
        d.is_delegate,
        s.step
    FROM durations AS d
    CROSS JOIN steps AS s
    WHERE d.ticks > 0
    GROUP BY d.is_delegate, s.step
    HAVING sum(d.number) >= least_events
        AND 100e0 * sum(d.number) FILTER (WHERE d.ticks % s.step = 0)
        >= multiples_percent * sum(d.number)
),
largest AS (
    SELECT s.is_delegate, max(s.step) AS step FROM stepped AS s GROUP BY s.is_delegate
),
ordered AS (
    SELECT
        d.is_delegate,
        d.ticks,
        d.number,
        sum(d.number) OVER (
            PARTITION BY d.is_delegate ORDER BY d.ticks
        ) AS up_to,
        sum(d.number) OVER (PARTITION BY d.is_delegate) AS events
    FROM durations AS d
),
counted AS (
    SELECT
        o.is_delegate,
        sum(o.number)::BIGINT AS events,
        coalesce(sum(o.number) FILTER (WHERE o.ticks = 0), 0)::BIGINT AS zeros,
        min(o.ticks) FILTER (WHERE 2 * o.up_to >= o.events) AS middle
    FROM ordered AS o
    GROUP BY o.is_delegate
)
SELECT
    c.is_delegate,
    c.events,
    c.zeros,
    _in_unit(l.step, a.time_scale, a.unit) AS step,
    _in_unit(c.middle, a.time_scale, a.unit) AS middle,
    a.unit AS unit
FROM target AS a
CROSS JOIN counted AS c
LEFT JOIN largest AS l ON l.is_delegate = c.is_delegate;

-- The events within delegates that take less on average than a step of their clock:
-- their times are 0, or a step in some calls.
CREATE MACRO _delegates_below_clock(capture_key, unit) AS TABLE
SELECT count(*) AS events, d.step, d.unit
FROM (
    SELECT e.signature_index, c.step, c.unit
    FROM _advice_clocks(capture_key, unit) AS c
    JOIN captures AS a ON a.capture_id = capture_key
    JOIN events AS e
        ON e.capture_id = a.capture_id
        AND e.kind = 'delegate'
        AND e.value_unit = 'ticks'
        AND e.clock <> 'synthetic'
    WHERE c.is_delegate
    GROUP BY e.signature_index, c.step, c.unit, a.time_scale
    HAVING sum(e.duration_ticks) = 0
        OR sum(e.duration_ticks) * _multiplier(a.time_scale, c.unit)
        < c.step * count(e.duration_ticks) * _divisor(a.time_scale, c.unit)
) AS d
GROUP BY d.step, d.unit;
