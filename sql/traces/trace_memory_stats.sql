-- Display name of a memory device of a trace: CPU, or GPU and its number; for other types, the name in c10's DeviceType
-- and the number; (unnamed) for the device of a memory timeline that doesn't name it.
CREATE MACRO _memory_device(
    device_type,  -- type of the device: 0 is the CPU, 1 CUDA; as in c10's DeviceType
    device
) AS (
    CASE
        WHEN device_type = 0 THEN 'CPU'
        WHEN device_type IN (1, 6) THEN 'GPU' || coalesce(device, 0)
        WHEN device_type = 127 THEN '(unnamed)'
        ELSE coalesce(
            [
                'MKLDNN', 'OpenGL', 'OpenCL', 'IDEEP', 'GPU', 'FPGA', 'MAIA', 'XLA',
                'Vulkan', 'Metal', 'XPU', 'MPS', 'Meta', 'HPU', 'VE', 'Lazy', 'IPU', 'MTIA', 'PrivateUse1'
            ][device_type - 1],
            'type ' || device_type || ':'
        ) || coalesce(device, 0)
    END
);

-- The memory that one op of a trace allocated on one device, as in the memory view of torch-tb-profiler. An allocation
-- or release belongs to the innermost op of its thread at that time, if there is one. Empty for traces that don't
-- record memory. Differences from the plug-in: all calls of an op are counted, not only those that allocate; devices
-- other than CPU and CUDA are included; and where an op calls itself, its memory counts once.
-- Shown: name!, device!, self_increase_bytes! (bytes), increase_bytes (bytes), self_allocated_bytes (bytes),
--   allocated_bytes (bytes), calls!#, self_allocations#, allocations#
-- Columns:
--   device: CPU, GPU0, ...
--   name: the op
--   calls: number of its calls
--   self_allocations: number of allocations in it, outside of nested ops
--   self_allocated_bytes: sum of their sizes in bytes
--   self_increase_bytes: self_allocated_bytes minus the bytes released
--   allocations: number of allocations in it and in nested ops
--   allocated_bytes: sum of their sizes in bytes
--   increase_bytes: allocated_bytes minus the bytes released
CREATE MACRO trace_memory_stats(capture, steps := NULL, phase := NULL) AS TABLE
WITH RECURSIVE target AS MATERIALIZED (FROM _capture(capture, NULL)),
calls AS MATERIALIZED (
    SELECT t.event_index, t.label, _is_operator(t.kind, t.label, t.is_data_loader) AS is_operator, t.above_index
    FROM _operator_tree((SELECT a.capture_id FROM target AS a)) AS t
    JOIN runs AS r ON r.capture_id = (SELECT a.capture_id FROM target AS a) AND r.run_index = t.run_index
    WHERE t.call_index = t.event_index AND _is_recorded(r.iteration, r.phase, steps, phase)
),
self_memory AS MATERIALIZED (
    SELECT c.event_index, _memory_device(m.device_type, m.device) AS device,
        count(*) FILTER (WHERE m.bytes > 0) AS allocations,
        try_cast(coalesce(sum(m.bytes) FILTER (WHERE m.bytes > 0), 0) AS BIGINT) AS allocated,
        try_cast(sum(m.bytes) AS BIGINT) AS increase
    FROM target AS a
    JOIN trace_memory AS m USING (capture_id)
    JOIN calls AS c ON c.event_index = m.call_index AND c.is_operator
    WHERE m.bytes IS NOT NULL AND m.device_type IS NOT NULL
    GROUP BY 1, 2
),
-- The self values of each op, assigned to the op itself and to all ops that contain it. Rows differ: UNION ends also
-- where a file has nodes that contain each other.
with_ancestors AS (
    SELECT o.*, c.event_index AS at_index, c.above_index, true AS is_own
    FROM self_memory AS o
    JOIN calls AS c USING (event_index)
    UNION
    SELECT k.event_index, k.device, k.allocations, k.allocated, k.increase, c.event_index, c.above_index, false
    FROM with_ancestors AS k
    JOIN calls AS c ON c.event_index = k.above_index
),
-- Memory in an op within a call of the same op is in both calls, but counts once.
owned AS (
    SELECT k.event_index, k.device, c.label AS name, k.allocations, k.allocated, k.increase, bool_or(k.is_own) AS is_own
    FROM with_ancestors AS k
    JOIN calls AS c ON c.event_index = k.at_index
    WHERE c.is_operator
    GROUP BY ALL
),
summed AS (
    SELECT
        o.device, o.name, coalesce(sum(o.allocations) FILTER (WHERE o.is_own), 0)::BIGINT AS self_allocations,
        try_cast(coalesce(sum(o.allocated) FILTER (WHERE o.is_own), 0) AS BIGINT) AS self_allocated_bytes,
        try_cast(coalesce(sum(o.increase) FILTER (WHERE o.is_own), 0) AS BIGINT) AS self_increase_bytes,
        sum(o.allocations)::BIGINT AS allocations, try_cast(sum(o.allocated) AS BIGINT) AS allocated_bytes,
        try_cast(sum(o.increase) AS BIGINT) AS increase_bytes
    FROM owned AS o
    GROUP BY o.device, o.name
),
counted AS (SELECT c.label AS name, count(*) AS calls FROM calls AS c WHERE c.is_operator GROUP BY c.label)
SELECT s.device, s.name, n.calls, s.self_allocations, s.self_allocated_bytes, s.self_increase_bytes, s.allocations,
    s.allocated_bytes, s.increase_bytes
FROM summed AS s
JOIN counted AS n USING (name)
WHERE s.allocations > 0 OR s.increase_bytes <> 0 OR s.self_increase_bytes <> 0
ORDER BY s.device, s.self_increase_bytes DESC, s.name;
