-- One record of a wait for a CUDA event in a trace (`cuda_sync`): of the host (Event
-- Sync) or of a stream (Stream Wait Event), with the call that waits and the time when
-- the CUDA event was recorded. A CUDA event stands for all that was launched in its
-- stream before.
-- Columns:
--   label: Event Sync, Stream Wait Event
--   call_index: the call that waits, such as cudaStreamWaitEvent
--   call_ticks: clock at its start
--   device: number of the device; -1 if not written
--   stream: the stream that waits; -1 if the host does
--   wait_stream: the stream that the CUDA event was recorded in
--   record_ticks: clock at the start of the call that recorded it
CREATE MACRO _wait_records(
    capture_key  -- key of a capture
) AS TABLE
WITH
records AS MATERIALIZED (
    SELECT
        e.label,
        e.end_ticks,
        t.correlation_id,
        coalesce(d.device, -1) AS device,
        coalesce(d.stream, -1) AS stream,
        d.wait_stream,
        d.wait_correlation_id
    FROM (SELECT i.* FROM device_events AS i WHERE i.capture_id = capture_key) AS d
    JOIN _capture_events(capture_key) AS e ON e.event_index = d.event_index
    JOIN (SELECT i.* FROM trace_events AS i WHERE i.capture_id = capture_key) AS t
        ON t.event_index = d.event_index
    WHERE d.wait_stream >= 0
        AND d.wait_correlation_id > 0
        AND e.category = 'cuda_sync'
        AND t.correlation_id > 0
),
calls AS MATERIALIZED (
    SELECT t.correlation_id, e.event_index, e.start_ticks
    FROM (
        SELECT r.correlation_id FROM records AS r
        UNION
        SELECT r.wait_correlation_id FROM records AS r
    ) AS i
    JOIN (SELECT i.* FROM trace_events AS i WHERE i.capture_id = capture_key) AS t
        ON t.correlation_id = i.correlation_id
    JOIN _capture_events(capture_key) AS e ON e.event_index = t.event_index
    WHERE _slice_kind(e.category, e.label, 'all') = 'Runtime'
)
SELECT
    r.label,
    c.event_index AS call_index,
    c.start_ticks AS call_ticks,
    r.device,
    r.stream,
    r.wait_stream,
    w.start_ticks AS record_ticks
FROM records AS r
ASOF JOIN calls AS c
    ON c.correlation_id = r.correlation_id AND r.end_ticks >= c.start_ticks
ASOF JOIN calls AS w
    ON w.correlation_id = r.wait_correlation_id AND c.start_ticks >= w.start_ticks;

-- One device event of a trace, see `_device_work`, with the device event for which its
-- stream waited by the trace's records. A stream waits before the next event that is
-- launched in it, for the last that was launched in the other stream before the record.
-- Columns:
--   run_index: run that launched it
--   event_index: the event
--   label: its label
--   kind: Kernel, Memcpy, Memset
--   device: number of the device; NULL if not written
--   stream: stream it ran in; NULL if not written
--   start_ticks: clock at the start
--   end_ticks: clock at the end
--   call_index: the call that launched it; NULL if the trace has none
--   call_start_ticks: clock at the call's start
--   call_end_ticks: clock at its end
--   call_thread: thread of the call
--   process: process of the call
--   recorded_event: the event that its stream waited for; NULL without a record
--   recorded_ticks: clock at the end of that event
--   recorded_label: label of that event
--   is_inferred: whether a wait can only be inferred from times: the trace has no records, or the event is of a CUDA graph
CREATE MACRO _awaited_work(
    capture_key  -- key of a capture
) AS TABLE
WITH
records AS MATERIALIZED (
    SELECT r.* FROM _wait_records(capture_key) AS r
),
work AS MATERIALIZED (
    SELECT
        w.*,
        NOT EXISTS (FROM records)
        OR sum(CASE WHEN w.end_ticks > w.start_ticks THEN 1 ELSE 0 END)
            OVER (PARTITION BY w.call_index) > 1 AS is_inferred
    FROM _device_work(capture_key) AS w
),
-- The first and the last event of each call in a stream: a CUDA graph has several.
launched AS MATERIALIZED (
    SELECT
        coalesce(w.device, -1) AS device,
        coalesce(w.stream, -1) AS stream,
        w.call_start_ticks AS call_ticks,
        arg_min(w.event_index, (w.start_ticks, w.event_index)) AS first_event,
        max(w.end_ticks) AS last_ticks,
        arg_max(w.event_index, (w.end_ticks, w.event_index)) AS last_event,
        arg_max(w.label, (w.end_ticks, w.event_index)) AS last_label
    FROM work AS w
    WHERE w.call_index IS NOT NULL
        AND w.end_ticks > w.start_ticks
        AND EXISTS (FROM records)
    GROUP BY coalesce(w.device, -1), coalesce(w.stream, -1), w.call_start_ticks
),
recorded AS (
    SELECT
        n.first_event AS event_index,
        max(l.last_ticks) AS end_ticks,
        arg_max(l.last_event, (l.last_ticks, l.last_event)) AS from_event,
        arg_max(l.last_label, (l.last_ticks, l.last_event)) AS label
    FROM (SELECT r.* FROM records AS r WHERE r.label = 'Stream Wait Event') AS r
    ASOF JOIN launched AS n
        ON n.device = r.device AND n.stream = r.stream AND r.call_ticks <= n.call_ticks
    ASOF JOIN launched AS l
        ON l.device = r.device
        AND l.stream = r.wait_stream
        AND r.record_ticks >= l.call_ticks
    GROUP BY n.first_event
)
SELECT
    w.run_index,
    w.event_index,
    w.label,
    w.kind,
    w.device,
    w.stream,
    w.start_ticks,
    w.end_ticks,
    w.call_index,
    w.call_start_ticks,
    w.call_end_ticks,
    w.call_thread,
    w.process,
    r.from_event AS recorded_event,
    r.end_ticks AS recorded_ticks,
    r.label AS recorded_label,
    w.is_inferred
FROM work AS w
LEFT JOIN recorded AS r ON r.event_index = w.event_index;
