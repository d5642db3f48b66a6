-- A module of a capture's record, with all that it stands in.
-- Columns:
--   module_path: the module's path
--   places: those around it and itself, outermost first: name (path within the one before), kind, module_path
CREATE MACRO _module_places(
    capture_key  -- key of a capture
) AS TABLE
WITH
around AS (
    SELECT
        m.module_path,
        o.module_path AS outer_path,
        lag(o.module_path) OVER (
            PARTITION BY m.module_path ORDER BY length(o.module_path)
        ) AS before_path
    FROM _capture_modules(capture_key) AS m
    JOIN _capture_modules(capture_key) AS o
        ON _is_within(m.module_path, o.module_path)
)
SELECT
    a.module_path,
    list(
        {
            'name': CASE
                WHEN a.outer_path = '' THEN '(model)'
                WHEN coalesce(a.before_path, '') = '' THEN a.outer_path
                ELSE substr(a.outer_path, length(a.before_path) + 2)
            END,
            'kind': 'module',
            'module_path': a.outer_path
        }
        ORDER BY length(a.outer_path)
    ) AS places
FROM around AS a
GROUP BY a.module_path;

-- The own times of a capture's events within its executes, and the places in
-- `time_tree` that they stand at, outermost first.
-- Columns:
--   places: each with its name, kind and module_path; the last is that of the event
--   calls: number of events
--   self_ticks: their own time together
CREATE MACRO _tree_leaves(
    capture_key,  -- key of a capture
    parted_by,  -- module or event
    skip_first,  -- as in `schedule`
    wait,  -- as in `schedule`
    warmup,  -- as in `schedule`
    active,  -- as in `schedule`
    repeat,  -- as in `schedule`
    skip_first_wait,  -- as in `schedule`
    phase  -- as everywhere
) AS TABLE
WITH
in_modules AS (
    SELECT
        CASE
            WHEN t.module_path = '(framework)' OR s.kind = 'framework' THEN [
                {'name': t.module_path, 'kind': 'rest', 'module_path': NULL::VARCHAR}
            ]
            ELSE coalesce(m.places, [
                {'name': t.module_path, 'kind': 'rest', 'module_path': NULL::VARCHAR}
            ]) || [{
                'name': coalesce(o.op_type, s.family),
                'kind': s.kind,
                'module_path': CASE
                    WHEN m.places IS NOT NULL THEN t.module_path
                END
            }]
        END AS places,
        t.calls,
        t.self_ticks
    FROM (
        SELECT CASE parted_by WHEN 'module' THEN capture_key END AS capture_id
    ) AS a
    CROSS JOIN _attributed_parts(
        CASE parted_by WHEN 'module' THEN capture_key END,
        skip_first, wait, warmup, active, repeat, skip_first_wait, phase
    ) AS t
    JOIN signatures AS s
        ON s.capture_id = a.capture_id
        AND s.signature_index = t.signature_index
    LEFT JOIN signature_ops AS o
        ON o.capture_id = a.capture_id
        AND o.signature_index = t.signature_index
    LEFT JOIN _module_places(capture_key) AS m ON m.module_path = t.module_path
),
in_calls AS (
    SELECT
        [{
            'name': coalesce(r.method, r.name),
            'kind': CASE WHEN r.method IS NULL THEN 'run' ELSE 'method' END,
            'module_path': NULL::VARCHAR
        }] || CASE
            WHEN s.kind IN ('delegate', 'delegate_call') AND s.chain_index <> -1
                THEN [{
                    'name': 'DELEGATE_CALL' || coalesce(' @' || s.instruction_id, ''),
                    'kind': 'delegate_call',
                    'module_path': NULL::VARCHAR
                }]
            ELSE []
        END || CASE
            WHEN s.kind = 'delegate_call' AND s.chain_index <> -1 THEN []
            ELSE [{
                'name': CASE
                    WHEN s.kind = 'operator_call' AND t.children > 0
                        THEN '(framework)'
                    WHEN s.kind = 'framework' THEN '(unattributed)'
                    ELSE s.family
                END,
                'kind': CASE
                    WHEN s.kind = 'operator_call' AND t.children > 0
                        OR s.kind = 'framework' THEN 'rest'
                    ELSE s.kind
                END,
                'module_path': NULL::VARCHAR
            }]
        END AS places,
        count(*) AS calls,
        try_cast(sum(t.self_ticks) AS BIGINT) AS self_ticks
    FROM (
        SELECT CASE parted_by WHEN 'event' THEN capture_key END AS capture_id
    ) AS a
    CROSS JOIN _self_times(
        CASE parted_by WHEN 'event' THEN capture_key END,
        skip_first, wait, warmup, active, repeat, skip_first_wait, phase
    ) AS t
    JOIN signatures AS s
        ON s.capture_id = a.capture_id
        AND s.signature_index = t.signature_index
    JOIN runs AS r
        ON r.capture_id = a.capture_id AND r.run_index = t.run_index
    WHERE t.execute_index IS NOT NULL AND t.is_added
    GROUP BY ALL
)
SELECT i.places, i.calls, i.self_ticks FROM in_modules AS i
UNION ALL
SELECT i.places, i.calls, i.self_ticks FROM in_calls AS i;
