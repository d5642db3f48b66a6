-- The stretches of a critical path on the host as periods of the host. Their numbers are below 0, to differ from
-- those of gaps. Between threads that hand over, the time belongs to the next thread.
CREATE MACRO _path_periods(
    capture_key,
    path  -- a table of the rows of `_path_spans`
) AS TABLE
SELECT -row_number() OVER (ORDER BY p.start_ticks, p.end_ticks, p.event_index) AS period,
    coalesce(p.thread_index, t.thread_index) AS thread_index, p.start_ticks, p.end_ticks
FROM query_table(path) AS p
LEFT JOIN (FROM trace_events AS i WHERE i.capture_id = capture_key) AS t USING (event_index)
WHERE p.kind IN ('host', 'handover');

-- One part of the critical path of a trace with its name and cause. `cause` is device, wait (for a device, a launch or
-- another event), unknown, or, for the host, a cause as in `idle_parts`. `name` is the op, or else the event, and
-- `name_kind` its kind: op, step, annotation, module, function, call, kernel, copy or fill.
CREATE MACRO _path_causes(
    capture_key,
    host_names,  -- a table of the rows of `_host_names`
    path,  -- a table of the rows of `_path_spans`
    parts,  -- a table of the parts of these periods: period, at_ticks, ticks, owner, name, did, cause; it may have others
    tool_steps  -- a table of the trace's rows of `tool_steps`
) AS TABLE
WITH stretches AS MATERIALIZED (
    SELECT p.*, p.kind IN ('host', 'handover') AS is_host,
        -row_number() OVER (
            PARTITION BY p.kind IN ('host', 'handover')
            ORDER BY p.start_ticks, p.end_ticks, p.event_index
        ) AS period
    FROM query_table(path) AS p
),
names AS MATERIALIZED (
    SELECT s.signature_index, s.label, s.family, s.kernel_family, s.activity, s.call_cause,
        CASE
            WHEN h.pattern IN (SELECT t.pattern FROM query_table(tool_steps) AS t) THEN 'step'
            ELSE coalesce(h.kind, s.activity)
        END AS kind
    FROM (SELECT capture_key AS capture_id) AS a
    JOIN signatures AS s USING (capture_id)
    LEFT JOIN query_table(host_names) AS h USING (signature_index)
),
all_parts AS (
    SELECT CASE WHEN p.kind <> 'handover' THEN h.owner END AS owner_name, NULL AS event_name, NULL AS stretch, h.cause,
        _state_label(n.family, n.kind, h.did) AS host_label, CASE WHEN p.kind = 'handover' THEN n.kind END AS host_kind,
        h.at_ticks AS start_ticks, h.ticks
    FROM query_table(parts) AS h
    JOIN stretches AS p ON p.is_host AND p.period = h.period
    LEFT JOIN query_table(host_names) AS n ON n.signature_index = h.name
    UNION ALL
    SELECT o.event_signature, e.event_signature, CASE WHEN c.event_index IS NULL THEN p.kind ELSE 'launch' END, NULL,
        NULL, NULL, p.start_ticks, p.end_ticks - p.start_ticks
    FROM stretches AS p
    LEFT JOIN (FROM trace_events AS i WHERE i.capture_id = capture_key) AS t USING (event_index)
    LEFT JOIN (FROM device_events AS i WHERE i.capture_id = capture_key) AS d USING (event_index)
    -- A launch that takes long to return, as in `_idle_parts`.
    LEFT JOIN (FROM event_ticks AS i WHERE i.capture_id = capture_key) AS c
        ON c.event_index = d.call_index
        AND p.kind = 'launch_delay'
        AND _is_long_call(c.elapsed_ticks)
        AND 2 * c.elapsed_ticks >= p.end_ticks - p.start_ticks
    LEFT JOIN (FROM trace_events AS i WHERE i.capture_id = capture_key) AS o
        ON o.event_index = coalesce(t.op_index, d.op_index, p.event_index)
    LEFT JOIN (FROM trace_events AS i WHERE i.capture_id = capture_key) AS e
        ON e.event_index = coalesce(c.event_index, p.event_index)
    WHERE NOT p.is_host
)
SELECT CASE WHEN s.host_kind IS NULL THEN o.family ELSE s.host_label END AS name,
    coalesce(s.host_kind, o.kind) AS name_kind,
    CASE
        WHEN s.stretch IS NULL THEN s.cause
        WHEN s.stretch = 'device' AND e.activity IN ('kernel', 'copy', 'fill') THEN 'device'
        WHEN s.stretch = 'synchronization' AND e.call_cause <> 'synchronization' THEN e.call_cause
        WHEN s.stretch IN ('unknown', 'unknown_wait') THEN 'unknown'
        WHEN s.stretch = 'launch' THEN 'launch'
        ELSE 'wait'
    END AS cause,
    coalesce(e.label, s.host_label) AS label, e.kernel_family, s.start_ticks, s.ticks
FROM all_parts AS s
LEFT JOIN names AS o ON o.signature_index = s.owner_name
LEFT JOIN names AS e ON e.signature_index = s.event_name;
