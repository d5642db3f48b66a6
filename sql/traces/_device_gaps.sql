-- One gap of a device or stream: the time from the end of all earlier events to the start of the next. Host time is the
-- part until the launch of the next event returned: nothing was waiting to run. The rest is queued time: the next event
-- was launched, and had not started. If a call waits for the event that it launches, the event counts as launched when
-- the call begins; so do the events of a graph whose call began before the gap. `call_ticks` is the part of the queued
-- time during the call, `is_late` is whether the call began within the gap. `span_ticks` is the time from the first
-- event of the device or stream to the end of its last.
CREATE MACRO _device_gaps(
    capture_key,
    launches,  -- a table of the rows of `_launches`
    "by"  -- device or stream
) AS TABLE
WITH work AS MATERIALIZED (
    SELECT w.*, CASE WHEN _checked_by("by", ['device', 'stream']) = 'stream' THEN w.stream END AS place
    FROM query_table(launches) AS w
),
ordered AS (
    SELECT w.*,
        max(w.end_ticks) OVER (
            PARTITION BY w.device, w.place
            ORDER BY w.start_ticks, w.call_start_ticks, w.event_index
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS idle_ticks,
        row_number() OVER (PARTITION BY w.device, w.stream ORDER BY w.start_ticks, w.event_index) = 1 AS is_first,
        max(w.end_ticks) OVER (PARTITION BY w.device, w.place)
        - min(w.start_ticks) OVER (PARTITION BY w.device, w.place) AS span_ticks
    FROM work AS w
),
gaps AS (
    SELECT o.*, n.label AS named_label, n.end_ticks AS named_ticks,
        coalesce(n.end_ticks > o.idle_ticks AND n.end_ticks <= o.start_ticks, false) AS is_awaited, c.label AS launch,
        CASE
            WHEN c.waits OR o.launched > 1 AND o.call_start_ticks <= o.idle_ticks THEN o.call_start_ticks
            ELSE o.call_end_ticks
        END AS launched_ticks
    FROM ordered AS o
    LEFT JOIN work AS n ON n.event_index = coalesce(o.recorded_index, o.called_index)
    LEFT JOIN (FROM signatures AS i WHERE i.capture_id = capture_key) AS c ON c.signature_index = o.call_signature
    WHERE o.start_ticks > o.idle_ticks
),
-- An event of the gap's own stream or device that ends within it has no length.
ended AS (
    SELECT w.end_ticks, min(w.label) AS label FROM work AS w WHERE w.end_ticks > w.start_ticks GROUP BY w.end_ticks
)
SELECT g.run_index, g.device, g.place AS stream, g.idle_ticks AS start_ticks, g.start_ticks - g.idle_ticks AS ticks,
    CASE
        WHEN g.call_index IS NOT NULL THEN greatest(least(g.launched_ticks, g.start_ticks) - g.idle_ticks, 0)
    END AS host_ticks,
    greatest(least(g.call_end_ticks, g.start_ticks) - greatest(g.launched_ticks, g.idle_ticks), 0) AS call_ticks,
    coalesce(g.call_start_ticks > g.idle_ticks, false) AS is_late, g.event_index AS next_index, g.label AS next_label,
    g.launch, g.call_thread, g.process,
    CASE
        WHEN g.is_awaited THEN g.named_label
        WHEN g.is_inferred AND e.end_ticks > g.idle_ticks THEN e.label
    END AS waited_label,
    CASE
        WHEN g.is_awaited THEN g.start_ticks - g.named_ticks
        WHEN g.is_inferred AND e.end_ticks > g.idle_ticks THEN g.start_ticks - e.end_ticks
    END AS waited_ticks,
    g.is_awaited
    AND (g.recorded_index IS NOT NULL OR g.call_start_ticks <= g.idle_ticks) AS is_recorded,
    g.latency_ticks, g.wait_kind, g.is_first, g.span_ticks,
    coalesce(g.recorded_index, g.called_index, g.wait_index) AS awaited_index
FROM gaps AS g
ASOF LEFT JOIN ended AS e ON row(g.start_ticks) >= row(e.end_ticks);

-- The cause of one gap, as in `device_idle`. What the host did is measured as the times of `_host_times` at the launch
-- minus those at the start of the gap.
CREATE MACRO _idle_causes(
    capture_key,
    "by",  -- device or stream
    launch_ticks  -- longest launch delay, in ticks; NULL for `latency_ticks` of `device_events`
) AS TABLE
WITH device_launches AS MATERIALIZED (FROM _launches(capture_key)),
launching_threads AS MATERIALIZED (
    SELECT DISTINCT l.call_thread AS thread_index, l.process FROM device_launches AS l WHERE l.call_thread IS NOT NULL
),
all_steps AS MATERIALIZED (FROM tool_steps AS t WHERE t.capture_id = capture_key),
gaps AS MATERIALIZED (
    SELECT g.*, g.start_ticks + coalesce(g.host_ticks, 0) AS launched_ticks,
        coalesce(2 * g.host_ticks >= g.ticks, false) AS is_host, coalesce(launch_ticks, g.latency_ticks) AS limit_ticks
    FROM _device_gaps(capture_key, 'device_launches', "by") AS g
),
times AS MATERIALIZED (FROM _host_times(capture_key, 'launching_threads')),
of_causes AS MATERIALIZED (SELECT t.* FROM times AS t WHERE t.call IS NULL),
waits AS (
    SELECT g.next_index, g.start_ticks, g.launched_ticks, g.process, u.cause, u.since_ticks, b.is_waiting,
        2 * (g.start_ticks - b.since_ticks) AS twice_waited_ticks,
        2 * (
            u.ticks + u.is_open * (g.launched_ticks - u.at_ticks)
            - coalesce(b.ticks + b.is_open * (g.start_ticks - b.at_ticks), 0)
        ) AS twice_ticks,
        g.host_ticks
    FROM (
        SELECT g.*, c.cause
        FROM gaps AS g
        JOIN (SELECT DISTINCT t.process, t.cause FROM of_causes AS t) AS c USING (process)
        WHERE g.is_host
    ) AS g
    ASOF JOIN of_causes AS u ON u.process = g.process AND u.cause = g.cause AND row(g.launched_ticks) >= row(u.at_ticks)
    ASOF LEFT JOIN of_causes AS b
        ON b.process = g.process AND b.cause = g.cause AND row(g.start_ticks) >= row(b.at_ticks)
),
-- The cause that took half of the host's time; else the call that a thread waited in when the gap began, so that
-- nothing could be launched ahead, unless the host then goes on for longer than a millisecond and longer than it had
-- waited.
hosts AS MATERIALIZED (
    SELECT w.*, CASE WHEN w.is_waiting THEN w.start_ticks ELSE greatest(w.start_ticks, w.since_ticks) END AS asked_ticks
    FROM waits AS w
    WHERE w.twice_ticks >= w.host_ticks
        OR w.is_waiting AND (w.host_ticks < 1000000 OR w.twice_ticks + w.twice_waited_ticks >= w.host_ticks)
    QUALIFY row_number() OVER (
        PARTITION BY w.next_index
        ORDER BY
            CASE
                WHEN w.twice_ticks < w.host_ticks THEN 4
                WHEN w.cause = 'data_loading' THEN 1
                WHEN w.cause = 'communication' THEN 2
                ELSE 3
            END,
            w.twice_ticks DESC, w.cause
    ) = 1
),
of_calls AS MATERIALIZED (SELECT t.* FROM times AS t WHERE t.call IS NOT NULL),
-- The call in which most of that time passed.
calls AS (
    SELECT h.next_index,
        arg_min(
            u.call,
            (
                coalesce(b.ticks + b.is_open * (h.start_ticks - b.at_ticks), 0)
                - u.ticks - u.is_open * (h.launched_ticks - u.at_ticks),
                u.call
            )
        ) AS call
    FROM (
        SELECT h.*, c.call
        FROM hosts AS h
        JOIN (SELECT DISTINCT t.process, t.cause, t.call FROM of_calls AS t) AS c USING (process, cause)
    ) AS h
    ASOF JOIN of_calls AS u
        ON u.process = h.process AND u.cause = h.cause AND u.call = h.call AND row(h.launched_ticks) >= row(u.at_ticks)
    ASOF LEFT JOIN of_calls AS b
        ON b.process = h.process AND b.cause = h.cause AND b.call = h.call AND row(h.start_ticks) >= row(b.at_ticks)
    GROUP BY h.next_index
),
messages AS (
    SELECT DISTINCT s.label
    FROM (SELECT capture_key AS capture_id) AS a
    JOIN signatures AS s USING (capture_id)
    WHERE s.kernel_family = 'communication'
),
steps AS MATERIALIZED (FROM _merged_steps('all_steps')),
-- Steps, or, if a trace has none, what is recorded of the threads that launch; each with the length of all up to its
-- end.
stepped AS MATERIALIZED (
    SELECT s.*, sum(s.end_ticks - s.start_ticks) OVER (PARTITION BY s.thread_index ORDER BY s.start_ticks) AS ticks
    FROM (
        SELECT p.thread_index, w.start_ticks, w.end_ticks
        FROM steps AS w CROSS JOIN (SELECT DISTINCT g.call_thread AS thread_index FROM gaps AS g) AS p
        UNION ALL
        SELECT e.thread_index, e.start_ticks, e.start_ticks + e.elapsed_ticks
        FROM (FROM trace_events AS i WHERE i.capture_id = capture_key AND i.parent_index IS NULL) AS e
        WHERE e.elapsed_ticks > 0 AND NOT EXISTS (FROM steps)
    ) AS s
),
-- Gaps whose host time is mostly in none of these.
apart AS (
    SELECT g.next_index, CASE WHEN EXISTS (FROM steps) THEN 'between_steps' ELSE 'not_recorded' END AS cause
    FROM gaps AS g
    ASOF LEFT JOIN stepped AS u ON u.thread_index = g.call_thread AND row(g.launched_ticks) >= row(u.start_ticks)
    ASOF LEFT JOIN stepped AS b ON b.thread_index = g.call_thread AND row(g.start_ticks) >= row(b.start_ticks)
    WHERE g.is_host
        AND 2 * (
            coalesce(u.ticks - greatest(u.end_ticks - g.launched_ticks, 0), 0)
            - coalesce(b.ticks - greatest(b.end_ticks - g.start_ticks, 0), 0)
        ) < g.host_ticks
),
judged AS (
    SELECT g.*,
        CASE
            WHEN g.host_ticks IS NULL THEN 'unknown'
            WHEN p.cause = 'between_steps' THEN p.cause
            WHEN g.is_host THEN coalesce(h.cause, p.cause, 'host')
            WHEN NOT (g.is_recorded AND 2 * g.waited_ticks <= g.ticks - g.host_ticks)
                AND g.ticks - g.host_ticks <= greatest(g.limit_ticks, 2 * g.call_ticks)
                THEN 'launch_delay'
            WHEN g.waited_ticks <= g.limit_ticks
                OR g.is_recorded AND 2 * g.waited_ticks <= g.ticks - g.host_ticks
                THEN CASE WHEN m.label IS NOT NULL THEN 'communication' ELSE 'dependency' END
            ELSE 'unknown_wait'
        END AS cause,
        CASE
            WHEN p.cause = 'between_steps' OR h.asked_ticks IS NULL THEN g.start_ticks + g.host_ticks // 2
            ELSE h.asked_ticks
        END AS asked_ticks,
        CASE WHEN p.cause IS DISTINCT FROM 'between_steps' THEN c.call END AS call
    FROM gaps AS g
    LEFT JOIN apart AS p USING (next_index)
    LEFT JOIN hosts AS h USING (next_index)
    LEFT JOIN calls AS c USING (next_index)
    LEFT JOIN messages AS m ON m.label = g.waited_label
),
owners AS (FROM _innermost_owners(capture_key, 'launching_threads'))
SELECT j.run_index, j.device, j.stream, j.start_ticks, j.ticks, j.host_ticks, j.is_late, j.span_ticks, j.cause,
    CASE WHEN j.is_host THEN o.label END AS host_op,
    CASE
        WHEN j.is_host THEN j.call
        WHEN j.cause = 'launch_delay' AND 2 * j.call_ticks >= j.ticks - j.host_ticks THEN j.launch
    END AS call,
    j.next_label, CASE WHEN j.cause IN ('dependency', 'communication') AND NOT j.is_host THEN j.waited_label
    END AS waited_label
FROM judged AS j
ASOF LEFT JOIN owners AS o ON o.thread_index = j.call_thread AND row(j.asked_ticks) >= row(o.at_ticks);
