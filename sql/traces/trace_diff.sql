-- The calls and times of one op, kernel, annotation or Python function in two PyTorch traces, as in `TraceDiff` of
-- HolisticTraceAnalysis: the times are totals, with children. Unlike in `compare_ops`, differences are not tested for
-- noise. In traces with profiler steps, only these steps are compared. Differences from HolisticTraceAnalysis: all
-- steps count, not only the first, unless steps are chosen; an event of the host and one of a device with the same name
-- have a row each; all profiler steps have one row.
-- Shown: name!, change!, base_time!~, new_time!~, time_difference!~, base_calls#, new_calls#, calls_difference#,
--   is_device, unit
-- Columns:
--   name: the op, kernel, annotation or function; ProfilerStep* for all steps
--   is_device: whether a device ran it
--   change: added, removed, more calls, fewer calls, or same (number of calls)
--   base_calls: number of calls in base
--   new_calls: number of calls in new
--   calls_difference: new_calls minus base_calls
--   base_time: total time in base, with children
--   new_time: total time in new, with children
--   time_difference: new_time minus base_time
--   unit: the requested unit of times
CREATE MACRO trace_diff(
    base,  -- a PyTorch trace: name, hash prefix, @latest or selector
    new,  -- as `base`
    unit := NULL,  -- ns, us, ms, s; NULL: us
    steps := NULL, phase := NULL
) AS TABLE
WITH checked AS MATERIALIZED (FROM _two_traces(base, new, unit)),
counted AS (
    SELECT g.family AS name, g.on_device AS is_device, k.unit, k.scale,
        count(*) FILTER (WHERE NOT k.is_new) AS base_calls, count(*) FILTER (WHERE k.is_new) AS new_calls,
        coalesce(sum(greatest(e.elapsed_ticks, 0)) FILTER (WHERE NOT k.is_new), 0)::DOUBLE AS base_ticks,
        coalesce(sum(greatest(e.elapsed_ticks, 0)) FILTER (WHERE k.is_new), 0)::DOUBLE AS new_ticks
    FROM checked AS k
    JOIN runs AS r
        ON r.capture_id = k.capture_id
        AND NOT _is_outside_steps(r.name)
        AND _is_recorded(r.iteration, r.phase, steps, phase)
    JOIN event_ticks AS e ON e.capture_id = r.capture_id AND e.run_index = r.run_index
    JOIN signatures AS g ON g.capture_id = e.capture_id AND g.signature_index = e.signature_index
    WHERE g.category IS NOT NULL AND g.category <> 'Trace'
    GROUP BY g.family, g.on_device, k.unit, k.scale
)
SELECT c.name, c.is_device,
    CASE
        WHEN c.base_calls = 0 THEN 'added'
        WHEN c.new_calls = 0 THEN 'removed'
        WHEN c.new_calls > c.base_calls THEN 'more calls'
        WHEN c.new_calls < c.base_calls THEN 'fewer calls'
        ELSE 'same'
    END AS change,
    c.base_calls, c.new_calls, c.new_calls - c.base_calls AS calls_difference,
    _in_unit(c.base_ticks, c.scale) AS base_time, _in_unit(c.new_ticks, c.scale) AS new_time,
    _in_unit(c.new_ticks - c.base_ticks, c.scale) AS time_difference, c.unit
FROM counted AS c
ORDER BY abs(c.new_ticks - c.base_ticks) DESC, c.name, c.is_device;
