-- The captures that are compared: all of a side's, and where one is compared
-- with one, what can tell how much single captures differ: up to 30 others, with
-- all the labels that both have in common, of the same format, time scale
-- and level, and with all events of base. It is an error if a side is empty or several where one
-- is meant, and if a capture is on both.
-- Columns:
--   capture_id: the capture
--   side: base, new or history
--   position: place of its captured_at among all captures of both sides, from 1; of history, in the order of captured_at or else of ingest; NULL where any of base and new have none
--   only_scope: where every capture of both sides ran one method, and no two that records tell apart, what to call it; NULL otherwise: without a record, runs tell only their own names
CREATE MACRO _sides(
    base,  -- as in `compare_ops`
    new,  -- as in `compare_ops`
    history  -- as in `compare_ops`
) AS TABLE
WITH
asked AS (
    SELECT m.capture_id, 'base' AS side FROM _several_captures(base) AS m
    UNION ALL
    SELECT m.capture_id, 'new' FROM _several_captures(new) AS m
),
checked AS MATERIALIZED (
    SELECT
        c.capture_id,
        CASE
            WHEN count(*) OVER (PARTITION BY c.capture_id) > 1 THEN error(
                c.name || ' is on both sides, ' || base::VARCHAR || ' and '
                || new::VARCHAR || ': a capture can''t be compared with itself'
            )
            ELSE a.side
        END AS side,
        count(*) OVER () AS captures,
        c.captured_at,
        c.format,
        c.time_scale,
        c.profiling_level
    FROM asked AS a
    JOIN captures AS c ON c.capture_id = a.capture_id
),
-- The capture of base, where one is compared with one.
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
candidates AS MATERIALIZED (
    SELECT
        c.capture_id,
        row_number() OVER (
            ORDER BY c.captured_at DESC NULLS LAST, c.capture_id DESC
        ) AS place
    FROM single AS k
    CROSS JOIN captures AS c
    WHERE c.capture_id NOT IN (SELECT n.capture_id FROM checked AS n)
        AND CASE
            WHEN history IS NULL THEN
                c.format = k.format
                AND c.time_scale = k.time_scale
                AND c.profiling_level IS NOT DISTINCT FROM k.profiling_level
                AND (
                    c.capture_id IN (SELECT l.capture_id FROM labelled AS l)
                    OR NOT EXISTS (FROM shared_labels AS s)
                )
            ELSE c.capture_id IN (
                SELECT m.capture_id FROM _several_captures(history) AS m
            )
        END
),
base_events AS MATERIALIZED (
    SELECT
        s.kind,
        s.label,
        coalesce(s.instruction_id, -1) AS instruction_id,
        row_number() OVER () AS number,
        count(*) OVER () AS events
    FROM single AS k
    JOIN signatures AS s ON s.capture_id = k.capture_id
    GROUP BY s.kind, s.label, coalesce(s.instruction_id, -1)
),
-- Mostly the latest ones will do, and the events of the others aren't read.
latest AS MATERIALIZED (
    SELECT s.capture_id
    FROM (FROM candidates AS n WHERE n.place <= 60) AS c
    JOIN signatures AS s ON s.capture_id = c.capture_id
    JOIN base_events AS e
        ON e.kind = s.kind
        AND e.label = s.label
        AND e.instruction_id = coalesce(s.instruction_id, -1)
    GROUP BY s.capture_id
    HAVING count(DISTINCT e.number) = any_value(e.events)
),
earlier AS MATERIALIZED (
    SELECT n.capture_id
    FROM candidates AS n
    WHERE n.place > 60 AND (SELECT count(*) FROM latest AS l) < 30
),
alike AS (
    FROM latest
    UNION ALL
    SELECT s.capture_id
    FROM earlier AS c
    JOIN signatures AS s ON s.capture_id = c.capture_id
    JOIN base_events AS e
        ON e.kind = s.kind
        AND e.label = s.label
        AND e.instruction_id = coalesce(s.instruction_id, -1)
    GROUP BY s.capture_id
    HAVING count(DISTINCT e.number) = any_value(e.events)
),
recent AS (
    SELECT c.capture_id, row_number() OVER (ORDER BY c.place) AS place
    FROM alike AS a
    JOIN candidates AS c ON c.capture_id = a.capture_id
),
placed AS MATERIALIZED (
    SELECT
        k.capture_id,
        k.side,
        CASE
            WHEN count(k.captured_at) OVER () = count(*) OVER ()
                THEN row_number() OVER (ORDER BY k.captured_at, k.capture_id)
        END AS position
    FROM checked AS k
    UNION ALL
    SELECT r.capture_id, 'history', -r.place
    FROM recent AS r
    WHERE r.place <= 30
),
scopes AS (
    SELECT
        p.capture_id,
        any_value(p.side) AS side,
        min(o.scope) AS scope,
        count(DISTINCT o.scope) AS scopes,
        bool_or(o.scope IN (
            SELECT r.method FROM runs AS r WHERE r.capture_id = o.capture_id
        )) AS is_method
    FROM placed AS p
    JOIN op_times AS o ON o.capture_id = p.capture_id
    WHERE o.op_index = 0 AND o.phase IS NULL
    GROUP BY p.capture_id
),
alone AS (
    SELECT
        CASE
            WHEN max(s.scopes) = 1
                AND count(DISTINCT s.scope) FILTER (WHERE s.is_method) <= 1
                THEN coalesce(
                    max(s.scope) FILTER (WHERE s.is_method), max(s.scope)
                )
        END AS only_scope
    FROM scopes AS s
    WHERE s.side <> 'history'
)
SELECT
    p.capture_id,
    p.side,
    p.position,
    CASE WHEN s.scopes = 1 THEN a.only_scope END AS only_scope
FROM placed AS p
CROSS JOIN alone AS a
LEFT JOIN scopes AS s ON s.capture_id = p.capture_id;

-- All captures that an argument means; none where it is NULL. It is an error,
-- which names the nearest, if there are none; or several, where it isn't a
-- selector.
-- Columns:
--   capture_id: the capture
CREATE MACRO _several_captures(
    capture  -- a name, hash prefix, @latest or a selector, which may mean many
) AS TABLE
WITH
_matched AS MATERIALIZED (
    FROM _matching_captures(capture)
),
-- Asked for only where there is no match: it looks at all names.
_nearest AS (
    SELECT string_agg(_near.name, ', ' ORDER BY _near.distance, _near.name) AS names
    FROM (
        SELECT _each.name, levenshtein(_each.name, capture::VARCHAR) AS distance
        FROM captures AS _each
        WHERE (SELECT count(*) FROM _matched) = 0
        ORDER BY 2, 1
        LIMIT 3
    ) AS _near
)
SELECT unnest(CASE
    WHEN capture IS NULL THEN []
    WHEN len(_found.keys) = 1
        OR len(_found.keys) > 1 AND contains(capture::VARCHAR, '=') THEN _found.keys
    WHEN len(_found.keys) > 1 THEN error(
        capture::VARCHAR || ' matches ' || len(_found.keys)
        || ' captures; name one, or select by labels'
    )
    ELSE error(
        'no capture matches ' || capture::VARCHAR || coalesce(
            '; the nearest are ' || _nearest.names, '; the warehouse is empty'
        )
    )
END) AS capture_id
FROM (
    SELECT coalesce(list(_match.capture_id), []) AS keys FROM _matched AS _match
) AS _found
CROSS JOIN _nearest;
