-- How a trace's program uses its devices: one row. `capability` is the greatest compute capability of its devices. The
-- time is that of kernels; `units_known` is whether, for kernels with nine tenths of it, their names show if they use
-- tensor cores. `has_units` is whether the first device has tensor cores, or AMD's matrix cores.
CREATE MACRO _trace_setup(
    capture_key,
    launches  -- a table of the rows of `_launches`
) AS TABLE
WITH names AS MATERIALIZED (
    SELECT s.label, s.activity, s.purpose, s.kernel_family
    FROM (SELECT capture_key AS capture_id) AS a
    JOIN signatures AS s USING (capture_id)
),
devices AS MATERIALIZED (FROM trace_devices AS d WHERE d.capture_id = capture_key),
told AS (
    SELECT
        coalesce(
            bool_or(n.label = 'DataParallel.forward' AND n.activity IN ('op', 'python', 'annotation')), false
        ) AS is_data_parallel,
        coalesce(
            bool_or(n.label = 'DistributedDataParallel.forward' AND n.activity IN ('op', 'python', 'annotation')), false
        ) AS is_distributed,
        coalesce(
            bool_or(
                (n.purpose = 'communication' OR n.activity = 'kernel')
                AND (starts_with(n.label, 'nccl') OR n.kernel_family = 'communication')
            ),
            false
        ) AS has_nccl,
        coalesce(bool_or(n.activity = 'call' AND starts_with(n.label, 'hip')), false) AS is_amd
    FROM names AS n
),
kernels AS (
    SELECT count(DISTINCT w.device) AS devices,
        _sum_where(w.end_ticks - w.start_ticks, w.kind = 'kernel') AS ticks,
        _sum_where(w.end_ticks - w.start_ticks, w.kind = 'kernel' AND w.uses_matrix_units IS NULL) AS unknown_ticks,
        coalesce(bool_or(w.kind = 'kernel' AND w.uses_matrix_units), false) AS has_uses
    FROM query_table(launches) AS w
),
-- AMD's devices are recognized by the names of runtime calls, as names of devices may be empty. Those of the series
-- MI100 to MI399 have matrix cores.
equipped AS (
    SELECT
        arg_min(
            CASE
                WHEN t.is_amd OR d.name LIKE 'AMD%' THEN regexp_matches(d.name, '\bMI[1-3][0-9]{2}')
                ELSE d.compute_major >= 7
            END,
            d.device
        ) AS has_units,
        max(d.compute_major + d.compute_minor / 10) AS capability
    FROM devices AS d CROSS JOIN told AS t
)
SELECT t.is_data_parallel, t.is_distributed, t.has_nccl, k.devices, k.ticks AS kernel_ticks,
    10 * k.unknown_ticks <= k.ticks AS units_known, k.has_uses AS uses_units, e.has_units, e.capability
FROM told AS t CROSS JOIN kernels AS k CROSS JOIN equipped AS e;

-- One device as allocations number it. `used` is the number that its kernels have, which is another one where visible
-- devices are numbered anew; that is certain if the trace has one device, kernels of one device and allocations of one
-- device. `is_other` is whether there are kernels, but none with that number.
CREATE MACRO _memory_devices(capture_key) AS TABLE
WITH work AS MATERIALIZED (
    SELECT DISTINCT d.device FROM device_events AS d WHERE d.capture_id = capture_key AND d.device IS NOT NULL
),
memory AS MATERIALIZED (
    SELECT DISTINCT m.device FROM trace_memory AS m WHERE m.capture_id = capture_key AND m.device_type <> 0
),
counts AS (
    SELECT (SELECT count(*) FROM work) AS work, (SELECT min(w.device) FROM work AS w) AS device,
        (SELECT count(*) FROM memory) AS memory,
        (SELECT count(*) FROM trace_devices AS d WHERE d.capture_id = capture_key) AS devices
)
SELECT m.device, CASE WHEN c.work = 1 AND c.memory = 1 AND c.devices = 1 THEN c.device ELSE m.device END AS used,
    c.work > 0 AND used NOT IN (SELECT w.device FROM work AS w) AS is_other
FROM memory AS m CROSS JOIN counts AS c;

-- The greatest part of the memory of one device of a trace that was in use; numbered as its kernels are.
CREATE MACRO _used_memory(capture_key) AS TABLE
SELECT n.used AS device,
    greatest(
        max(m.total_allocated),
        arg_min(_allocated_before(m.total_allocated, m.bytes), (m.at_ticks, m.event_index))
    ) AS bytes,
    any_value(d.memory_bytes) AS memory_bytes
FROM (SELECT capture_key AS capture_id) AS a
JOIN trace_memory AS m USING (capture_id)
JOIN trace_devices AS d ON d.capture_id = m.capture_id AND d.device = m.device
JOIN _memory_devices(capture_key) AS n ON n.device = m.device
WHERE m.device_type <> 0 AND d.memory_bytes > 0
GROUP BY n.used;
