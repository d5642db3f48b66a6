-- Whether a category is that of device events, or of events about devices: kernels,
-- copies and fills of any vendor, ops of MTIA and HPU, waits, annotations repeated
-- for a device, ranges of counters.
CREATE MACRO _is_device_event(
    category  -- category of the event; NULL for formats without categories
) AS (
    coalesce(category, '') IN (
        'kernel', 'gpu_memcpy', 'gpu_memset', 'gpu_user_annotation', 'cuda_sync',
        'cuda_event', 'cuda_profiler_range', 'xpu_scope_profiler', 'mtia_ccp_events',
        'mtia_workloadd', 'mtia_insight', 'mtia_counters', 'hpu_op',
        'Kernel', 'Memcpy', 'Memset'
    )
);

-- One device event of a trace with the call that launched it: the runtime or driver
-- call with the same correlation id, of the same process if the device's events
-- name a launching process, else of any process. If several calls have the id, the
-- last that starts before the device event is taken, or, if none does, the first. One
-- call, such as that of a CUDA graph, may launch many events. Waits and annotations
-- of a device are excluded.
-- Columns:
--   run_index: run of the device's event
--   event_index: the device's event
--   label: its label
--   kernel_family: as in `signatures`
--   uses_matrix_units: as in `_signature_kinds`
--   kind: Kernel, Memcpy, Memset
--   external_id: id that it shares with an op; NULL if there is none
--   correlation_id: id that it shares with its call; NULL if there is none
--   start_ticks: clock at the start
--   end_ticks: clock at the end
--   call_index: the call; NULL if the trace has none
--   call_parent_index: parent of the call; NULL if there is none
--   call_external_id: id that the call shares with its op; NULL if there is none
--   call_start_ticks: clock at the call's start
--   call_end_ticks: clock at its end
CREATE MACRO _launches(
    capture_key,  -- key of a capture
    categories  -- as in `step_breakdown`
) AS TABLE
WITH
-- Without the capture, as in `_trace_slices`; so are the processes.
classified AS MATERIALIZED (
    SELECT
        s.signature_index,
        s.label,
        s.kernel_family,
        CASE
            WHEN categories = 'all' THEN s.uses_matrix_units
            ELSE _is_plugin_tensor_kernel(s.label)
        END AS uses_matrix_units,
        _slice_kind(s.category, s.label, categories) AS kind
    FROM (SELECT capture_key AS capture_id) AS a
    JOIN signatures AS s ON s.capture_id = a.capture_id
    WHERE _slice_kind(s.category, s.label, categories)
        IN ('Kernel', 'Memcpy', 'Memset', 'Runtime')
),
processes AS MATERIALIZED (
    SELECT h.thread_index, h.process
    FROM threads AS h
    WHERE h.capture_id = capture_key
),
-- If a trace is known to have no device, the rest is not planned.
slices AS MATERIALIZED (
    SELECT
        s.label,
        s.kernel_family,
        s.uses_matrix_units,
        s.kind,
        h.process,
        t.run_index,
        t.event_index,
        t.external_id,
        t.correlation_id,
        e.parent_index,
        e.start_ticks,
        e.start_ticks + e.elapsed_ticks AS end_ticks
    FROM (
        SELECT DISTINCT d.capture_id
        FROM device_events AS d
        WHERE d.capture_id = capture_key
    ) AS a
    JOIN (
        SELECT i.* FROM event_ticks AS i WHERE i.capture_id = capture_key
    ) AS e
        ON e.capture_id = a.capture_id
    JOIN trace_events AS t
        ON t.capture_id = e.capture_id
        AND t.run_index = e.run_index
        AND t.event_index = e.event_index
    JOIN classified AS s ON s.signature_index = e.signature_index
    JOIN processes AS h ON h.thread_index = t.thread_index
    WHERE e.elapsed_ticks >= 0
),
launching AS (
    SELECT DISTINCT r.process
    FROM slices AS r
    WHERE r.kind = 'Runtime' AND r.correlation_id > 0
),
work AS (
    SELECT
        d.*,
        -- The process '' matches any process.
        coalesce(p.process, '') AS launched_by
    FROM slices AS d
    LEFT JOIN launching AS p ON p.process = d.process
    WHERE d.kind <> 'Runtime'
),
reached AS (
    SELECT r.process AS launched_by, r.correlation_id, r.start_ticks, r.event_index
    FROM slices AS r
    WHERE r.kind = 'Runtime'
        AND r.correlation_id > 0
        AND r.process IN (SELECT d.launched_by FROM work AS d)
    UNION ALL
    SELECT '', r.correlation_id, r.start_ticks, r.event_index
    FROM slices AS r
    WHERE r.kind = 'Runtime'
        AND r.correlation_id > 0
        AND '' IN (SELECT d.launched_by FROM work AS d)
),
-- Mostly, only one call has an id.
ids AS MATERIALIZED (
    SELECT
        r.launched_by,
        r.correlation_id,
        min(r.event_index) AS call_index,
        count(*) > 1 AS has_others
    FROM reached AS r
    GROUP BY r.launched_by, r.correlation_id
),
-- Not by an ASOF join, whose time grows with the number of rows that DuckDB expects:
-- many times too many among other traces.
moments AS (
    SELECT
        r.launched_by,
        r.correlation_id,
        r.start_ticks,
        0 AS place,
        min(r.event_index) AS call_index,
        NULL::INTEGER AS event_index
    FROM reached AS r
    JOIN ids AS i
        ON i.launched_by = r.launched_by AND i.correlation_id = r.correlation_id
    WHERE i.has_others
    GROUP BY r.launched_by, r.correlation_id, r.start_ticks
    UNION ALL
    SELECT d.launched_by, d.correlation_id, d.start_ticks, 1, NULL, d.event_index
    FROM work AS d
    JOIN ids AS i
        ON i.launched_by = d.launched_by AND i.correlation_id = d.correlation_id
    WHERE i.has_others
),
paired AS (
    SELECT d.event_index, i.call_index
    FROM work AS d
    JOIN ids AS i
        ON i.launched_by = d.launched_by AND i.correlation_id = d.correlation_id
    WHERE NOT i.has_others
    UNION ALL
    SELECT
        m.event_index,
        coalesce(
            last_value(m.call_index IGNORE NULLS) OVER so_far,
            first_value(m.call_index IGNORE NULLS) OVER of_the_id
        ) AS call_index
    FROM moments AS m
    WINDOW
        so_far AS (
            PARTITION BY m.launched_by, m.correlation_id ORDER BY m.start_ticks, m.place
        ),
        of_the_id AS (
            PARTITION BY m.launched_by, m.correlation_id ORDER BY m.start_ticks, m.place
            ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING
        )
)
SELECT
    d.run_index,
    d.event_index,
    d.label,
    d.kernel_family,
    d.uses_matrix_units,
    d.kind,
    d.external_id,
    d.correlation_id,
    d.start_ticks,
    d.end_ticks,
    c.call_index,
    r.parent_index AS call_parent_index,
    r.external_id AS call_external_id,
    r.start_ticks AS call_start_ticks,
    r.end_ticks AS call_end_ticks
FROM work AS d
LEFT JOIN paired AS c ON c.event_index = d.event_index
LEFT JOIN slices AS r ON r.event_index = c.call_index;
