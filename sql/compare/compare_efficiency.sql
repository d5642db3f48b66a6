-- The device time of one op by its inputs in two PyTorch traces, such as of an H100 and an MI300, which run the same
-- ops by different kernels. Unlike in `compare_ops`, differences are not tested for noise. Ops of a backend are matched
-- by the op that dispatches to them: aten::cudnn_convolution and aten::miopen_convolution are aten::convolution, with
-- all that is launched within it. Where a trace has no shapes, ops are matched without inputs; where it has no types,
-- by sizes. Strides don't count, as backends choose them. Work that no op launched is matched by the family of its
-- kernels. Times and calls are per profiler step, or, in a trace without steps, those of the whole trace.
-- Needs: torch_trace
-- Shown: coalesce(op, trim('(no op) ' || coalesce(family, ''))) AS op!, inputs!, difference! (time), base_call_time AS
--   base_call! (time), new_call_time AS new_call! (time), share_percent%, base_roof_percent%, new_roof_percent%,
--   base_calls#, new_calls#, base_kernel, new_kernel, base_assumed, new_assumed, unit
-- Share: of the sum of the differences of all rows
-- Columns:
--   family: what it computes, as in `op_efficiency`
--   op: the op that dispatches to those of a backend, or the op itself; NULL for work that no op launched
--   inputs: types and sizes of its input tensors, for ops of backends only of the tensors that all these ops take; NULL where not recorded, and with by := 'op'
--   base_calls: calls per step of base; for work that no op launched, its kernels, copies and fills; NULL if only new has it
--   new_calls: calls per step of new; NULL if only base has it
--   base_call_time: device time of a call in base
--   new_call_time: device time of a call in new
--   base_time: device time per step of base
--   new_time: device time per step of new
--   difference: new_time minus base_time; a missing time counts as 0
--   share_percent: difference in percent of the sum of the differences of all rows; NULL if that sum is 0
--   unit: the requested unit of times
--   base_roof_percent: smallest possible time at the peaks of base's device in percent of its time; NULL where unknown
--   new_roof_percent: the same of new
--   base_kernel: the kernel, copy or fill with most time in base
--   new_kernel: the same in new
--   base_device: the device of base; NULL if unknown
--   new_device: the device of new; NULL if unknown
--   base_steps: number of steps of base; NULL without steps
--   new_steps: number of steps of new; NULL without steps
--   base_assumed: assumed sizes on which costs in base depend, such as top_k=4; NULL if there are none
--   new_assumed: the same of new
CREATE MACRO compare_efficiency(
    base,  -- a PyTorch trace: name, hash prefix, @latest or selector
    new,  -- as `base`
    "by" := 'shape',  -- shape or op: whether ops are separated by their inputs
    unit := NULL,  -- ns, us, ms, s; NULL: us
    steps := NULL, phase := NULL
) AS TABLE
WITH sides AS MATERIALIZED (
    SELECT t.*, _step_count(t.capture_id, steps, phase) AS step_count, _checked_by("by", ['shape', 'op']) AS parted_by
    FROM _two_traces(base, new, unit) AS t
),
rated AS MATERIALIZED (
    SELECT s.is_new, r.*
    FROM sides AS s, LATERAL (FROM _rated_calls(s.capture_id, NULL, NULL, NULL, steps, phase, true)) AS r
),
-- Also the sizes of lists of tensors, whose types aren't known.
written AS (
    SELECT r.*, string_split(nullif(r.inputs, ''), ' ') AS typed,
        regexp_extract_all(replace(r.shapes, ' ', ''), '\[[0-9][0-9,]*\]') AS sized
    FROM rated AS r
),
-- Inputs that both sides have.
known AS (
    SELECT bool_and(k.has_types AND s.parted_by = 'shape') AS has_types,
        bool_and(k.has_shapes AND s.parted_by = 'shape') AS has_shapes
    FROM (
        SELECT w.is_new, count(w.typed) > 0 AS has_types, count(w.shapes) > 0 AS has_shapes
        FROM written AS w
        GROUP BY w.is_new
    ) AS k
    JOIN sides AS s USING (is_new)
),
keyed AS (
    SELECT w.* REPLACE (coalesce(w.compared_family, w.family) AS family), w.compared_as AS op,
        CASE WHEN w.label IS NULL THEN w.family END AS launched,
        CASE WHEN k.has_types THEN coalesce(w.typed, w.sized) WHEN k.has_shapes THEN w.sized END AS tensors,
        array_to_string(
            CASE
                WHEN w.compared_inputs IS NULL THEN tensors
                ELSE list_filter(list_select(tensors, w.compared_inputs), lambda t: t IS NOT NULL)
            END,
            ' '
        ) AS matched
    FROM written AS w CROSS JOIN known AS k
),
summed AS (
    SELECT c.is_new, c.op, c.matched, c.launched,
        sum(c.calls)::DOUBLE AS calls, sum(c.ticks)::DOUBLE AS ticks,
        100 * sum(c.least_ticks) / nullif(sum(c.known_ticks), 0) AS roof_percent,
        arg_max(c.family, (c.ticks, c.family)) AS family, arg_max(c.top_event, (c.ticks, c.top_event)) AS kernel,
        min(c.device) AS device,
        string_agg(DISTINCT c.assumed, '; ' ORDER BY c.assumed) AS assumed
    FROM keyed AS c
    GROUP BY c.is_new, c.op, c.matched, c.launched
),
scaled AS (
    SELECT u.*, s.unit, s.step_count, u.calls / coalesce(s.step_count, 1) AS step_calls,
        _in_unit(u.ticks / u.calls, s.scale) AS call_time,
        _in_unit(u.ticks / coalesce(s.step_count, 1), s.scale) AS step_time
    FROM summed AS u
    JOIN sides AS s USING (is_new)
),
paired AS (
    SELECT p.op, p.matched AS inputs, min(p.family) AS family, any_value(p.unit) AS unit,
        max(CASE WHEN NOT p.is_new THEN p.step_calls END) AS base_calls,
        max(CASE WHEN p.is_new THEN p.step_calls END) AS new_calls,
        max(CASE WHEN NOT p.is_new THEN p.call_time END) AS base_call_time,
        max(CASE WHEN p.is_new THEN p.call_time END) AS new_call_time,
        max(CASE WHEN NOT p.is_new THEN p.step_time END) AS base_time,
        max(CASE WHEN p.is_new THEN p.step_time END) AS new_time,
        max(CASE WHEN NOT p.is_new THEN p.roof_percent END) AS base_roof_percent,
        max(CASE WHEN p.is_new THEN p.roof_percent END) AS new_roof_percent,
        max(CASE WHEN NOT p.is_new THEN p.kernel END) AS base_kernel,
        max(CASE WHEN p.is_new THEN p.kernel END) AS new_kernel,
        max(CASE WHEN NOT p.is_new THEN p.device END) AS base_device,
        max(CASE WHEN p.is_new THEN p.device END) AS new_device,
        max(CASE WHEN NOT p.is_new THEN p.assumed END) AS base_assumed,
        max(CASE WHEN p.is_new THEN p.assumed END) AS new_assumed,
        max(CASE WHEN NOT p.is_new THEN p.step_count END) AS base_steps,
        max(CASE WHEN p.is_new THEN p.step_count END) AS new_steps
    FROM scaled AS p
    GROUP BY p.op, p.matched, p.launched
)
SELECT p.family, p.op, p.inputs, p.base_calls, p.new_calls, p.base_call_time, p.new_call_time, p.base_time, p.new_time,
    coalesce(p.new_time, 0) - coalesce(p.base_time, 0) AS difference,
    100 * (coalesce(p.new_time, 0) - coalesce(p.base_time, 0)) / nullif(
        sum(coalesce(p.new_time, 0) - coalesce(p.base_time, 0)) OVER (), 0
    ) AS share_percent,
    p.unit, p.base_roof_percent, p.new_roof_percent, p.base_kernel, p.new_kernel, p.base_device, p.new_device,
    p.base_steps, p.new_steps, p.base_assumed, p.new_assumed
FROM paired AS p
ORDER BY abs(coalesce(p.new_time, 0) - coalesce(p.base_time, 0)) DESC, p.op, p.inputs, p.family;
