-- Where time, memory and calls go, op by op, as `prof.key_averages()` of
-- PyTorch's profiler tells it: of its traces equal to it, of ETDumps the same
-- arithmetic. An op's total is with what is within it, so that totals of ops
-- that call each other overlap; its own time (self) isn't, and adds up. Device
-- time is that of the kernels that an op, or one within it, launched. What a
-- trace's file doesn't hold is NULL: FLOPs never are in it.
-- Columns:
--   name: the op; ProfilerStep* for all steps
--   shapes: sizes of its inputs, as a JSON list; NULL unless by is shape
--   stack: the innermost lines of Python that called it; NULL unless by is stack
--   module: the innermost nn.Module that it stands in; NULL unless by is module
--   is_device: whether a device ran it
--   calls: number of calls
--   self_cpu_time: time on the CPU without what is within it
--   self_cpu_percent: its share of all of that
--   cpu_time_total: time on the CPU with what is within it
--   cpu_time_percent: the same as a share of all own times
--   cpu_time_avg: the same by call
--   self_device_time: time of the kernels that it launched, or of itself on a device
--   device_time_total: the same with what is within it
--   device_time_avg: the same by call
--   self_cpu_memory: bytes allocated less bytes released, without what is within it; NULL where memory was not recorded
--   cpu_memory: the same with what is within it
--   self_device_memory: as self_cpu_memory, of devices
--   device_memory: as cpu_memory, of devices
--   flops: NULL, as files don't hold it
--   unit: unit of times: the one asked for; for what is no time, its own
CREATE MACRO key_averages(
    capture,  -- name, hash prefix, @latest or selector
    "by" := 'name',  -- name, shape, stack or module: what beside the name tells ops apart
    unit := NULL,  -- ns, us, ms, s, cycles; NULL: us (cycles where ticks are cycles)
    stack_depth := 5,  -- by stack: how many lines
    skip_first := 0,  -- runs of each name to leave out at the start, as in `schedule`
    wait := 0,  -- as in `schedule`
    warmup := 0,  -- as in `schedule`
    active := 1,  -- as in `schedule`
    repeat := 0,  -- as in `schedule`
    skip_first_wait := 0,  -- as in `schedule`
    phase := NULL  -- runs of that phase alone: load, prefill, decode, other; NULL: all
) AS TABLE
WITH
asked AS MATERIALIZED (
    SELECT
        a.capture_id,
        a.time_scale,
        a.unit,
        CASE
            WHEN "by" IN ('name', 'shape', 'stack', 'module') THEN "by"
            ELSE error(
                'by is name, shape, stack or module, not ' || coalesce("by", 'NULL')
            )
        END AS parted_by,
        EXISTS (
            FROM trace_memory AS m WHERE m.capture_id = a.capture_id
        ) AS has_memory
    FROM _capture(capture, unit) AS a
),
calls AS MATERIALIZED (
    SELECT c.*
    FROM _calls(
        capture, skip_first, wait, warmup, active, repeat, skip_first_wait, phase
    ) AS c
),
-- What tells a call from others of its name.
keyed AS (
    SELECT
        c.run_index,
        c.event_index,
        s.family AS name,
        _is_of_device(s.category) AS is_device,
        coalesce(s.category, '') IN ('user_annotation', 'gpu_user_annotation')
            AS is_annotation,
        _written_unit(s.value_unit, k.time_scale) AS written,
        CASE WHEN k.parted_by = 'shape' THEN coalesce(o.shapes, '[]') END AS shapes,
        CASE
            WHEN k.parted_by = 'stack' THEN array_to_string(
                list_slice(string_split(t.call_stack, ';'), 1, stack_depth), ';'
            )
        END AS stack,
        m.module
    FROM calls AS c
    CROSS JOIN asked AS k
    JOIN signatures AS s
        ON s.capture_id = k.capture_id AND s.signature_index = c.signature_index
    -- What nobody asks for is known to be empty before anything is read.
    LEFT JOIN (FROM op_arguments AS i WHERE "by" = 'shape') AS o
        ON o.capture_id = k.capture_id
        AND o.run_index = c.run_index
        AND o.event_index = c.event_index
    LEFT JOIN (FROM trace_events AS i WHERE "by" = 'stack') AS t
        ON t.capture_id = k.capture_id
        AND t.run_index = c.run_index
        AND t.event_index = c.event_index
    LEFT JOIN (FROM _modules_of_events(capture) AS i WHERE "by" = 'module') AS m
        ON m.run_index = c.run_index
        AND m.event_index = c.event_index
    WHERE c.is_call
),
device_times AS (
    SELECT d.* FROM _device_times(capture) AS d
),
memory AS (
    SELECT
        c.run_index,
        c.event_index,
        w.cpu_bytes,
        w.device_bytes
    FROM asked AS k
    JOIN _memory_within(_capture_id(capture)) AS w ON k.has_memory
    JOIN calls AS c
        ON c.run_index = w.run_index AND c.event_index = w.event_index
),
own_memory AS (
    SELECT
        m.run_index,
        m.event_index,
        m.cpu_bytes - coalesce(sum(i.cpu_bytes), 0) AS cpu_bytes,
        m.device_bytes - coalesce(sum(i.device_bytes), 0) AS device_bytes
    FROM memory AS m
    CROSS JOIN asked AS k
    LEFT JOIN events AS e
        ON e.capture_id = k.capture_id
        AND e.parent_run_index = m.run_index
        AND e.parent_index = m.event_index
    LEFT JOIN memory AS i
        ON i.run_index = e.run_index AND i.event_index = e.event_index
    GROUP BY m.run_index, m.event_index, m.cpu_bytes, m.device_bytes
),
-- Each event's own part, at the call that it belongs to.
own AS (
    SELECT
        c.call_run_index,
        c.call_index,
        sum(c.self_ticks) AS self_ticks,
        sum(o.cpu_bytes) AS cpu_bytes,
        sum(o.device_bytes) AS device_bytes
    FROM calls AS c
    LEFT JOIN own_memory AS o
        ON o.run_index = c.run_index AND o.event_index = c.event_index
    WHERE c.call_index IS NOT NULL
    GROUP BY c.call_run_index, c.call_index
),
summed AS (
    SELECT
        d.name,
        d.shapes,
        d.stack,
        d.module,
        d.is_device,
        d.is_annotation,
        d.written,
        count(*) AS calls,
        sum(CASE WHEN d.is_device THEN 0 ELSE o.self_ticks END)::DOUBLE AS self_ticks,
        sum(CASE WHEN d.is_device THEN 0 ELSE c.duration_ticks END)::DOUBLE
            AS total_ticks,
        sum(
            CASE WHEN d.is_device THEN c.duration_ticks ELSE v.self_ticks END
        )::DOUBLE AS self_device_ticks,
        sum(
            CASE WHEN d.is_device THEN c.duration_ticks ELSE v.total_ticks END
        )::DOUBLE AS device_ticks,
        sum(CASE WHEN d.is_device THEN 0 ELSE o.cpu_bytes END)::BIGINT AS self_memory,
        sum(CASE WHEN d.is_device THEN 0 ELSE m.cpu_bytes END)::BIGINT AS memory,
        sum(CASE WHEN d.is_device THEN 0 ELSE o.device_bytes END)::BIGINT
            AS self_device_memory,
        sum(CASE WHEN d.is_device THEN 0 ELSE m.device_bytes END)::BIGINT
            AS device_memory
    FROM keyed AS d
    JOIN calls AS c
        ON c.run_index = d.run_index AND c.event_index = d.event_index
    LEFT JOIN own AS o
        ON o.call_run_index = d.run_index AND o.call_index = d.event_index
    LEFT JOIN device_times AS v
        ON v.run_index = d.run_index AND v.event_index = d.event_index
    LEFT JOIN memory AS m
        ON m.run_index = d.run_index AND m.event_index = d.event_index
    GROUP BY
        d.name, d.shapes, d.stack, d.module, d.is_device, d.is_annotation, d.written
)
SELECT
    s.name,
    s.shapes,
    s.stack,
    s.module,
    s.is_device,
    s.calls,
    s.self_ticks * _multiplier(s.written, k.unit) / _divisor(s.written, k.unit)
        AS self_cpu_time,
    100 * s.self_ticks / nullif(sum(s.self_ticks) OVER (PARTITION BY s.written), 0)
        AS self_cpu_percent,
    s.total_ticks * _multiplier(s.written, k.unit) / _divisor(s.written, k.unit)
        AS cpu_time_total,
    100 * s.total_ticks / nullif(sum(s.self_ticks) OVER (PARTITION BY s.written), 0)
        AS cpu_time_percent,
    s.total_ticks * _multiplier(s.written, k.unit) / _divisor(s.written, k.unit)
        / s.calls AS cpu_time_avg,
    s.self_device_ticks * _multiplier(s.written, k.unit) / _divisor(s.written, k.unit)
        AS self_device_time,
    s.device_ticks * _multiplier(s.written, k.unit) / _divisor(s.written, k.unit)
        AS device_time_total,
    s.device_ticks * _multiplier(s.written, k.unit) / _divisor(s.written, k.unit)
        / s.calls AS device_time_avg,
    s.self_memory AS self_cpu_memory,
    s.memory AS cpu_memory,
    s.self_device_memory,
    s.device_memory,
    NULL::BIGINT AS flops,
    _shown_unit(s.written, k.unit) AS unit
FROM summed AS s
CROSS JOIN asked AS k
ORDER BY
    s.self_ticks DESC,
    s.device_ticks DESC NULLS LAST,
    s.name,
    s.shapes,
    s.stack,
    s.module;
