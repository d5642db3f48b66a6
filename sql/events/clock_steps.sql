-- The durations that a clock of a capture measured, each with the number of events that have it. Events that are in no
-- total need no precise clock.
CREATE MACRO _clock_durations(capture_key) AS TABLE
SELECT
    CASE WHEN s.kind = 'delegate' THEN 'delegate' WHEN s.on_device THEN 'device' ELSE 'host' END AS clock,
    _duration_ticks(e.elapsed_ticks, e.unwrapped_ticks) AS ticks, count(*) AS events
FROM (FROM event_ticks AS i WHERE i.capture_id = capture_key) AS e
JOIN (FROM signatures AS i WHERE i.capture_id = capture_key) AS s USING (signature_index)
WHERE s.value_unit = 'ticks' AND s.clock <> 'synthetic' AND NOT e.is_detached
GROUP BY ALL
HAVING ticks IS NOT NULL;

-- The multiple of a step that is nearest to a duration.
CREATE MACRO _nearest_multiple(
    ticks,
    step  -- in ticks
) AS (round(ticks / step));

-- Whether a duration is a multiple of a step.
CREATE MACRO _is_multiple(
    ticks,
    step,  -- in ticks
    tolerance  -- in ticks
) AS (abs(ticks - _nearest_multiple(ticks, step) * step) <= tolerance);

-- The step that fits durations best, near to one. An aggregate.
CREATE MACRO _fitted_step(
    ticks,
    step  -- in ticks
) AS (
    sum(ticks * _nearest_multiple(ticks, step)) / sum(_nearest_multiple(ticks, step) * _nearest_multiple(ticks, step))
);

-- Rows of `_clock_durations`: the step of each clock in ticks, none where no step is seen.
--
-- Algorithm: a clock whose step matters shows adjacent multiples of it, so that a step is the distance between two of the
-- most frequent durations, or of one from zero. The step is the longest one of at least 8 ticks of which at least 90 %
-- of five or more durations above zero are multiples. By chance 12.5 % are multiples of 8. A step may be no whole number
-- of ticks, such as 41.67 ns of 24 MHz: then a duration is up to a tick from a multiple, and the distance is fitted,
-- three times, to the durations whose multiple is certain by then. It is judged by durations of less than 1000 steps, at
-- least half of all, and by as many different ones that a distance fits them by chance in one capture of 100. The same
-- duration again and again, without another one, shows no step; durations of zero show one as well as three others. Of
-- too few durations for this, it is the largest power of 1000 of which 90 % are multiples, two different ones or more: by
-- chance in one capture of a million.
CREATE MACRO _clock_steps(
    durations  -- a table with rows of `_clock_durations`
) AS TABLE
WITH ranked AS MATERIALIZED (
    SELECT d.clock, d.ticks, d.events,
        row_number() OVER (PARTITION BY d.clock, d.ticks > 0 ORDER BY d.events DESC, d.ticks) AS place,
        count(*) OVER (PARTITION BY d.clock) AS different
    FROM query_table(durations) AS d
),
-- As many durations as a step is judged by.
sample AS MATERIALIZED (SELECT r.* FROM ranked AS r WHERE r.ticks > 0 AND r.place <= 256 AND r.different > 1),
distances AS MATERIALIZED (
    SELECT DISTINCT a.clock, (a.ticks - b.ticks)::DOUBLE AS step
    FROM sample AS a
    JOIN (SELECT r.clock, r.ticks FROM ranked AS r WHERE r.place <= 16 UNION SELECT r.clock, 0 FROM ranked AS r) AS b
        ON b.clock = a.clock AND b.ticks <= a.ticks - 8
    WHERE a.place <= 16
),
-- The error of a step at its multiple n is n times that of the step: at first up to 2 ticks, then about 2 ticks by the
-- largest multiple before.
fitted_1 AS (
    SELECT f.clock, f.step AS first, _fitted_step(s.ticks, f.step) AS step
    FROM distances AS f
    JOIN sample AS s
        ON s.clock = f.clock
        AND s.ticks BETWEEN f.step / 2 AND greatest(f.step / 4, 1.5) * f.step
        AND _is_multiple(s.ticks, f.step, 1 + 2 * _nearest_multiple(s.ticks, f.step))
    GROUP BY f.clock, f.step
),
fitted_2 AS (
    SELECT f.clock, f.first, _fitted_step(s.ticks, f.step) AS step
    FROM fitted_1 AS f
    JOIN sample AS s
        ON s.clock = f.clock
        AND s.ticks BETWEEN f.step / 2 AND greatest(f.step / 4, 1.5) * greatest(f.step / 4, 1.5) * f.step
        AND _is_multiple(s.ticks, f.step, 3)
    GROUP BY f.clock, f.first, f.step
),
fitted_3 AS (
    SELECT f.clock, _fitted_step(s.ticks, f.step) AS step
    FROM fitted_2 AS f
    JOIN sample AS s
        ON s.clock = f.clock AND s.ticks BETWEEN f.step / 2 AND 1000 * f.step AND _is_multiple(s.ticks, f.step, 3)
    GROUP BY f.clock, f.first, f.step
),
candidates AS (
    SELECT d.*, 0 AS tolerance FROM distances AS d
    UNION ALL
    SELECT DISTINCT f.clock, f.step, 1 FROM fitted_3 AS f WHERE f.step >= 12
),
stepped AS (
    SELECT c.clock, c.step, c.tolerance
    FROM candidates AS c
    JOIN (SELECT i.*, sum(i.events) OVER (PARTITION BY i.clock) AS all_events FROM sample AS i) AS s
        ON s.clock = c.clock AND (c.tolerance = 0 OR s.ticks < 1000 * c.step)
    JOIN (SELECT r.clock, bool_or(r.ticks = 0)::INTEGER AS zeros FROM ranked AS r GROUP BY r.clock) AS z
        ON z.clock = c.clock
    GROUP BY c.clock, c.step, c.tolerance
    HAVING sum(s.events) >= 5
        AND 2 * sum(s.events) >= any_value(s.all_events)
        AND 10 * sum(s.events) FILTER (WHERE _is_multiple(s.ticks, c.step, c.tolerance)) >= 9 * sum(s.events)
        AND (count(*) FILTER (WHERE _is_multiple(s.ticks, c.step, c.tolerance)) + 3 * any_value(z.zeros) - 2)
            * ln(c.step / CASE c.tolerance WHEN 0 THEN 1 ELSE 3 END) >= ln(20000)
)
SELECT d.clock, coalesce(
        max(t.step) FILTER (WHERE t.tolerance = 0), max(t.step),
        max(d.step) FILTER (WHERE 10 * d.of_multiples >= 9 * d.events AND d.multiples + 3 * d.zeros >= 2)
    ) AS step
