-- One moment at which something could continue because something else had ended: the end of a device event, which had
-- waited before its start, or a moment of a thread of the host, at which a wait ended. A device event waits as
-- `wait_kind` of `device_events` says. A thread waits in a call that synchronizes, and in a copy from or to pageable
-- memory (synchronization); and, after a time in which it ran no op and no call, before the next (handover). A
-- synchronization waits for the device event that was the last to end during it, in its stream if the trace names that
-- stream; if it waits for a CUDA event, it waits for the device event in the trace's record of this wait. A copy waits
-- for itself. Only threads that launch work hand over, and only to or from a thread of the backward pass: a thread that
-- is in the backward pass for most of its time, or that runs no ops of the forward pass besides.
CREATE MACRO _path_moments(
    capture_key,
    launches,  -- a table of the rows of `_launches`
    path_window  -- a table of the row of `_path_window`
) AS TABLE
WITH work AS MATERIALIZED (SELECT w.* FROM query_table(launches) AS w WHERE w.end_ticks > w.start_ticks),
ended_in_stream AS MATERIALIZED (
    SELECT coalesce(w.device, -1) AS device, coalesce(w.stream, -1) AS stream, w.end_ticks,
        max(w.event_index) AS event_index
    FROM work AS w
    GROUP BY coalesce(w.device, -1), coalesce(w.stream, -1), w.end_ticks
),
ended AS MATERIALIZED (SELECT w.end_ticks, max(w.event_index) AS event_index FROM work AS w GROUP BY w.end_ticks),
running AS MATERIALIZED (
    SELECT DISTINCT w.call_thread AS thread_index FROM work AS w WHERE w.call_thread IS NOT NULL
    UNION
    SELECT p.thread_index FROM query_table(path_window) AS p
),
slices AS MATERIALIZED (
    SELECT s.event_index, s.parent_index, s.label, s.kind, s.waits, s.thread_index, s.correlation_id, s.start_ticks,
        s.end_ticks
    FROM _trace_slices(capture_key) AS s
    JOIN running AS t USING (thread_index)
    WHERE s.kind IN ('op', 'call') AND s.end_ticks > s.start_ticks
),
-- The stream of a synchronization with one stream, by the id of its call.
streams AS (
    SELECT d.correlation_id, max(d.device) AS device, max(d.stream) AS stream
    FROM (FROM signatures AS i WHERE i.capture_id = capture_key) AS s
    JOIN (FROM device_events AS i WHERE i.capture_id = capture_key) AS d ON d.event_signature = s.signature_index
    WHERE s.category = 'cuda_sync' AND starts_with(s.label, 'Stream Sync') AND d.stream >= 0 AND d.correlation_id > 0
    GROUP BY d.correlation_id
    HAVING count(*) = 1
),
calls AS MATERIALIZED (
    SELECT s.*, m.device, m.stream
    FROM slices AS s
    LEFT JOIN streams AS m USING (correlation_id)
    WHERE s.kind = 'call' AND s.waits
),
-- By records of waits for CUDA events.
recorded AS MATERIALIZED (
    SELECT
        d.call_index, max(w.end_ticks) AS end_ticks, arg_max(w.event_index, (w.end_ticks, w.event_index)) AS event_index
    FROM (FROM device_events AS i WHERE i.capture_id = capture_key) AS d
    JOIN work AS w ON w.event_index = d.wait_index
    WHERE d.wait_kind = 'synchronization'
    GROUP BY d.call_index
),
synchronized AS (
    SELECT c.*, e.end_ticks AS from_ticks, e.event_index AS from_event
    FROM (FROM calls AS c WHERE c.stream IS NULL AND c.event_index NOT IN (SELECT r.call_index FROM recorded AS r)) AS c
    ASOF JOIN ended AS e ON row(c.end_ticks) >= row(e.end_ticks)
    UNION ALL
    SELECT c.*, e.end_ticks, e.event_index
    FROM (SELECT c.* FROM calls AS c WHERE c.stream IS NOT NULL) AS c
    ASOF JOIN ended_in_stream AS e
        ON e.device = c.device AND e.stream = c.stream AND row(c.end_ticks) >= row(e.end_ticks)
    UNION ALL
    SELECT c.*, r.end_ticks, r.event_index
    FROM calls AS c
    JOIN recorded AS r ON r.call_index = c.event_index AND r.end_ticks <= c.end_ticks
    UNION ALL
    SELECT s.*, w.device, w.stream, w.end_ticks, w.event_index
    FROM work AS w
    JOIN slices AS s ON s.event_index = w.call_index
    WHERE w.kind = 'copy' AND contains(w.label, 'Pageable') AND w.end_ticks <= s.end_ticks
),
outermost AS (
    SELECT s.*,
        max(s.end_ticks) OVER (
            PARTITION BY s.thread_index
            ORDER BY s.start_ticks, s.end_ticks DESC, s.event_index
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS before_ticks
    FROM slices AS s
    -- Events within a parent end no later and aren't outermost: without them, there is less to sort.
    LEFT JOIN slices AS p
        ON p.event_index = s.parent_index
        AND p.thread_index = s.thread_index
        AND p.end_ticks >= s.end_ticks
        AND (
            p.start_ticks < s.start_ticks
            OR p.start_ticks = s.start_ticks AND (p.end_ticks > s.end_ticks OR p.event_index < s.event_index)
        )
    WHERE p.event_index IS NULL
),
-- Without those that begin before another one has ended.
gaps AS MATERIALIZED (FROM outermost AS o WHERE o.before_ticks IS NULL OR o.start_ticks > o.before_ticks),
-- Hooks of the backward pass have no sequence number, unlike ops of the forward pass.
classes AS MATERIALIZED (
    SELECT g.thread_index, h.process,
        2 * _sum_where(g.ticks, g.is_backward) > sum(g.ticks)
            OR (bool_or(g.is_backward) AND bool_or(g.has_number) AND NOT bool_or(g.has_number AND NOT g.is_backward))
        AS is_backward
    FROM (
        SELECT g.thread_index, g.end_ticks - g.start_ticks AS ticks, t.sequence_number IS NOT NULL AS has_number,
            coalesce(t.pass = 'backward', false) AS is_backward
        FROM gaps AS g
        JOIN (FROM trace_events AS i WHERE i.capture_id = capture_key) AS t USING (event_index)
    ) AS g
    JOIN threads AS h ON h.capture_id = capture_key AND h.thread_index = g.thread_index
    GROUP BY g.thread_index, h.process
),
-- The end of each class of threads on the host.
done AS (
    SELECT c.process, c.is_backward, s.end_ticks, min(s.thread_index) AS thread_index
    FROM slices AS s
    JOIN classes AS c USING (thread_index)
    WHERE (SELECT count(DISTINCT k.is_backward) FROM classes AS k) = 2
    GROUP BY c.process, c.is_backward, s.end_ticks
),
handed AS (
    SELECT g.event_index, g.thread_index, g.start_ticks, d.end_ticks AS from_ticks, d.thread_index AS from_thread
    FROM (
        SELECT g.*, c.process, NOT c.is_backward AS other_class FROM gaps AS g JOIN classes AS c USING (thread_index)
    ) AS g
    ASOF JOIN done AS d
        ON d.process = g.process AND d.is_backward = g.other_class AND row(g.start_ticks) >= row(d.end_ticks)
    WHERE g.before_ticks IS NULL OR d.end_ticks > g.before_ticks
),
waits AS (
    SELECT 2 * s.event_index::BIGINT + 1 AS node, s.event_index, 'synchronization' AS kind, s.end_ticks AS at_ticks,
        s.from_ticks, s.from_event, NULL::INTEGER AS from_thread, s.thread_index
    FROM synchronized AS s
    WHERE s.from_ticks > s.start_ticks
    UNION ALL
    SELECT 2 * h.event_index::BIGINT, h.event_index, 'handover', h.start_ticks, h.from_ticks, NULL, h.from_thread,
        h.thread_index
    FROM handed AS h
)
SELECT 2 * j.event_index::BIGINT + 1 AS node, j.event_index, j.wait_kind AS kind, j.start_ticks, j.end_ticks,
    CASE
        WHEN j.wait_index IS NOT NULL THEN w.end_ticks
        WHEN j.wait_kind IS NOT NULL THEN least(j.call_start_ticks, j.start_ticks)
    END AS from_ticks,
    j.wait_index AS from_event,
    CASE WHEN j.wait_kind IS NOT NULL AND j.wait_index IS NULL THEN j.call_thread END AS from_thread,
    false AS is_host, NULL::INTEGER AS thread_index
FROM work AS j
LEFT JOIN work AS w ON w.event_index = j.wait_index
UNION ALL
SELECT w.node, w.event_index, w.kind, w.at_ticks, w.at_ticks, w.from_ticks, w.from_event, w.from_thread, true,
    w.thread_index
FROM (
    SELECT w.*,
        -- Of nested calls that return together, the inner one.
        row_number() OVER (PARTITION BY w.thread_index, w.at_ticks ORDER BY w.from_ticks DESC, w.node) AS place
    FROM waits AS w
) AS w
WHERE w.place = 1;
