-- One op with its times, as in the operator view of torch-tb-profiler. Differences
-- from `key_averages`: it has only ops, no annotations, steps or Python functions;
-- self times exclude runtime calls; and it has columns about tensor cores. As in
-- `key_averages`, device time belongs to the op that contains its launch.
-- Differences from the plug-in: ops of newer traces have device times; the plug-in
-- uses external ids, which refer to other ops in many traces; it loses what an op
-- launches itself if the op contains another op of its name (with categories :=
-- 'older', these results are as in the plug-in); an op is eligible for tensor cores
-- if any of its calls is, not only the first.
-- Columns:
--   name: the op
--   shapes: sizes of its inputs, as a JSON list; NULL unless by is shape
--   calls: number of calls; ops that only call another of their name are one call with that
--   device_self_time: device time of its launches
--   device_total_time: device time of its launches and those of nested ops
--   host_self_time: time on the host without nested ops and runtime calls
--   host_total_time: total time on the host
--   tensor_cores_eligible: whether tensor cores could run it, or a nested op
--   tensor_cores_self_percent: share of kernels with tensor cores in device_self_time, in percent; 0 if that is 0
--   tensor_cores_total_percent: share of kernels with tensor cores in device_total_time, in percent; 0 if that is 0
--   unit: the requested unit of time
CREATE MACRO operator_table(
    capture,  -- name, hash prefix, @latest or selector
    "by" := 'name',  -- name or shape: the column by which ops are separated
    unit := NULL,  -- ns, us, ms, s, cycles; NULL: us (cycles where ticks are cycles)
    categories := 'all',  -- all, or older, as in `step_breakdown`
    steps := NULL,  -- runs to use, as a schedule: skip_first=1,active=3, see `schedule`; NULL: all
    phase := NULL  -- only runs of this phase: load, prefill, decode or other; NULL: all runs
) AS TABLE
WITH
target AS MATERIALIZED (
    SELECT
        a.capture_id,
        a.time_scale,
        a.unit,
        CASE
            WHEN "by" IN ('name', 'shape') THEN "by"
            ELSE error('by must be name or shape, not ' || coalesce("by", 'NULL'))
        END AS parted_by
    FROM _capture(capture, unit) AS a
),
summed AS (
    SELECT
        c.label AS name,
        CASE WHEN a.parted_by = 'shape' THEN coalesce(o.shapes, '[]') END AS shapes,
        a.time_scale,
        a.unit,
        count(*) AS calls,
        sum(c.device_self_ticks)::DOUBLE AS device_self_ticks,
        sum(c.device_ticks)::DOUBLE AS device_ticks,
        sum(c.host_self_ticks)::DOUBLE AS host_self_ticks,
        sum(c.host_ticks)::DOUBLE AS host_ticks,
        bool_or(c.is_eligible) AS is_eligible,
        sum(c.tensor_self_ticks)::DOUBLE AS tensor_self_ticks,
        sum(c.tensor_ticks)::DOUBLE AS tensor_ticks
    FROM target AS a
    CROSS JOIN _operator_calls((SELECT a.capture_id FROM target AS a), categories) AS c
    JOIN runs AS r ON r.capture_id = a.capture_id AND r.run_index = c.run_index
    LEFT JOIN op_arguments AS o
        ON a.parted_by = 'shape'
        AND o.capture_id = a.capture_id
        AND o.run_index = c.run_index
        AND o.event_index = c.event_index
    WHERE c.is_operator
        AND _is_recorded(r.iteration, r.phase, steps, phase)
    GROUP BY 1, 2, a.time_scale, a.unit
)
SELECT
    s.name,
    s.shapes,
    s.calls,
    _in_unit(s.device_self_ticks, s.time_scale, s.unit) AS device_self_time,
    _in_unit(s.device_ticks, s.time_scale, s.unit) AS device_total_time,
    _in_unit(s.host_self_ticks, s.time_scale, s.unit) AS host_self_time,
    _in_unit(s.host_ticks, s.time_scale, s.unit) AS host_total_time,
    s.is_eligible AS tensor_cores_eligible,
    coalesce(100e0 * s.tensor_self_ticks / nullif(s.device_self_ticks, 0), 0)
        AS tensor_cores_self_percent,
    coalesce(100e0 * s.tensor_ticks / nullif(s.device_ticks, 0), 0)
        AS tensor_cores_total_percent,
    s.unit
FROM summed AS s
ORDER BY s.device_self_ticks DESC, s.host_self_ticks DESC, s.name, s.shapes;
