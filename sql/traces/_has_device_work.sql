-- Whether a trace has work of devices with possible times: one row. If it has, an event that launched none has a device
-- time of 0, otherwise none.
CREATE MACRO _has_device_work(capture_key) AS TABLE
SELECT count(*) > 0 AS has_work
FROM device_events AS d
-- Only work has this limit.
WHERE d.capture_id = capture_key AND d.elapsed_ticks >= 0 AND d.latency_ticks IS NOT NULL;

-- A device time of `trace_events`, 0 for NULL. One that is limited to 64 bits is too large for a sum.
CREATE MACRO _device_ticks(ticks) AS (coalesce(ticks::HUGEINT + (ticks = 9223372036854775807)::INTEGER, 0));
