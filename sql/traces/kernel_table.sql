-- One kernel of a trace by name, as in the kernel view of torch-tb-profiler. Means of blocks and occupancy are weighted
-- by the kernels' durations; kernels without them count as 0. Differences from the plug-in: tensor_cores_eligible is
-- one value per kernel name, over all its calls, and is also known for newer traces; newer kernels with tensor cores
-- are recognized.
-- Needs: torch_trace, device_events; else: op_totals
-- Empty: {capture} has no kernels
-- Shown: kernel!, family, per_step!~, per_call!~, calls!#, total+~, min~, max~, tensor_cores_used,
--   tensor_cores_eligible, blocks_per_sm#, occupancy_percent%, nullif(outside_steps, 0) AS outside_steps!~, steps+#,
--   unit
-- Columns:
--   kernel: name of the kernel
--   family: what it computes, as in `signatures`, by its longest call; NULL for an unknown name
--   tensor_cores_used: whether it uses tensor cores, or matrix cores of AMD; NULL for an unknown name
--   tensor_cores_eligible: whether tensor cores could run an op that launched it
--   calls: number of calls
--   total: sum of the times
--   per_call: mean time of a call
--   max: longest time
--   min: shortest time
--   blocks_per_sm: mean blocks per streaming multiprocessor; NULL if no kernel of the trace has them
--   occupancy_percent: mean estimated achieved occupancy; NULL if no kernel of the trace has it
--   unit: the requested unit of time
--   steps: number of the trace's steps; NULL without steps
--   per_step: time of the events that steps launched, per step
--   outside_steps: part of total that no step launched, or whose launch the trace lacks; NULL without steps
CREATE MACRO kernel_table(capture, unit := NULL, steps := NULL, phase := NULL) AS TABLE
WITH target AS MATERIALIZED (FROM _capture_with_steps(capture, unit, steps, phase)),
recorded AS (
    SELECT bool_or(d.blocks_per_sm > 0) AS has_blocks, bool_or(d.occupancy_percent >= 0) AS has_occupancy
    FROM target AS a
    JOIN device_events AS d USING (capture_id)
),
eligible AS (
    SELECT unnest(c.kernels) AS device_index
    FROM _operator_calls((SELECT a.capture_id FROM target AS a)) AS c
    WHERE c.is_eligible
),
ran AS (
    SELECT d.label, d.kernel_family, d.uses_matrix_units, d.device_ticks AS ticks,
        _is_step_run(r.name) AS is_in_step, coalesce(d.blocks_per_sm, 0) AS blocks_per_sm,
        coalesce(d.occupancy_percent, 0) AS occupancy_percent, g.device_index IS NOT NULL AS is_eligible, a.unit,
        a.scale
    FROM target AS a CROSS JOIN _launches((SELECT a.capture_id FROM target AS a)) AS d
    JOIN runs AS r USING (capture_id, run_index)
    LEFT JOIN eligible AS g ON g.device_index = d.event_index
    WHERE d.kind = 'kernel' AND _is_recorded(r.iteration, r.phase, steps, phase)
),
summed AS (
    SELECT r.label, arg_max(r.kernel_family, r.ticks) AS kernel_family,
        any_value(r.uses_matrix_units) AS uses_matrix_units, r.unit, r.scale,
        bool_or(r.is_eligible) AS is_eligible, count(*) AS calls, sum(r.ticks)::DOUBLE AS ticks,
        _sum_where(r.ticks, r.is_in_step) AS step_ticks, max(r.ticks) AS longest, min(r.ticks) AS shortest,
        fsum(r.blocks_per_sm * r.ticks) AS blocks, fsum(r.occupancy_percent * r.ticks) AS occupancy
    FROM ran AS r
    GROUP BY r.label, r.unit, r.scale
)
SELECT s.label AS kernel, s.kernel_family AS family, s.uses_matrix_units AS tensor_cores_used,
    s.is_eligible AS tensor_cores_eligible, s.calls, _in_unit(s.ticks, s.scale) AS total,
    _in_unit(s.ticks / s.calls, s.scale) AS per_call, _in_unit(s.longest, s.scale) AS max,
    _in_unit(s.shortest, s.scale) AS min,
    CASE WHEN t.has_blocks THEN coalesce(s.blocks / nullif(s.ticks, 0), 0) END AS blocks_per_sm,
    CASE WHEN t.has_occupancy THEN coalesce(s.occupancy / nullif(s.ticks, 0), 0) END AS occupancy_percent, s.unit,
    a.step_count AS steps, _in_unit(s.step_ticks / a.step_count, s.scale) AS per_step,
    CASE WHEN a.step_count IS NOT NULL THEN _in_unit(s.ticks - s.step_ticks, s.scale) END AS outside_steps
FROM summed AS s CROSS JOIN target AS a CROSS JOIN recorded AS t
ORDER BY s.ticks DESC, s.label;
