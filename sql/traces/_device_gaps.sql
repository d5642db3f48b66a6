-- One device event of a trace with its place and its launch.
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
CREATE MACRO _device_work(
    capture_key  -- key of a capture
) AS TABLE
SELECT
    l.run_index,
    l.event_index,
    l.label,
    l.kind,
    d.device,
    d.stream,
    l.start_ticks,
    l.end_ticks,
    l.call_index,
    l.call_start_ticks,
    l.call_end_ticks,
    t.thread_index AS call_thread,
    h.process
FROM _launches(capture_key, 'all') AS l
LEFT JOIN (
    SELECT i.* FROM device_events AS i WHERE i.capture_id = capture_key
) AS d
    ON d.event_index = l.event_index
LEFT JOIN (
    SELECT i.* FROM trace_events AS i WHERE i.capture_id = capture_key
) AS t
    ON t.event_index = l.call_index
LEFT JOIN threads AS h
    ON h.capture_id = capture_key AND h.thread_index = t.thread_index;

-- One gap of a device or stream: the time from the end of all earlier events to the
-- start of the next. Host time is the part before the launch of the next event
-- began: nothing was waiting to run. The rest is queued time: the next event was
-- launched, and had not started.
-- Columns:
--   run_index: run that launched the next event
--   device: number of the device; NULL if not written
--   stream: the stream; NULL for gaps of devices, and if not written
--   start_ticks: clock at the start of the gap
--   ticks: its length in ticks
--   host_ticks: time in which the next event was not launched, in ticks
--   call_ticks: part of the queued time in which its launch had not returned, in ticks
--   next_index: the next event
--   next_label: its label
--   call_thread: thread of the call that launched it; NULL if the trace has none
--   process: process of the call
--   waited_label: label of the event of another stream or device that ended in the gap, and that the next event waited for by the trace's records; if it has none, of the last to end; NULL if none did
--   waited_ticks: time from that event's end to the next event's start, in ticks
--   is_recorded: whether the trace has a record of that wait
CREATE MACRO _device_gaps(
    capture_key,  -- key of a capture
    scope  -- device or stream
) AS TABLE
WITH
work AS MATERIALIZED (
    SELECT
        w.*,
        CASE
            WHEN scope = 'stream' THEN w.stream
            WHEN scope IS DISTINCT FROM 'device'
                THEN error(
                    'by must be device or stream, not ' || coalesce(scope, 'NULL')
                )
        END AS place
    FROM _awaited_work(capture_key) AS w
),
ordered AS (
    SELECT
        w.*,
        max(w.end_ticks) OVER (
            PARTITION BY w.device, w.place
            ORDER BY w.start_ticks, w.call_start_ticks, w.event_index
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS idle_ticks
    FROM work AS w
),
gaps AS (
    SELECT
        o.*,
        coalesce(
            o.recorded_ticks > o.idle_ticks AND o.recorded_ticks <= o.start_ticks,
            false
        ) AS is_recorded
    FROM ordered AS o
    WHERE o.start_ticks > o.idle_ticks
),
-- An event of the gap's own stream or device that ends within it has no length.
ended AS (
    SELECT w.end_ticks, min(w.label) AS label
    FROM work AS w
    WHERE w.end_ticks > w.start_ticks
    GROUP BY w.end_ticks
)
SELECT
    g.run_index,
    g.device,
    g.place AS stream,
    g.idle_ticks AS start_ticks,
    g.start_ticks - g.idle_ticks AS ticks,
    CASE
        WHEN g.call_index IS NOT NULL
            THEN greatest(
                least(g.call_start_ticks, g.start_ticks) - g.idle_ticks, 0
            )
    END AS host_ticks,
    greatest(
        least(g.call_end_ticks, g.start_ticks)
        - greatest(g.call_start_ticks, g.idle_ticks), 0
    ) AS call_ticks,
    g.event_index AS next_index,
    g.label AS next_label,
    g.call_thread,
    g.process,
    CASE
        WHEN g.is_recorded THEN g.recorded_label
        WHEN g.is_inferred AND e.end_ticks > g.idle_ticks THEN e.label
    END AS waited_label,
    CASE
        WHEN g.is_recorded THEN g.start_ticks - g.recorded_ticks
        WHEN g.is_inferred AND e.end_ticks > g.idle_ticks
            THEN g.start_ticks - e.end_ticks
    END AS waited_ticks,
    g.is_recorded
FROM gaps AS g
ASOF LEFT JOIN ended AS e ON g.start_ticks >= e.end_ticks;

-- The cause of one gap, as in `device_idle`.
-- Columns:
--   run_index: run that launched the next event
--   device: number of the device; NULL if not written
--   stream: the stream; NULL for gaps of devices, and if not written
--   start_ticks: clock at the start of the gap
--   ticks: its length in ticks
--   host_ticks: time in which the next event was not launched, in ticks
--   cause: as in `device_idle`
--   host_op: as in `device_idle`
--   next_index: the next event
--   next_label: its label
--   waited_label: as in `device_idle`
--   hta_cause: as in `device_idle`
CREATE MACRO _idle_causes(
    capture_key,  -- key of a capture
    scope,  -- device or stream
    launch_ticks,  -- longest launch delay, in ticks
    kernel_wait_ticks  -- gap from which on it is not kernel_wait, in ticks
) AS TABLE
WITH
gaps AS MATERIALIZED (
    SELECT
        g.*,
        g.start_ticks + coalesce(g.host_ticks, 0) AS launched_ticks
    FROM _device_gaps(capture_key, scope) AS g
),
times AS MATERIALIZED (
    SELECT t.* FROM _host_times(capture_key) AS t
),
-- What the host did in the gap: time at the launch less time at the gap's start.
hosts AS (
    SELECT
        g.*,
        coalesce(b.synchronizes, 0) AS synchronizes,
        coalesce(
            u.loading_ticks + u.loads * (g.launched_ticks - u.at_ticks), 0
        ) - coalesce(b.loading_ticks + b.loads * (g.start_ticks - b.at_ticks), 0)
            AS loading_ticks,
        coalesce(
            u.communication_ticks
            + u.communicates * (g.launched_ticks - u.at_ticks), 0
        ) - coalesce(
            b.communication_ticks + b.communicates * (g.start_ticks - b.at_ticks), 0
        ) AS communication_ticks,
        coalesce(
            u.synchronization_ticks
            + u.synchronizes * (g.launched_ticks - u.at_ticks), 0
        ) - coalesce(
            b.synchronization_ticks
            + b.synchronizes * (g.start_ticks - b.at_ticks), 0
        ) AS synchronization_ticks,
        u.loading_at,
        u.communication_at,
        u.synchronization_at
    FROM gaps AS g
    ASOF LEFT JOIN times AS b
        ON b.process = g.process AND g.start_ticks >= b.at_ticks
    ASOF LEFT JOIN times AS u
        ON u.process = g.process AND g.launched_ticks >= u.at_ticks
),
judged AS (
    SELECT
        h.*,
        CASE
            WHEN h.host_ticks IS NULL THEN 'unknown'
            WHEN 2 * h.host_ticks >= h.ticks THEN CASE
                WHEN 2 * h.loading_ticks >= h.host_ticks THEN 'data_loading'
                WHEN 2 * h.communication_ticks >= h.host_ticks THEN 'communication'
                WHEN h.synchronizes > 0
                    OR 2 * h.synchronization_ticks >= h.host_ticks
                    THEN 'synchronization'
                ELSE 'host'
            END
            WHEN NOT (
                    h.is_recorded AND 2 * h.waited_ticks <= h.ticks - h.host_ticks
                )
                AND h.ticks - h.host_ticks <= greatest(launch_ticks, 2 * h.call_ticks)
                THEN 'launch_delay'
            WHEN h.waited_ticks <= launch_ticks
                OR h.is_recorded AND 2 * h.waited_ticks <= h.ticks - h.host_ticks
                THEN CASE
                    WHEN starts_with(h.waited_label, 'nccl') THEN 'communication'
                    ELSE 'dependency'
                END
            ELSE 'unknown'
        END AS cause,
        2 * h.host_ticks >= h.ticks AS is_host
    FROM hosts AS h
),
placed AS (
    SELECT
        j.*,
        greatest(
            j.start_ticks,
            CASE j.cause
                WHEN 'data_loading' THEN j.loading_at
                WHEN 'communication' THEN j.communication_at
                WHEN 'synchronization' THEN CASE
                    WHEN j.synchronizes > 0 THEN j.start_ticks
                    ELSE j.synchronization_at
                END
                ELSE j.start_ticks + j.host_ticks // 2
            END
        ) AS asked_ticks
    FROM judged AS j
),
owners AS (
    SELECT o.* FROM _innermost_owners(capture_key) AS o
)
SELECT
    j.run_index,
    j.device,
    j.stream,
    j.start_ticks,
    j.ticks,
    j.host_ticks,
    j.cause,
    CASE WHEN j.is_host THEN o.label END AS host_op,
    j.next_index,
    j.next_label,
    CASE WHEN j.cause IN ('dependency', 'communication') AND NOT j.is_host
        THEN j.waited_label
    END AS waited_label,
    CASE
        WHEN j.host_ticks > 0 THEN 'host_wait'
        WHEN j.ticks < kernel_wait_ticks THEN 'kernel_wait'
        ELSE 'other'
    END AS hta_cause
FROM placed AS j
ASOF LEFT JOIN owners AS o
    ON o.thread_index = j.call_thread AND j.asked_ticks >= o.at_ticks;
