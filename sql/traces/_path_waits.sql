-- One moment at which a thread of the host could go on because something else had
-- ended: a call that waited for a device returned (synchronization), or, after a
-- time in which the thread ran no op and no call, it began one because another
-- thread was done (handover). A call waits for the device event that was the last to
-- end during it, of its stream if the trace has that; only synchronizations do, and
-- copies from or to pageable memory, for their own copy. Only threads that launch
-- work hand over, and only to or from a thread of the backward pass: most of what
-- that runs is of the backward pass.
-- Columns:
--   node: twice the index of the event, plus 1 if the moment is its end
--   kind: synchronization, handover
--   event_index: the call that returned, or the event that began
--   thread_index: its thread
--   at_ticks: clock at the moment
--   from_ticks: clock when that ended which it waited for
--   from_event: the device event that it waited for; NULL for threads
--   from_thread: the thread that it waited for; NULL for device events
CREATE MACRO _path_waits(
    capture_key,  -- key of a capture
    last_thread  -- thread in which the path ends
) AS TABLE
WITH
work AS MATERIALIZED (
    SELECT w.* FROM _device_work(capture_key) AS w WHERE w.end_ticks > w.start_ticks
),
running AS MATERIALIZED (
    SELECT DISTINCT w.call_thread AS thread_index
    FROM work AS w
    WHERE w.call_thread IS NOT NULL
    UNION
    SELECT last_thread
),
slices AS MATERIALIZED (
    SELECT
        s.event_index,
        s.label,
        s.kind,
        s.thread_index,
        s.correlation_id,
        s.start_ticks,
        s.end_ticks
    FROM _trace_slices(capture_key, 'all') AS s
    JOIN running AS t ON t.thread_index = s.thread_index
    WHERE s.kind IN ('Operator', 'Runtime') AND s.end_ticks > s.start_ticks
),
-- The stream of a synchronization with one stream, by the id of its call.
streams AS (
    SELECT t.correlation_id, max(d.device) AS device, max(d.stream) AS stream
    FROM signatures AS s
    JOIN event_ticks AS e
        ON e.capture_id = s.capture_id AND e.signature_index = s.signature_index
    JOIN trace_events AS t
        ON t.capture_id = e.capture_id AND t.event_index = e.event_index
    JOIN device_events AS d
        ON d.capture_id = e.capture_id AND d.event_index = e.event_index
    WHERE s.capture_id = capture_key
        AND s.category = 'cuda_sync'
        AND starts_with(s.label, 'Stream Sync')
        AND d.stream >= 0
        AND t.correlation_id > 0
    GROUP BY t.correlation_id
    HAVING count(*) = 1
),
calls AS (
    SELECT s.*, m.device, m.stream
    FROM slices AS s
    LEFT JOIN streams AS m ON m.correlation_id = s.correlation_id
    WHERE s.kind = 'Runtime' AND _is_synchronization(s.label)
),
ended AS (
    SELECT w.end_ticks, max(w.event_index) AS event_index
    FROM work AS w
    GROUP BY w.end_ticks
),
ended_in_stream AS (
    SELECT w.device, w.stream, w.end_ticks, max(w.event_index) AS event_index
    FROM work AS w
    GROUP BY w.device, w.stream, w.end_ticks
),
synchronized AS (
    SELECT c.*, e.end_ticks AS from_ticks, e.event_index AS from_event
    FROM (SELECT c.* FROM calls AS c WHERE c.stream IS NULL) AS c
    ASOF JOIN ended AS e ON c.end_ticks >= e.end_ticks
    UNION ALL
    SELECT c.*, e.end_ticks, e.event_index
    FROM (SELECT c.* FROM calls AS c WHERE c.stream IS NOT NULL) AS c
    ASOF JOIN ended_in_stream AS e
        ON e.device = c.device AND e.stream = c.stream AND c.end_ticks >= e.end_ticks
    UNION ALL
    SELECT s.*, w.device, w.stream, w.end_ticks, w.event_index
    FROM work AS w
    JOIN slices AS s ON s.event_index = w.call_index
    WHERE w.kind = 'Memcpy'
        AND contains(w.label, 'Pageable')
        AND w.end_ticks <= s.end_ticks
),
outermost AS (
    SELECT
        s.*,
        max(s.end_ticks) OVER (
            PARTITION BY s.thread_index
            ORDER BY s.start_ticks, s.end_ticks DESC, s.event_index
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS before_ticks
    FROM slices AS s
),
-- Without those that begin before another one has ended.
gaps AS MATERIALIZED (
    SELECT o.*
    FROM outermost AS o
    WHERE o.before_ticks IS NULL OR o.start_ticks > o.before_ticks
),
classes AS MATERIALIZED (
    SELECT
        g.thread_index,
        h.process,
        2 * count(*) FILTER (
            WHERE p.place = 1
        ) > count(*) AS is_backward
    FROM gaps AS g
    JOIN threads AS h
        ON h.capture_id = capture_key AND h.thread_index = g.thread_index
    LEFT JOIN _pass_slices(capture_key) AS p ON p.event_index = g.event_index
    GROUP BY g.thread_index, h.process
),
-- When threads of a class were done, as far as they are on the host.
done AS (
    SELECT
        c.process,
        c.is_backward,
        s.end_ticks,
        min(s.thread_index) AS thread_index
    FROM slices AS s
    JOIN classes AS c ON c.thread_index = s.thread_index
    WHERE (SELECT count(DISTINCT k.is_backward) FROM classes AS k) = 2
    GROUP BY c.process, c.is_backward, s.end_ticks
),
handed AS (
    SELECT
        g.event_index,
        g.thread_index,
        g.start_ticks,
        d.end_ticks AS from_ticks,
        d.thread_index AS from_thread
    FROM (
        SELECT g.*, c.process, NOT c.is_backward AS other_class
        FROM gaps AS g
        JOIN classes AS c ON c.thread_index = g.thread_index
    ) AS g
    ASOF JOIN done AS d
        ON d.process = g.process
        AND d.is_backward = g.other_class
        AND g.start_ticks >= d.end_ticks
    WHERE g.before_ticks IS NULL OR d.end_ticks > g.before_ticks
),
waits AS (
    SELECT
        2 * s.event_index::BIGINT + 1 AS node,
        'synchronization' AS kind,
        s.event_index,
        s.thread_index,
        s.end_ticks AS at_ticks,
        s.from_ticks,
        s.from_event,
        NULL::INTEGER AS from_thread
    FROM synchronized AS s
    WHERE s.from_ticks > s.start_ticks
    UNION ALL
    SELECT
        2 * h.event_index::BIGINT,
        'handover',
        h.event_index,
        h.thread_index,
        h.start_ticks,
        h.from_ticks,
        NULL,
        h.from_thread
    FROM handed AS h
)
SELECT w.*
FROM waits AS w
-- Of calls within each other that return at once, the inner one.
QUALIFY row_number() OVER (
    PARTITION BY w.thread_index, w.at_ticks
    ORDER BY w.from_ticks DESC, w.node
) = 1;
