-- The capture or record that an argument matches, captures first.
CREATE MACRO _capture_or_record(side) AS TABLE
SELECT k.capture_id,
    CASE
        WHEN f.captures > 1 THEN error(side::VARCHAR || ' matches ' || f.captures || ' captures; name one')
        WHEN f.captures = 1 AND k.record_id IS NULL THEN error(
            k.name || ' has no record, so it has no graph; link one: etq link ' || k.name || ' RECORD'
        )
        WHEN f.captures = 1 THEN k.record_id
        WHEN f.records > 1 THEN error(side::VARCHAR || ' matches ' || f.records || ' records; name one')
        WHEN f.records = 1 THEN f.record_id
        ELSE error(
            _none_matches(
                'capture or record', coalesce(side::VARCHAR, 'NULL'),
                (SELECT _nearest(e.name, coalesce(side::VARCHAR, 'NULL')) FROM records AS e)
            )
        )
    END AS record_id
FROM (
    SELECT c.*, r.*
    FROM (SELECT count(*) AS captures, max(m.capture_id) AS capture_id FROM _matching_captures(side) AS m) AS c
    CROSS JOIN (
        SELECT count(*) AS records, max(m.key) AS record_id
        FROM _named_matches('record', side) AS m
        WHERE m.way = m.best
    ) AS r
) AS f
LEFT JOIN captures AS k USING (capture_id);

-- One side of a comparison of graphs.
CREATE MACRO _graph_side(
    side,
    stage,  -- exported, edge, delegated, or one in `graphs`; NULL: delegated, or exported without edge graphs
    other,  -- the other side, as in `_capture_or_record`
    is_base,  -- whether this side is the baseline, whose stage is exported, or else edge, if both sides are the same
    unit
) AS TABLE
WITH chosen AS (
    SELECT s.*,
        CASE
            WHEN stage IS NOT NULL THEN stage::VARCHAR
            WHEN is_base
                AND s.record_id = o.record_id
                AND s.capture_id IS NOT DISTINCT FROM o.capture_id
                THEN CASE
                    WHEN EXISTS (
                        FROM graphs AS g WHERE g.record_id = s.record_id AND g.stage = 'exported_program'
                    ) THEN 'exported'
                    ELSE 'edge'
                END
            WHEN EXISTS (
                FROM graphs AS g WHERE g.record_id = s.record_id AND g.stage = 'edge_dialect_exported_program'
            ) THEN 'delegated'
            ELSE 'exported'
        END AS name
    FROM _capture_or_record(side) AS s CROSS JOIN _capture_or_record(other) AS o
),
named AS (
    SELECT c.*,
        CASE c.name
            WHEN 'exported' THEN 'exported_program'
            WHEN 'edge' THEN 'edge_dialect_exported_program'
            WHEN 'delegated' THEN 'edge_dialect_exported_program'
            ELSE c.name
        END AS graph_stage
    FROM chosen AS c
)
SELECT n.record_id, n.capture_id,
    coalesce(k.program_id, (SELECT max(o.program_id) FROM captures AS o WHERE o.record_id = n.record_id)) AS program_id,
    CASE
        WHEN unit NOT IN ('ns', 'us', 'ms', 's', 'cycles') THEN error(
            'unknown unit ' || unit || '; known are ns, us, ms, s, cycles'
        )
        WHEN k.capture_id IS NULL THEN NULL
        WHEN unit IS NULL THEN CASE k.time_scale WHEN 'cycles' THEN 'cycles' ELSE 'us' END
        WHEN (unit = 'cycles') <> (k.time_scale = 'cycles') THEN error(
            k.name || ' counts ' || k.time_scale || '; ' || unit || ' can''t be computed from that'
        )
        ELSE unit
    END AS unit,
    n.name = 'delegated' AS is_delegated,
    CASE
        WHEN EXISTS (FROM graphs AS g WHERE g.record_id = n.record_id AND g.stage = n.graph_stage) THEN n.graph_stage
        ELSE error(
            side::VARCHAR || ' has no graph of stage ' || n.name
            || '; its stages are ' || coalesce((
                SELECT string_agg(DISTINCT g.stage, ', ' ORDER BY g.stage)
                FROM graphs AS g
                WHERE g.record_id = n.record_id
            ), 'none')
        )
    END AS stage
FROM named AS n
LEFT JOIN captures AS k USING (capture_id);
