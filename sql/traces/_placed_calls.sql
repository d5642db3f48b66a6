-- One event of the recorded runs with the row of `key_averages` that it belongs to,
-- and what it adds to it.
CREATE MACRO _placed_calls(
    capture_key, parted_by, stack_depth, steps, phase, method, runs
) AS TABLE
WITH
calls AS MATERIALIZED (
    SELECT c.*
    FROM _calls(capture_key, steps, phase, method, runs) AS c
),
device_times AS MATERIALIZED (
    SELECT v.* FROM _device_times(capture_key) AS v
),
memory AS (
    SELECT
        m.run_index,
        m.event_index,
        c.parent_run_index,
        c.parent_index,
        m.cpu_bytes,
        m.device_bytes
    FROM _memory_within(capture_key) AS m
    JOIN calls AS c
        ON c.run_index = m.run_index AND c.event_index = m.event_index
),
call_memory AS (
    SELECT
        m.run_index,
        m.event_index,
        m.cpu_bytes - coalesce(sum(i.cpu_bytes), 0) AS cpu_bytes,
        m.device_bytes - coalesce(sum(i.device_bytes), 0) AS device_bytes
    FROM memory AS m
    LEFT JOIN memory AS i
        ON i.parent_run_index = m.run_index AND i.parent_index = m.event_index
    GROUP BY m.run_index, m.event_index, m.cpu_bytes, m.device_bytes
),
named AS MATERIALIZED (
    SELECT
        s.signature_index,
        min(s.signature_index) OVER (
            PARTITION BY
                s.family,
                s.value_unit,
                coalesce(s.on_device, false),
                coalesce(s.category, '') IN ('user_annotation', 'gpu_user_annotation'),
                coalesce(s.category, '') = 'python_function'
        ) AS row_index
    FROM (SELECT capture_key AS capture_id) AS a
    JOIN signatures AS s ON s.capture_id = a.capture_id
)
SELECT
    g.row_index,
    CASE WHEN parted_by = 'shape' THEN coalesce(o.shapes, '[]') END AS shapes,
    CASE WHEN parted_by = 'stack' THEN _called_from(t.call_stack, stack_depth) END
        AS stack,
    n.module,
    t.thread_index,
    c.is_call,
    c.start_ticks,
    c.start_ticks + c.duration_ticks AS end_ticks,
    c.duration_ticks,
    c.self_ticks,
    c.torch_self_ticks,
    v.self_ticks AS self_device_ticks,
    v.total_ticks AS device_ticks,
    v.before_ticks,
    v.before_ticks + v.total_ticks AS after_ticks,
    v.unowned_ticks
        + CASE WHEN c.call_index IS NULL THEN v.self_ticks ELSE 0 END AS unowned_ticks,
    i.cpu_bytes AS self_memory,
    m.cpu_bytes AS memory,
    i.device_bytes AS self_device_memory,
    m.device_bytes AS device_memory
FROM calls AS c
CROSS JOIN (SELECT capture_key AS capture_id) AS a
LEFT JOIN named AS g ON g.signature_index = c.call_signature
-- The planner knows that columns which are not used are empty, and doesn't read
-- them.
LEFT JOIN (FROM op_arguments AS i WHERE parted_by = 'shape') AS o
    ON o.capture_id = a.capture_id
    AND o.run_index = c.call_run_index
    AND o.event_index = c.call_index
LEFT JOIN (
    SELECT
        e.capture_id,
        e.run_index,
        e.event_index,
        e.thread_index,
        CASE WHEN parted_by = 'stack' THEN e.call_stack END AS call_stack
    FROM trace_events AS e
) AS t
    ON t.capture_id = a.capture_id
    AND t.run_index = c.call_run_index
    AND t.event_index = c.call_index
LEFT JOIN (
    FROM _trace_event_modules(capture_key) AS e
    WHERE parted_by = 'module'
) AS n
    ON n.run_index = c.call_run_index
    AND n.event_index = c.call_index
LEFT JOIN device_times AS v
    ON v.run_index = c.run_index AND v.event_index = c.event_index
LEFT JOIN memory AS m
    ON m.run_index = c.run_index AND m.event_index = c.event_index
LEFT JOIN call_memory AS i
    ON i.run_index = c.run_index AND i.event_index = c.event_index;
