-- One change of the number of device events of a stream that were launched and have not started.
CREATE MACRO _queue_changes(capture_key) AS TABLE
WITH work AS MATERIALIZED (FROM _launches(capture_key) AS l WHERE l.call_index IS NOT NULL),
-- An event that starts before its launch never waited: the clocks differ.
changes AS (
    SELECT w.device, w.stream, least(w.call_start_ticks, w.start_ticks) AS at_ticks, 1 AS change, w.event_index
    FROM work AS w
    UNION ALL
    SELECT w.device, w.stream, w.start_ticks, -1, w.event_index FROM work AS w
)
SELECT c.device, c.stream, c.at_ticks, row_number() OVER so_far AS place, c.change,
    (sum(c.change) OVER so_far)::BIGINT AS length,
    coalesce(lead(c.at_ticks) OVER so_far - c.at_ticks, 0) AS ticks
FROM changes AS c
WINDOW so_far AS (PARTITION BY c.device, c.stream ORDER BY c.at_ticks, c.change DESC, c.event_index);

-- One change of the queue of a stream in a trace: the number of device events that were launched and have not started.
-- It rises when the call that launches an event begins, by as many events as a CUDA graph launches, and falls when an
-- event starts. Events without a recorded launch don't count.
-- Shown: device!#, stream!#, "at" AS time! (time), length!#, change!#, duration (time), unit
-- Columns:
--   device: number of the device; NULL if not written
--   stream: the stream; NULL if not written
--   at: time of the change, relative to the start of the recording
--   change: 1 for a launch, -1 for a start
--   length: number of waiting events from then on
--   duration: time until the next change of the stream; 0 for the last
--   unit: the requested unit of time
CREATE MACRO queue_lengths(capture, unit := NULL) AS TABLE
WITH target AS MATERIALIZED (FROM _scaled_capture(capture, unit))
SELECT q.device, q.stream, _in_unit(q.at_ticks - r.start_ticks, a.scale) AS at, q.change, q.length,
    _in_unit(q.ticks, a.scale) AS duration, a.unit
FROM target AS a CROSS JOIN _recording((SELECT a.capture_id FROM target AS a)) AS r
CROSS JOIN _queue_changes((SELECT a.capture_id FROM target AS a)) AS q
ORDER BY q.device, q.stream, q.place;

-- The queue of one stream in a trace, see `queue_lengths`. An empty queue means that the host launches too late: the
-- stream runs dry when its last event ends.
-- Needs: torch_trace, device_events
-- Empty: {capture} has no device events whose launch was recorded
-- Shown: device!#, stream!#, launches!#, empty_percent!%, mean!#, max!#, time_mean#, p25#, p50#, p75#, min#, stddev#,
--   changes#, empty_time! (time), full_time (time), unit!
-- Columns:
--   device: number of the device; NULL if not written
--   stream: the stream; NULL if not written
--   launches: number of device events that were launched
--   empty_time: time from the first change to the last in which no event waited
--   empty_percent: that time in percent of the time from the first change to the last; NULL without such time
--   time_mean: mean length over that time; NULL without such time
--   full_time: time in which as many events waited as `full_length`, or more: the host waits in its next launch
--   changes: number of changes
--   mean: mean of the lengths after each change, as in HolisticTraceAnalysis
--   stddev: sample standard deviation of these; NULL for a single one
--   min: least of these
--   p25: their first quartile
--   p50: their median
--   p75: their third quartile
--   max: greatest of these
--   unit: unit of empty_time and full_time
CREATE MACRO queue_summary(
    capture, unit := NULL,
    full_length := 1024  -- number of waiting events with which a queue is full
) AS TABLE
WITH target AS MATERIALIZED (FROM _scaled_capture(capture, unit)),
summed AS (
    SELECT q.device, q.stream, count(*) AS changes, sum(CASE WHEN q.change > 0 THEN 1 ELSE 0 END)::BIGINT AS launches,
        sum(q.ticks)::DOUBLE AS ticks, sum(CASE WHEN q.length = 0 THEN q.ticks ELSE 0 END)::DOUBLE AS empty_ticks,
        sum(CASE WHEN q.length >= full_length THEN q.ticks ELSE 0 END)::DOUBLE AS full_ticks,
        sum(q.length * q.ticks)::DOUBLE AS weighted, sum(q.length)::DOUBLE AS total,
        sum(q.length * q.length)::DOUBLE AS squares, min(q.length) AS least, max(q.length) AS most,
        quantile_cont(q.length::DOUBLE, 0.25) AS p25, quantile_cont(q.length::DOUBLE, 0.5) AS p50,
        quantile_cont(q.length::DOUBLE, 0.75) AS p75
    FROM _queue_changes((SELECT a.capture_id FROM target AS a)) AS q
    GROUP BY q.device, q.stream
)
SELECT s.device, s.stream, s.launches, _in_unit(s.empty_ticks, a.scale) AS empty_time,
    100e0 * s.empty_ticks / nullif(s.ticks, 0) AS empty_percent, s.weighted / nullif(s.ticks, 0) AS time_mean,
    _in_unit(s.full_ticks, a.scale) AS full_time, s.changes, s.total / s.changes AS mean,
    CASE
        WHEN s.changes > 1 THEN sqrt(greatest(s.squares - s.total * s.total / s.changes, 0) / (s.changes - 1))
    END AS stddev,
    s.least AS min, s.p25, s.p50, s.p75, s.most AS max, a.unit
FROM summed AS s CROSS JOIN target AS a
ORDER BY s.device, s.stream;
