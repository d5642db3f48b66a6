-- The time of kernels of computation with tensor cores, or AMD's matrix cores, for one device, one step on it, or one
-- op; and the time of kernels without them in ops that tensor cores could run. Whether a kernel uses tensor cores, and
-- which ops could, is determined by their names, as in `kernel_table`. By step, kernels count in the step that launched
-- them; by op, those with the most missed time come first.
-- Needs: torch_trace, device_events; else: roofline
-- Empty: {capture} has no kernels of computation
-- Shown: op!, device#, step#, kernel_time!~, tensor_time~, tensor_percent!%, missed_time~, missed_percent!%,
--   unknown_time~, kernels#, unit
-- Columns:
--   device: number of the device; NULL if not written, and by op
--   run_index: run of the step; NULL by device and by op
--   step: number of the step in the trace; NULL if it is not a step, by device and by op
--   op: op that launched the kernels; NULL by device and by step, and if no op did
--   kernels: number of kernels
--   kernel_time: sum of their durations
--   tensor_time: sum of those with tensor cores
--   tensor_percent: tensor_time in percent of kernel_time; NULL if that is 0, or unknown_time is more than a tenth of it
--   unknown_time: time of kernels with unknown names
--   missed_time: sum of those without tensor cores, launched by ops that tensor cores could run
--   missed_percent: missed_time in percent of kernel_time; NULL if that is 0
--   unit: the requested unit of time
CREATE MACRO tensor_core_use(
    capture, unit := NULL,
    "by" := 'device'  -- device, step or op
) AS TABLE
WITH target AS MATERIALIZED (
    SELECT c.*, _checked_by("by", ['device', 'step', 'op']) AS parted_by FROM _scaled_capture(capture, unit) AS c
),
-- Kernels launched by ops that could use tensor cores, by the innermost such op.
eligible AS (
    SELECT unnest(c.kernels) AS event_index
    FROM _operator_calls((SELECT a.capture_id FROM target AS a)) AS c
    WHERE c.is_lowest_eligible
),
steps AS (
    SELECT w.run_index, w.step FROM _written_steps AS w WHERE w.capture_id = (SELECT a.capture_id FROM target AS a)
),
work AS (
    SELECT CASE WHEN a.parted_by <> 'op' THEN o.device END AS device,
        CASE WHEN a.parted_by = 'step' THEN o.run_index END AS run_index,
        CASE WHEN a.parted_by = 'op' THEN g.label END AS op, o.device_ticks AS ticks, o.uses_matrix_units AS uses,
        l.event_index IS NOT NULL AS could
    FROM target AS a CROSS JOIN _launches((SELECT a.capture_id FROM target AS a)) AS o
    LEFT JOIN eligible AS l USING (event_index)
    LEFT JOIN signatures AS g ON g.capture_id = a.capture_id AND g.signature_index = o.op_signature
    WHERE _work_type(o.kind, o.kernel_family) = 'computation'
),
summed AS (
    SELECT w.device, w.run_index, w.op, count(*) AS kernels, try_cast(sum(w.ticks) AS BIGINT) AS ticks,
        _sum_where(w.ticks, w.uses) AS tensor_ticks, _sum_where(w.ticks, w.could AND NOT w.uses) AS missed_ticks,
        _sum_where(w.ticks, w.uses IS NULL) AS unknown_ticks
    FROM work AS w
    GROUP BY w.device, w.run_index, w.op
)
SELECT s.device, s.run_index, t.step, s.op, s.kernels, _in_unit(s.ticks, a.scale) AS kernel_time,
    _in_unit(s.tensor_ticks, a.scale) AS tensor_time,
    _tensor_percent(s.tensor_ticks, s.unknown_ticks, s.ticks) AS tensor_percent,
    _in_unit(s.unknown_ticks, a.scale) AS unknown_time, _in_unit(s.missed_ticks, a.scale) AS missed_time,
    100 * s.missed_ticks::DOUBLE / nullif(s.ticks, 0) AS missed_percent, a.unit
FROM summed AS s CROSS JOIN target AS a
LEFT JOIN steps AS t USING (run_index)
ORDER BY s.device, s.run_index, s.missed_ticks DESC, s.ticks DESC, s.op;
