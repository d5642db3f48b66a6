-- One op with its calls, times and memory, as in `prof.key_averages()` of PyTorch's
-- profiler: equal to it for PyTorch traces, and with the same arithmetic for
-- ETDumps. Total times include children, so that totals of ops that call each other
-- overlap; self times don't, and add up. Device time is that of kernels, copies and
-- fills, and belongs to the op or annotation that launched them, see
-- `_device_owners`: self device times of rows that are not of a device add up to
-- the time of all device events. Values that a trace's file doesn't have are NULL,
-- such as FLOPs. Differences from torch: torch uses ids that it has in memory, and
-- loses an op's kernels if it merges a nested op of the same name; here they are
-- kept, waits of a device (Stream Sync) and annotations repeated for a device are
-- not device time of an op, and device events that no op launched have a row. By
-- shape, torch leaves out the shapes of lists of tensors, such as those of cat.
-- Columns:
--   name: the op; ProfilerStep* for all steps; (no op) for device events that neither an op nor an annotation launched; [memory] for allocations and releases outside of all events
--   shapes: sizes of its inputs, as a JSON list; NULL unless by is shape
--   stack: the innermost lines of Python that called it; NULL unless by is stack
--   module: innermost nn.Module that contains it; NULL unless by is module
--   is_device: whether a device ran it
--   calls: number of calls; 0 for (no op)
--   self_cpu_time: self time on the CPU, without children
--   self_cpu_percent: self_cpu_time in percent of the sum of all
--   cpu_time_total: total time on the CPU, with children
--   cpu_time_percent: cpu_time_total in percent of the sum of all self_cpu_time
--   cpu_time_avg: cpu_time_total per call
--   self_device_time: self time on devices: of its launches, or of itself on a device
--   device_time_total: total time on devices, with children
--   device_time_avg: device_time_total per call
--   self_cpu_memory: bytes allocated less bytes released, without children; NULL if memory was not recorded
--   cpu_memory: bytes allocated less bytes released, with children; NULL if memory was not recorded
--   self_device_memory: as self_cpu_memory, for devices
--   device_memory: as cpu_memory, for devices
--   flops: always NULL, as files don't have it
--   unit: unit of times: the requested one; values that are not times keep theirs
CREATE MACRO key_averages(
    capture,  -- name, hash prefix, @latest or selector
    "by" := 'name',  -- name, shape, stack or module: the column by which calls of one name are separated
    unit := NULL,  -- ns, us, ms, s, cycles; NULL: us (cycles where ticks are cycles)
    stack_depth := 5,  -- number of lines of stack that are compared, with by := 'stack'
    steps := NULL,  -- runs to use, as a schedule: skip_first=1,active=3, see `schedule`; NULL: all
    phase := NULL,  -- only runs of this phase: load, prefill, decode or other; NULL: all runs
    method := NULL,  -- only runs of this method, as in the column `method`; NULL: all runs
    runs := 'all',  -- typical (only typical runs, see `typical_runs`) or all
    include_python_functions := true  -- whether Python functions and modules have rows, as in PyTorch 2.13; torch leaves them out by default in 2.15 and before 2.10
) AS TABLE
WITH
options AS MATERIALIZED (
    SELECT
        a.capture_id,
        a.time_scale,
        a.unit,
        CASE
            WHEN "by" IN ('name', 'shape', 'stack', 'module') THEN "by"
            ELSE error(
                'by must be name, shape, stack or module, not '
                || coalesce("by", 'NULL')
            )
        END AS parted_by
    FROM _capture(capture, unit) AS a
),
calls AS MATERIALIZED (
    SELECT c.*
    FROM _calls(
        (SELECT w.capture_id FROM options AS w),
        steps, phase, method, runs
    ) AS c
),
device_times AS MATERIALIZED (
    SELECT v.* FROM _device_times((SELECT w.capture_id FROM options AS w)) AS v
),
memory AS (
    SELECT
        m.run_index,
        m.event_index,
        c.parent_run_index,
        c.parent_index,
        m.cpu_bytes,
        m.device_bytes
    FROM _memory_within((SELECT w.capture_id FROM options AS w)) AS m
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
-- The self time of each event, added at the call that it belongs to, and the total
-- time of each call; grouped by the column that separates calls of one name.
by_signature AS (
    SELECT
        c.call_signature,
        CASE WHEN w.parted_by = 'shape' THEN coalesce(o.shapes, '[]') END AS shapes,
        CASE WHEN w.parted_by = 'stack' THEN _called_from(t.call_stack, stack_depth) END
            AS stack,
        n.module,
        count(*) FILTER (WHERE c.is_call) AS calls,
        sum(c.self_ticks) AS self_ticks,
        sum(c.duration_ticks) FILTER (WHERE c.is_call) AS total_ticks,
        sum(v.self_ticks) AS self_device_ticks,
        sum(v.total_ticks) FILTER (WHERE c.is_call) AS device_ticks,
        sum(i.cpu_bytes) AS self_memory,
        sum(m.cpu_bytes) FILTER (WHERE c.is_call) AS memory,
        sum(i.device_bytes) AS self_device_memory,
        sum(m.device_bytes) FILTER (WHERE c.is_call) AS device_memory
    FROM calls AS c
    CROSS JOIN options AS w
    -- The planner knows that columns which are not used are empty, and doesn't read
    -- them.
    LEFT JOIN (FROM op_arguments AS a WHERE "by" = 'shape') AS o
        ON o.capture_id = w.capture_id
        AND o.run_index = c.call_run_index
        AND o.event_index = c.call_index
    LEFT JOIN (FROM trace_events AS e WHERE "by" = 'stack') AS t
        ON t.capture_id = w.capture_id
        AND t.run_index = c.call_run_index
        AND t.event_index = c.call_index
    LEFT JOIN (
        FROM _trace_event_modules((SELECT w.capture_id FROM options AS w)) AS e
        WHERE "by" = 'module'
    ) AS n
        ON n.run_index = c.call_run_index
        AND n.event_index = c.call_index
    LEFT JOIN device_times AS v
        ON v.run_index = c.run_index AND v.event_index = c.event_index
    LEFT JOIN memory AS m
        ON m.run_index = c.run_index AND m.event_index = c.event_index
    LEFT JOIN call_memory AS i
        ON i.run_index = c.run_index AND i.event_index = c.event_index
    WHERE c.call_index IS NOT NULL
    GROUP BY ALL
),
named AS (
    SELECT
        s.signature_index,
        s.family,
        _is_device_event(s.category) AS is_device,
        coalesce(s.category, '') IN ('user_annotation', 'gpu_user_annotation')
            AS is_annotation,
        _stored_unit(s.value_unit, w.time_scale) AS written
    FROM options AS w
    JOIN signatures AS s ON s.capture_id = w.capture_id
    WHERE include_python_functions OR coalesce(s.category, '') <> 'python_function'
),
summed AS (
    SELECT
        n.family AS name,
        d.shapes,
        d.stack,
        d.module,
        n.is_device,
        n.is_annotation,
        n.written,
        sum(d.calls)::BIGINT AS calls,
        sum(CASE WHEN n.is_device THEN 0 ELSE d.self_ticks END)::DOUBLE AS self_ticks,
        sum(CASE WHEN n.is_device THEN 0 ELSE d.total_ticks END)::DOUBLE AS total_ticks,
        sum(
            CASE WHEN n.is_device THEN d.total_ticks ELSE d.self_device_ticks END
        )::DOUBLE AS self_device_ticks,
        sum(
            CASE WHEN n.is_device THEN d.total_ticks ELSE d.device_ticks END
        )::DOUBLE AS device_ticks,
        try_cast(sum(CASE WHEN n.is_device THEN 0 ELSE d.self_memory END) AS BIGINT)
            AS self_memory,
        try_cast(
            sum(CASE WHEN n.is_device THEN 0 ELSE d.memory END) AS BIGINT
        ) AS memory,
        try_cast(
            sum(CASE WHEN n.is_device THEN 0 ELSE d.self_device_memory END) AS BIGINT
        )
            AS self_device_memory,
        try_cast(sum(CASE WHEN n.is_device THEN 0 ELSE d.device_memory END) AS BIGINT)
            AS device_memory
    FROM by_signature AS d
    JOIN named AS n ON n.signature_index = d.call_signature
    GROUP BY
        n.family, d.shapes, d.stack, d.module, n.is_device, n.is_annotation, n.written
),
-- Values that belong to no call: device time, and memory.
unowned AS (
    SELECT
        '(no op)' AS name,
        0 AS calls,
        sum(o.ticks)::DOUBLE AS device_ticks,
        NULL::BIGINT AS memory,
        NULL::BIGINT AS device_memory
    FROM (
        SELECT
            v.unowned_ticks
            + CASE WHEN c.call_index IS NULL THEN v.self_ticks ELSE 0 END AS ticks
        FROM device_times AS v
        JOIN calls AS c
            ON c.run_index = v.run_index AND c.event_index = v.event_index
    ) AS o
    WHERE o.ticks > 0
    HAVING count(*) > 0
    UNION ALL
    SELECT
        '[memory]', count(*), 0,
        try_cast(sum(m.cpu_bytes) AS BIGINT), try_cast(sum(m.device_bytes) AS BIGINT)
    FROM _memory_outside((SELECT w.capture_id FROM options AS w)) AS m
    LEFT JOIN runs AS r
        ON r.capture_id = m.capture_id AND r.name <> 'ProfilerStep'
    WHERE _is_recorded(0, r.phase, steps, phase)
    HAVING count(*) > 0
),
all_rows AS (
    SELECT s.* FROM summed AS s
    UNION ALL
    SELECT
        u.name,
        CASE WHEN w.parted_by = 'shape' THEN '[]' END,
        NULL,
        NULL,
        false,
        false,
        _stored_unit('ticks', w.time_scale),
        u.calls,
        0,
        0,
        u.device_ticks,
        u.device_ticks,
        u.memory,
        u.memory,
        u.device_memory,
        u.device_memory
    FROM unowned AS u
    CROSS JOIN options AS w
)
SELECT
    s.name,
    s.shapes,
    s.stack,
    s.module,
    s.is_device,
    s.calls,
    _in_unit(s.self_ticks, s.written, w.unit) AS self_cpu_time,
    100e0 * s.self_ticks / nullif(sum(s.self_ticks) OVER (PARTITION BY s.written), 0)
        AS self_cpu_percent,
    _in_unit(s.total_ticks, s.written, w.unit) AS cpu_time_total,
    100e0 * s.total_ticks / nullif(sum(s.self_ticks) OVER (PARTITION BY s.written), 0)
        AS cpu_time_percent,
    _in_unit(s.total_ticks, s.written, w.unit)
        / nullif(s.calls, 0) AS cpu_time_avg,
    _in_unit(s.self_device_ticks, s.written, w.unit) AS self_device_time,
    _in_unit(s.device_ticks, s.written, w.unit) AS device_time_total,
    _in_unit(s.device_ticks, s.written, w.unit)
        / nullif(s.calls, 0) AS device_time_avg,
    s.self_memory AS self_cpu_memory,
    s.memory AS cpu_memory,
    s.self_device_memory,
    s.device_memory,
    NULL::BIGINT AS flops,
    _display_unit(s.written, w.unit) AS unit
FROM all_rows AS s
CROSS JOIN options AS w
ORDER BY
    s.self_ticks DESC,
    s.device_ticks DESC NULLS LAST,
    s.name,
    s.shapes,
    s.stack,
    s.module,
    s.is_device,
    s.is_annotation;
