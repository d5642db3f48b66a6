-- One record of a wait for a CUDA event in a trace (`cuda_sync`): of the host (Event
-- Sync) or of a stream (Stream Wait Event), with the call that waits and the time when
-- the CUDA event was recorded. A CUDA event stands for all that was launched in its
-- stream before.
CREATE MACRO _wait_records(capture_key) AS TABLE
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
    WHERE e.activity = 'call'
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

-- One device event of a trace that was launched after a call that lets a stream wait for
-- an event (cudaStreamWaitEvent, hipStreamWaitEvent), the first since the launch before it
-- in its stream. Such a call names neither the stream that waits nor that which it waits
-- for, so that the event may have waited for any that was launched in another stream
-- before the call: of each stream the last of these, or the last that had ended.
CREATE MACRO _called_waits(capture_key) AS TABLE
WITH
calls AS MATERIALIZED (
    SELECT h.process, s.start_ticks AS wait_ticks
    FROM _trace_slices(capture_key) AS s
    JOIN threads AS h
        ON h.capture_id = capture_key AND h.thread_index = s.thread_index
    WHERE s.kind = 'call' AND s.purpose = 'stream_wait'
),
work AS MATERIALIZED (
    SELECT
        w.*,
        coalesce(w.device, -1) AS device_key,
        coalesce(w.stream, -1) AS stream_key,
        coalesce(w.call_start_ticks, 0) AS call_ticks
    FROM _launches(capture_key) AS w
    WHERE w.end_ticks > w.start_ticks AND EXISTS (FROM calls)
),
ended AS MATERIALIZED (
    SELECT
        w.device_key,
        w.stream_key,
        w.end_ticks,
        max(w.event_index) AS event_index,
        arg_max(w.label, w.event_index) AS label
    FROM work AS w
    GROUP BY w.device_key, w.stream_key, w.end_ticks
),
-- The first event of each call in a stream: a CUDA graph has several.
launched AS (
    SELECT
        w.device_key,
        w.stream_key,
        w.process,
        w.call_ticks,
        min(w.start_ticks) AS start_ticks,
        arg_min(w.event_index, (w.start_ticks, w.event_index)) AS event_index
    FROM work AS w
    WHERE w.call_index IS NOT NULL
    GROUP BY w.device_key, w.stream_key, w.process, w.call_ticks
),
followed AS (
    SELECT
        l.*,
        lag(l.call_ticks) OVER (
            PARTITION BY l.device_key, l.stream_key ORDER BY l.call_ticks, l.process
        ) AS previous_ticks
    FROM launched AS l
),
awaiting AS MATERIALIZED (
    SELECT f.*, c.wait_ticks
    FROM followed AS f
    ASOF JOIN calls AS c ON c.process = f.process AND f.call_ticks >= c.wait_ticks
    WHERE f.previous_ticks IS NULL OR c.wait_ticks >= f.previous_ticks
),
-- Until when all had ended that was launched in a stream before a time.
reached AS MATERIALIZED (
    SELECT
        r.device_key,
        r.stream_key,
        r.call_ticks,
        max(max(r.end_ticks)) OVER (
            PARTITION BY r.device_key, r.stream_key ORDER BY r.call_ticks
        ) AS end_ticks
    FROM work AS r
    GROUP BY r.device_key, r.stream_key, r.call_ticks
),
candidates AS (
    SELECT
        a.event_index,
        a.start_ticks,
        a.device_key,
        least(r.end_ticks, e.end_ticks) AS from_ticks,
        a.other_device,
        a.other_stream
    FROM (
        SELECT a.*, o.device_key AS other_device, o.stream_key AS other_stream
        FROM awaiting AS a
        JOIN (SELECT DISTINCT w.device_key, w.stream_key FROM work AS w) AS o
            ON (o.device_key, o.stream_key) <> (a.device_key, a.stream_key)
    ) AS a
    ASOF JOIN reached AS r
        ON r.device_key = a.other_device
        AND r.stream_key = a.other_stream
        AND a.wait_ticks >= r.call_ticks
    ASOF JOIN ended AS e
        ON e.device_key = a.other_device
        AND e.stream_key = a.other_stream
        AND a.start_ticks >= e.end_ticks
),
named AS (
    SELECT c.*, e.event_index AS from_event, e.label AS from_label
    FROM candidates AS c
    JOIN ended AS e
        ON e.device_key = c.other_device
        AND e.stream_key = c.other_stream
        AND e.end_ticks = c.from_ticks
)
SELECT
    a.event_index,
    a.start_ticks,
    a.device_key AS device,
    arg_max(n.from_event, (n.from_ticks, n.from_event)) AS from_event,
    max(n.from_ticks) AS from_ticks,
    arg_max(n.from_label, (n.from_ticks, n.from_event)) AS from_label
