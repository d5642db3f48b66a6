-- One nn.Module of a trace in the tree of calls between modules, with its times, as in the module view of
-- torch-tb-profiler; for traces with Python functions (`with_stack`). Modules that a module calls follow it, in the
-- order of their first calls. Differences from the plug-in: a module that several others call has a row below each of
-- them, with the times of the calls from there, so rows add up (the plug-in repeats the sum of all calls in each row);
-- backward passes have no rows of their own.
-- Needs: torch_trace; else: module_totals
-- Shown: module_path AS module!, calls!#, host_per_step!~, device_per_step!~, host_self_per_step~,
--   device_self_per_step~, per_call!~, host_total_time+~, device_total_time+~, host_self_time+~, device_self_time+~,
--   operators#, steps+#, unit
-- Columns:
--   module_path: names of the modules that contain it and its name, separated by slashes
--   module: name of the module, which ends in a number within its class; for a module of Lightning, the path of its attribute
--   depth: number of modules that contain it
--   calls: number of calls
--   operators: number of ops that are its children
--   host_total_time: total time on the host
--   host_self_time: host_total_time without child ops and modules
--   device_total_time: device time of what it and its descendants launched
--   device_self_time: device_total_time without child modules
--   per_call: device_total_time per call, or if that is 0, host_total_time
--   unit: the requested unit of time
--   steps: number of the trace's steps; NULL without steps
--   host_per_step: host_total_time of calls that begin in steps, per step
--   host_self_per_step: host_self_time of calls that begin in steps, per step
--   device_per_step: device_total_time of calls that begin in steps, per step
--   device_self_per_step: device_self_time of calls that begin in steps, per step
CREATE MACRO module_tree(capture, unit := NULL, steps := NULL, phase := NULL) AS TABLE
WITH RECURSIVE target AS MATERIALIZED (FROM _capture_with_steps(capture, unit, steps, phase)),
calls AS MATERIALIZED (FROM _operator_calls((SELECT a.capture_id FROM target AS a))),
recorded AS MATERIALIZED (
    SELECT r.run_index, _is_step_run(r.name) AS is_step
    FROM target AS a
    JOIN runs AS r USING (capture_id)
    WHERE _is_recorded(r.iteration, r.phase, steps, phase)
),
-- The module that directly contains each module; ops and steps may lie between them.
placed AS MATERIALIZED (
    SELECT c.event_index, t.module_index AS above_index
    FROM target AS a
    JOIN trace_events AS t USING (capture_id)
    JOIN calls AS c USING (event_index)
    WHERE c.kind = 'module' AND t.module_index IS NOT NULL
),
pathed AS (
    SELECT c.event_index, _module_name(c.label) AS module_path, 0 AS depth
    FROM calls AS c
    WHERE c.kind = 'module' AND c.event_index NOT IN (SELECT p.event_index FROM placed AS p)
    UNION ALL
    SELECT c.event_index, q.module_path || '/' || _module_name(c.label), q.depth + 1
    FROM pathed AS q
    JOIN placed AS p ON p.above_index = q.event_index
    JOIN calls AS c ON c.event_index = p.event_index
),
within AS (
    SELECT c.parent_index, count(*) AS operators, sum(c.device_ticks) AS device_ticks
    FROM calls AS c
    WHERE c.is_operator AND c.parent_index IS NOT NULL
    GROUP BY c.parent_index
),
summed AS (
    SELECT q.module_path, any_value(_module_name(c.label)) AS module, any_value(q.depth) AS depth, count(*) AS calls,
        coalesce(sum(w.operators), 0)::BIGINT AS operators, sum(c.host_ticks)::DOUBLE AS host_ticks,
        sum(c.host_self_ticks)::DOUBLE AS host_self_ticks, sum(c.device_ticks)::DOUBLE AS device_ticks,
        sum(c.device_self_ticks + coalesce(w.device_ticks, 0))::DOUBLE AS device_self_ticks,
        sum(CASE WHEN r.is_step THEN c.host_ticks ELSE 0 END)::DOUBLE AS host_in_steps,
        sum(CASE WHEN r.is_step THEN c.host_self_ticks ELSE 0 END)::DOUBLE AS host_self_in_steps,
        sum(CASE WHEN r.is_step THEN c.device_ticks ELSE 0 END)::DOUBLE AS device_in_steps,
        sum(
            CASE WHEN r.is_step THEN c.device_self_ticks + coalesce(w.device_ticks, 0) ELSE 0 END
        )::DOUBLE AS device_self_in_steps,
        min(c.start_ticks) AS first_ticks
    FROM pathed AS q
    JOIN calls AS c USING (event_index)
    JOIN recorded AS r USING (run_index)
    LEFT JOIN within AS w ON w.parent_index = c.event_index
    GROUP BY q.module_path
)
SELECT s.module_path, s.module, s.depth, s.calls, s.operators, _in_unit(s.host_ticks, a.scale) AS host_total_time,
    _in_unit(s.host_self_ticks, a.scale) AS host_self_time, _in_unit(s.device_ticks, a.scale) AS device_total_time,
    _in_unit(s.device_self_ticks, a.scale) AS device_self_time,
    _in_unit(CASE WHEN s.device_ticks > 0 THEN s.device_ticks ELSE s.host_ticks END / s.calls, a.scale) AS per_call,
    a.unit, a.step_count AS steps, _in_unit(s.host_in_steps / a.step_count, a.scale) AS host_per_step,
    _in_unit(s.host_self_in_steps / a.step_count, a.scale) AS host_self_per_step,
    _in_unit(s.device_in_steps / a.step_count, a.scale) AS device_per_step,
    _in_unit(s.device_self_in_steps / a.step_count, a.scale) AS device_self_per_step
FROM summed AS s CROSS JOIN target AS a
ORDER BY s.first_ticks, s.depth, s.module_path;
