-- The time of one total, op, annotation, module or kernel in one step of a trace, on devices: of the work launched in
-- the step, see `device_events`.
CREATE MACRO _find_device_step_times(
    capture_key,
    step_name  -- name of an annotation whose calls are the steps; NULL: profiler steps
) AS TABLE
WITH timed AS MATERIALIZED (
    SELECT d.*,
        CASE
            WHEN NOT d.is_on_device THEN 'device_' || _step_kind(d.slice)
            WHEN d.slice = 'kernel' THEN 'device_kernel'
            WHEN d.slice = 'copy' THEN 'device_copy'
            ELSE 'device_fill'
        END AS kind
    FROM _launched_times(capture_key) AS d
    WHERE d.is_on_device
        OR coalesce(d.total_ticks, 0) + d.self_ticks > 0
        AND d.slice IN ('op', 'annotation', 'module')
        AND NOT d.is_helper
        AND d.label IS DISTINCT FROM step_name
),
parts AS (
    SELECT t.run_index, t.start_ticks, t.kind,
        CASE WHEN t.is_on_device THEN t.label ELSE _step_label(t.slice, t.family) END AS label,
        CASE t.slice WHEN 'op' THEN t.self_ticks ELSE t.total_ticks END AS ticks,
        -- `before_ticks`, the device time launched before an event, serves as the clock.
        CASE WHEN t.slice IN ('annotation', 'module') THEN t.thread_index END AS thread_index, t.before_ticks
    FROM timed AS t
    UNION ALL
    SELECT t.run_index, t.start_ticks, 'device_total', 'devices', t.total_ticks, NULL, NULL
    FROM timed AS t
    WHERE t.is_on_device
),
placed AS (
    SELECT p.run_index, p.kind, p.label, p.ticks, p.thread_index, p.before_ticks FROM parts AS p WHERE step_name IS NULL
    UNION ALL
    SELECT a.run_index, p.kind, p.label, p.ticks, p.thread_index, p.before_ticks
    FROM parts AS p
    ASOF JOIN _annotation_steps(capture_key, step_name) AS a ON row(p.start_ticks) >= row(a.start_ticks)
    WHERE step_name IS NOT NULL AND p.start_ticks < a.end_ticks
),
once AS (
    SELECT p.run_index, p.kind, p.label, p.ticks, p.ticks AS counted_ticks FROM placed AS p WHERE p.thread_index IS NULL
    UNION ALL
    SELECT p.run_index, p.kind, p.label, p.ticks,
        p.ticks - _part_before(
            p.before_ticks, p.before_ticks + p.ticks,
            max(p.before_ticks + p.ticks) OVER (
                PARTITION BY p.run_index, p.kind, p.label, p.thread_index
                ORDER BY p.before_ticks, p.ticks DESC
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            )
        )
    FROM placed AS p
    WHERE p.thread_index IS NOT NULL
)
SELECT t.capture_id, t.run_index, t.scope || ' on devices' AS scope, p.kind, p.label, count(*)::INTEGER AS calls,
    try_cast(sum(p.counted_ticks) AS BIGINT) AS ticks, t.is_sample
FROM step_times AS t
JOIN once AS p USING (run_index)
WHERE t.capture_id = capture_key
    AND t.kind = 'framework'
    AND (p.ticks > 0 OR p.kind NOT IN ('device_op', 'device_annotation', 'device_module'))
GROUP BY t.capture_id, t.run_index, p.kind, p.label, t.scope, t.is_sample
HAVING try_cast(sum(p.counted_ticks) AS BIGINT) IS NOT NULL
ORDER BY t.run_index, p.kind, p.label;
