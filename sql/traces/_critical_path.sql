-- One stretch of time on the critical path of a part of a trace. Stretches follow
-- each other without a gap, from its start to its end.
-- Columns:
--   kind: as in `critical_path`, host also for time in no event
--   start_ticks: clock at the start
--   end_ticks: clock at the end
--   event_index: the device event, the call that waited, or the event that began; NULL for host
--   call_index: call that launched a device event; NULL if there is none
--   thread_index: the thread; NULL if kind is not host
CREATE MACRO _path_stretches(
    capture_key,  -- key of a capture
    begin_ticks,  -- as in `_path_nodes`
    until_ticks,  -- as in `_path_nodes`
    last_thread  -- as in `_path_nodes`
) AS TABLE
WITH
walk AS MATERIALIZED (
    SELECT p.*
    FROM _path_walk(capture_key, begin_ticks, until_ticks, last_thread) AS p
),
stretches AS (
    SELECT
        'device' AS kind,
        p.start_ticks,
        p.end_ticks,
        p.event_index,
        p.call_index,
        NULL::INTEGER AS thread_index
    FROM walk AS p
    UNION ALL
    SELECT
        coalesce(p.kind, 'unknown'),
        coalesce(p.from_ticks, begin_ticks),
        p.start_ticks,
        p.event_index,
        p.call_index,
        NULL
    FROM walk AS p
    UNION ALL
    SELECT
        'host',
        coalesce(p.host_ticks, begin_ticks),
        p.from_ticks,
        NULL,
        NULL,
        p.thread_index
    FROM walk AS p
    WHERE p.thread_index IS NOT NULL
)
SELECT
    s.kind,
    greatest(s.start_ticks, begin_ticks) AS start_ticks,
    s.end_ticks,
    s.event_index,
    s.call_index,
    s.thread_index
FROM stretches AS s
WHERE s.end_ticks > greatest(s.start_ticks, begin_ticks);

