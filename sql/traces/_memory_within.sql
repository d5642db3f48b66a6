-- Bytes of an allocation or release on the CPU; 0 for devices.
CREATE MACRO _cpu_bytes(
    device_type,  -- type of the device: as in c10's DeviceType
    bytes  -- number of bytes; negative for a release
) AS (CASE WHEN device_type IN (0, 2, 5) THEN bytes ELSE 0 END);

-- Bytes of an allocation or release on CUDA, HIP, XPU or PrivateUse1, the devices that torch counts; 0 for others.
CREATE MACRO _device_bytes(
    device_type,  -- type of the device: as in c10's DeviceType
    bytes  -- number of bytes; negative for a release
) AS (CASE WHEN device_type IN (1, 6, 12, 20) THEN bytes ELSE 0 END);

-- The memory that any thread allocated and released between the start and the end of one event, as torch counts it.
-- Only for a trace that records memory.
CREATE MACRO _memory_within(capture_key) AS TABLE
WITH moments AS (
    SELECT
        m.at_ticks, sum(_cpu_bytes(m.device_type, m.bytes)) AS cpu, sum(_device_bytes(m.device_type, m.bytes)) AS device
    FROM trace_memory AS m
    WHERE m.capture_id = capture_key
    GROUP BY m.at_ticks
),
running AS (
    SELECT m.at_ticks, sum(m.cpu) OVER (ORDER BY m.at_ticks) AS cpu, sum(m.device) OVER (ORDER BY m.at_ticks) AS device
    FROM moments AS m
),
target AS (
    SELECT e.run_index, e.event_index, e.start_ticks, e.start_ticks + e.elapsed_ticks AS end_ticks
    -- If a trace is known to record no memory, the rest is not planned.
    FROM (SELECT DISTINCT m.capture_id FROM trace_memory AS m WHERE m.capture_id = capture_key) AS a
    JOIN event_ticks AS e USING (capture_id)
)
SELECT a.run_index, a.event_index, try_cast(coalesce(u.cpu, 0) - coalesce(b.cpu, 0) AS BIGINT) AS cpu_bytes,
    try_cast(coalesce(u.device, 0) - coalesce(b.device, 0) AS BIGINT) AS device_bytes
FROM target AS a
ASOF LEFT JOIN running AS u ON row(a.end_ticks) >= row(u.at_ticks)
ASOF LEFT JOIN running AS b ON row(a.start_ticks) > row(b.at_ticks);

-- One allocation or release while no thread has a CPU event. torch shows it as a separate event.
CREATE MACRO _memory_outside(capture_key) AS TABLE
WITH spans AS (
    SELECT e.start_ticks, max(e.start_ticks + e.elapsed_ticks) AS end_ticks
    -- If a trace is known to record no memory, the rest is not planned.
    FROM (SELECT DISTINCT m.capture_id FROM trace_memory AS m WHERE m.capture_id = capture_key) AS a
    JOIN signatures AS s ON s.capture_id = a.capture_id AND NOT s.on_device AND s.purpose IS DISTINCT FROM 'profiler'
    JOIN event_ticks AS e ON e.capture_id = s.capture_id AND e.signature_index = s.signature_index
    GROUP BY e.start_ticks
),
covered AS (SELECT s.start_ticks, max(s.end_ticks) OVER (ORDER BY s.start_ticks) AS until_ticks FROM spans AS s)
SELECT m.capture_id, coalesce(_cpu_bytes(m.device_type, m.bytes), 0) AS cpu_bytes,
    coalesce(_device_bytes(m.device_type, m.bytes), 0) AS device_bytes
FROM (FROM trace_memory AS i WHERE i.capture_id = capture_key) AS m
ASOF LEFT JOIN covered AS c ON row(m.at_ticks) >= row(c.start_ticks)
WHERE c.until_ticks IS NULL OR c.until_ticks < m.at_ticks;
