-- The rows of `step_efficiency`, unordered, for the key of a capture.
CREATE MACRO _step_efficiency(
    capture_key,
    rated,  -- a table of the rows of `_rated_work`
    unit
) AS TABLE
WITH used AS (
    SELECT greatest(count(DISTINCT d.device), 1) AS devices
    FROM device_events AS d
    WHERE d.capture_id = capture_key AND d.is_inferred IS NOT NULL
),
stepped AS (
    SELECT s.run_index, s.step, s.end_ticks - s.start_ticks AS step_ticks, u.devices, f.* EXCLUDE (run_index),
        nullif(step_ticks * u.devices, 0)::DOUBLE AS most_ticks,
        200 * (f.ticks - f.known_ticks + f.unpeaked_ticks) > f.ticks AS lacks_some
    FROM (FROM trace_steps AS i WHERE i.capture_id = capture_key AND i.start_ticks IS NOT NULL) AS s
    CROSS JOIN used AS u
    LEFT JOIN _step_flops(rated) AS f ON f.run_index = s.run_index
),
shared AS (
    SELECT t.*, 100 * (t.compute_ticks - coalesce(t.repeated_compute_ticks, 0)) / t.most_ticks AS model_percent,
        100 * t.compute_ticks / t.most_ticks AS hardware_percent,
        t.compute_ticks > 0 OR t.compute_ticks = 0 AND NOT t.lacks_some AS is_known
    FROM stepped AS t
)
SELECT h.run_index, h.step, _in_unit(h.step_ticks, a.scale) AS total,
    CASE WHEN h.is_known THEN h.model_percent END AS mfu_percent,
    CASE WHEN h.is_known THEN h.hardware_percent END AS hfu_percent,
    CASE WHEN h.is_known THEN h.lacks_some END AS is_least,
    100 * h.costed_ticks::DOUBLE / nullif(h.ticks, 0) AS known_percent,
    try_cast(h.flops - coalesce(h.repeated_flops, 0) AS BIGINT) AS model_flops,
    try_cast(CASE WHEN h.flops IS NOT NULL THEN coalesce(h.repeated_flops, 0) END AS BIGINT) AS recomputed_flops,
    h.flops::DOUBLE * 1e9 / nullif(h.step_ticks, 0) AS flops_per_second, _in_unit(h.ticks, a.scale) AS device_time,
    h.devices, h.device,
    CASE
        WHEN h.is_known AND NOT h.lacks_some THEN NULL
        WHEN h.ticks IS NULL THEN 'it launched nothing'
        WHEN h.flops > 0 AND NOT h.has_peaks THEN 'the peaks of its device are not known'
        WHEN h.unpeaked_ticks > h.ticks - h.known_ticks THEN 'the peak for its type is not known'
        ELSE h.reason
    END AS reason,
    a.unit, (SELECT string_agg(DISTINCT r.assumed, '; ' ORDER BY r.assumed) FROM query_table(rated) AS r) AS assumed
FROM shared AS h CROSS JOIN _scaled_key(capture_key, unit) AS a;

