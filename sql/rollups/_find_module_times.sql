-- The time of one module of a linked capture, run by run, with its submodules: the self times, in ticks of the host's
-- clock, of the events within executes that belong to it. A row of the table `module_times`.
CREATE MACRO _find_module_times(first_key, last_key) AS TABLE
WITH placed AS (
    SELECT o.capture_id, o.signature_index, o.method AS scope, s.kind, o.module_path, k.step_ticks AS step
    FROM signature_ops AS o
    JOIN signatures AS s USING (capture_id, signature_index)
    LEFT JOIN capture_clocks AS k
        ON k.capture_id = o.capture_id AND k.clock = CASE s.kind WHEN 'delegate' THEN 'delegate' ELSE 'host' END
    WHERE o.capture_id BETWEEN first_key AND last_key
        AND o.module_path IS NOT NULL
        AND s.kind IN ('kernel', 'delegate', 'delegate_call', 'operator_call')
        AND s.clock = 'host'
        AND s.value_unit = 'ticks'
),
timed AS MATERIALIZED (
    SELECT e.capture_id, e.run_index, e.event_index, e.parent_run_index, e.parent_index, e.execute_index,
        e.signature_index, e.duration_ticks
    FROM events AS e
    WHERE e.capture_id BETWEEN first_key AND last_key
        AND e.clock = 'host'
        AND e.value_unit = 'ticks'
        AND NOT e.is_detached
        AND e.duration_ticks IS NOT NULL
),
within AS (
    SELECT t.capture_id, t.parent_run_index AS run_index, t.parent_index AS event_index,
        try_cast(sum(t.duration_ticks) AS BIGINT) AS ticks
    FROM timed AS t
    WHERE t.parent_index IS NOT NULL
    GROUP BY t.capture_id, t.parent_run_index, t.parent_index
),
self_times AS (
    SELECT t.capture_id, t.run_index, p.scope, p.module_path,
        try_cast(sum(t.duration_ticks - coalesce(w.ticks, 0)) AS BIGINT) AS ticks, max(p.step) AS step
    FROM placed AS p
    JOIN timed AS t USING (capture_id, signature_index)
    LEFT JOIN within AS w USING (capture_id, run_index, event_index)
    -- The overhead of an OPERATOR_CALL is framework time.
    WHERE t.execute_index IS NOT NULL AND (p.kind <> 'operator_call' OR w.ticks IS NULL)
    GROUP BY t.capture_id, t.run_index, p.scope, p.module_path
),
-- A module and those that contain it: the prefixes of its path.
spread AS (
    SELECT o.capture_id, o.run_index, o.scope, o.ticks, o.step,
        unnest(list_distinct(list_concat([''], list_transform(
            range(1, len(string_split(o.module_path, '.')) + 1),
            lambda level: array_to_string(string_split(o.module_path, '.')[:level], '.')
        )))) AS module_path
    FROM self_times AS o
),
in_runs AS MATERIALIZED (
    SELECT s.capture_id, s.scope, s.module_path, r.phase, try_cast(sum(s.ticks) AS BIGINT) AS ticks, max(s.step) AS step
    FROM spread AS s
    JOIN runs AS r USING (capture_id, run_index)
    GROUP BY s.capture_id, s.scope, s.module_path, s.run_index, r.phase
),
phases AS (
    SELECT i.capture_id, i.scope, i.module_path, NULL AS phase, i.ticks, i.step
    FROM in_runs AS i
    WHERE i.ticks IS NOT NULL
    UNION ALL
    SELECT i.capture_id, i.scope, i.module_path, i.phase, i.ticks, i.step
    FROM in_runs AS i
    WHERE i.phase IS NOT NULL AND i.ticks IS NOT NULL
)
SELECT p.capture_id, p.phase, p.scope, p.module_path, count(*)::INTEGER AS runs,
    try_cast(sum(p.ticks) AS BIGINT) AS total_ticks, quantile_cont(p.ticks::DOUBLE, 0.25) AS p25,
    quantile_cont(p.ticks::DOUBLE, 0.5) AS p50, quantile_cont(p.ticks::DOUBLE, 0.9) AS p90,
    _resolution(max(p.step)) AS resolution
FROM phases AS p
GROUP BY p.capture_id, p.phase, p.scope, p.module_path
ORDER BY p.capture_id, p.scope, p.module_path, p.phase NULLS FIRST;
