-- The start of a trace whose memory was recorded, which may be before its first event.
CREATE MACRO _memory_start(capture_key) AS TABLE
SELECT least(
    (SELECT r.start_ticks FROM _recording(capture_key) AS r),
    (SELECT min(m.at_ticks) FROM trace_memory AS m WHERE m.capture_id = capture_key)
) AS ticks;

-- Bytes in use before an allocation or release; NULL where unknown.
CREATE MACRO _allocated_before(
    total_allocated,  -- bytes in use after it
    bytes  -- its bytes; negative for a release
) AS (try_cast(total_allocated::HUGEINT - bytes AS BIGINT));

-- One allocation or release of a trace, and until when the memory is held: an address is held until it is released, or
-- allocated anew if the release was not seen.
CREATE MACRO _allocations(capture_key) AS TABLE
WITH memory AS (
    SELECT m.event_index, m.at_ticks, m.bytes, m.total_allocated, m.address, m.call_index,
        _memory_device(m.device_type, m.device) AS device,
        row_number() OVER (PARTITION BY m.device_type, m.device ORDER BY m.at_ticks, m.event_index) AS place
    FROM trace_memory AS m
    WHERE m.capture_id = capture_key
        AND m.device_type IS NOT NULL
        AND m.bytes IS NOT NULL
        AND m.total_allocated IS NOT NULL
)
SELECT m.device, m.call_index, m.place, m.at_ticks, m.bytes, m.total_allocated,
    lead(m.place) OVER of_address AS until_place, lead(m.at_ticks) OVER of_address AS until_ticks
FROM memory AS m
WINDOW of_address AS (PARTITION BY m.device, m.address ORDER BY m.at_ticks, m.event_index);
