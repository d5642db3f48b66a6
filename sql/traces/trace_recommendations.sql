-- The rows of `trace_recommendations`, unordered, for the key of a capture.
CREATE MACRO _trace_recommendations(
    capture_key, data_loader_percent := 5, communication_percent := 10, utilization_percent := 50, memory_percent := 90
) AS TABLE
WITH slices AS MATERIALIZED (FROM _trace_slices(capture_key)),
average AS MATERIALIZED (SELECT v.category, v.share_percent FROM _average_step(capture_key, 'us', NULL, NULL) AS v),
devices AS MATERIALIZED (FROM trace_devices AS d WHERE d.capture_id = capture_key),
wrapped AS (
    SELECT bool_or(s.label = 'DataParallel.forward') AS is_data_parallel,
        bool_or(s.label = 'DistributedDataParallel.forward') AS is_distributed
    FROM slices AS s
    WHERE s.kind IN ('op', 'python', 'annotation')
),
nccl_usage AS (
    SELECT coalesce(bool_or(starts_with(s.label, 'nccl') OR s.kernel_family = 'communication'), false) AS has_nccl
    FROM slices AS s
    WHERE s.is_communication OR s.kind = 'kernel'
),
used AS (
    SELECT count(DISTINCT d.device) AS devices
    FROM slices AS s
    JOIN device_events AS d ON d.capture_id = capture_key AND d.event_index = s.event_index
    WHERE s.kind IN ('kernel', 'copy', 'fill')
),
tensors AS (
    SELECT sum(CASE WHEN c.is_lowest_eligible THEN c.kernel_self_ticks ELSE 0 END) AS eligible_ticks
    FROM _operator_calls(capture_key) AS c
    WHERE EXISTS (FROM devices)
),
kernels AS (
    SELECT sum(s.end_ticks - s.start_ticks) AS ticks, coalesce(bool_or(s.uses_matrix_units), false) AS has_uses,
        coalesce(
            10 * sum(
                CASE WHEN s.uses_matrix_units IS NULL THEN s.end_ticks - s.start_ticks ELSE 0 END
            ) <= sum(s.end_ticks - s.start_ticks),
            false
        ) AS is_known
    FROM slices AS s
    WHERE s.kind = 'kernel'
),
-- AMD's devices are told by the names of runtime calls, as names of devices may be empty. Those of the series MI100 to
-- MI399 have matrix cores.
equipped AS (
    SELECT
        arg_min(
            CASE
                WHEN EXISTS (
                    FROM slices AS s WHERE s.kind = 'call' AND starts_with(s.label, 'hip')
                ) OR d.name LIKE 'AMD%' THEN regexp_matches(d.name, '\bMI[1-3][0-9]{2}')
                ELSE d.compute_major >= 7
            END,
            d.device
        ) AS has_units
    FROM devices AS d
),
peaks AS (
    SELECT m.device, max(m.total_allocated) AS bytes
    FROM trace_memory AS m
    WHERE m.capture_id = capture_key AND m.device_type <> 0
    GROUP BY m.device
),
recommendations AS (
    SELECT 1 AS place, 'data_loader' AS rule, NULL::INTEGER AS device, 'Steps wait for input data.' AS finding,
        printf('%.1f %% of the step time is in DataLoader', v.share_percent) AS evidence,
        'Load it in other processes: num_workers of DataLoader.' AS remedy
    FROM average AS v
    WHERE v.category = 'DataLoader' AND v.share_percent > data_loader_percent
    UNION ALL
    SELECT 2, 'data_parallel', NULL, 'DataParallel trains on several devices from one process.',
        u.devices || ' devices', 'Use DistributedDataParallel, with a process for each device.'
    FROM wrapped AS w CROSS JOIN used AS u
    WHERE w.is_data_parallel AND u.devices > 1
    UNION ALL
    SELECT 3, 'communication_backend', NULL, 'DistributedDataParallel communicates without NCCL.',
        'a device of compute capability ' || max(d.compute_major || '.' || d.compute_minor),
        'Use the backend NCCL, which is the fastest between devices.'
    FROM wrapped AS w CROSS JOIN nccl_usage AS t CROSS JOIN devices AS d
    WHERE w.is_distributed AND NOT t.has_nccl AND d.compute_major + d.compute_minor / 10 >= 3.5
    HAVING count(*) > 0
    UNION ALL
    SELECT 4, 'communication', NULL, 'Steps wait for other processes.',
        printf('%.1f %% of the step time is in communication', v.share_percent),
        'Try gradient compression, gradient accumulation, or a larger batch.'
    FROM average AS v
    WHERE v.category = 'Communication' AND v.share_percent > communication_percent
    UNION ALL
    SELECT 5, 'gpu_utilization', g.device, 'The device is mostly idle.',
        printf('a kernel ran in %.2f %% of the steps', g.utilization_percent),
        'Try a larger batch, if the model converges as well with it.'
    FROM _device_utilization(capture_key) AS g
    WHERE g.utilization_percent < utilization_percent
        AND NOT EXISTS (FROM findings AS f WHERE f.capture_id = capture_key AND f.rule = 'unknown times')
    UNION ALL
    SELECT 6, 'tensor_cores', NULL, 'No kernel uses tensor cores, and ops could.',
        printf('ops that could launched %.0f %% of the time of kernels', 100e0 * t.eligible_ticks / k.ticks),
        'Try automatic mixed precision.'
    FROM tensors AS t CROSS JOIN kernels AS k
    WHERE t.eligible_ticks > 0.05 * k.ticks
        AND (SELECT e.has_units FROM equipped AS e)
        AND k.is_known
        AND NOT k.has_uses
    UNION ALL
    SELECT 7, 'device_memory', p.device, 'The memory of the device is nearly full.',
        printf('%.1f %% of %.1f GB were in use', 100e0 * p.bytes / d.memory_bytes, d.memory_bytes / 1024 ** 3),
        'Try gradient checkpointing, or automatic mixed precision.'
    FROM peaks AS p
    JOIN devices AS d USING (device)
    WHERE 100e0 * p.bytes / nullif(d.memory_bytes, 0) > memory_percent
)
FROM recommendations;

