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
        s.label,
        e.start_ticks + e.elapsed_ticks AS end_ticks,
        t.correlation_id,
        coalesce(d.device, -1) AS device,
        coalesce(d.stream, -1) AS stream,
        d.wait_stream,
        d.wait_correlation_id
    FROM device_events AS d
    JOIN event_ticks AS e
        ON e.capture_id = d.capture_id AND e.event_index = d.event_index
    JOIN signatures AS s
        ON s.capture_id = d.capture_id AND s.signature_index = e.signature_index
    JOIN trace_events AS t
        ON t.capture_id = d.capture_id AND t.event_index = d.event_index
    WHERE d.capture_id = capture_key
        AND d.wait_stream >= 0
        AND d.wait_correlation_id > 0
        AND s.category = 'cuda_sync'
        AND t.correlation_id > 0
),
calls AS MATERIALIZED (
    SELECT t.correlation_id, e.event_index, e.start_ticks
    FROM (
        SELECT r.correlation_id FROM records AS r
        UNION
        SELECT r.wait_correlation_id FROM records AS r
    ) AS i
    JOIN trace_events AS t
        ON t.capture_id = capture_key AND t.correlation_id = i.correlation_id
    JOIN event_ticks AS e
        ON e.capture_id = capture_key AND e.event_index = t.event_index
    JOIN signatures AS s
        ON s.capture_id = capture_key AND s.signature_index = e.signature_index
    WHERE _slice_kind(s.category, s.label, 'all') = 'Runtime'
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