-- One part of the critical path of a trace: a stretch of time in one event, or in
-- none. Stretches of the host have a part for each innermost event of the thread.
-- Algorithm: after each start the innermost event is that which starts, after each
-- end its parent; stretches of the path begin and end among these moments.
-- Columns:
--   kind: device, host, or as in `_path_nodes`
--   start_ticks: clock at the start
--   end_ticks: clock at the end
--   event_index: the event; of a delay, the one that started late; NULL if there is none
--   call_index: call that launched a device event; NULL if there is none
--   thread_index: the thread; NULL if kind is not host
--   begin_ticks: clock at the start of the path
--   until_ticks: clock at its end
CREATE MACRO _path_parts(
    capture_key,  -- key of a capture
    step,  -- as in `critical_path`
    step_name  -- as in `critical_path`
) AS TABLE
WITH
part AS MATERIALIZED (
    SELECT w.* FROM _path_window(capture_key, step, step_name) AS w
),
stretches AS MATERIALIZED (
    SELECT s.*
    FROM _path_stretches(
        capture_key,
        (SELECT p.start_ticks FROM part AS p),
        (SELECT p.end_ticks FROM part AS p),
        (SELECT p.thread_index FROM part AS p)
    ) AS s
),
spans AS MATERIALIZED (
    SELECT
        s.thread_index,
        min(s.start_ticks) AS start_ticks,
        max(s.end_ticks) AS end_ticks
    FROM stretches AS s
    WHERE s.kind = 'host'
    GROUP BY s.thread_index
),
-- Without the capture, as in `_trace_slices`.
hosts AS MATERIALIZED (
    SELECT
        s.signature_index,
        _slice_kind(s.category, s.label, 'all') IN ('Annotation', 'Step')
            AS is_annotation
    FROM (SELECT capture_key AS capture_id) AS a
    JOIN signatures AS s ON s.capture_id = a.capture_id
    WHERE s.category IS NOT NULL AND NOT _is_device_event(s.category)
),
nearby AS MATERIALIZED (
    SELECT
        t.thread_index,
        e.event_index,
        e.parent_index,
        h.is_annotation,
        e.start_ticks,
        e.start_ticks + e.elapsed_ticks AS end_ticks
    FROM (SELECT capture_key AS capture_id) AS a
    JOIN event_ticks AS e ON e.capture_id = a.capture_id
    JOIN hosts AS h ON h.signature_index = e.signature_index
    JOIN trace_events AS t
        ON t.capture_id = e.capture_id AND t.event_index = e.event_index
    JOIN spans AS p
        ON p.thread_index = t.thread_index
        AND p.start_ticks < e.start_ticks + e.elapsed_ticks
        AND p.end_ticks > e.start_ticks
    WHERE e.elapsed_ticks > 0
),
-- Annotations, unlike ops, may end while one goes on that began after them: such an
-- end changes nothing.
overlapped AS (
    SELECT n.event_index
    FROM (
        SELECT
            n.event_index,
            n.end_ticks,
            max(n.end_ticks) OVER (
                PARTITION BY n.thread_index
                ORDER BY n.start_ticks
                RANGE BETWEEN CURRENT ROW
                AND (n.end_ticks - n.start_ticks - 1) FOLLOWING
            ) AS reached_ticks
        FROM nearby AS n
        WHERE n.is_annotation
    ) AS n
    WHERE n.reached_ticks > n.end_ticks
),
moments AS (
    SELECT
        n.thread_index,
        n.start_ticks AS at_ticks,
        n.event_index AS innermost,
        0 AS change,
        1 AS place,
        n.end_ticks AS other_ticks,
        n.event_index
    FROM nearby AS n
    UNION ALL
    SELECT
        n.thread_index, n.end_ticks, coalesce(n.parent_index, -1), 0, 0,
        n.start_ticks, -n.event_index
    FROM nearby AS n
    ANTI JOIN overlapped AS o ON o.event_index = n.event_index
    UNION ALL
    SELECT s.thread_index, s.start_ticks, NULL, 1, 2, NULL, NULL
    FROM stretches AS s
    WHERE s.kind = 'host'
    UNION ALL
    SELECT s.thread_index, s.end_ticks, NULL, -1, 2, NULL, NULL
    FROM stretches AS s
    WHERE s.kind = 'host'
),
parts AS (
    SELECT
        m.thread_index,
        m.at_ticks,
        lead(m.at_ticks) OVER in_order AS end_ticks,
        sum(m.change) OVER in_order AS on_path,
        last_value(m.innermost IGNORE NULLS) OVER in_order AS innermost
    FROM moments AS m
    WINDOW in_order AS (
        PARTITION BY m.thread_index
        ORDER BY m.at_ticks, m.place, m.other_ticks DESC, m.event_index
        ROWS UNBOUNDED PRECEDING
    )
)
SELECT s.*, p.start_ticks AS begin_ticks, p.end_ticks AS until_ticks
FROM (
    SELECT
        t.kind, t.start_ticks, t.end_ticks, t.event_index, t.call_index, t.thread_index
    FROM stretches AS t
    WHERE t.kind <> 'host'
    UNION ALL
    SELECT
        'host',
        t.at_ticks,
        t.end_ticks,
        nullif(t.innermost, -1),
        NULL,
        t.thread_index
    FROM parts AS t
    WHERE t.on_path > 0 AND t.end_ticks > t.at_ticks
) AS s
CROSS JOIN part AS p;

