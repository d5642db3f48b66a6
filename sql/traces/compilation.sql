-- Whether an event of the host is torch.compile at work, by its name: regions of TorchDynamo and of its backends
-- (dynamo_timed), and, in traces with stacks, functions that compile. A call of what was compiled is none, nor is the
-- lookup of it, nor that graphs are recorded of it, which is timed by the same name.
CREATE MACRO _is_compilation(label) AS (
    NOT regexp_matches(label, '^(CUDAGraphNode|cudagraphify)')
    AND regexp_matches(
        label,
        ' \(dynamo_timed\)$|^_compile\.compile_inner|^entire_(frame|backward)_compile$|^(backend|inductor)_compile$'
        || '|torch/_dynamo/convert_frame\.py\(\d+\): (_compile|compile_inner)$'
        || '|torch/_inductor/compile_fx\.py\(\d+\): compile_fx(_inner)?$'
    )
);

-- The time in which torch.compile compiled, in one step of a trace, as in `compilation`. No row for a step without.
CREATE MACRO _compiled_ticks(capture_key) AS TABLE
WITH compiling AS (
    SELECT e.run_index, e.start_ticks, e.start_ticks + e.elapsed_ticks AS end_ticks
    FROM (
        SELECT i.signature_index
        FROM (SELECT capture_key AS capture_id) AS a
        JOIN signatures AS i USING (capture_id)
        WHERE NOT i.on_device AND _is_compilation(i.label)
    ) AS s
    JOIN (FROM event_ticks AS i WHERE i.capture_id = capture_key) AS e USING (signature_index)
    WHERE e.elapsed_ticks >= 0
),
-- What each event adds to those that began before it.
added AS (
    SELECT o.run_index, greatest(o.end_ticks - greatest(o.start_ticks, coalesce(o.so_far, o.start_ticks)), 0) AS ticks,
        o.so_far IS NULL OR o.start_ticks > o.so_far AS is_apart
    FROM (
        SELECT c.*, max(c.end_ticks) OVER (
            PARTITION BY c.run_index ORDER BY c.start_ticks, c.end_ticks DESC
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS so_far
        FROM compiling AS c
    ) AS o
)
SELECT d.run_index, sum(d.ticks)::BIGINT AS ticks, count(*) FILTER (WHERE d.is_apart) AS parts
FROM added AS d
GROUP BY d.run_index;

-- The time in which torch.compile compiled, in one step of a trace, or in a trace without steps: of events within each
-- other, and in several threads, each moment counts once. No rows: nothing was compiled.
-- Needs: torch_trace
-- Empty: {capture} has no events of torch.compile at work
-- Shown: step!#, time!~, share_percent!%, parts#, step_time~, unit
-- Columns:
--   step: number of the step, as in `wide_steps`
--   time: time in which torch.compile compiled; 0 for a step without
--   share_percent: time in percent of the step
--   parts: number of intervals without a gap that make up time
--   step_time: length of the step
--   unit: the requested unit of time
CREATE MACRO compilation(capture, unit := NULL) AS TABLE
WITH target AS MATERIALIZED (FROM _scaled_capture(capture, unit)),
compiled AS MATERIALIZED (FROM _compiled_ticks((SELECT a.capture_id FROM target AS a)))
SELECT w.step, coalesce(_in_unit(s.ticks, a.scale), 0e0) AS time,
    100 * coalesce(_in_unit(s.ticks, a.scale), 0e0) / nullif(w.total, 0) AS share_percent,
    coalesce(s.parts, 0) AS parts, w.total AS step_time, a.unit
FROM target AS a CROSS JOIN wide_steps(capture, unit) AS w
LEFT JOIN compiled AS s ON s.run_index = w.run_index
WHERE EXISTS (FROM compiled)
ORDER BY w.run_index;
