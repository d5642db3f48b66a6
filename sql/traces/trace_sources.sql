-- The time of one line of the user's code in a trace: on the host, the self times of events whose stack has it as the
-- innermost line of the user's code; on devices, the time of the kernels, copies and fills that were launched there.
-- Times add up exactly to those of `key_averages`: on the host to all self times, on devices to the time of all work. A
-- line is the one where a Python function begins, because the profiler writes no other line; in older traces, it is the
-- line of the call. The user's code is all code outside of Python itself, torch and other packages, see `purpose` of
-- `signatures`. Events of the backward pass without a stack, as on autograd's thread for a device, count for the line
-- that called the op of the forward pass, see `backward_times`. Lines with the most time come first.
-- Needs: torch_trace; else: source_totals
-- Empty: {capture} has no stacks, so nothing has a line: record it with with_stack=True
-- Shown: source!, function!, device_per_step!~, device_time!+~, device_percent!%, host_per_step!~, host_time!+~,
--   host_percent!%, calls!#, launches!#, backward_device_time~, backward_host_time~, steps+#, unit
-- Columns:
--   source: file and line; (no line of the user's) for stacks without such a line, (no stack) for what runs without Python's functions around it
--   function: the function; NULL for rows in parentheses
--   source_file: the file; NULL for rows in parentheses
--   source_line: the line; NULL for rows in parentheses
--   calls: number of events of the host
--   launches: number of kernels, copies and fills
--   host_time: sum of their self times on the host, of all threads
--   host_percent: host_time in percent of all
--   device_time: time of kernels, copies and fills, the sum over all streams; NULL if the trace has none
--   device_percent: device_time in percent of all; NULL if the trace has none
--   backward_host_time: part of host_time in backward passes without a stack whose forward ops the line called
--   backward_device_time: the same part of device_time
--   unit: the requested unit of time
--   steps: number of the trace's steps; NULL without steps
--   host_per_step: host_time of events that begin in steps, per step
--   device_per_step: device_time of what steps launched, per step
--   host_ticks: host_time in ticks, a whole number
--   device_ticks: device_time in ticks, a whole number
CREATE MACRO trace_sources(capture, unit := NULL, steps := NULL, phase := NULL) AS TABLE
WITH target AS MATERIALIZED (FROM _capture_with_steps(capture, unit, steps, phase)),
recorded AS MATERIALIZED (
    SELECT r.run_index, _is_step_run(r.name) AS is_step
    FROM target AS a
    JOIN runs AS r USING (capture_id)
    WHERE _is_recorded(r.iteration, r.phase, steps, phase)
),
kinds AS MATERIALIZED (
    SELECT s.signature_index, s.on_device, coalesce(s.purpose = 'profiler', false) AS is_helper
    FROM target AS a
    JOIN signatures AS s USING (capture_id)
    WHERE NOT s.on_device OR s.activity IN ('kernel', 'copy', 'fill')
),
-- Lines of the ops of the forward pass to which calls of backward passes without a stack belong.
backward AS MATERIALIZED (
    SELECT b.event_index, f.source
    FROM target AS a
    JOIN trace_events AS b USING (capture_id)
    JOIN trace_events AS f ON f.capture_id = b.capture_id AND f.event_index = b.forward_index
    WHERE b.source IS NULL AND f.source IS NOT NULL
),
events AS (
    SELECT coalesce(e.source, b.source) AS source, e.source IS NULL AND b.source IS NOT NULL AS is_backward,
        k.on_device, r.is_step,
        CASE WHEN k.on_device THEN e.elapsed_ticks ELSE t.self_ticks END AS ticks
    FROM target AS a
    JOIN trace_events AS e USING (capture_id)
    JOIN event_ticks AS t USING (capture_id, run_index, event_index)
    JOIN recorded AS r USING (run_index)
    JOIN kinds AS k ON k.signature_index = e.event_signature
    LEFT JOIN device_events AS d USING (capture_id, run_index, event_index)
    LEFT JOIN backward AS b ON b.event_index = coalesce(d.backward_index, e.backward_index)
    -- The profiler's own events that nothing contains, such as that of the whole recording, have no time of the program.
    WHERE CASE WHEN k.on_device THEN e.elapsed_ticks >= 0 ELSE NOT k.is_helper OR e.call_index IS NOT NULL END
),
times AS MATERIALIZED (
    SELECT t.source, t.on_device, t.is_step, t.is_backward, count(*) AS calls, sum(t.ticks)::BIGINT AS ticks
    FROM events AS t
    GROUP BY t.source, t.on_device, t.is_step, t.is_backward
),
lines AS (
    SELECT t.source AS written,
        regexp_extract(t.source, '^(.*)\((\d+)\): (.*)$', ['file', 'line', 'function']) AS place,
        _sum_where(t.calls, NOT t.on_device) AS calls, _sum_where(t.calls, t.on_device) AS launches,
        _sum_where(t.ticks, NOT t.on_device) AS host_ticks, _sum_where(t.ticks, t.on_device) AS device_ticks,
        _sum_where(t.ticks, NOT t.on_device AND t.is_backward) AS backward_host_ticks,
        _sum_where(t.ticks, t.on_device AND t.is_backward) AS backward_device_ticks,
        _sum_where(t.ticks, NOT t.on_device AND t.is_step) AS host_in_steps,
        _sum_where(t.ticks, t.on_device AND t.is_step) AS device_in_steps
    FROM times AS t
    WHERE EXISTS (FROM times AS o WHERE o.source IS NOT NULL)
    GROUP BY t.source
),
sums AS (
    SELECT sum(s.host_ticks)::DOUBLE AS host_ticks, sum(s.device_ticks)::DOUBLE AS device_ticks,
        sum(s.launches) > 0 AS has_devices
    FROM lines AS s
)
SELECT _shown_line(s.written) AS source,
    nullif(s.place.function, '') AS function, nullif(s.place.file, '') AS source_file,
    try_cast(nullif(s.place.line, '') AS BIGINT) AS source_line, s.calls, s.launches,
    _in_unit(s.host_ticks, a.scale) AS host_time, 100 * s.host_ticks / nullif(o.host_ticks, 0) AS host_percent,
    CASE WHEN o.has_devices THEN _in_unit(s.device_ticks, a.scale) END AS device_time,
    100 * s.device_ticks / nullif(o.device_ticks, 0) AS device_percent,
    _in_unit(s.backward_host_ticks, a.scale) AS backward_host_time,
    CASE WHEN o.has_devices THEN _in_unit(s.backward_device_ticks, a.scale) END AS backward_device_time, a.unit,
    a.step_count AS steps, _in_unit(s.host_in_steps / a.step_count, a.scale) AS host_per_step,
    CASE WHEN o.has_devices THEN _in_unit(s.device_in_steps / a.step_count, a.scale) END AS device_per_step,
    s.host_ticks, CASE WHEN o.has_devices THEN s.device_ticks END AS device_ticks
FROM lines AS s CROSS JOIN sums AS o CROSS JOIN target AS a
ORDER BY s.device_ticks DESC, s.host_ticks DESC, s.written NULLS LAST;
