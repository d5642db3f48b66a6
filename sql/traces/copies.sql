-- One copy or fill of a trace, with its size and bandwidth, in the order of time.
-- Needs: torch_trace, device_events
-- Empty: {capture} has no copies and fills
-- Shown: event!, start! (time), duration! (time), bytes! (bytes), bandwidth_gb_per_s AS gb_per_s!#, call, device#,
--   stream#, run_index#, is_pageable, is_synchronous, unit
-- Columns:
--   run_index: run that launched it
--   device: number of the device; NULL if not written
--   stream: the stream; NULL if not written
--   event: its label, such as Memcpy HtoD (Pinned -> Device)
--   call: name of the call that launched it; NULL if the trace has none
--   start: start of the event, relative to the start of the recording
--   duration: duration of the event
--   bytes: its size in bytes, for ROCm from its call; NULL if not written
--   bandwidth_gb_per_s: bandwidth as written, in 10**9 bytes per second; NULL if not written
--   is_pageable: whether it copies from or to pageable memory, by its label
--   is_synchronous: whether the call returned only when the event had ended; NULL if the trace has no call
--   unit: the requested unit of time
CREATE MACRO copies(capture, unit := NULL) AS TABLE
WITH target AS MATERIALIZED (FROM _scaled_capture(capture, unit))
SELECT w.run_index, w.device, w.stream, w.label AS event, s.label AS call,
    _in_unit(w.start_ticks - r.start_ticks, a.scale) AS start,
    _in_unit(w.end_ticks - w.start_ticks, a.scale) AS duration, w.bytes, w.bandwidth_gb_per_s,
    contains(w.label, 'Pageable') AS is_pageable, w.call_end_ticks >= w.end_ticks AS is_synchronous, a.unit
FROM target AS a CROSS JOIN _recording((SELECT a.capture_id FROM target AS a)) AS r
CROSS JOIN _launches((SELECT a.capture_id FROM target AS a)) AS w
LEFT JOIN signatures AS s ON s.capture_id = a.capture_id AND s.signature_index = w.call_signature
WHERE w.kind <> 'kernel'
ORDER BY w.start_ticks, w.event_index;

-- The copies and fills of a trace by name, see `copies`: how much is moved, how fast, and how many of them the host
-- waits for. Those with the most bytes come first.
-- Needs: torch_trace, device_events
-- Empty: {capture} has no copies and fills
-- Shown: event!, per_step!~, bytes_per_step! (bytes), mean_bytes (bytes), bandwidth_gb_per_s AS gb_per_s!#, calls!#,
--   synchronous_calls!#, total+~, bytes+ (bytes), min_bytes (bytes), max_bytes (bytes), min_gb_per_s#, mean_gb_per_s#,
--   max_gb_per_s#, nullif(outside_steps, 0) AS outside_steps!~, steps+#, unit
-- Columns:
--   event: label of the events
--   calls: number of events
--   bytes: sum of their sizes in bytes; NULL if none is written
--   min_bytes: least size in bytes
--   mean_bytes: mean size in bytes
--   max_bytes: greatest size in bytes
--   total: sum of their durations
--   bandwidth_gb_per_s: bytes of the events with a size per second of their durations, in 10**9 bytes per second; NULL if these durations are 0 or no event has a size
--   min_gb_per_s: least bandwidth as written, in 10**9 bytes per second; NULL if not written
--   mean_gb_per_s: mean of the bandwidths as written
--   max_gb_per_s: greatest bandwidth as written
--   synchronous_calls: number of events whose call returned only when they had ended
--   unit: the requested unit of time
--   steps: number of the trace's steps; NULL without steps
--   per_step: time of the events that steps launched, per step
--   bytes_per_step: sizes of the events that steps launched, per step
--   outside_steps: part of total that no step launched, or whose launch the trace lacks; NULL without steps
CREATE MACRO copy_totals(capture, unit := NULL) AS TABLE
WITH target AS MATERIALIZED (FROM _capture_with_steps(capture, unit, NULL, NULL)),
summed AS (
    SELECT w.label, count(*) AS calls, sum(w.bytes)::DOUBLE AS bytes,
        sum(CASE WHEN _is_step_run(r.name) THEN w.bytes ELSE 0 END)::DOUBLE AS step_bytes,
        _sum_where(w.end_ticks - w.start_ticks, _is_step_run(r.name)) AS step_ticks, min(w.bytes) AS least,
        count(w.bytes) AS sized, max(w.bytes) AS most, try_cast(sum(w.end_ticks - w.start_ticks) AS BIGINT) AS ticks,
        try_cast(sum(CASE WHEN w.bytes IS NOT NULL THEN w.end_ticks - w.start_ticks END) AS BIGINT) AS sized_ticks,
        min(w.bandwidth_gb_per_s) AS slowest,
        fsum(w.bandwidth_gb_per_s) / nullif(count(w.bandwidth_gb_per_s), 0) AS mean,
        max(w.bandwidth_gb_per_s) AS fastest,
        sum(CASE WHEN w.call_end_ticks >= w.end_ticks THEN 1 ELSE 0 END)::BIGINT AS synchronous_calls
    FROM target AS a CROSS JOIN _launches((SELECT a.capture_id FROM target AS a)) AS w
    JOIN runs AS r ON r.capture_id = a.capture_id AND r.run_index = w.run_index
    WHERE w.kind <> 'kernel'
    GROUP BY w.label
)
SELECT s.label AS event, s.calls, s.bytes, s.least AS min_bytes, s.bytes / nullif(s.sized, 0) AS mean_bytes,
    s.most AS max_bytes, _in_unit(s.ticks, a.scale) AS total,
    -- Bytes per nanosecond.
    s.bytes / nullif(_in_unit(s.sized_ticks, _scale(a.time_scale, 'ns')), 0) AS bandwidth_gb_per_s,
    s.slowest AS min_gb_per_s, s.mean AS mean_gb_per_s, s.fastest AS max_gb_per_s, s.synchronous_calls, a.unit,
    a.step_count AS steps, _in_unit(s.step_ticks::DOUBLE / a.step_count, a.scale) AS per_step,
    CASE WHEN s.bytes IS NOT NULL THEN s.step_bytes / a.step_count END AS bytes_per_step,
    CASE WHEN a.step_count IS NOT NULL THEN _in_unit(s.ticks - s.step_ticks, a.scale) END AS outside_steps
FROM summed AS s CROSS JOIN target AS a
ORDER BY s.bytes DESC NULLS LAST, s.ticks DESC, s.label;
