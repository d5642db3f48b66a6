-- The columns of `trace_events` that `event_ticks` also has, for captures in a range of keys, and the own times of calls
-- of ops, modules and other nodes, computed from the times of their parts.
CREATE MACRO _find_trace_events(first_key, last_key) AS TABLE
WITH events AS MATERIALIZED (
    SELECT e.*, t.thread_index, t.node_index, t.operator_index, s.family,
        s.activity = 'call' AND s.purpose IS DISTINCT FROM 'module' AS is_runtime,
        CASE WHEN e.elapsed_ticks >= 0 THEN e.elapsed_ticks - coalesce(e.overlap_ticks, 0) END AS ticks
    FROM trace_events AS t
    JOIN event_ticks AS e USING (capture_id, run_index, event_index)
    JOIN signatures AS s USING (capture_id, signature_index)
    WHERE t.capture_id BETWEEN first_key AND last_key
),
less AS (
    SELECT e.capture_id, e.operator_index, e.ticks FROM events AS e WHERE e.is_runtime
    UNION ALL
    SELECT c.capture_id, n.operator_index, c.ticks
    FROM events AS c
    JOIN events AS n ON n.capture_id = c.capture_id AND n.event_index = c.node_index
    WHERE c.event_index = c.operator_index AND n.ticks IS NOT NULL
),
inner_ticks AS (
    SELECT l.capture_id, l.operator_index, sum(l.ticks) AS ticks FROM less AS l GROUP BY l.capture_id, l.operator_index
)
SELECT e.capture_id, e.run_index, e.event_index, e.signature_index AS event_signature, e.start_ticks, e.elapsed_ticks,
    e.overlap_ticks, e.parent_index,
    coalesce(
        e.start_ticks + greatest(e.elapsed_ticks, 0) > lead(e.start_ticks) OVER (
            PARTITION BY e.capture_id, e.family, e.thread_index ORDER BY e.start_ticks, e.elapsed_ticks DESC
        ),
        false
    ) AS covers_own,
    CASE WHEN e.event_index = e.operator_index THEN e.ticks - coalesce(l.ticks, 0) END AS operator_ticks
FROM events AS e
LEFT JOIN inner_ticks AS l ON l.capture_id = e.capture_id AND l.operator_index = e.event_index;

-- The columns of `device_events` about events and calls that `event_ticks` and `trace_events` also have, computed from
-- these for captures in a range of keys.
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
