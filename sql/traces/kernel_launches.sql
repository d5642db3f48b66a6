-- The events of one device of a trace that have a recorded launch, with times.
CREATE MACRO _launched_work(capture_key) AS TABLE
SELECT w.*, w.device_ticks AS ticks, s.label AS call
FROM _launches(capture_key) AS w
JOIN (FROM signatures AS i WHERE i.capture_id = capture_key) AS s ON s.signature_index = w.call_signature;

-- The label of each event of a capture. The capture is chosen before the join, so that a query that looks labels up
-- reads no other capture.
CREATE MACRO _event_labels(capture_key) AS TABLE
SELECT e.event_index, s.label, s.family
FROM (FROM event_ticks AS i WHERE i.capture_id = capture_key) AS e
JOIN (FROM signatures AS i WHERE i.capture_id = capture_key) AS s USING (signature_index);

-- One device event of a trace with the call that launched it. Events without a recorded launch have no row. One call
-- may launch many events, as that of a CUDA graph does (`launched`); each has a row.
-- Shown: run_index#, device#, stream#, event!, call!, op, annotation, launched#, start! (time), call_duration (time),
--   launch_delay! (time), latency (time), duration (time), is_short, correlation_id#, unit
-- Columns:
--   run_index: run that launched it
--   device: number of the device; NULL if not written
--   stream: the stream; NULL if not written
--   event: label of the event
--   call: name of the call that launched it, such as cudaLaunchKernel
--   op: label of the innermost op that contains the call; NULL if none does
--   annotation: label of the innermost annotation that contains the call; steps are annotations; NULL if none does
--   launched: number of device events that the call launched
--   start: start of the event, relative to the start of the recording
--   call_duration: duration of the call on the host
--   launch_delay: time from the end of the call to the start of the event; 0 if it started before
--   latency: time from the start of the call to the start of the event; below 0 only if the clocks of host and device differ
--   duration: duration of the event
--   is_short: whether the event is shorter than its call, or than the call's part if it launched several
--   correlation_id: id that the event shares with the call
--   unit: the requested unit of time
CREATE MACRO kernel_launches(capture, unit := NULL) AS TABLE
WITH target AS MATERIALIZED (FROM _scaled_capture(capture, unit))
SELECT l.run_index, l.device, l.stream, l.label AS event, l.call, s.label AS op, m.label AS annotation, l.launched,
    _in_unit(l.start_ticks - r.start_ticks, a.scale) AS start, _in_unit(l.call_ticks, a.scale) AS call_duration,
    _in_unit(greatest(l.start_ticks - l.call_start_ticks - l.call_ticks, 0), a.scale) AS launch_delay,
    _in_unit(l.start_ticks - l.call_start_ticks, a.scale) AS latency, _in_unit(l.ticks, a.scale) AS duration,
    l.ticks * l.launched < l.call_ticks AS is_short, l.correlation_id, a.unit
FROM target AS a CROSS JOIN _recording((SELECT a.capture_id FROM target AS a)) AS r
CROSS JOIN _launched_work((SELECT a.capture_id FROM target AS a)) AS l
LEFT JOIN signatures AS s ON s.capture_id = a.capture_id AND s.signature_index = l.op_signature
LEFT JOIN signatures AS m ON m.capture_id = a.capture_id AND m.signature_index = l.annotation_signature
ORDER BY l.start_ticks, l.event_index;

-- The launches of a trace by the name of the call, see `kernel_launches`: how long calls take on the host, how long it
-- then takes until the device starts, and how many events are so short that launching them takes longer. The calls with
-- the most time come first.
-- Needs: torch_trace, device_events
-- Empty: {capture} has no device events whose launch was recorded
-- Shown: call!, calls!#, events#, call_time~, per_call!~, device_time~, short_events#, mean_delay!~, p50_delay!~,
--   max_delay!~, unit
-- Columns:
--   call: name of the call, such as cudaLaunchKernel or cudaGraphLaunch
--   calls: number of calls that launched anything
--   events: number of device events that they launched
--   call_time: time in these calls on the host
--   per_call: mean time of a call
--   device_time: sum of the durations of the events
--   short_events: number of events that are shorter than their call, or than the call's part if it launched several
--   mean_delay: mean time from the end of the call to the start of the event, 0 where it started before
--   p50_delay: median of that time
--   max_delay: greatest of that time
--   unit: the requested unit of time
CREATE MACRO launch_totals(capture, unit := NULL) AS TABLE
WITH target AS MATERIALIZED (FROM _scaled_capture(capture, unit)),
work AS (
    SELECT l.*, greatest(l.start_ticks - l.call_start_ticks - l.call_ticks, 0) AS delay_ticks,
        l.ticks * l.launched < l.call_ticks AS is_short,
        row_number() OVER (PARTITION BY l.call_index ORDER BY l.event_index) AS place
    FROM _launched_work((SELECT a.capture_id FROM target AS a)) AS l
),
totals AS (
    SELECT w.call, count(DISTINCT w.call_index) AS calls, count(*) AS events,
        _sum_where(w.call_ticks, w.place = 1) AS call_ticks, try_cast(sum(w.ticks) AS BIGINT) AS ticks,
        sum(w.is_short::INTEGER)::BIGINT AS short_events, sum(w.delay_ticks)::DOUBLE / count(*) AS mean_delay,
        quantile_cont(w.delay_ticks::DOUBLE, 0.5) AS p50_delay, max(w.delay_ticks) AS max_delay
    FROM work AS w
    GROUP BY w.call
)
SELECT t.call, t.calls, t.events, _in_unit(t.call_ticks, a.scale) AS call_time,
    _in_unit(t.call_ticks::DOUBLE / t.calls, a.scale) AS per_call, _in_unit(t.ticks, a.scale) AS device_time,
    t.short_events, _in_unit(t.mean_delay, a.scale) AS mean_delay, _in_unit(t.p50_delay, a.scale) AS p50_delay,
    _in_unit(t.max_delay, a.scale) AS max_delay, a.unit
FROM totals AS t CROSS JOIN target AS a
ORDER BY t.call_ticks DESC, t.call;
