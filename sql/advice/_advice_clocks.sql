-- Whether a clock counts in steps too large for what it times: half of the
-- durations are shorter than ten steps, so that one step is 10 % of them, or a
-- quarter of them take no time at all.
CREATE MACRO _is_coarse(
    events,  -- number of durations
    zeros,  -- number of those that are zero
    middle,  -- their median
    step  -- the clock's step; NULL where it is finer
) AS (
    coalesce(middle < 10 * step, false) OR 4 * zeros >= events
);

-- Evidence: the clocks of a capture, that of the runtime and those of its
-- delegates, and in what steps they count. A step is the largest power of ten
-- or two, of at least 8 ticks, that nearly all durations are multiples of.
-- Columns:
--   is_delegate: whether it times the delegates' own events
--   events: number of events timed, over all runs
--   zeros: how many of them took no time
--   step: the step; NULL where it is finer, or all are zeros
--   middle: median of the durations
--   unit: unit of step and middle
CREATE MACRO _advice_clocks(
    capture,  -- as everywhere
    unit,  -- as everywhere
    multiples_percent := 90,  -- share of the durations above zero that must be multiples of a step: chance gives 10 % of ten, 12.5 % of eight
    least_events := 5  -- number of durations above zero that it takes to tell
) AS TABLE
WITH
asked AS (
    SELECT c.* FROM _advised_capture(capture, unit) AS c
),
durations AS (
    SELECT
        e.kind = 'delegate' AS is_delegate,
        e.duration_ticks AS ticks,
        count(*) AS number
    FROM asked AS a
    JOIN events AS e ON e.capture_id = a.capture_id
    WHERE e.value_unit = 'ticks'
        AND e.clock <> 'synthetic'
        -- What is in no total need not be timed well.
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
        AND 100 * sum(d.number) FILTER (WHERE d.ticks % s.step = 0)
        >= multiples_percent * sum(d.number)
),
counted AS (
    SELECT
        d.is_delegate,
        sum(d.number)::BIGINT AS events,
        coalesce(sum(d.number) FILTER (WHERE d.ticks = 0), 0)::BIGINT AS zeros
    FROM durations AS d
    GROUP BY d.is_delegate
),
ordered AS (
    SELECT
        d.is_delegate,
        d.ticks,
        sum(d.number) OVER (
            PARTITION BY d.is_delegate ORDER BY d.ticks
        ) AS up_to
    FROM durations AS d
)
SELECT
    c.is_delegate,
    c.events,
    c.zeros,
    (SELECT max(s.step) FROM stepped AS s WHERE s.is_delegate = c.is_delegate)
    * _multiplier(a.time_scale, a.unit) / _divisor(a.time_scale, a.unit) AS step,
    (
        SELECT min(o.ticks)
        FROM ordered AS o
        WHERE o.is_delegate = c.is_delegate AND 2 * o.up_to >= c.events
    ) * _multiplier(a.time_scale, a.unit) / _divisor(a.time_scale, a.unit) AS middle,
    a.unit AS unit
FROM asked AS a
CROSS JOIN counted AS c;
