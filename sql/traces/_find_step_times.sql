-- The time of one total, op, annotation or module in one step of a trace, on the
-- host: of the events that begin in the step; of ops and runtime calls without
-- children, of others with them. The time of the profiler's helper events belongs to
-- the events that contain them.
-- Columns:
--   capture_id: the capture
--   run_index: the step: its run; for an annotation its position in time, from 0
--   scope: what the steps are: ProfilerStep, Trace, or an annotation
--   kind: framework (the step), op, runtime, annotation, module
--   label: name of the op, runtime call, annotation or module
--   calls: number of calls
--   ticks: time of all calls, in ticks
--   is_sample: whether the step is one of at most 30, evenly spaced
CREATE MACRO _find_step_times(
    capture_key,  -- key of a capture
    step_name  -- name of an annotation whose calls are the steps; NULL: profiler steps
) AS TABLE
WITH
kinds AS MATERIALIZED (
    SELECT
        k.signature_index,
        k.is_helper,
        k.slice = 'Step' AS is_step,
        CASE WHEN k.label IS DISTINCT FROM step_name THEN _step_kind(k.slice) END
            AS kind,
        _step_label(k.slice, k.family) AS label
    FROM (
        SELECT
            s.*,
            _is_profiler_helper(s.label, s.category) AS is_helper,
            _slice_kind(s.category, s.label, 'all') AS slice
        FROM signatures AS s
        WHERE s.capture_id = capture_key
            AND s.category IS NOT NULL
            AND NOT _is_device_event(s.category)
    ) AS k
),
-- Without texts, which would take most of the memory of an ingest.
hosts AS MATERIALIZED (
    SELECT
        e.run_index,
        e.event_index,
        e.parent_index,
        e.signature_index,
        e.start_ticks,
        e.elapsed_ticks,
        k.is_helper,
        k.is_step,
        k.kind IN ('op', 'runtime') AS is_exclusive
    FROM kinds AS k
    JOIN event_ticks AS e
        ON e.capture_id = capture_key AND e.signature_index = k.signature_index
),
found AS (
    SELECT
        r.run_index,
        r.name AS scope,
        min(h.start_ticks) AS start_ticks,
        max(h.start_ticks + h.elapsed_ticks) AS end_ticks
    FROM runs AS r
    JOIN hosts AS h ON h.run_index = r.run_index
    WHERE r.capture_id = capture_key
        AND step_name IS NULL
        AND NOT h.is_helper
        AND h.elapsed_ticks >= 0
        AND CASE r.name
            WHEN 'ProfilerStep' THEN h.is_step
            ELSE r.name = 'Trace'
        END
    GROUP BY r.run_index, r.name
    UNION ALL
    SELECT a.run_index, step_name, a.start_ticks, a.end_ticks
    FROM _annotation_steps(capture_key, step_name) AS a
    WHERE step_name IS NOT NULL
),
steps AS MATERIALIZED (
    SELECT
        f.*,
        f.place * 30 // f.steps > (f.place - 1) * 30 // f.steps AS is_sample
    FROM (
        SELECT
            s.*,
            row_number() OVER (ORDER BY s.run_index) AS place,
            greatest(30, count(*) OVER ()) AS steps
        FROM found AS s
    ) AS f
),
placed AS (
    SELECT h.*, t.run_index AS step_index
    FROM hosts AS h
    JOIN steps AS t ON t.run_index = h.run_index
    WHERE step_name IS NULL AND NOT h.is_helper
    UNION ALL
    SELECT h.*, t.run_index
    FROM hosts AS h
    ASOF JOIN steps AS t ON h.start_ticks >= t.start_ticks
    WHERE step_name IS NOT NULL AND NOT h.is_helper AND h.start_ticks < t.end_ticks
),
-- An event's parent is the nearest event that is not a helper.
stepped AS MATERIALIZED (
    SELECT
        p.step_index,
        p.event_index,
        CASE WHEN h.event_index IS NULL THEN p.parent_index ELSE h.parent_index END
            AS parent_index,
        p.signature_index,
        p.is_exclusive,
        greatest(p.elapsed_ticks, 0) AS ticks
    FROM placed AS p
    LEFT JOIN (FROM hosts AS h WHERE h.is_helper) AS h
        ON h.event_index = p.parent_index
),
sums AS (
    SELECT s.step_index, s.signature_index, count(*) AS calls, sum(s.ticks) AS ticks
    FROM stepped AS s
    GROUP BY s.step_index, s.signature_index
    UNION ALL
    SELECT p.step_index, p.signature_index, 0, -sum(c.ticks)
    FROM stepped AS c
    JOIN stepped AS p ON p.event_index = c.parent_index
    WHERE p.is_exclusive
    GROUP BY p.step_index, p.signature_index
),
parts AS (
    SELECT
        t.run_index, t.scope, t.is_sample, 'framework' AS kind, t.scope AS label,
        1 AS calls, t.end_ticks - t.start_ticks AS ticks
    FROM steps AS t
    UNION ALL
    SELECT t.run_index, t.scope, t.is_sample, k.kind, k.label, s.calls, s.ticks
    FROM sums AS s
    JOIN kinds AS k ON k.signature_index = s.signature_index
    JOIN steps AS t ON t.run_index = s.step_index
    WHERE k.kind IS NOT NULL
)
SELECT
    capture_key::INTEGER AS capture_id,
    p.run_index,
    p.scope,
    p.kind,
    p.label,
    sum(p.calls)::INTEGER AS calls,
    try_cast(sum(p.ticks) AS BIGINT) AS ticks,
    p.is_sample
