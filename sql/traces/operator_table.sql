-- One op with its times, as in the operator view of torch-tb-profiler. Differences from `key_averages`: it has only
-- ops, no annotations, steps or Python functions; self times exclude runtime calls; and it has columns about tensor
-- cores. As in `key_averages`, device time belongs to the op that contains its launch. It differs from the plug-in as
-- follows. Ops of newer traces have device times. Device time doesn't depend on external ids, which the plug-in uses
-- and which refer to other ops in many traces. An op keeps the kernels that it launches itself if it contains another
-- op of its name; the plug-in loses them. An op is eligible for tensor cores if any of its calls is, not only the
-- first. Where an op calls itself, or its calls overlap, its time counts once.
-- Needs: torch_trace; else: op_totals
-- Shown: name!, shapes!, calls!#, host_self_time!~, host_total_time~, device_self_time!~, device_total_time~,
--   tensor_cores_eligible, tensor_cores_self_percent%, tensor_cores_total_percent%, unit
-- Columns:
--   name: the op
--   shapes: sizes of its inputs, as a JSON list; NULL unless by is shape
--   calls: number of calls; if an op only calls another op of the same name, the two calls count as one
--   device_self_time: device time of its launches
--   device_total_time: device time of its launches and those of nested ops
--   host_self_time: time on the host without nested ops and runtime calls
--   host_total_time: total time on the host
--   tensor_cores_eligible: whether tensor cores could run it, or a nested op
--   tensor_cores_self_percent: time of kernels that use tensor cores, in percent of device_self_time; 0 if device_self_time is 0; NULL if the use of tensor cores is unknown for more than a tenth of it
--   tensor_cores_total_percent: time of kernels that use tensor cores, in percent of device_total_time; 0 if device_total_time is 0; NULL if the use of tensor cores is unknown for more than a tenth of it
--   unit: the requested unit of time
CREATE MACRO operator_table(
    capture,
    "by" := 'name',  -- name or shape: the column by which ops are separated
    unit := NULL, steps := NULL, phase := NULL
) AS TABLE
WITH target AS MATERIALIZED (
    SELECT c.*, _checked_by("by", ['name', 'shape']) AS parted_by FROM _scaled_capture(capture, unit) AS c
),
called AS MATERIALIZED (
    SELECT c.*, c.start_ticks + c.host_ticks AS end_ticks, c.device_before_ticks + c.device_ticks AS device_until_ticks,
        c.tensor_before_ticks + c.tensor_ticks AS tensor_until_ticks,
        c.unknown_before_ticks + c.unknown_ticks AS unknown_until_ticks,
        CASE WHEN a.parted_by = 'shape' THEN coalesce(o.shapes, '[]') END AS shapes
    FROM target AS a CROSS JOIN _operator_calls((SELECT a.capture_id FROM target AS a)) AS c
    JOIN runs AS r USING (capture_id, run_index)
    LEFT JOIN op_arguments AS o
        ON a.parted_by = 'shape'
        AND o.capture_id = a.capture_id
        AND o.run_index = c.run_index
        AND o.event_index = c.event_index
    WHERE c.is_operator AND _is_recorded(r.iteration, r.phase, steps, phase)
),
nested AS MATERIALIZED (SELECT DISTINCT c.label FROM called AS c WHERE c.covers_own),
-- The part of each call that earlier calls of the same row and thread cover counts once. Most ops have no such calls.
repeated AS (
    SELECT c.*, _part_before(c.start_ticks, c.end_ticks, max(c.end_ticks) OVER earlier_calls) AS host_repeated,
        _part_before(
            c.device_before_ticks, c.device_until_ticks, max(c.device_until_ticks) OVER earlier_calls
        ) AS device_repeated,
        _part_before(
            c.tensor_before_ticks, c.tensor_until_ticks, max(c.tensor_until_ticks) OVER earlier_calls
        ) AS tensor_repeated,
        _part_before(
            c.unknown_before_ticks, c.unknown_until_ticks, max(c.unknown_until_ticks) OVER earlier_calls
        ) AS unknown_repeated
    FROM called AS c
    JOIN nested AS n ON n.label = c.label
    WINDOW earlier_calls AS (
        PARTITION BY c.label, c.shapes, c.thread_index
        ORDER BY c.start_ticks, c.end_ticks DESC, c.event_index
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    )
    UNION ALL
    SELECT c.*, 0, 0, 0, 0 FROM called AS c LEFT JOIN nested AS n ON n.label = c.label WHERE n.label IS NULL
),
summed AS (
    SELECT c.label AS name, c.shapes, a.unit, a.scale, count(*) AS calls,
        sum(c.device_self_ticks)::DOUBLE AS device_self_ticks,
        sum(c.device_ticks - c.device_repeated)::DOUBLE AS device_ticks,
        sum(c.host_self_ticks)::DOUBLE AS host_self_ticks, sum(c.host_ticks - c.host_repeated)::DOUBLE AS host_ticks,
        bool_or(c.is_eligible) AS is_eligible, sum(c.tensor_self_ticks)::DOUBLE AS tensor_self_ticks,
        sum(c.tensor_ticks - c.tensor_repeated)::DOUBLE AS tensor_ticks,
        sum(c.unknown_self_ticks)::DOUBLE AS unknown_self_ticks,
        sum(c.unknown_ticks - c.unknown_repeated)::DOUBLE AS unknown_ticks
    FROM target AS a CROSS JOIN repeated AS c
    GROUP BY c.label, c.shapes, a.unit, a.scale
)
SELECT s.name, s.shapes, s.calls, _in_unit(s.device_self_ticks, s.scale) AS device_self_time,
    _in_unit(s.device_ticks, s.scale) AS device_total_time, _in_unit(s.host_self_ticks, s.scale) AS host_self_time,
    _in_unit(s.host_ticks, s.scale) AS host_total_time, s.is_eligible AS tensor_cores_eligible,
    CASE
        WHEN s.device_self_ticks = 0 THEN 0
        ELSE _tensor_percent(s.tensor_self_ticks, s.unknown_self_ticks, s.device_self_ticks)
    END AS tensor_cores_self_percent,
    CASE
        WHEN s.device_ticks = 0 THEN 0
        ELSE _tensor_percent(s.tensor_ticks, s.unknown_ticks, s.device_ticks)
    END AS tensor_cores_total_percent,
    s.unit
FROM summed AS s
ORDER BY s.device_self_ticks DESC, s.host_self_ticks DESC, s.name, s.shapes;
