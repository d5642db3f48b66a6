-- One kernel, copy or fill of a trace with the call that launched it, see `call_index` of `device_events`. One call,
-- such as that of a CUDA graph, may launch many.
CREATE MACRO _launches(capture_key) AS TABLE
WITH
-- Without the capture, as in `_trace_slices`.
classified AS MATERIALIZED (
    SELECT s.signature_index, s.label, s.kernel_family, s.uses_matrix_units, s.activity AS kind
    FROM (SELECT capture_key AS capture_id) AS a
    JOIN signatures AS s USING (capture_id)
    WHERE s.activity IN ('kernel', 'copy', 'fill')
)
SELECT
    d.run_index, d.event_index, k.label, k.kernel_family, k.uses_matrix_units, k.kind, d.correlation_id, d.start_ticks,
    d.start_ticks + d.elapsed_ticks AS end_ticks, d.elapsed_ticks AS device_ticks, d.device, d.stream, d.op_index,
    d.op_signature, d.owner_index, d.pass, d.launch_index, d.call_index, d.call_signature, d.call_start_ticks,
    d.call_ticks, d.call_start_ticks + d.call_ticks AS call_end_ticks, d.call_thread, d.launched,
    d.annotation_signature,
    coalesce(d.call_start_ticks, d.start_ticks) AS launch_ticks, d.wait_kind, d.wait_index, d.recorded_index,
    d.called_index, d.is_inferred, d.latency_ticks, d.bytes, d.bandwidth_gb_per_s, d.blocks_per_sm,
    d.occupancy_percent
FROM (FROM device_events AS i WHERE i.capture_id = capture_key) AS d
JOIN classified AS k ON k.signature_index = d.event_signature
WHERE d.elapsed_ticks >= 0;
