-- Rows of `key_averages`, unordered, with the columns that order them. Callers that order by other columns use these,
-- so that unused columns are not computed.
CREATE MACRO _key_averages(
    capture, "by", unit, stack_depth, steps, phase, method, runs, include_python_functions
) AS TABLE
WITH options AS MATERIALIZED (
    SELECT a.capture_id, a.time_scale, a.unit, _checked_by("by", ['name', 'shape', 'stack', 'module']) AS parted_by,
        _step_count(a.capture_id, steps, phase) AS step_count
    FROM _capture_with_method(capture, unit, method) AS a
),
placed AS MATERIALIZED (
    SELECT c.*, coalesce(r.is_step, false) AS is_in_step,
        CASE WHEN "by" = 'shape' THEN coalesce(g.shapes, '[]') END AS shapes,
        CASE WHEN "by" = 'stack' THEN _called_from(t.call_stack, stack_depth) END AS stack, n.module
    FROM _call_times((SELECT o.capture_id FROM options AS o), steps, phase, method, runs) AS c
    -- The planner knows that columns which are not used are empty, and doesn't read them.
    LEFT JOIN (
        SELECT i.event_index, i.shapes FROM options AS o JOIN op_arguments AS i USING (capture_id) WHERE "by" = 'shape'
    ) AS g ON g.event_index = c.call_index
    LEFT JOIN (
        SELECT i.event_index, i.call_stack FROM options AS o JOIN trace_events AS i USING (capture_id)
        WHERE "by" = 'stack'
    ) AS t ON t.event_index = c.call_index
    LEFT JOIN (
        FROM _trace_event_modules((SELECT o.capture_id FROM options AS o)) AS e WHERE "by" = 'module'
    ) AS n ON n.event_index = c.call_index
    LEFT JOIN (
        SELECT r.run_index, _is_step_run(r.name) AS is_step
        FROM options AS o
        JOIN runs AS r USING (capture_id)
        WHERE o.step_count IS NOT NULL
    ) AS r ON r.run_index = c.run_index
),
-- Rows with calls that an earlier call of the same row and thread covers. ETDumps have none, as their events have no
-- thread.
nested AS MATERIALIZED (SELECT DISTINCT p.row_index FROM placed AS p WHERE p.covers_own),
-- Events, each with the part of its time in which an earlier call of the same row and thread ran, too.
events_of_rows AS (
    SELECT p.*,
        CASE
            WHEN p.is_call THEN _part_before(p.start_ticks, p.end_ticks, max(p.end_ticks) OVER earlier_calls) ELSE 0
        END AS repeated_ticks,
        CASE
            WHEN p.is_call THEN _part_before(p.before_ticks, p.after_ticks, max(p.after_ticks) OVER earlier_calls)
            ELSE 0
        END AS repeated_device_ticks
    FROM placed AS p
    JOIN nested AS n ON n.row_index = p.row_index
    WINDOW earlier_calls AS (
        PARTITION BY p.row_index, p.thread_index, p.is_call, p.shapes, p.stack, p.module
        ORDER BY p.start_ticks, p.end_ticks DESC
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    )
    UNION ALL
    SELECT p.*, 0, 0 FROM placed AS p LEFT JOIN nested AS n ON n.row_index = p.row_index WHERE n.row_index IS NULL
),
-- The sums of each row: self times of all its events, and total times of its calls. They are NULL if all times are
-- impossible.
sums AS MATERIALIZED (
    SELECT e.row_index, e.shapes, e.stack, e.module, count(*) FILTER (WHERE e.is_call) AS calls,
        count(*) FILTER (WHERE e.is_call AND e.has_time) AS timed_calls,
        sum(e.self_ticks) FILTER (WHERE e.has_time) AS self_ticks,
        sum(e.torch_self_ticks) FILTER (WHERE e.has_time) AS torch_self_ticks,
        sum(e.duration_ticks - e.repeated_ticks) FILTER (WHERE e.is_call AND e.has_time) AS total_ticks,
        sum(e.duration_ticks) FILTER (WHERE e.is_call AND e.has_time) AS torch_ticks,
        sum(e.self_device_ticks) AS self_device_ticks,
        sum(e.device_ticks - e.repeated_device_ticks) FILTER (WHERE e.is_call) AS device_ticks,
        sum(e.device_ticks) FILTER (WHERE e.is_call) AS torch_device_ticks,
        count(*) FILTER (WHERE e.is_call AND e.has_work) AS worked_calls,
        sum(e.device_ticks) FILTER (WHERE e.is_call AND e.has_work) AS worked_ticks, sum(e.self_memory) AS self_memory,
        sum(e.memory) FILTER (WHERE e.is_call) AS memory, sum(e.self_device_memory) AS self_device_memory,
        sum(e.device_memory) FILTER (WHERE e.is_call) AS device_memory,
        sum(e.self_ticks) FILTER (WHERE e.is_in_step) AS self_in_steps,
        sum(e.duration_ticks - e.repeated_ticks) FILTER (WHERE e.is_call AND e.is_in_step) AS total_in_steps,
        sum(e.self_device_ticks) FILTER (WHERE e.is_in_step) AS self_device_in_steps,
        sum(e.device_ticks - e.repeated_device_ticks) FILTER (WHERE e.is_call AND e.is_in_step) AS device_in_steps,
        sum(e.duration_ticks) FILTER (WHERE e.is_call AND e.is_in_step) AS torch_in_steps,
        sum(e.unowned_ticks) FILTER (WHERE e.is_in_step) AS unowned_in_steps, sum(e.unowned_ticks) AS unowned_ticks
    FROM events_of_rows AS e
    GROUP BY e.row_index, e.shapes, e.stack, e.module
),
-- The description of each row's events, from the signature that numbers the row.
described AS (
    SELECT s.signature_index, s.family, coalesce(s.on_device, false) AS is_device,
        _is_annotation(s.activity) AS is_annotation,
        include_python_functions OR NOT _is_python_function(s.activity) AS is_listed,
        _stored_unit(s.value_unit, o.time_scale) AS written,
        _scale(_stored_unit(s.value_unit, o.time_scale), o.unit) AS scale
    FROM options AS o
    JOIN signatures AS s USING (capture_id)
    -- Never NULL; without it, the planner would leave out the check of `by`.
    WHERE o.parted_by IS NOT NULL
),
-- Events of a device are calls without children, on several streams at once.
rows_of_calls AS (
    SELECT n.family AS name, d.shapes, d.stack, d.module, n.is_device, n.is_annotation, n.is_listed, n.written, n.scale,
        d.calls::BIGINT AS calls, CASE WHEN n.is_device THEN 0 ELSE d.self_ticks END::DOUBLE AS self_ticks,
        CASE WHEN n.is_device THEN 0 ELSE d.total_ticks END::DOUBLE AS total_ticks,
        CASE
            WHEN n.is_device THEN d.torch_ticks
            WHEN d.calls = 0 OR d.worked_calls > 0 OR d.device_ticks > 0 THEN d.self_device_ticks
        END::DOUBLE AS self_device_ticks,
        CASE
            WHEN n.is_device THEN d.torch_ticks
            WHEN d.calls = 0 OR d.worked_calls > 0 OR d.device_ticks > 0 THEN d.device_ticks
        END::DOUBLE AS device_ticks,
        try_cast(CASE WHEN n.is_device THEN 0 ELSE d.self_memory END AS BIGINT) AS self_memory,
        try_cast(CASE WHEN n.is_device THEN 0 ELSE d.memory END AS BIGINT) AS memory,
        try_cast(CASE WHEN n.is_device THEN 0 ELSE d.self_device_memory END AS BIGINT) AS self_device_memory,
        try_cast(CASE WHEN n.is_device THEN 0 ELSE d.device_memory END AS BIGINT) AS device_memory,
        CASE WHEN n.is_device THEN 0 ELSE d.torch_self_ticks END::DOUBLE AS torch_self_ticks,
        CASE WHEN n.is_device THEN 0 ELSE d.torch_ticks END::DOUBLE AS torch_ticks,
        CASE WHEN n.is_device THEN d.torch_ticks ELSE d.torch_device_ticks END::DOUBLE AS torch_device_ticks,
        CASE
            WHEN n.is_device THEN 0 WHEN d.self_ticks IS NOT NULL THEN coalesce(d.self_in_steps, 0)
        END::DOUBLE AS self_in_steps,
        CASE
            WHEN n.is_device THEN 0 WHEN d.self_ticks IS NOT NULL THEN coalesce(d.total_in_steps, 0)
        END::DOUBLE AS total_in_steps,
        coalesce(
            CASE WHEN n.is_device THEN d.torch_in_steps ELSE d.self_device_in_steps END, 0
        )::DOUBLE AS self_device_in_steps,
        coalesce(CASE WHEN n.is_device THEN d.torch_in_steps ELSE d.device_in_steps END, 0)::DOUBLE AS device_in_steps,
        d.timed_calls, d.worked_calls,
        CASE WHEN n.is_device THEN d.torch_ticks ELSE d.worked_ticks END::DOUBLE AS worked_ticks
    FROM sums AS d
    JOIN described AS n ON n.signature_index = d.row_index
),
-- Values that belong to no call: device time, and memory.
values_of_no_call AS (
    SELECT '(no op)' AS name, 0::BIGINT AS calls, sum(d.unowned_ticks)::DOUBLE AS device_ticks,
        coalesce(sum(d.unowned_in_steps), 0)::DOUBLE AS device_in_steps, NULL::BIGINT AS memory,
        NULL::BIGINT AS device_memory
    FROM sums AS d
    HAVING sum(d.unowned_ticks) > 0
    UNION ALL BY NAME
    SELECT '[memory]' AS name, count(*) AS calls, 0 AS device_ticks, 0 AS device_in_steps,
        try_cast(coalesce(sum(m.bytes) FILTER (m.counts_as = 'cpu'), 0) AS BIGINT) AS memory,
        try_cast(coalesce(sum(m.bytes) FILTER (m.counts_as = 'device'), 0) AS BIGINT) AS device_memory
    FROM options AS o
    JOIN trace_memory AS m USING (capture_id)
    LEFT JOIN runs AS r ON r.capture_id = m.capture_id AND NOT _is_step_run(r.name)
    WHERE m.is_outside AND _is_recorded(0, r.phase, steps, phase)
    HAVING count(*) > 0
),
all_rows AS (
    FROM rows_of_calls
    UNION ALL BY NAME
    SELECT u.name, CASE WHEN o.parted_by = 'shape' THEN '[]' END AS shapes, false AS is_device, false AS is_annotation,
        true AS is_listed, o.time_scale AS written, _scale(o.time_scale, o.unit) AS scale, u.calls, 0 AS self_ticks,
        0 AS total_ticks, u.device_ticks AS self_device_ticks, u.device_ticks, u.memory AS self_memory, u.memory,
        u.device_memory AS self_device_memory, u.device_memory, 0 AS torch_self_ticks, 0 AS torch_ticks,
        u.device_ticks AS torch_device_ticks, 0 AS self_in_steps, 0 AS total_in_steps,
        u.device_in_steps AS self_device_in_steps, u.device_in_steps, u.calls AS timed_calls, u.calls AS worked_calls,
        u.device_ticks AS worked_ticks
    FROM values_of_no_call AS u CROSS JOIN options AS o
),
-- Python functions without a row count in the whole, too.
with_percent AS (
    SELECT a.*, nullif(sum(a.self_ticks) OVER (PARTITION BY a.written), 0) / 100e0 AS percent_ticks,
        nullif(sum(a.self_in_steps) OVER (PARTITION BY a.written), 0) / 100e0 AS step_percent_ticks
    FROM all_rows AS a
)
SELECT p.name, p.shapes, p.stack, p.module, p.is_device, p.calls, _in_unit(p.self_ticks, p.scale) AS self_cpu_time,
    p.self_ticks / p.percent_ticks AS self_cpu_percent, _in_unit(p.total_ticks, p.scale) AS cpu_time_total,
    p.total_ticks / p.percent_ticks AS cpu_time_percent,
    _in_unit(p.torch_ticks, p.scale) / nullif(p.timed_calls, 0) AS cpu_time_avg,
    _in_unit(p.self_device_ticks, p.scale) AS self_device_time, _in_unit(p.device_ticks, p.scale) AS device_time_total,
    _in_unit(p.worked_ticks, p.scale) / nullif(p.worked_calls, 0) AS device_time_avg, p.self_memory AS self_cpu_memory,
    p.memory AS cpu_memory, p.self_device_memory, p.device_memory, NULL::BIGINT AS flops,
    _in_unit(p.torch_self_ticks, p.scale) AS torch_self_cpu_time,
    _in_unit(p.torch_ticks, p.scale) AS torch_cpu_time_total,
    _in_unit(p.torch_device_ticks, p.scale) AS torch_device_time_total, _display_unit(p.written, o.unit) AS unit,
    o.step_count AS steps, _in_unit(p.self_in_steps / o.step_count, p.scale) AS self_cpu_per_step,
    p.self_in_steps / p.step_percent_ticks AS self_cpu_step_percent,
    _in_unit(p.total_in_steps / o.step_count, p.scale) AS cpu_per_step,
    p.total_in_steps / p.step_percent_ticks AS cpu_step_percent,
    CASE
        WHEN p.self_device_ticks IS NOT NULL THEN _in_unit(p.self_device_in_steps / o.step_count, p.scale)
    END AS self_device_per_step,
    CASE
        WHEN p.device_ticks IS NOT NULL THEN _in_unit(p.device_in_steps / o.step_count, p.scale)
    END AS device_per_step,
    CASE WHEN o.step_count IS NOT NULL THEN _in_unit(p.self_ticks - p.self_in_steps, p.scale) END AS cpu_outside_steps,
    CASE
        WHEN o.step_count IS NOT NULL THEN _in_unit(p.self_device_ticks - p.self_device_in_steps, p.scale)
    END AS device_outside_steps,
    p.self_ticks, p.device_ticks, p.is_annotation
