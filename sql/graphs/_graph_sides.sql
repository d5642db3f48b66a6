-- The captures and the records that an argument matches, in one row.
CREATE MACRO _captures_and_records(side) AS TABLE
SELECT c.*, r.*
FROM (SELECT count(*) AS captures, max(m.capture_id) AS capture_id FROM _matching_captures(side) AS m) AS c
CROSS JOIN (
    SELECT count(*) FILTER (WHERE m.way = m.best) AS records, max(m.key) FILTER (WHERE m.way = m.best) AS record_id,
        _nearest(m.name, CASE WHEN m.best IS NULL THEN coalesce(side::VARCHAR, 'NULL') END) AS nearest
    FROM _named_matches('record', side) AS m
) AS r;

-- The two sides of a comparison of graphs, captures before records, each with the key of the reference.
CREATE MACRO _graph_sides(
    base, new,
    base_stage,  -- exported, edge, delegated, or one in `graphs`; NULL: as in `compare_graphs`
    new_stage, unit,
    reference := NULL  -- a capture; NULL: none
) AS TABLE
WITH asked AS MATERIALIZED (
    SELECT a.side AS part, a.side = 'base' AS is_base, a.selector AS side,
        CASE a.side WHEN 'base' THEN base_stage::VARCHAR ELSE new_stage::VARCHAR END AS stage, k.capture_id,
        CASE
            WHEN a.side <> 'history' THEN CASE
                WHEN f.captures > 1 THEN error(a.selector || ' matches ' || f.captures || ' captures; name one')
                WHEN f.captures = 1 AND k.record_id IS NULL THEN error(
                    k.name || ' has no record, so it has no graph; link one: etq link ' || k.name || ' RECORD'
                )
                WHEN f.captures = 1 THEN k.record_id
                WHEN f.records > 1 THEN error(a.selector || ' matches ' || f.records || ' records; name one')
                WHEN f.records = 1 THEN f.record_id
                ELSE error(_none_matches('capture or record', coalesce(a.selector, 'NULL'), f.nearest))
            END
            WHEN f.captures = 0 THEN error('no capture matches ' || a.selector)
            WHEN f.captures > 1 THEN error(a.selector || ' matches ' || f.captures || ' captures; name one')
            WHEN k.record_id IS NULL THEN error(
                a.selector || ' has no record, whose debug handles identify values; link one: etq link '
                || a.selector || ' RECORD'
            )
        END AS record_id
    FROM _asked_sides(base, new, history := reference) AS a, LATERAL (FROM _captures_and_records(a.meant)) AS f
    LEFT JOIN captures AS k ON k.capture_id = f.capture_id
),
found AS (
    SELECT a.*, list_sort(list(DISTINCT g.stage) FILTER (WHERE g.stage IS NOT NULL)) AS stages,
        a.is_base AND a.record_id = o.record_id AND a.capture_id IS NOT DISTINCT FROM o.capture_id AS is_same,
        r.capture_id AS reference_key
    FROM asked AS a
    JOIN asked AS o ON o.part <> a.part AND o.part <> 'history'
    LEFT JOIN asked AS r ON r.part = 'history'
    LEFT JOIN graphs AS g ON g.record_id = a.record_id
    WHERE a.part <> 'history'
    GROUP BY ALL
),
named AS (
    SELECT f.*,
        CASE
            WHEN f.stage IS NOT NULL THEN f.stage
            WHEN f.is_same AND NOT coalesce(list_contains(f.stages, 'exported_program'), false) THEN 'edge'
            WHEN NOT f.is_same AND list_contains(f.stages, 'edge_dialect_exported_program') THEN 'delegated'
            ELSE 'exported'
        END AS name,
        CASE name
            WHEN 'exported' THEN 'exported_program'
            WHEN 'edge' THEN 'edge_dialect_exported_program'
            WHEN 'delegated' THEN 'edge_dialect_exported_program'
            ELSE name
        END AS graph_stage
    FROM found AS f
)
SELECT n.is_base, n.record_id, n.capture_id,
    CASE
        WHEN unit NOT IN ('ns', 'us', 'ms', 's', 'cycles') THEN error(
            'unknown unit ' || unit || '; known are ns, us, ms, s, cycles'
        )
        WHEN k.capture_id IS NULL THEN NULL
        WHEN unit IS NULL THEN _default_unit(k.time_scale)
        WHEN (unit = 'cycles') <> (k.time_scale = 'cycles') THEN error(
            k.name || ' counts ' || k.time_scale || '; ' || unit || ' can''t be computed from that'
        )
        ELSE unit
    END AS unit,
    n.name = 'delegated' AS is_delegated,
    CASE
        WHEN list_contains(n.stages, n.graph_stage) THEN n.graph_stage
        ELSE error(
            n.side || ' has no graph of stage ' || n.name
            || '; its stages are ' || coalesce(array_to_string(n.stages, ', '), 'none')
        )
    END AS stage,
    n.reference_key
FROM named AS n
LEFT JOIN captures AS k USING (capture_id);