-- One rule about the performance of a trace that applies, for each device that it applies to, as in torch-tb-profiler.
-- data_loader: steps wait for input data. data_parallel: DataParallel on several devices. communication_backend:
-- DistributedDataParallel on devices without NCCL. communication: steps wait for other processes. gpu_utilization: a
-- device is mostly idle, and no times are unknown. tensor_cores: no kernel uses tensor cores, or AMD's matrix cores,
-- though the first device has them and ops could; kernels with nine tenths of the time must be known, and such ops have
-- launched a twentieth of it. device_memory: a device's memory is nearly full. Differences from the plug-in: each
-- device has a row; memory of the CPU is not compared with that of the last device; tensor_cores needs those shares;
-- and data_loader, data_parallel, communication_backend and tensor_cores also apply to newer traces.
-- Shown: rule!, device#, finding!|, evidence|, remedy|
-- Columns:
--   rule: the rule
--   device: the device that it applies to; NULL if it applies to the run
--   finding: what was found, as text
--   evidence: the value that the finding is based on, as text
--   remedy: what may help, as text
CREATE MACRO trace_recommendations(
    capture,
    data_loader_percent := 5,  -- share of the average step in DataLoaders above which data_loader applies
    communication_percent := 10,  -- share of the average step in communication above which communication applies
    utilization_percent := 50,  -- utilization of a device below which gpu_utilization applies
    memory_percent := 90  -- share of a device's memory in use at its peak above which device_memory applies
) AS TABLE
WITH target AS MATERIALIZED (FROM _capture(capture, NULL))
SELECT t.rule, t.device, t.finding, t.evidence, t.remedy
FROM _trace_recommendations(
    (SELECT a.capture_id FROM target AS a),
    data_loader_percent := data_loader_percent, communication_percent := communication_percent,
    utilization_percent := utilization_percent, memory_percent := memory_percent
) AS t
ORDER BY t.place, t.device;
