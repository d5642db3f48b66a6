-- The time on the critical path of a trace by what it is of and what it is spent on. `cause` is device, wait (for a
-- device, a launch or another event), unknown, or for the host as in `idle_parts`. `name` is the op, or else the event,
-- and `name_kind` what that is: op, step, annotation, module, function, call, kernel, copy or fill.
CREATE MACRO _path_causes(capture_key) AS TABLE
WITH path AS MATERIALIZED (
    SELECT p.*, p.kind IN ('op', 'call', 'annotation', 'python', 'other', 'host', 'handover') AS is_host
    FROM _path_elements(capture_key, NULL, NULL) AS p
),
-- Between threads that hand over, the time of the next.
periods AS MATERIALIZED (
    SELECT NULL::INTEGER AS device, coalesce(p.thread_index, t.thread_index) AS thread_index, p.start_ticks, p.end_ticks
    FROM path AS p
    LEFT JOIN (FROM trace_events AS i WHERE i.capture_id = capture_key) AS t USING (event_index)
    WHERE p.is_host
),
names AS MATERIALIZED (
    SELECT s.signature_index, s.family, s.kernel_family,
        CASE
            WHEN h.pattern IN (SELECT t.pattern FROM _tool_steps(capture_key) AS t) THEN 'step'
            ELSE coalesce(h.kind, s.activity)
        END AS kind
    FROM (SELECT capture_key AS capture_id) AS a
    JOIN signatures AS s USING (capture_id)
    LEFT JOIN _host_names(capture_key) AS h USING (signature_index)
),
named AS MATERIALIZED (
    SELECT p.*, n.family AS name, n.kind AS name_kind, k.kernel_family
    FROM path AS p
    LEFT JOIN (FROM event_ticks AS i WHERE i.capture_id = capture_key) AS e
        ON e.event_index = coalesce(p.op_index, p.event_index)
    LEFT JOIN names AS n ON n.signature_index = e.signature_index
    LEFT JOIN (FROM event_ticks AS i WHERE i.capture_id = capture_key) AS d
        ON d.event_index = p.event_index
    LEFT JOIN names AS k ON k.signature_index = d.signature_index
),
parts AS (
    SELECT CASE WHEN n.kind = 'handover' THEN h.label ELSE n.name END AS name,
        CASE WHEN n.kind = 'handover' THEN h.kind ELSE n.name_kind END AS name_kind,
        coalesce(n.label, n.call) AS label, n.kernel_family, h.cause, h.ticks, h.at_ticks AS start_ticks
    FROM _host_parts(capture_key, 'periods') AS h
    JOIN named AS n ON n.is_host AND n.start_ticks = h.start_ticks
    UNION ALL
    SELECT n.name, n.name_kind, coalesce(n.label, n.call) AS label, n.kernel_family,
        CASE
            WHEN n.kind IN ('kernel', 'memcpy', 'memset') THEN 'device'
            WHEN n.kind = 'synchronization' AND n.cause <> 'synchronization' THEN n.cause
            WHEN n.kind IN ('unknown', 'unknown_wait') THEN 'unknown'
            ELSE 'wait'
        END,
        n.end_ticks - n.start_ticks, n.start_ticks
    FROM named AS n
    WHERE NOT n.is_host
)
SELECT p.name, p.name_kind, p.cause, p.label, p.kernel_family, sum(p.ticks)::BIGINT AS ticks, count(*) AS parts,
    max(p.ticks) AS longest,
    arg_max(p.start_ticks, (p.ticks, -p.start_ticks)) AS at_ticks
FROM parts AS p
GROUP BY p.name, p.name_kind, p.cause, p.label, p.kernel_family;