FROM awaiting AS a
LEFT JOIN named AS n ON n.event_index = a.event_index
GROUP BY a.event_index, a.start_ticks, a.device_key;

-- One device event of a trace, see `_launches`, with the device event for which its
-- stream waited. By the trace's records (`cuda_sync`), a stream waits before the next event
-- that is launched in it, for the last that was launched in the other stream before the
-- record. Without records, it is that of `_called_waits`, if the event started within the
-- device's latency after it.
CREATE MACRO _awaited_work(capture_key) AS TABLE
WITH
records AS MATERIALIZED (
    SELECT r.* FROM _wait_records(capture_key) AS r
),
called AS MATERIALIZED (
    SELECT c.* FROM _called_waits(capture_key) AS c WHERE NOT EXISTS (FROM records)
),
-- With the end of what ran before on the device and in the stream, and the number of
-- events that its call launched; events without a duration don't count.
spaced AS MATERIALIZED (
    SELECT
        w.*,
        coalesce(w.device, -1) AS device_key,
        max(CASE WHEN w.end_ticks > w.start_ticks THEN w.end_ticks END) OVER (
            PARTITION BY w.device
            ORDER BY w.start_ticks, w.event_index
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS idle_ticks,
        max(CASE WHEN w.end_ticks > w.start_ticks THEN w.end_ticks END) OVER (
            PARTITION BY w.device, w.stream
            ORDER BY w.start_ticks, w.event_index
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS free_ticks,
        sum(CASE WHEN w.end_ticks > w.start_ticks THEN 1 ELSE 0 END)
            OVER (PARTITION BY w.call_index) AS launched
    FROM _launches(capture_key) AS w
),
delays AS (
    SELECT
        w.device_key,
        'launch' AS kind,
        w.start_ticks - w.call_start_ticks AS ticks
    FROM spaced AS w
    WHERE w.kind = 'kernel'
        AND w.end_ticks > w.start_ticks
        AND w.launched = 1
        AND w.call_start_ticks >= w.idle_ticks
        AND w.start_ticks >= w.call_start_ticks
    UNION ALL
    SELECT w.device_key, 'wait', c.start_ticks - c.from_ticks
    FROM called AS c
    JOIN spaced AS w ON w.event_index = c.event_index
    WHERE c.from_ticks > w.call_start_ticks
        AND (w.free_ticks IS NULL OR c.from_ticks > w.free_ticks)
),
medians AS (
    SELECT d.device_key, quantile_cont(d.ticks::DOUBLE, 0.5) AS ticks
    FROM delays AS d
    GROUP BY d.device_key, d.kind
    HAVING count(*) >= 5
),
latencies AS MATERIALIZED (
    SELECT
        d.device_key,
        greatest(least(coalesce(2 * max(m.ticks), 0), 100000), 10000)::BIGINT AS ticks
    FROM (SELECT DISTINCT w.device_key FROM spaced AS w) AS d
    LEFT JOIN medians AS m ON m.device_key = d.device_key
    GROUP BY d.device_key
),
work AS MATERIALIZED (
    SELECT
        w.*,
        w.launched > 1
        OR NOT EXISTS (FROM records)
        AND (
            w.call_index IS NULL
            OR NOT EXISTS (FROM called)
            OR w.call_start_ticks = min(w.call_start_ticks)
                OVER (PARTITION BY w.device, w.stream)
        ) AS is_inferred
    FROM spaced AS w
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
    coalesce(r.from_event, c.from_event) AS recorded_event,
    coalesce(r.end_ticks, c.from_ticks) AS recorded_ticks,
    coalesce(r.label, c.from_label) AS recorded_label,
    r.event_index IS NOT NULL AS is_record,
    w.is_inferred AND c.event_index IS NULL AS is_inferred,
    y.ticks AS latency_ticks
FROM work AS w
JOIN latencies AS y ON y.device_key = w.device_key
LEFT JOIN recorded AS r ON r.event_index = w.event_index
LEFT JOIN called AS c
    ON c.event_index = w.event_index AND c.start_ticks - c.from_ticks <= y.ticks;