-- One step of a trace with the operations that its ops do, see `op_efficiency`, and how close it comes to the peak of
-- its devices. MFU, model FLOPs utilization, is the time that the operations take at the peaks of their types, in
-- percent of the step; MFU leaves out the operations of activations that are computed again in the backward pass; HFU,
-- hardware FLOPs utilization, includes them. Ops count as recomputed if autograd records them as ops of the forward
-- pass within a call of the backward pass, as with torch.utils.checkpoint; recomputation by torch.compile is not
-- recognised. In a trace without device events, time is that on the host, and operations of ops within an op count
-- once.
-- Needs: torch_trace; else: roofline
-- Empty: {capture} has no steps whose work was recorded
-- Shown: step!#, total!~, CASE WHEN is_least THEN '≥' END AS bound!, mfu_percent!%, hfu_percent!%,
--   known_percent!%, flops_per_second / 1e12 AS tflop_s!#, model_flops / 1e9 AS model_gflop#, recomputed_flops / 1e9 AS
--   recomputed_gflop#, device_time~, device, reason, assumed!, unit
-- Columns:
--   run_index: the run
--   step: number of the step in the trace; 0 if the trace has no steps
--   total: duration of the step, as in `wide_steps`
--   mfu_percent: time that model_flops take at the peaks of their types, in percent of the step's time on all devices that the trace used; NULL where no operations, or no peaks, are known
--   hfu_percent: the same with recomputed_flops
--   is_least: whether mfu_percent and hfu_percent are lower bounds: operations, or the peak of their type, are unknown for half a percent of device_time or more; NULL if mfu_percent is NULL
--   known_percent: time of ops whose operations are known, of kernels that Inductor wrote and of batched tables of embeddings whose bytes are known, and of copies, fills and communication, which have no operations, in percent of device_time; NULL if nothing ran
--   model_flops: operations of the step's ops, as far as known, without recomputed_flops; NULL where none are known
--   recomputed_flops: operations of ops of the forward pass that run again in the backward pass; NULL where none are known
--   flops_per_second: model_flops and recomputed_flops per second of the step
--   device_time: sum of the times of the kernels, copies and fills that the step launched; NULL if there are none
--   devices: number of devices that the trace used; 1 for the host
--   device: the device whose peaks apply; NULL if unknown
--   reason: why mfu_percent is NULL or a lower bound; NULL if all is known
--   unit: the requested unit of time
--   assumed: assumed sizes on which costs of some ops of the trace depend, such as top_k=4; NULL if there are none
CREATE MACRO step_efficiency(
    capture,
    peak_flops := NULL,  -- peak rate of a device, in operations per second, for all types; NULL: the device's
    device := NULL,  -- name of a device of `device_peaks`; NULL: the trace's device
    unit := NULL
) AS TABLE
WITH target AS MATERIALIZED (FROM _capture(capture, unit) AS c),
rated AS MATERIALIZED (
    FROM _rated_calls(
        (SELECT a.capture_id FROM target AS a), peak_flops, NULL, device, NULL, NULL, false
    ) AS r
)
SELECT e.run_index, e.step, e.total, e.mfu_percent, e.hfu_percent, e.is_least, e.known_percent, e.model_flops,
    e.recomputed_flops, e.flops_per_second, e.device_time, e.devices, e.device, e.reason, e.unit, e.assumed
FROM _step_efficiency((SELECT a.capture_id FROM target AS a), 'rated', (SELECT a.unit FROM target AS a)) AS e
ORDER BY e.run_index;

-- The steps of one trace together, as `all_step_efficiency` has them: medians over the steps, the share of the time
-- that they launched whose costs are known, and what is missing in the step where most is missing.
-- Columns:
--   capture_id: the capture
--   steps: number of its steps
--   mfu_percent: median over the steps in which it is known; NULL if there are none
--   hfu_percent: the same
--   is_least: whether it is a lower bound in any of these
--   known_percent: as in `step_efficiency`, of all work that the steps launched
--   recomputed_flops: recomputed operations in the step that has most of them
--   flops_per_second: median over the steps
--   device: the device whose peaks apply
--   reason: why mfu_percent is NULL or a lower bound; NULL if all is known
--   assumed: assumed sizes on which costs depend; NULL if there are none
CREATE VIEW _trace_efficiency AS
SELECT e.capture_id, count(*) AS steps, median(e.mfu_percent) AS mfu_percent, median(e.hfu_percent) AS hfu_percent,
    bool_or(e.is_least) AS is_least,
    fsum(e.known_percent * e.device_time) / nullif(fsum(e.device_time), 0) AS known_percent,
    max(e.recomputed_flops) AS recomputed_flops, median(e.flops_per_second) AS flops_per_second,
    any_value(e.device) AS device,
    arg_max(e.reason, (e.device_time, -e.place)) FILTER (e.reason IS NOT NULL AND e.device_time > 0) AS reason,
    any_value(e.assumed) AS assumed
FROM all_step_efficiency AS e
GROUP BY e.capture_id;
