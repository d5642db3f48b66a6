-- What `trace_events` has of events that `event_ticks` has, too, for captures from one key to another.
CREATE MACRO _find_trace_events(first_key, last_key) AS TABLE
SELECT e.capture_id, e.run_index, e.event_index, e.signature_index AS event_signature, e.start_ticks, e.elapsed_ticks,
    e.overlap_ticks, e.parent_index
FROM event_ticks AS e
JOIN captures AS c USING (capture_id)
WHERE e.capture_id BETWEEN first_key AND last_key AND c.format = 'torch_trace';

-- What `device_events` has of events and calls that `event_ticks` and `trace_events` have, too, for captures from one key
-- to another: by these, as they were read.
CREATE MACRO _find_device_events(first_key, last_key) AS TABLE
WITH events AS (
    SELECT e.*, t.thread_index, t.correlation_id, t.annotation_index, s.activity
    FROM (FROM event_ticks AS i WHERE i.capture_id BETWEEN first_key AND last_key) AS e
    JOIN trace_events AS t USING (capture_id, run_index, event_index)
    JOIN signatures AS s ON s.capture_id = e.capture_id AND s.signature_index = e.signature_index
)
SELECT d.capture_id, d.run_index, d.event_index, e.signature_index AS event_signature, e.start_ticks, e.elapsed_ticks,
    c.signature_index AS call_signature, c.thread_index AS call_thread, c.start_ticks AS call_start_ticks,
    c.elapsed_ticks AS call_ticks,
    CASE
        WHEN d.call_index IS NOT NULL THEN
            sum((e.activity IN ('kernel', 'copy', 'fill') AND e.elapsed_ticks >= 0)::INTEGER) OVER (
                PARTITION BY d.capture_id, d.call_index
            )
    END AS launched,
    a.signature_index AS annotation_signature, e.correlation_id, o.signature_index AS op_signature
FROM (FROM device_events AS i WHERE i.capture_id BETWEEN first_key AND last_key) AS d
JOIN events AS e USING (capture_id, run_index, event_index)
LEFT JOIN events AS c ON c.capture_id = d.capture_id AND c.event_index = d.call_index
LEFT JOIN events AS a ON a.capture_id = d.capture_id AND a.event_index = c.annotation_index
LEFT JOIN events AS o ON o.capture_id = d.capture_id AND o.event_index = d.op_index;
