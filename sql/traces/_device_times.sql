-- The device time of one event of a trace, attributed by `owner_index` of `device_events`, with the event's properties.
-- All host events, if the trace has device events, and all device events of `_launches`.
CREATE MACRO _launched_times(capture_key) AS TABLE
WITH owners AS MATERIALIZED (FROM _launches(capture_key)),
self_times AS (
    SELECT o.owner_index, sum(o.device_ticks) AS ticks
    FROM owners AS o
    WHERE o.owner_index IS NOT NULL
    GROUP BY o.owner_index
),
launched AS (
    SELECT o.launch_index AS event_index, sum(o.device_ticks) AS ticks FROM owners AS o GROUP BY o.launch_index
),
-- Nothing is read if the trace has no device events. Without the capture, as in `_trace_slices`.
classified AS MATERIALIZED (
    SELECT
        s.signature_index, s.label, s.family, s.activity AS slice, coalesce(s.purpose = 'profiler', false) AS is_helper
    FROM (SELECT capture_key AS capture_id WHERE EXISTS (FROM owners)) AS a
    JOIN signatures AS s ON s.capture_id = a.capture_id AND NOT s.on_device
),
-- Launches of previous events in the same thread: events that contain an event precede it, its children follow it.
ordered AS (
    SELECT t.*, coalesce(l.ticks, 0) AS ticks,
        sum(coalesce(l.ticks, 0)) OVER (
            PARTITION BY t.thread_index
            ORDER BY t.start_ticks, t.end_ticks DESC, t.event_index
        ) AS so_far
    FROM (
        SELECT e.run_index, e.event_index, s.signature_index, e.start_ticks,
            e.start_ticks + greatest(e.elapsed_ticks, 0) AS end_ticks, e.thread_index
        FROM (FROM trace_events AS i WHERE i.capture_id = capture_key) AS e
        JOIN classified AS s ON s.signature_index = e.event_signature
    ) AS t
    LEFT JOIN launched AS l USING (event_index)
),
running AS (
    SELECT o.thread_index, o.start_ticks, max(o.so_far) AS so_far
    FROM ordered AS o
    WHERE o.ticks > 0
    GROUP BY o.thread_index, o.start_ticks
)
SELECT o.run_index, o.event_index, s.slice, s.label, s.family, s.is_helper, false AS is_on_device, false AS is_owned,
    o.thread_index, o.start_ticks, coalesce(w.ticks, 0) AS self_ticks,
    CASE WHEN s.slice = 'call' THEN o.so_far ELSE o.so_far - o.ticks END AS before_ticks,
    CASE WHEN s.slice = 'call' THEN 0 ELSE o.ticks END + greatest(coalesce(u.so_far, 0) - o.so_far, 0) AS total_ticks
FROM ordered AS o
JOIN classified AS s USING (signature_index)
LEFT JOIN self_times AS w ON w.owner_index = o.event_index
ASOF LEFT JOIN running AS u ON u.thread_index = o.thread_index AND row(o.end_ticks) > row(u.start_ticks)
UNION ALL
SELECT d.run_index, d.event_index, d.kind, d.label, NULL, false, true, d.owner_index IS NOT NULL, NULL, d.launch_ticks,
    0, 0, d.device_ticks
FROM owners AS d;

-- The device time of one event of a trace, as `owner_index` of `device_events` attributes it: for an op or annotation,
-- the time of the device events that it launched itself; for any CPU event, the time of all device events launched
-- within it.
CREATE MACRO _device_times(capture_key) AS TABLE
SELECT d.run_index, d.event_index, d.self_ticks, d.before_ticks,
    CASE WHEN d.is_on_device THEN 0 ELSE d.total_ticks END AS total_ticks,
    CASE WHEN d.is_on_device THEN d.total_ticks ELSE 0 END AS unowned_ticks
FROM _launched_times(capture_key) AS d
WHERE NOT d.is_owned;

-- The innermost nn.Module that contains one event of a trace; for the call of a module, the module itself. Only for
-- traces that name modules, see `_module_signatures`.
CREATE MACRO _trace_event_modules(capture_key) AS TABLE
WITH modules AS MATERIALIZED (
    SELECT e.event_index, m.module
    FROM _module_signatures(capture_key) AS m
    JOIN (FROM trace_events AS i WHERE i.capture_id = capture_key) AS e ON e.event_signature = m.signature_index
)
SELECT t.run_index, t.event_index, m.module
FROM (FROM trace_events AS i WHERE i.capture_id = capture_key) AS t
LEFT JOIN modules AS o USING (event_index)
JOIN modules AS m ON m.event_index = coalesce(o.event_index, t.module_index);
