-- The calls of an annotation of a trace, as the steps by which the trace is compared, without calls within another
-- call.
CREATE MACRO _annotation_steps(capture_key, step_name) AS TABLE
-- Calls begin in the order of their starts: one that begins before the end of another is within it, or overlaps it.
SELECT
    (row_number() OVER (ORDER BY n.start_ticks) - 1)::INTEGER AS run_index,
    n.thread_index, n.start_ticks, n.end_ticks
FROM (
    SELECT e.thread_index, e.start_ticks, e.start_ticks + e.elapsed_ticks AS end_ticks,
        max(e.start_ticks + e.elapsed_ticks) OVER (
            ORDER BY e.start_ticks, e.elapsed_ticks DESC
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS before_ticks
    FROM signatures AS s
    JOIN trace_events AS e ON e.capture_id = s.capture_id AND e.event_signature = s.signature_index
    WHERE s.capture_id = capture_key
        AND s.label = step_name
        AND NOT s.on_device
        AND s.purpose IS DISTINCT FROM 'profiler'
        AND e.elapsed_ticks >= 0
) AS n
WHERE n.before_ticks IS NULL OR n.start_ticks >= n.before_ticks;

-- The kind of a host event in `step_times`; NULL for other events.
CREATE MACRO _step_kind(activity) AS (
    CASE activity
        WHEN 'op' THEN 'op'
        WHEN 'call' THEN 'runtime'
        WHEN 'annotation' THEN 'annotation'
        WHEN 'module' THEN 'module'
    END
);

-- The name of a host event in `step_times`: of a module without `nn.Module: `.
CREATE MACRO _step_label(
    activity,
    family  -- its label without serial numbers
) AS (CASE activity WHEN 'module' THEN substr(family, 12) ELSE family END);