FROM with_percent AS p CROSS JOIN options AS o
WHERE p.is_listed;

-- One op with its calls, times and memory, as in `prof.key_averages()` of PyTorch's profiler, and with the same
-- arithmetic for ETDumps. Total times include children, so that totals of ops that call each other overlap; self times
-- don't, and add up. A moment counts once for an op, on each thread: calls that an op makes of itself, or that overlap
-- each other, add nothing to the time of the others, and no self time is below 0. torch counts such calls several
-- times: columns that begin with torch_ are equal to its own. Device time is that of kernels, copies and fills, and
-- belongs to the op or annotation that launched them, see `device_events`: self device times of rows that are not of a
-- device add up to the time of all device events. Values that a trace's file doesn't have, such as FLOPs, are NULL.
-- It differs from torch as follows. torch uses ids that it has in memory, and loses an op's kernels if it merges a
-- nested op of the same name; here they are kept. Waits of a device (Stream Sync) and annotations repeated for a device
-- don't count as device time of an op. Device events that no op launched have a row. By shape, torch leaves out the
-- shapes of lists of tensors, such as those of cat.
-- Shown: name!, shapes, stack, module, self_device_per_step!~, self_device_time!+~, device_per_step!~,
--   device_time_total!+~, self_cpu_step_percent%, self_cpu_percent+%, self_cpu_per_step!~, self_cpu_time!+~,
--   cpu_step_percent%, cpu_time_percent+%, cpu_per_step~, cpu_time_total+~, calls!#, cpu_time_avg~, device_time_avg~,
--   CASE WHEN NOT is_device THEN cpu_memory END AS cpu_memory (bytes), CASE WHEN NOT is_device THEN self_cpu_memory END
--   AS self_cpu_memory (bytes), nullif(cpu_outside_steps, 0) AS cpu_outside_steps~, nullif(device_outside_steps, 0) AS
--   device_outside_steps~, torch_self_cpu_time-, torch_cpu_time_total-, torch_device_time_total-, steps+#, unit
-- Columns:
--   name: the op; ProfilerStep* for all steps; (no op) for device events that neither an op nor an annotation launched; [memory] for allocations and releases outside of all events
--   shapes: sizes of its inputs, as a JSON list; NULL unless by is shape
--   stack: the innermost lines of Python that called it; NULL unless by is stack
--   module: innermost nn.Module that contains it; NULL unless by is module
--   is_device: whether a device ran it
--   calls: number of calls; 0 for (no op)
--   self_cpu_time: self time on the CPU, without children; NULL, like the other times of the row, if all are impossible
--   self_cpu_percent: self_cpu_time in percent of the sum of all
--   cpu_time_total: total time on the CPU, with children
--   cpu_time_percent: cpu_time_total in percent of the sum of all self_cpu_time
--   cpu_time_avg: mean duration of its calls: torch_cpu_time_total per call with a time; NULL if none has
--   self_device_time: self time on devices: of its launches, or of itself on a device; NULL if the events of all its launches are missing, or unknown
--   device_time_total: total time on devices, with children; NULL where self_device_time is NULL
--   device_time_avg: mean of its calls: torch_device_time_total per call, of those whose launches all have events of a device; NULL if none has
--   self_cpu_memory: bytes allocated minus bytes released, without children; NULL if memory was not recorded
--   cpu_memory: bytes allocated minus bytes released, with children: the sum over all calls, as in torch, also where an op calls itself; NULL if memory was not recorded
--   self_device_memory: as self_cpu_memory, for devices
--   device_memory: as cpu_memory, for devices
--   flops: always NULL, as files don't have it
--   torch_self_cpu_time: self_cpu_time by torch's formula: durations minus the sum of the children's durations, below 0 where the children overlap
--   torch_cpu_time_total: cpu_time_total by torch's formula: the sum over all calls
--   torch_device_time_total: device_time_total by torch's formula: the sum over all calls
--   unit: unit of times: the requested one; values that are not times keep theirs
--   steps: number of the trace's steps; NULL without steps
--   self_cpu_per_step: self_cpu_time of events that begin in steps, per step; the sum over all threads
--   self_cpu_step_percent: self_cpu_per_step in percent of the sum of all; NULL without steps
--   cpu_per_step: cpu_time_total of events that begin in steps, per step
--   cpu_step_percent: cpu_per_step in percent of the sum of all self_cpu_per_step; NULL without steps
--   self_device_per_step: self_device_time of what steps launched, per step; the sum over all streams
--   device_per_step: device_time_total of what steps launched, per step
--   cpu_outside_steps: rest of self_cpu_time, of events that don't begin in steps; NULL without steps
--   device_outside_steps: rest of self_device_time, which no step launched, or whose launch the trace lacks; NULL without steps
CREATE MACRO key_averages(
    capture,
    "by" := 'name',  -- name, shape, stack or module: the column by which calls of one name are separated
    unit := NULL,
    stack_depth := 5,  -- number of lines of stack that are compared, with by := 'stack'
    steps := NULL, phase := NULL, method := NULL, runs := 'all',
    include_python_functions := true  -- whether Python functions and modules have rows, as in PyTorch 2.13; torch leaves them out by default in 2.15
) AS TABLE
SELECT k.name, k.shapes, k.stack, k.module, k.is_device, k.calls, k.self_cpu_time, k.self_cpu_percent, k.cpu_time_total,
    k.cpu_time_percent, k.cpu_time_avg, k.self_device_time, k.device_time_total, k.device_time_avg, k.self_cpu_memory,
    k.cpu_memory, k.self_device_memory, k.device_memory, k.flops, k.torch_self_cpu_time, k.torch_cpu_time_total,
    k.torch_device_time_total, k.unit, k.steps, k.self_cpu_per_step, k.self_cpu_step_percent, k.cpu_per_step,
    k.cpu_step_percent, k.self_device_per_step, k.device_per_step, k.cpu_outside_steps, k.device_outside_steps
FROM _key_averages(capture, "by", unit, stack_depth, steps, phase, method, runs, include_python_functions) AS k
ORDER BY coalesce(k.self_device_per_step, k.self_device_time) DESC NULLS LAST, k.self_ticks DESC,
    k.device_ticks DESC NULLS LAST, k.name, k.shapes, k.stack, k.module, k.is_device, k.is_annotation;
