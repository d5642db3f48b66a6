-- The time of one total, op, annotation, module or kernel in one step of a trace, on devices: of the work launched in
-- the step, see `device_events`.
CREATE MACRO _find_device_step_times(
    capture_key,
    step_name  -- name of an annotation whose calls are the steps; NULL: profiler steps
) AS TABLE
WITH launched AS MATERIALIZED (FROM _launches(capture_key)),
parts AS (
    SELECT e.run_index, e.start_ticks, 'device_' || _step_kind(s.activity) AS kind,
        _step_label(s.activity, s.family) AS label,
        _device_ticks(CASE s.activity WHEN 'op' THEN e.device_self_ticks ELSE e.device_ticks END) AS ticks,
        -- The device time launched before an event serves as the clock; events without it don't overlap others of theirs.
        CASE WHEN s.activity <> 'op' THEN e.thread_index END AS thread_index, e.device_before_ticks AS before_ticks
    FROM signatures AS s
    JOIN (FROM trace_events AS i WHERE i.capture_id = capture_key) AS e ON e.event_signature = s.signature_index
    WHERE s.capture_id = capture_key
        AND NOT s.on_device
        AND s.activity IN ('op', 'annotation', 'module')
        AND s.purpose IS DISTINCT FROM 'profiler'
        AND s.label IS DISTINCT FROM step_name
        AND (e.device_self_ticks > 0 OR e.device_ticks > 0)
    UNION ALL
    SELECT d.run_index, d.launch_ticks, 'device_' || d.kind, d.label, d.device_ticks, NULL, NULL FROM launched AS d
    UNION ALL
    SELECT d.run_index, d.launch_ticks, 'device_total', 'devices', d.device_ticks, NULL, NULL FROM launched AS d
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
