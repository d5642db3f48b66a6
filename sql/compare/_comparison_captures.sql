-- One capture of a comparison: all of both sides, and, if each side is one capture,
-- a history that shows how much single captures differ: up to 30 others with all
-- the labels that both have in common, of the same format, time scale and level,
-- and with the same ops as base. It is an error if a side is empty, if it matches
-- several captures without a selector, or if a capture is on both sides.
-- Columns:
--   capture_id: the capture
--   side: base, new or history
--   position: position of its captured_at among all captures of both sides, from 1; for history, in the order in which they were recorded; NULL if any of base and new have none
--   selector: the argument that chose it; NULL for history
--   name: its name
--   time_scale: unit of one tick
--   profiling_level: all, method_only, debug, or NULL
--   record_id: its record; NULL if it has none
--   only_scope: scope that all captures share: if every capture of both sides ran one method, and no two that records distinguish; NULL otherwise, as without a record, runs have only their own names
--   ops: hash of its ops, equal in captures of the same ops; NULL where it has none
--   is_trace: whether it is a PyTorch trace
--   scope: what the steps of a trace are; of other captures, the scope of all their ops
CREATE MACRO _comparison_captures(
    base,  -- as in `compare_ops`
    new,  -- as in `compare_ops`
    history  -- as in `compare_ops`
) AS TABLE
WITH
target AS (
    SELECT m.capture_id, 'base' AS side, base::VARCHAR AS selector
    FROM _several_captures(base) AS m
    UNION ALL
    SELECT m.capture_id, 'new', new::VARCHAR FROM _several_captures(new) AS m
),
checked AS MATERIALIZED (
    SELECT
        c.capture_id,
        CASE
            WHEN count(*) OVER (PARTITION BY c.capture_id) > 1 THEN error(
                c.name || ' is on both sides, ' || base::VARCHAR || ' and '
                || new::VARCHAR || ': a capture cannot be compared with itself'
            )
            ELSE a.side
        END AS side,
        a.selector,
        count(*) OVER () AS captures,
        c.name,
        c.captured_at,
        c.format,
        c.time_scale,
        c.profiling_level,
        c.record_id,
        o.scope,
        o.is_method,
        o.ops_hash
    FROM target AS a
    JOIN captures AS c ON c.capture_id = a.capture_id
    LEFT JOIN capture_ops AS o ON o.capture_id = a.capture_id
),
-- The capture of base, if each side is one capture.
single AS (
    FROM checked AS k WHERE k.side = 'base' AND k.captures = 2
),
shared_labels AS (
    SELECT l.key, l.value, count(*) OVER () AS labels
    FROM checked AS k
    JOIN labels AS l ON l.capture_id = k.capture_id
    WHERE k.captures = 2
    GROUP BY l.key, l.value
    HAVING count(*) = 2
),
labelled AS (
    SELECT l.capture_id
    FROM labels AS l
    JOIN shared_labels AS s ON s.key = l.key AND s.value = l.value
    GROUP BY l.capture_id
    HAVING count(*) = any_value(s.labels)
),
requested_history AS (
    SELECT m.capture_id FROM _several_captures(history) AS m
    WHERE history IS NOT NULL
),
recent AS (
    SELECT
        c.capture_id,
        _recorded_at(c.captured_at, c.ingested_at) AS recorded_at,
        c.ingested_at,
        c.name,
        c.time_scale,
        c.profiling_level,
        c.record_id,
        c.format,
        o.scope,
        o.ops_hash
    FROM captures AS c
    JOIN capture_ops AS o ON o.capture_id = c.capture_id
    CROSS JOIN single AS k
    -- A join by the hashes would take longer: most captures have the same.
    WHERE o.ops_hash IN (SELECT e.ops_hash FROM single AS e)
        AND c.capture_id NOT IN (SELECT n.capture_id FROM checked AS n)
        AND CASE
            WHEN history IS NULL THEN
                c.format = k.format
                AND c.time_scale = k.time_scale
                AND c.profiling_level IS NOT DISTINCT FROM k.profiling_level
                AND (
                    c.capture_id IN (SELECT l.capture_id FROM labelled AS l)
                    OR NOT EXISTS (FROM shared_labels AS s)
                )
            ELSE c.capture_id IN (SELECT m.capture_id FROM requested_history AS m)
        END
    ORDER BY recorded_at DESC, c.ingested_at DESC, c.capture_id DESC
    LIMIT 30
),
placed AS (
    SELECT
        k.capture_id,
        k.side,
        CASE
            WHEN count(k.captured_at) OVER () = count(*) OVER ()
                THEN row_number() OVER (ORDER BY k.captured_at, k.capture_id)
        END AS position,
        k.selector,
        k.name,
        k.time_scale,
        k.profiling_level,
        k.record_id,
        k.format,
        k.scope,
        k.ops_hash
    FROM checked AS k
    UNION ALL
    SELECT
        r.capture_id,
        'history',
        -row_number() OVER (
            ORDER BY r.recorded_at DESC, r.ingested_at DESC, r.capture_id DESC
        ),
        NULL,
        r.name,
        r.time_scale,
        r.profiling_level,
        r.record_id,
        r.format,
        r.scope,
        r.ops_hash
    FROM recent AS r
),
single_scope AS (
    SELECT
        CASE
            WHEN count(k.scope) = count(k.ops_hash)
                AND coalesce(
                    min(k.scope) FILTER (WHERE k.is_method)
                    = max(k.scope) FILTER (WHERE k.is_method),
                    true
                )
                THEN coalesce(
                    max(k.scope) FILTER (WHERE k.is_method), max(k.scope)
                )
        END AS only_scope
    FROM checked AS k
)
SELECT
    p.capture_id,
    p.side,
    p.position,
    p.selector,
    p.name,
    p.time_scale,
    p.profiling_level,
    p.record_id,
    CASE WHEN p.scope IS NOT NULL THEN a.only_scope END AS only_scope,
    CASE
        WHEN p.scope IS NULL OR a.only_scope IS NULL
            THEN coalesce(p.scope, '') || '|' || p.ops_hash
        ELSE p.ops_hash
    END AS ops,
    p.format = 'torch_trace' AS is_trace,
    p.scope
FROM placed AS p
CROSS JOIN single_scope AS a;

-- All captures that an argument matches; none if it is NULL. It is an error if none
-- match, which lists the nearest; or if several match without a selector.
-- Columns:
--   capture_id: the capture
CREATE MACRO _several_captures(
    capture  -- name, hash prefix, @latest, or a selector of one or several captures
) AS TABLE
SELECT unnest(CASE
    WHEN capture IS NULL THEN []
    WHEN len(_meant.keys) = 1
        OR len(_meant.keys) > 1 AND contains(capture::VARCHAR, '=') THEN _meant.keys
    WHEN len(_meant.keys) > 1 THEN error(
        capture::VARCHAR || ' matches ' || len(_meant.keys)
        || ' captures; name one, or select by labels'
    )
    ELSE error(_meant.missing)
END) AS capture_id
FROM _resolved_captures(capture) AS _meant;
