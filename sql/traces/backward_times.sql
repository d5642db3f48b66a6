-- The times of the forward and the backward pass of one module, or of one op, in a trace. A call of the backward pass
-- belongs to the op whose sequence number it has, see `passes`, and to the modules that contain this op. By module,
-- times include nested modules, so that rows don't add up; rows are in the order of the first calls, and need traces
-- with Python functions (`with_stack`). By op, a row is an op and one of autograd's functions, those with the most time
-- first; forward times are the times of calls that have a backward call. The functions that accumulate gradients have
-- no sequence number: they belong to no op and no module.
-- Needs: torch_trace; else: module_totals
-- Empty: {capture} has no modules, or no backward pass: record modules with with_stack=True, or use --by op
-- Empty by op: {capture} has no backward pass
-- Shown: module_path AS module!, op!, forward_host_time~, backward_host_time!~, forward_device_time~,
--   backward_device_time!~, forward_calls#, backward_calls#, backward, unit
-- Columns:
--   module_path: names of the modules that contain it and its name, separated by slashes; NULL by op, and for calls of no module
--   op: the op of the forward pass; NULL by module, and for calls of no op
--   backward: autograd's function, such as AddmmBackward0; NULL by module
--   forward_calls: number of calls in the forward pass
--   backward_calls: number of calls in the backward pass
--   forward_host_time: time of the calls on the host in the forward pass
--   backward_host_time: time on the host in the backward pass
--   forward_device_time: time of the device events launched in the forward pass; NULL if the trace has no device events
--   backward_device_time: time of the device events launched in the backward pass; NULL if the trace has no device events
--   unit: the requested unit of time
CREATE MACRO backward_times(
    capture,
    "by" := 'module',  -- module or op
    unit := NULL
) AS TABLE
WITH target AS MATERIALIZED (
    SELECT c.*, _checked_by("by", ['module', 'op']) = 'module' AS by_module FROM _scaled_capture(capture, unit) AS c
),
paths AS MATERIALIZED (FROM _event_module_paths((SELECT a.capture_id FROM target AS a)) AS m WHERE "by" = 'module'),
events AS MATERIALIZED (
    SELECT t.event_index, s.label, t.start_ticks, t.elapsed_ticks AS ticks, t.backward_index, t.forward_index,
        CASE WHEN w.has_work THEN _device_ticks(t.device_ticks) END AS device_ticks,
        s.activity = 'module' OR s.purpose = 'module' AS is_module
    FROM target AS a CROSS JOIN _has_device_work((SELECT a.capture_id FROM target AS a)) AS w
    JOIN trace_events AS t USING (capture_id)
    JOIN signatures AS s ON s.capture_id = a.capture_id AND s.signature_index = t.event_signature
    WHERE t.pass IS NOT NULL
),
backward_calls AS MATERIALIZED (
    SELECT e.event_index, e.forward_index AS op_index, e.ticks, e.device_ticks,
        regexp_replace(e.label, '^autograd::engine::evaluate_function: ', '') AS label
    FROM events AS e
    WHERE e.event_index = e.backward_index
),
of_modules AS (
    -- Calls that are repeated in the backward pass belong to that pass.
    SELECT p.modules, NULL::VARCHAR AS op, NULL::VARCHAR AS backward, false AS is_backward, m.ticks,
        m.device_ticks, m.start_ticks AS first_ticks
    FROM events AS m
    JOIN paths AS p USING (event_index)
    WHERE m.is_module AND m.backward_index IS NULL
    UNION ALL
    -- A call belongs to all modules on the path of its op.
    SELECT list_slice(w.modules, 1, w.depth), NULL, NULL, true, w.ticks, w.device_ticks, NULL
    FROM (
        SELECT b.ticks, b.device_ticks, p.modules, unnest(range(1, len(p.modules) + 1)) AS depth
        FROM backward_calls AS b
        JOIN paths AS p ON p.event_index = b.op_index
    ) AS w
    UNION ALL
    SELECT NULL, NULL, NULL, true, b.ticks, b.device_ticks, NULL
    FROM backward_calls AS b
    LEFT JOIN paths AS p ON p.event_index = b.op_index
    WHERE p.event_index IS NULL AND EXISTS (FROM paths)
),
of_ops AS (
    SELECT NULL::VARCHAR[] AS modules, f.label AS op, b.label AS backward, false AS is_backward, f.ticks,
        f.device_ticks, NULL::BIGINT AS first_ticks
    FROM (SELECT DISTINCT c.op_index, c.label FROM backward_calls AS c WHERE "by" = 'op') AS b
    JOIN events AS f ON f.event_index = b.op_index
    UNION ALL
    SELECT NULL, f.label, b.label, true, b.ticks, b.device_ticks, NULL
    FROM backward_calls AS b
    LEFT JOIN events AS f ON f.event_index = b.op_index
    WHERE "by" = 'op'
),
summed AS (
    SELECT r.modules, r.op, r.backward, _sum_where(1, r.is_backward IS NOT TRUE) AS forward_calls,
        sum(CASE WHEN r.is_backward THEN 1 ELSE 0 END)::BIGINT AS backward_calls,
        _sum_where(r.ticks, r.is_backward IS NOT TRUE) AS forward_ticks,
        _sum_where(r.ticks, r.is_backward) AS backward_ticks,
        -- If the trace has device events, all host events have a device time.
        try_cast(sum(CASE WHEN r.is_backward THEN 0 ELSE 1 END * r.device_ticks) AS BIGINT) AS forward_device_ticks,
        try_cast(sum(CASE WHEN r.is_backward THEN 1 ELSE 0 END * r.device_ticks) AS BIGINT) AS backward_device_ticks,
        min(r.first_ticks) AS first_ticks
    FROM (FROM of_modules UNION ALL FROM of_ops) AS r
    GROUP BY r.modules, r.op, r.backward
)
SELECT array_to_string(s.modules, '/') AS module_path, s.op, s.backward, s.forward_calls, s.backward_calls,
    _in_unit(s.forward_ticks, a.scale) AS forward_host_time, _in_unit(s.backward_ticks, a.scale) AS backward_host_time,
    _in_unit(s.forward_device_ticks, a.scale) AS forward_device_time,
    _in_unit(s.backward_device_ticks, a.scale) AS backward_device_time, a.unit
FROM summed AS s
JOIN target AS a ON a.by_module IS NOT NULL
ORDER BY s.first_ticks NULLS LAST, s.backward_device_ticks DESC, s.backward_ticks DESC, s.modules, s.op, s.backward;