FROM parts AS p
GROUP BY p.run_index, p.scope, p.is_sample, p.kind, p.label
HAVING try_cast(sum(p.ticks) AS BIGINT) IS NOT NULL
ORDER BY p.run_index, p.kind, p.label;

-- The time of one total, op, annotation, module or kernel in one step of a trace, on
-- devices: of what was launched in the step, see `_device_owners`.
-- Columns:
--   capture_id: the capture
--   run_index: the step: its run; for an annotation its position in time, from 0
--   scope: what the steps are, followed by ` on devices`
--   kind: device_total, device_kernel, device_copy, device_fill; device_op (what the op launched itself), device_annotation and device_module (what was launched within)
--   label: name of the op, annotation, module or kernel
--   calls: number of calls; for ops, annotations and modules of those that launched something
--   ticks: time of all calls, in ticks
--   is_sample: whether the step is one of at most 30, evenly spaced
CREATE MACRO _find_device_step_times(
    capture_key,  -- key of a capture
    step_name  -- name of an annotation whose calls are the steps; NULL: profiler steps
) AS TABLE
WITH
timed AS MATERIALIZED (
    SELECT
        d.*,
        CASE
            WHEN NOT d.is_on_device THEN 'device_' || _step_kind(d.slice)
            WHEN d.slice = 'Kernel' THEN 'device_kernel'
            WHEN d.slice = 'Memcpy' THEN 'device_copy'
            ELSE 'device_fill'
        END AS kind
    FROM _launched_times(capture_key, 'launching') AS d
    WHERE d.is_on_device
        OR coalesce(d.total_ticks, 0) + d.self_ticks > 0
        AND d.slice IN ('Operator', 'Annotation', 'Module')
        AND NOT d.is_helper
        AND d.label IS DISTINCT FROM step_name
),
parts AS (
    SELECT
        t.run_index,
        t.start_ticks,
        t.kind,
        CASE WHEN t.is_on_device THEN t.label ELSE _step_label(t.slice, t.family) END
            AS label,
        CASE t.slice WHEN 'Operator' THEN t.self_ticks ELSE t.total_ticks END AS ticks
    FROM timed AS t
    UNION ALL
    SELECT t.run_index, t.start_ticks, 'device_total', 'devices', t.total_ticks
    FROM timed AS t
    WHERE t.is_on_device
),
placed AS (
    SELECT p.run_index, p.kind, p.label, p.ticks
    FROM parts AS p
    WHERE step_name IS NULL
    UNION ALL
    SELECT a.run_index, p.kind, p.label, p.ticks
    FROM parts AS p
    ASOF JOIN _annotation_steps(capture_key, step_name) AS a
        ON p.start_ticks >= a.start_ticks
    WHERE step_name IS NOT NULL AND p.start_ticks < a.end_ticks
)
SELECT
    t.capture_id,
    t.run_index,
    t.scope || ' on devices' AS scope,
    p.kind,
    p.label,
    count(*)::INTEGER AS calls,
    try_cast(sum(p.ticks) AS BIGINT) AS ticks,
    t.is_sample
FROM step_times AS t
JOIN placed AS p ON p.run_index = t.run_index
WHERE t.capture_id = capture_key
    AND t.kind = 'framework'
    AND (
        p.ticks > 0 OR p.kind NOT IN ('device_op', 'device_annotation', 'device_module')
    )
GROUP BY t.capture_id, t.run_index, p.kind, p.label, t.scope, t.is_sample
HAVING try_cast(sum(p.ticks) AS BIGINT) IS NOT NULL
ORDER BY t.run_index, p.kind, p.label;
