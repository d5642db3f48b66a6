-- One module of a capture's record, with the modules that contain it.
CREATE MACRO _module_ancestors(capture_key) AS TABLE
WITH tree_target AS (SELECT c.capture_id, c.record_id FROM captures AS c WHERE c.capture_id = capture_key),
tree_modules AS (
    FROM _methods_of('tree_target') AS d
    JOIN _record_modules('tree_target') AS m USING (record_id, method)
),
around AS (
    SELECT m.method, m.module_path, o.module_path AS outer_path,
        lag(o.module_path) OVER (PARTITION BY m.method, m.module_path ORDER BY length(o.module_path)) AS before_path
    FROM tree_modules AS m
    JOIN tree_modules AS o ON o.method = m.method AND _is_within(m.module_path, o.module_path)
)
SELECT a.method, a.module_path,
    list(
        {
            'name': CASE
                WHEN a.outer_path = '' THEN '(model)'
                WHEN coalesce(a.before_path, '') = '' THEN a.outer_path
                ELSE substr(a.outer_path, length(a.before_path) + 2)
            END,
            'kind': 'module', 'module_path': a.outer_path
        }
        ORDER BY length(a.outer_path)
    ) AS places
FROM around AS a
GROUP BY a.method, a.module_path;

-- One node of `time_tree` of a capture with executes: a place with events, or a place that contains such places. Places
-- are lists, outermost first.
CREATE MACRO _execute_nodes(
    module_key,  -- the capture, to be parted by module; otherwise NULL
    event_key,  -- the capture, to be parted by event; otherwise NULL
    steps, phase, method, runs
) AS TABLE
WITH in_modules AS (
    SELECT
        CASE
            WHEN min(t.method) OVER () <> max(t.method) OVER () THEN [
                {'name': t.method, 'kind': 'method', 'module_path': NULL::VARCHAR}
            ]
            ELSE []
        END || CASE
            WHEN t.module_path = '(framework)' OR s.kind = 'framework' THEN [
                {'name': t.module_path, 'kind': 'rest', 'module_path': NULL::VARCHAR}
            ]
            ELSE coalesce(m.places, [
                {'name': t.module_path, 'kind': 'rest', 'module_path': NULL::VARCHAR}
            ]) || [{
                'name': CASE WHEN t.is_unaccounted THEN '(delegate unaccounted)' ELSE coalesce(o.op_type, s.family) END,
                'kind': s.kind,
                'module_path': CASE WHEN m.places IS NOT NULL THEN t.module_path END
            }]
        END AS places,
        t.calls, t.executes, t.self_ticks
    FROM _attributed_times(module_key, steps, phase, method, runs) AS t
    JOIN signatures AS s USING (capture_id, signature_index)
    LEFT JOIN signature_ops AS o USING (capture_id, signature_index)
    LEFT JOIN _module_ancestors(module_key) AS m ON m.method = t.method AND m.module_path = t.module_path
),
-- Many events have few distinct places: they are summed before places are computed.
classified_times AS (
    SELECT t.scope AS run_name, CASE WHEN t.method IS NULL THEN 'run' ELSE 'method' END AS run_kind, t.capture_id,
        t.signature_index, t.children > 0 AS is_around, count(*) AS calls, count(*) FILTER (t.is_execute) AS executes,
        try_cast(sum(t.self_ticks) AS BIGINT) AS self_ticks
    FROM _timed_events(event_key, NULL, steps, phase, method, runs) AS t
    WHERE t.execute_index IS NOT NULL AND t.is_additive
    GROUP BY ALL
),
in_calls AS (
    SELECT
        [{'name': o.run_name, 'kind': o.run_kind, 'module_path': NULL::VARCHAR}] || CASE
            WHEN s.kind IN ('delegate', 'delegate_call') AND s.chain_index <> -1
                THEN [{
                    'name': 'DELEGATE_CALL' || coalesce(' @' || s.instruction_id, ''), 'kind': 'delegate_call',
                    'module_path': NULL::VARCHAR
                }]
            ELSE []
        END || CASE
            WHEN s.kind = 'delegate_call' AND s.chain_index <> -1 THEN []
            WHEN s.kind = 'operator_call' AND o.is_around
                OR s.kind = 'framework' THEN [{
                    'name': CASE s.kind WHEN 'framework' THEN '(unattributed)' ELSE '(framework)' END, 'kind': 'rest',
                    'module_path': NULL::VARCHAR
                }]
            ELSE [{'name': s.family, 'kind': s.kind, 'module_path': NULL::VARCHAR}]
        END AS places,
        o.calls, o.executes, o.self_ticks
    FROM classified_times AS o
    JOIN signatures AS s ON s.capture_id = o.capture_id AND s.signature_index = o.signature_index
),
-- Executes are those of the method, or, if only one method ran, of all.
leaves AS (
    SELECT l.*,
        (sum(l.executes) OVER (
            PARTITION BY CASE WHEN l.places[1].kind IN ('method', 'run') THEN l.places[1] END
        ))::BIGINT AS method_executes
    FROM (FROM in_modules UNION ALL FROM in_calls) AS l
),
parts AS (
    SELECT l.places[1:i.level] AS places, i.level, CASE WHEN len(l.places) = i.level THEN l.calls ELSE 0 END AS calls,
        CASE WHEN len(l.places) = i.level THEN l.self_ticks ELSE 0 END AS self_ticks, l.method_executes,
        l.self_ticks AS total_ticks
    FROM leaves AS l CROSS JOIN LATERAL (SELECT unnest(range(1, len(l.places) + 1)) AS level) AS i
),
placed AS (
    SELECT p.places, p.level, row_number() OVER (PARTITION BY p.level ORDER BY p.places) AS place,
        sum(p.calls)::BIGINT AS calls, any_value(p.method_executes) AS executes,
        try_cast(sum(p.self_ticks) AS BIGINT) AS self_ticks, try_cast(sum(p.total_ticks) AS BIGINT) AS total_ticks
    FROM parts AS p
    GROUP BY p.places, p.level
)
SELECT p.level, p.place, coalesce(o.place, 0) AS outer_place, p.places[-1].name AS name, p.places[-1].kind AS kind,
    p.places[-1].module_path AS module_path, p.calls, p.executes, p.self_ticks, p.total_ticks
FROM placed AS p
LEFT JOIN placed AS o ON o.level = p.level - 1 AND o.places = p.places[1:p.level - 1];
