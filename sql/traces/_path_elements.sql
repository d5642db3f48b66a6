-- One part of the critical path of a trace with the op that it belongs to.
CREATE MACRO _path_elements(capture_key, step, step_name) AS TABLE
WITH parts AS MATERIALIZED (FROM _path_parts(capture_key, step, step_name)),
kinds AS MATERIALIZED (
    SELECT s.signature_index, s.label,
        CASE s.activity
            WHEN 'python_function' THEN 'python'
            WHEN 'module' THEN 'python'
            WHEN 'step' THEN 'annotation'
            WHEN 'copy' THEN 'memcpy'
            WHEN 'fill' THEN 'memset'
            ELSE s.activity
        END AS kind,
        s.purpose, s.waits
    FROM (SELECT capture_key AS capture_id) AS a
    JOIN signatures AS s USING (capture_id)
),
events_of_path AS MATERIALIZED (
    SELECT p.event_index, k.label, k.kind, k.purpose, k.waits,
        CASE WHEN k.kind = 'op' THEN p.event_index ELSE coalesce(t.op_index, d.op_index) END AS op_index
    FROM (SELECT DISTINCT p.event_index FROM parts AS p WHERE p.event_index IS NOT NULL) AS p
    JOIN (FROM trace_events AS i WHERE i.capture_id = capture_key) AS t USING (event_index)
    JOIN kinds AS k ON k.signature_index = t.event_signature
    LEFT JOIN (FROM device_events AS i WHERE i.capture_id = capture_key) AS d USING (event_index)
)
SELECT CASE p.kind WHEN 'device' THEN e.kind WHEN 'host' THEN coalesce(e.kind, 'host') ELSE p.kind END AS kind,
    p.start_ticks, p.end_ticks, p.event_index, e.label, p.thread_index, e.op_index,
    CASE WHEN p.kind = 'synchronization' OR p.kind = 'host' AND e.kind = 'call' THEN e.label END AS call,
    CASE WHEN p.kind = 'synchronization' OR p.kind = 'host' AND e.kind = 'call' THEN e.purpose END AS call_kind,
    CASE
        WHEN p.kind = 'synchronization' OR p.kind = 'host' AND e.kind = 'call' THEN _call_cause(e.purpose, e.waits)
    END AS cause,
    p.begin_ticks, p.until_ticks
FROM parts AS p
LEFT JOIN events_of_path AS e USING (event_index);
