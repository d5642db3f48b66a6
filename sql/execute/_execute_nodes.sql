-- One module of a capture's record, with the modules that contain it.
CREATE MACRO _module_ancestors(
    target  -- as in `_execute_nodes`
) AS TABLE
WITH tree_modules AS MATERIALIZED (
    SELECT DISTINCT d.method, m.module_path
    FROM query_table(target) AS a
    JOIN linked_methods AS d USING (capture_id)
    JOIN graphs AS g
        ON g.record_id = a.record_id AND g.method = d.method AND g.stage = 'edge_dialect_exported_program'
    JOIN node_modules AS m ON m.record_id = g.record_id AND m.graph_id = g.graph_id
    WHERE a.parted_by = 'module'
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
    target,  -- a table of the capture: capture_id, record_id, and parted_by, which is module or event
    steps, phase, method, runs
) AS TABLE
WITH
-- Many events have few distinct places: they are summed before places are computed.
times AS (
    SELECT a.parted_by, r.scope, r.method IS NULL AS is_run, e.signature_index,
        e.children > 0 AS is_around, count(*) AS calls, count(*) FILTER (e.is_execute) AS executes,
        sum(e.self_ticks) AS self_ticks
    FROM query_table(target) AS a
    JOIN event_ticks AS e USING (capture_id)
    JOIN (SELECT r.* FROM query_table(target) AS a JOIN runs AS r USING (capture_id)) AS r USING (run_index)
    WHERE e.execute_index IS NOT NULL
        AND e.is_additive
        AND _is_selected_run(r.iteration, r.phase, r.scope, r.is_typical, steps, phase, method, runs)
    GROUP BY ALL
),
named_times AS (
    SELECT t.*, s.kind, s.family, s.chain_index, s.instruction_id, coalesce(o.op_type, s.family) AS op,
        s.kind = 'operator_call' AND t.is_around AS is_framework,
        _module_of(is_framework, o.module_path, s.kind, s.family) AS module_path
    FROM query_table(target) AS a
    JOIN signatures AS s USING (capture_id)
    JOIN times AS t USING (signature_index)
    LEFT JOIN (FROM query_table(target) AS a JOIN signature_ops AS o USING (capture_id)) AS o USING (signature_index)
),
places AS (
    SELECT
        CASE
            WHEN t.parted_by = 'event'
                THEN [_place(t.scope, CASE WHEN t.is_run THEN 'run' ELSE 'method' END, NULL)] || CASE
                    WHEN t.kind IN ('delegate', 'delegate_call') AND t.chain_index <> -1
                        THEN [_place('DELEGATE_CALL' || coalesce(' @' || t.instruction_id, ''), 'delegate_call', NULL)]
                    ELSE []
                END || CASE
                    WHEN t.kind = 'delegate_call' AND t.chain_index <> -1 THEN []
                    WHEN t.is_framework THEN [_place('(framework)', 'rest', NULL)]
                    WHEN t.kind = 'framework' THEN [_place('(unattributed)', 'rest', NULL)]
                    ELSE [_place(t.family, t.kind, NULL)]
                END
            ELSE CASE
                WHEN min(t.scope) OVER () <> max(t.scope) OVER () THEN [_place(t.scope, 'method', NULL)]
                ELSE []
            END || CASE
                WHEN t.is_framework OR t.kind = 'framework' THEN [_place(t.module_path, 'rest', NULL)]
                ELSE coalesce(m.places, [_place(t.module_path, 'rest', NULL)]) || [_place(
                    CASE
                        WHEN t.kind = 'delegate_call' AND t.is_around THEN '(delegate unaccounted)'
                        ELSE t.op
                    END,
                    t.kind, CASE WHEN m.places IS NOT NULL THEN t.module_path END
                )]
            END
        END AS places,
        t.calls, t.executes, t.self_ticks
    FROM named_times AS t
    LEFT JOIN _module_ancestors(target) AS m ON m.method = t.scope AND m.module_path = t.module_path
),
-- Executes are those of the method, or, if only one method ran, of all.
parts AS (
    SELECT l.*,
        (sum(l.executes) OVER (
            PARTITION BY CASE WHEN l.places[1].kind IN ('method', 'run') THEN l.places[1] END
        ))::BIGINT AS method_executes,
        unnest(range(1, len(l.places) + 1)) AS level
    FROM places AS l
),
placed AS (
    SELECT p.places[1:p.level] AS places, p.level,
        row_number() OVER (PARTITION BY p.level ORDER BY p.places[1:p.level]) AS place,
        sum(CASE WHEN len(p.places) = p.level THEN p.calls ELSE 0 END)::BIGINT AS calls,
        any_value(p.method_executes) AS executes,
        try_cast(sum(CASE WHEN len(p.places) = p.level THEN p.self_ticks ELSE 0 END) AS BIGINT) AS self_ticks,
        try_cast(sum(p.self_ticks) AS BIGINT) AS total_ticks
    FROM parts AS p
    GROUP BY p.places[1:p.level], p.level
)
SELECT p.level, p.place, coalesce(o.place, 0) AS outer_place, p.places[-1].name AS name, p.places[-1].kind AS kind,
    p.places[-1].module_path AS module_path, p.calls, p.executes, p.self_ticks, p.total_ticks
FROM placed AS p
LEFT JOIN placed AS o ON o.level = p.level - 1 AND o.places = p.places[1:p.level - 1];

-- One place of a node in `time_tree`.
CREATE MACRO _place(name, kind, module_path) AS (
    {'name': name, 'kind': kind, 'module_path': module_path::VARCHAR}
);