-- One part of the critical path of a trace with the op that it belongs to.
-- Columns:
--   kind: as in `critical_path`
--   start_ticks: clock at the start
--   end_ticks: clock at the end
--   event_index: as in `_path_parts`
--   label: its label
--   thread_index: as in `_path_parts`
--   op_index: the op that contains it or that launched it; NULL if there is none
--   begin_ticks: clock at the start of the path
--   until_ticks: clock at its end
CREATE MACRO _path_elements(
    capture_key,  -- key of a capture
    step,  -- as in `critical_path`
    step_name  -- as in `critical_path`
) AS TABLE
WITH RECURSIVE
parts AS MATERIALIZED (
    SELECT p.* FROM _path_parts(capture_key, step, step_name) AS p
),
kinds AS MATERIALIZED (
    SELECT
        s.signature_index,
        s.label,
        CASE
            WHEN s.category IN ('python_function', 'Python') THEN 'python'
            ELSE CASE _slice_kind(s.category, s.label, 'all')
                WHEN 'Operator' THEN 'op'
                WHEN 'Runtime' THEN 'call'
                WHEN 'Annotation' THEN 'annotation'
                WHEN 'Step' THEN 'annotation'
                ELSE lower(
                    coalesce(_slice_kind(s.category, s.label, 'all'), 'other')
                )
            END
        END AS kind,
        _is_device_event(s.category) AS is_device
    FROM (SELECT capture_key AS capture_id) AS a
    JOIN signatures AS s ON s.capture_id = a.capture_id
),
events_of_path AS MATERIALIZED (
    SELECT p.event_index, p.call_index, e.parent_index, k.label, k.kind, k.is_device
    FROM (
        SELECT p.event_index, max(p.call_index) AS call_index
        FROM parts AS p
        WHERE p.event_index IS NOT NULL
        GROUP BY p.event_index
    ) AS p
    JOIN event_ticks AS e
        ON e.capture_id = capture_key AND e.event_index = p.event_index
    JOIN kinds AS k ON k.signature_index = e.signature_index
),
-- The ancestors of host events, and of launches, up to an op.
ancestors AS (
    SELECT
        e.event_index AS from_index,
        CASE WHEN e.kind = 'op' THEN e.event_index END AS op_index,
        e.parent_index
    FROM events_of_path AS e
    WHERE NOT e.is_device
    UNION ALL
    SELECT e.event_index, NULL, e.call_index
    FROM events_of_path AS e
    WHERE e.is_device AND e.call_index IS NOT NULL
    UNION ALL
    SELECT
        c.from_index,
        CASE WHEN k.kind = 'op' THEN e.event_index END,
        e.parent_index
    FROM ancestors AS c
    JOIN event_ticks AS e
        ON e.capture_id = capture_key AND e.event_index = c.parent_index
    JOIN kinds AS k ON k.signature_index = e.signature_index
    WHERE c.op_index IS NULL
),
-- Without a launch, the first op with the same external id, as in `_device_owners`.
unlaunched AS MATERIALIZED (
    SELECT e.event_index, t.external_id
    FROM events_of_path AS e
    JOIN trace_events AS t
        ON t.capture_id = capture_key AND t.event_index = e.event_index
    WHERE e.is_device
        AND e.call_index IS NULL
        AND t.external_id > 0
        AND t.external_id IS DISTINCT FROM t.correlation_id
),
ops AS (
    SELECT c.from_index AS event_index, c.op_index
    FROM ancestors AS c
    WHERE c.op_index IS NOT NULL
    UNION ALL
    SELECT u.event_index, min(t.event_index)
    FROM unlaunched AS u
    JOIN trace_events AS t
        ON t.capture_id = capture_key AND t.external_id = u.external_id
    JOIN event_ticks AS e
        ON e.capture_id = capture_key AND e.event_index = t.event_index
    JOIN kinds AS k ON k.signature_index = e.signature_index AND k.kind = 'op'
    GROUP BY u.event_index
)
SELECT
    CASE p.kind
        WHEN 'device' THEN e.kind
        WHEN 'host' THEN coalesce(e.kind, 'host')
        ELSE p.kind
    END AS kind,
    p.start_ticks,
    p.end_ticks,
    p.event_index,
    e.label,
    p.thread_index,
    o.op_index,
    p.begin_ticks,
    p.until_ticks
FROM parts AS p
LEFT JOIN events_of_path AS e ON e.event_index = p.event_index
LEFT JOIN ops AS o ON o.event_index = p.event_index;