FROM (
    SELECT r.clock, unnest([1e3, 1e6]) AS step, unnest([
            count(*) FILTER (WHERE r.ticks > 0 AND r.ticks % 1000 = 0),
            count(*) FILTER (WHERE r.ticks > 0 AND r.ticks % 1000000 = 0)
        ]) AS multiples, unnest([
            sum(r.events) FILTER (WHERE r.ticks > 0 AND r.ticks % 1000 = 0),
            sum(r.events) FILTER (WHERE r.ticks > 0 AND r.ticks % 1000000 = 0)
        ]) AS of_multiples, sum(r.events) FILTER (WHERE r.ticks > 0) AS events,
        bool_or(r.ticks = 0)::INTEGER AS zeros
    FROM ranked AS r
    GROUP BY r.clock
) AS d
LEFT JOIN stepped AS t USING (clock)
GROUP BY d.clock;

-- Rows of `_clock_durations`: what each clock measured, without its step.
CREATE MACRO _counted_durations(
    durations  -- a table with rows of `_clock_durations`
) AS TABLE
SELECT o.clock, sum(o.events)::BIGINT AS events,
    coalesce(sum(o.events) FILTER (WHERE o.ticks = 0), 0)::BIGINT AS zeros,
    min(o.ticks) FILTER (WHERE 2 * o.up_to >= o.all_events) AS median
FROM (
    SELECT d.*, sum(d.events) OVER (PARTITION BY d.clock ORDER BY d.ticks) AS up_to,
        sum(d.events) OVER (PARTITION BY d.clock) AS all_events
    FROM query_table(durations) AS d
) AS o
GROUP BY o.clock;

-- The durations that the clocks of dumps measured, the runtime's and that of delegates' events, as in `_clock_durations`.
-- Here, a clock is twice the key of its capture, and one more if it is that of delegates.
CREATE MACRO _durations_of(
    times  -- a table with rows of `_answered_times`
) AS TABLE
SELECT 2 * t.capture_id + (s.kind = 'delegate')::BIGINT AS clock, t.duration_ticks AS ticks, count(*) AS events
FROM query_table(times) AS t
JOIN signatures AS s USING (capture_id, signature_index)
WHERE s.value_unit = 'ticks' AND s.clock <> 'synthetic' AND NOT t.is_detached AND NOT t.is_impossible
GROUP BY ALL;

-- The clocks of dumps with what they measured, and their steps in ticks, as in `clock_steps`.
CREATE MACRO _clocks_of(
    durations  -- a table with rows of `_durations_of`; of rows that are in no table, DuckDB doesn't know how many clocks they have, and takes twice as long
) AS TABLE
SELECT n.clock // 2 AS capture_id, n.clock % 2 = 1 AS is_delegate, n.events, n.zeros, n.median, s.step
FROM _counted_durations(durations) AS n
LEFT JOIN _clock_steps(durations) AS s ON s.clock = n.clock;

-- The step of a clock of a capture: the time between two of its values, as far as the durations that it measured show it.
-- An event of less than a step has a time of 0 or of one step. Each capture has a row for each clock by which events were
-- timed.
-- Shown: clock!, step!~, events#, zeros#, median~, unit
-- Columns:
--   clock: host; delegate: that of the events of delegates, which may have clocks of their own; device: that of a trace's devices
--   step: its step; NULL where none is seen, as by a clock that is finer than 8 ticks, or one that timed too few events
--   events: number of events that it timed, without detached ones (see `events`)
--   zeros: number of those with a time of 0
--   median: half of the events take at most this time
--   unit: unit of step and median
--   step_ticks: step in ticks of the capture
CREATE MACRO clock_steps(capture, unit := NULL) AS TABLE
WITH target AS MATERIALIZED (FROM _scaled_capture(capture, unit)),
durations AS MATERIALIZED (FROM _clock_durations((SELECT a.capture_id FROM target AS a))),
counted AS (FROM _counted_durations('durations'))
SELECT n.clock, _in_unit(s.step, a.scale) AS step, n.events, n.zeros, _in_unit(n.median, a.scale) AS median, a.unit,
    s.step AS step_ticks
FROM target AS a CROSS JOIN counted AS n
LEFT JOIN _clock_steps('durations') AS s ON s.clock = n.clock
ORDER BY n.clock;
