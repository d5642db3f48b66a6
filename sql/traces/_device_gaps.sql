-- One gap of a device or stream, see `device_gaps`. The time after the host time is queued time: the next event was
-- launched, and had not started. `call_ticks` is the part of the queued time during the call, `is_late` is whether the
-- call began within the gap. `span_ticks` is the time from the first event of the device or stream to the end of its
-- last.
CREATE MACRO _device_gaps(
    capture_key,
    launches,  -- a table of the rows of `_launches`
    "by"  -- device or stream
) AS TABLE
WITH work AS MATERIALIZED (
    SELECT w.*, w.place AS of_place, max(w.end_ticks) OVER in_place - min(w.start_ticks) OVER in_place AS span_ticks
    FROM (
        SELECT l.*, CASE WHEN _checked_by("by", ['device', 'stream']) = 'stream' THEN l.stream END AS place
        FROM query_table(launches) AS l
    ) AS w
    WINDOW in_place AS (PARTITION BY w.device, w.place)
)
SELECT w.run_index, w.device, w.of_place AS stream, g.start_ticks, w.start_ticks - g.start_ticks AS ticks, g.host_ticks,
    greatest(least(w.call_end_ticks, w.start_ticks) - g.start_ticks - g.host_ticks, 0) AS call_ticks,
    coalesce(w.call_start_ticks > g.start_ticks, false) AS is_late, w.event_index AS next_index, w.label AS next_label,
    c.label AS launch, w.call_thread, n.label AS waited_label, w.start_ticks - n.end_ticks AS waited_ticks,
    n.event_index = coalesce(w.recorded_index, w.called_index)
    AND (w.recorded_index IS NOT NULL OR w.call_start_ticks <= g.start_ticks) AS is_recorded,
    w.latency_ticks, w.wait_kind, g.is_early, w.span_ticks,
    coalesce(m.kernel_family = 'communication', false) AS awaits_message, g.host_cause, g.host_signature,
    g.call_signature
FROM device_gaps AS g
JOIN work AS w USING (event_index)
LEFT JOIN work AS n ON n.event_index = g.awaited_index
LEFT JOIN work AS m ON m.event_index = coalesce(w.recorded_index, w.called_index, w.wait_index)
LEFT JOIN (FROM signatures AS i WHERE i.capture_id = capture_key) AS c ON c.signature_index = w.call_signature
WHERE g.capture_id = capture_key AND coalesce(g.is_of_stream = ("by" = 'stream'), true);

-- The cause of one gap, as in `device_idle`.
CREATE MACRO _idle_causes(
    capture_key,
    "by",  -- device or stream
    launch_ticks  -- longest launch delay, in ticks; NULL for `latency_ticks` of `device_events`
) AS TABLE
WITH device_launches AS MATERIALIZED (FROM _launches(capture_key)),
names AS MATERIALIZED (
    SELECT s.signature_index, s.label, s.family, s.kernel_family = 'communication' AS communicates
    FROM (SELECT capture_key AS capture_id) AS a
    JOIN signatures AS s USING (capture_id)
),
judged AS (
    SELECT g.*,
        CASE
            WHEN g.host_ticks IS NULL THEN 'unknown'
            WHEN g.host_cause IS NOT NULL THEN g.host_cause
            WHEN NOT (coalesce(g.is_recorded, false) AND 2 * g.waited_ticks <= g.ticks - g.host_ticks)
                AND g.ticks - g.host_ticks <= greatest(coalesce(launch_ticks, g.latency_ticks), 2 * g.call_ticks)
                THEN 'launch_delay'
            WHEN g.waited_ticks <= coalesce(launch_ticks, g.latency_ticks)
                OR g.is_recorded AND 2 * g.waited_ticks <= g.ticks - g.host_ticks
                THEN CASE WHEN g.waited_label IN (SELECT n.label FROM names AS n WHERE n.communicates)
                    THEN 'communication' ELSE 'dependency' END
            ELSE 'unknown_wait'
        END AS cause
    FROM _device_gaps(capture_key, 'device_launches', "by") AS g
)
SELECT j.run_index, j.device, j.stream, j.start_ticks, j.ticks, j.host_ticks, j.is_late, j.span_ticks, j.cause,
    o.family AS host_op,
    CASE
        WHEN j.host_cause IS NOT NULL THEN c.label
        WHEN j.cause = 'launch_delay' AND 2 * j.call_ticks >= j.ticks - j.host_ticks THEN j.launch
    END AS call,
    j.next_label, CASE WHEN j.cause IN ('dependency', 'communication') AND j.host_cause IS NULL THEN j.waited_label
    END AS waited_label
FROM judged AS j
LEFT JOIN names AS o ON o.signature_index = j.host_signature
LEFT JOIN names AS c ON c.signature_index = j.call_signature;
