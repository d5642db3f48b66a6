-- One part of the critical path of a trace: a stretch of time in one event, or in none, with the op that it belongs to.
-- Stretches of the host have a part for each innermost event of the thread. Algorithm: after each start the innermost
-- event is that which starts, after each end its parent; stretches of the path begin and end among these moments.
CREATE MACRO _path_elements(capture_key, step, step_name) AS TABLE
WITH device_launches AS MATERIALIZED (FROM _launches(capture_key)),
path_window AS MATERIALIZED (FROM _path_window(capture_key, 'device_launches', step, step_name)),
stretches AS MATERIALIZED (
    FROM _path_spans(capture_key, 'device_launches', 'path_window', step IS NULL AND step_name IS NULL)
),
spans AS MATERIALIZED (
    SELECT s.thread_index, min(s.start_ticks) AS start_ticks, max(s.end_ticks) AS end_ticks
    FROM stretches AS s
    WHERE s.kind = 'host'
    GROUP BY s.thread_index
),
-- Without the capture, as in `_trace_slices`.
names AS MATERIALIZED (
    SELECT s.signature_index, s.label, s.family, s.on_device,
        CASE s.activity
            WHEN 'python_function' THEN 'python'
            WHEN 'module' THEN 'python'
            WHEN 'step' THEN 'annotation'
            WHEN 'copy' THEN 'memcpy'
            WHEN 'fill' THEN 'memset'
            ELSE s.activity
        END AS kind,
        s.purpose
    FROM (SELECT capture_key AS capture_id) AS a
    JOIN signatures AS s USING (capture_id)
),
events AS MATERIALIZED (
    SELECT i.event_index, i.event_signature, i.thread_index, i.parent_index, i.start_ticks,
        i.start_ticks + i.elapsed_ticks AS end_ticks, coalesce(i.overlap_ticks, 0) AS overlap_ticks, i.op_index,
        i.correlation_id
    FROM trace_events AS i
    WHERE i.capture_id = capture_key
),
nearby AS MATERIALIZED (
    SELECT e.thread_index, e.event_index, e.parent_index, n.kind = 'annotation' AS is_annotation, e.start_ticks,
        e.end_ticks
    FROM events AS e
    JOIN names AS n ON n.signature_index = e.event_signature AND NOT n.on_device
    JOIN spans AS p
        ON p.thread_index = e.thread_index AND p.start_ticks < e.end_ticks AND p.end_ticks > e.start_ticks
    -- Those of graphs' captures have no time of the thread.
    WHERE e.end_ticks - e.start_ticks > e.overlap_ticks
),
-- Annotations may overlap: one may end while a later one continues. At such an end, the innermost event stays the same.
overlapped AS (
    SELECT n.event_index
    FROM (
        SELECT n.event_index, n.end_ticks,
            max(n.end_ticks) OVER (
                PARTITION BY n.thread_index
                ORDER BY n.start_ticks
                RANGE BETWEEN 1 FOLLOWING
                AND (n.end_ticks - n.start_ticks - 1) FOLLOWING
            ) AS reached_ticks
        FROM nearby AS n
        WHERE n.is_annotation
    ) AS n
    WHERE n.reached_ticks > n.end_ticks
),
moments AS (
    SELECT n.thread_index, n.start_ticks AS at_ticks, n.event_index AS innermost, 0 AS change, 1 AS place,
        n.end_ticks AS other_ticks, n.event_index
    FROM nearby AS n
    UNION ALL
    SELECT n.thread_index, n.end_ticks, coalesce(n.parent_index, -1), 0, 0, n.start_ticks, -n.event_index
    FROM nearby AS n
    LEFT JOIN overlapped AS o USING (event_index)
    WHERE o.event_index IS NULL
    UNION ALL
    SELECT s.thread_index, s.start_ticks, NULL, 1, 2, NULL, NULL FROM stretches AS s WHERE s.kind = 'host'
    UNION ALL
    SELECT s.thread_index, s.end_ticks, NULL, -1, 2, NULL, NULL FROM stretches AS s WHERE s.kind = 'host'
),
innermost AS (
    SELECT m.thread_index, m.at_ticks, lead(m.at_ticks) OVER in_order AS end_ticks,
        sum(m.change) OVER in_order AS on_path, last_value(m.innermost IGNORE NULLS) OVER in_order AS innermost
    FROM moments AS m
    WINDOW in_order AS (
        PARTITION BY m.thread_index
        ORDER BY m.at_ticks, m.place, m.other_ticks DESC, m.event_index
        ROWS UNBOUNDED PRECEDING
    )
),
parts AS MATERIALIZED (
    SELECT t.kind, t.start_ticks, t.end_ticks, t.event_index, t.thread_index FROM stretches AS t WHERE t.kind <> 'host'
    UNION ALL
    SELECT 'host', t.at_ticks, t.end_ticks, nullif(t.innermost, -1), t.thread_index
    FROM innermost AS t
    WHERE t.on_path > 0 AND t.end_ticks > t.at_ticks
),
events_of_path AS (
    SELECT t.event_index, k.label, k.kind, k.purpose, t.correlation_id, d.device, d.stream,
        CASE WHEN k.kind = 'op' THEN t.event_index ELSE coalesce(t.op_index, d.op_index) END AS op_index
    FROM (SELECT DISTINCT p.event_index FROM parts AS p) AS p
    JOIN events AS t USING (event_index)
    JOIN names AS k ON k.signature_index = t.event_signature
    LEFT JOIN device_launches AS d USING (event_index)
)
SELECT CASE p.kind WHEN 'device' THEN e.kind WHEN 'host' THEN coalesce(e.kind, 'host') ELSE p.kind END AS kind,
    p.start_ticks, p.end_ticks, p.event_index, e.label, p.thread_index, e.correlation_id, e.device, e.stream,
    CASE WHEN e.op_index IS NOT NULL THEN n.label END AS op,
    -- Time outside of ops counts for the event itself.
    n.family AS owner,
    CASE WHEN p.kind = 'synchronization' OR p.kind = 'host' AND e.kind = 'call' THEN e.label END AS call,
    CASE WHEN p.kind = 'synchronization' OR p.kind = 'host' AND e.kind = 'call' THEN e.purpose END AS call_kind
FROM parts AS p
LEFT JOIN events_of_path AS e USING (event_index)
LEFT JOIN events AS o
    ON o.event_index = coalesce(e.op_index, p.event_index)
LEFT JOIN names AS n ON n.signature_index = o.event_signature;
