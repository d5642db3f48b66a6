-- One kernel of a device of a trace.
CREATE MACRO _device_kernels(capture_key) AS TABLE
SELECT d.device, d.start_ticks, d.start_ticks + d.elapsed_ticks AS end_ticks, s.uses_matrix_units,
    CASE WHEN d.blocks_per_sm > 0 THEN d.blocks_per_sm END AS blocks_per_sm,
    CASE WHEN d.occupancy_percent >= 0 THEN d.occupancy_percent END AS occupancy_percent
FROM (FROM signatures AS i WHERE i.capture_id = capture_key) AS s
JOIN (FROM device_events AS i WHERE i.capture_id = capture_key) AS d ON d.event_signature = s.signature_index
WHERE s.activity = 'kernel' AND d.elapsed_ticks >= 0 AND d.device IS NOT NULL;

-- One interval between two successive times: starts and ends of a device's kernels, and the requested times.
CREATE MACRO _device_intervals(
    kernels,  -- a table of the rows of `_device_kernels`
    part_at  -- list of further ticks at which intervals are split
) AS TABLE
WITH edges AS (
    SELECT k.device, k.start_ticks AS at_ticks, 1 AS change,
        (k.blocks_per_sm IS NOT NULL)::INTEGER AS sized,
        coalesce(k.blocks_per_sm, 0) AS blocks
    FROM query_table(kernels) AS k
    UNION ALL
    SELECT k.device, k.end_ticks, -1, -(k.blocks_per_sm IS NOT NULL)::INTEGER, -coalesce(k.blocks_per_sm, 0)
    FROM query_table(kernels) AS k
    UNION ALL
    SELECT k.device, unnest(part_at), 0, 0, 0 FROM (SELECT DISTINCT i.device FROM query_table(kernels) AS i) AS k
),
moments AS (
    SELECT e.device, e.at_ticks, sum(e.change) AS change, sum(e.sized) AS sized, fsum(e.blocks) AS blocks
    FROM edges AS e
    GROUP BY e.device, e.at_ticks
),
stretches AS (
    SELECT m.device, m.at_ticks AS start_ticks, lead(m.at_ticks) OVER so_far - m.at_ticks AS ticks,
        (sum(m.change) OVER so_far)::BIGINT AS kernels,
        (sum(m.sized) OVER so_far)::BIGINT AS sized,
        sum(m.blocks) OVER so_far AS blocks
    FROM moments AS m
    WINDOW so_far AS (PARTITION BY m.device ORDER BY m.at_ticks)
)
SELECT s.device, s.start_ticks, s.ticks, s.kernels, s.sized,
    CASE WHEN s.sized > 0 THEN greatest(least(s.blocks, 1), 0) ELSE 0 END AS sm_efficiency
FROM stretches AS s
WHERE s.ticks > 0;

-- The utilization of one device in the steps of a trace, as in the overview of torch-tb-profiler: the share of the
-- time, from the first step to the end of the last, in which at least one kernel ran; the estimated share of its
-- multiprocessors that had a block; and the estimated achieved occupancy, the mean over its kernels weighted by
-- duration. Differences from the plug-in: steps of newer traces last until their kernels end, newer kernels with tensor
-- cores are recognized, and their share refers to all kernels, not only to those that ops launched.
-- Shown: device!#, utilization_percent!%, sm_efficiency_percent!%, occupancy_percent!%, tensor_cores_percent!%,
--   kernels#
-- Columns:
--   device: number of the device
--   kernels: number of its kernels, within steps or not
--   utilization_percent: share of the steps' time in which it ran a kernel
--   sm_efficiency_percent: estimated share of its multiprocessors with a block in that time; NULL where unknown
--   occupancy_percent: estimated achieved occupancy in percent; NULL where unknown
--   tensor_cores_percent: share of the time of its kernels that is spent in kernels with tensor cores, in percent; NULL if, for kernels with more than a tenth of the time, the use of tensor cores is unknown
CREATE MACRO gpu_utilization(capture) AS TABLE
WITH target AS MATERIALIZED (FROM _capture(capture, NULL)),
kernels AS MATERIALIZED (FROM _device_kernels((SELECT a.capture_id FROM target AS a))),
-- From the first step to the end of the last.
bounds AS MATERIALIZED (
    SELECT min(d.start_ticks) AS start_ticks, arg_max(d.end_ticks, d.start_ticks) AS end_ticks
    FROM target AS a
    JOIN trace_steps AS d USING (capture_id)
),
busy AS MATERIALIZED (
    SELECT s.device, b.start_ticks, b.end_ticks,
        100 * sum(CASE WHEN s.kernels > 0 THEN s.ticks ELSE 0 END)::DOUBLE
            / (b.end_ticks - b.start_ticks) AS utilization_percent,
        CASE
            WHEN bool_or(s.sized > 0) THEN 100 * fsum(s.ticks * s.sm_efficiency) / (b.end_ticks - b.start_ticks)
        END AS sm_efficiency_percent
    FROM _device_intervals('kernels', (SELECT [b.start_ticks, b.end_ticks] FROM bounds AS b)) AS s
    JOIN bounds AS b ON s.start_ticks >= b.start_ticks AND s.start_ticks < b.end_ticks
    GROUP BY s.device, b.start_ticks, b.end_ticks
),
summed AS (
    SELECT k.device, count(*) AS kernels, sum(k.end_ticks - k.start_ticks) AS ticks,
        sum(CASE WHEN k.uses_matrix_units THEN k.end_ticks - k.start_ticks ELSE 0 END) AS tensor_ticks,
        sum(CASE WHEN k.uses_matrix_units IS NULL THEN k.end_ticks - k.start_ticks ELSE 0 END) AS unknown_ticks,
        fsum(
            k.occupancy_percent * greatest(least(k.end_ticks, b.end_ticks) - greatest(k.start_ticks, b.start_ticks), 0)
        ) / nullif(sum(
            CASE
                WHEN k.occupancy_percent IS NOT NULL THEN greatest(
                    least(k.end_ticks, b.end_ticks) - greatest(k.start_ticks, b.start_ticks), 0
                )
            END
        ), 0) AS occupancy_percent
    FROM kernels AS k
    JOIN busy AS b USING (device)
    GROUP BY k.device
)
SELECT s.device, s.kernels, b.utilization_percent, b.sm_efficiency_percent, s.occupancy_percent,
    CASE
        WHEN s.ticks > 0 THEN _tensor_percent(s.tensor_ticks, s.unknown_ticks, s.ticks)
        ELSE 0
    END AS tensor_cores_percent
FROM summed AS s
JOIN busy AS b USING (device)
ORDER BY s.device;
