-- What one device event of a trace had waited for before its start: the last of its
-- launch, the previous end in its stream, and the device event that a record or a call
-- names that lets streams wait for events (`_awaited_work`). Where neither can be known,
-- it is inferred: an event that starts later than the device's latency after its launch
-- and the previous end (`_awaited_work`), and than twice the time that the call took to
-- return, waits for the event of another stream that was the last to end, if it starts
-- within that latency after it. An event that starts so late for no such reason waited for
-- something that the trace doesn't show.
CREATE MACRO _device_waits(capture_key) AS TABLE
WITH
work AS MATERIALIZED (
    SELECT
        w.event_index,
        w.kind,
        w.label,
        w.start_ticks,
        w.end_ticks,
        coalesce(w.device, -1) AS device,
        coalesce(w.stream, -1) AS stream,
        w.call_index,
        w.call_thread,
        CASE
            WHEN w.call_index IS NOT NULL THEN least(w.call_start_ticks, w.start_ticks)
        END AS launch_ticks,
        w.call_start_ticks AS call_ticks,
        w.call_end_ticks,
        w.recorded_event,
        w.recorded_ticks,
        w.is_record,
        w.is_inferred,
        w.latency_ticks
    FROM _awaited_work(capture_key) AS w
    WHERE w.end_ticks > w.start_ticks
),
ended_in_stream AS MATERIALIZED (
    SELECT w.device, w.stream, w.end_ticks, max(w.event_index) AS event_index
    FROM work AS w
    GROUP BY w.device, w.stream, w.end_ticks
),
ended AS MATERIALIZED (
    SELECT w.end_ticks, max(w.event_index) AS event_index
    FROM work AS w
    GROUP BY w.end_ticks
),
queued AS (
    SELECT
        s.*,
        p.end_ticks AS stream_ticks,
        p.event_index AS stream_event
    FROM work AS s
    ASOF LEFT JOIN ended_in_stream AS p
        ON p.device = s.device AND p.stream = s.stream AND s.start_ticks >= p.end_ticks
),
waited AS (
    SELECT
        q.*,
        greatest(q.launch_ticks, q.stream_ticks) AS ready_ticks,
        q.stream_ticks >= q.launch_ticks AS is_ahead,
        o.end_ticks AS other_ticks,
        o.event_index AS other_event,
        q.recorded_ticks <= q.start_ticks
        AND q.recorded_ticks > coalesce(greatest(q.launch_ticks, q.stream_ticks), -1)
            AS is_awaited
    FROM queued AS q
    ASOF LEFT JOIN ended AS o ON q.start_ticks >= o.end_ticks
),
late AS (
    SELECT
        w.*,
        w.start_ticks - w.ready_ticks > greatest(
            w.latency_ticks,
            CASE
                WHEN w.launch_ticks IS NOT NULL
                    THEN 2 * (
                        least(w.call_end_ticks, w.start_ticks) - w.ready_ticks
                    )
            END
        ) AS is_late
    FROM waited AS w
),
judged AS (
    SELECT
        w.*,
        w.is_awaited AND (w.is_record OR w.is_ahead OR w.is_late) AS is_known,
        CASE
            WHEN w.is_awaited AND (w.is_record OR w.is_ahead OR w.is_late)
                THEN 'dependency'
            WHEN w.is_inferred
                AND w.start_ticks - w.other_ticks <= w.latency_ticks
                AND (w.ready_ticks IS NULL OR w.other_ticks > w.ready_ticks)
                AND (w.launch_ticks IS NULL OR w.is_late)
                THEN 'dependency'
            WHEN w.is_late THEN 'unknown_wait'
            WHEN w.stream_ticks >= w.launch_ticks OR w.launch_ticks IS NULL
                THEN CASE WHEN w.stream_ticks IS NOT NULL THEN 'stream_delay' END
            ELSE 'launch_delay'
        END AS wait
    FROM late AS w
)
SELECT
    j.event_index,
    j.kind,
    j.label,
    j.device,
    j.stream,
    j.start_ticks,
    j.end_ticks,
    j.call_index,
    j.call_thread,
    j.call_ticks,
    j.wait,
    CASE j.wait
        WHEN 'dependency' THEN CASE
            WHEN j.is_known THEN j.recorded_ticks ELSE j.other_ticks
        END
        WHEN 'stream_delay' THEN j.stream_ticks
        WHEN 'launch_delay' THEN j.launch_ticks
        WHEN 'unknown_wait' THEN j.ready_ticks
    END AS from_ticks,
    CASE j.wait
        WHEN 'dependency' THEN CASE
            WHEN j.is_known THEN j.recorded_event ELSE j.other_event
        END
        WHEN 'stream_delay' THEN j.stream_event
        WHEN 'unknown_wait' THEN CASE
            WHEN j.stream_ticks = j.ready_ticks THEN j.stream_event
        END
    END AS from_event
FROM judged AS j;
