-- One allocation or release of a trace with the memory in use after it, device by device, as in the memory curve of
-- torch-tb-profiler. All points are kept, which the plug-in does not do above 10,240.
-- Shown: device!, time! (time), bytes! (bytes), allocated_bytes! (bytes), reserved_bytes (bytes), peak_bytes (bytes),
--   unit
-- Columns:
--   device: CPU, GPU0, ...
--   time: time of the allocation or release, relative to the start of the recording
--   bytes: number of bytes allocated; negative for a release
--   allocated_bytes: bytes in use after it
--   reserved_bytes: bytes reserved by the allocator after it, in use or not
--   peak_bytes: maximum of the bytes in use up to it
--   unit: the requested unit of time
CREATE MACRO memory_timeline(capture, unit := NULL) AS TABLE
WITH target AS MATERIALIZED (FROM _scaled_capture(capture, unit)),
started AS (SELECT s.ticks FROM _memory_start((SELECT a.capture_id FROM target AS a)) AS s)
SELECT _memory_device(m.device_type, m.device) AS device, _in_unit(m.at_ticks - s.ticks, a.scale) AS time, m.bytes,
    m.total_allocated AS allocated_bytes, m.total_reserved AS reserved_bytes,
    greatest(
        max(m.total_allocated) OVER so_far, first_value(_allocated_before(m.total_allocated, m.bytes)) OVER so_far
    ) AS peak_bytes,
    a.unit
FROM target AS a CROSS JOIN started AS s
JOIN trace_memory AS m USING (capture_id)
WHERE m.device_type IS NOT NULL AND m.total_allocated IS NOT NULL AND m.total_reserved IS NOT NULL
WINDOW so_far AS (
    PARTITION BY m.device_type, m.device ORDER BY m.at_ticks, m.event_index ROWS UNBOUNDED PRECEDING
)
ORDER BY device, m.at_ticks, m.event_index;
