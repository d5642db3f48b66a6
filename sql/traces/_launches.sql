-- One kernel, copy or fill of a trace with the call that launched it, see `call_index` of `device_events`. One call,
-- such as that of a CUDA graph, may launch many.
CREATE MACRO _launches(capture_key) AS TABLE
WITH
-- Without the capture, as in `_trace_slices`.
classified AS MATERIALIZED (
    SELECT s.signature_index, s.label, s.kernel_family, s.uses_matrix_units, s.activity AS kind
    FROM (SELECT capture_key AS capture_id) AS a
    JOIN signatures AS s USING (capture_id)
    WHERE s.activity IN ('kernel', 'copy', 'fill', 'call')
),
calls AS (
    SELECT e.event_index, t.thread_index, h.process, e.start_ticks, e.start_ticks + e.elapsed_ticks AS end_ticks
    FROM classified AS k
    JOIN (FROM event_ticks AS i WHERE i.capture_id = capture_key) AS e USING (signature_index)
    JOIN (FROM trace_events AS i WHERE i.capture_id = capture_key) AS t USING (event_index)
    JOIN (FROM threads AS i WHERE i.capture_id = capture_key) AS h USING (thread_index)
    WHERE k.kind = 'call'
)
SELECT
    d.run_index, d.event_index, k.label, k.kernel_family, k.uses_matrix_units, k.kind, t.correlation_id, e.start_ticks,
    e.start_ticks + e.elapsed_ticks AS end_ticks, e.elapsed_ticks AS device_ticks, d.device, d.stream, d.op_index,
    d.owner_index, c.event_index AS call_index, c.start_ticks AS call_start_ticks, c.end_ticks AS call_end_ticks,
    c.thread_index AS call_thread, c.process, coalesce(c.start_ticks, e.start_ticks) AS launch_ticks, d.wait_kind,
    d.wait_index, d.recorded_index, d.called_index, d.is_inferred, d.latency_ticks
FROM (FROM device_events AS i WHERE i.capture_id = capture_key) AS d
JOIN (FROM event_ticks AS i WHERE i.capture_id = capture_key) AS e USING (event_index)
JOIN classified AS k ON k.signature_index = e.signature_index AND k.kind <> 'call'
JOIN (FROM trace_events AS i WHERE i.capture_id = capture_key) AS t USING (event_index)
LEFT JOIN calls AS c ON c.event_index = d.call_index
WHERE e.elapsed_ticks >= 0;
