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
asked AS MATERIALIZED (
    SELECT m.capture_id, 'base' AS side FROM _several_captures(base) AS m
    UNION ALL
    SELECT m.capture_id, 'new' FROM _several_captures(new) AS m
),
checked AS MATERIALIZED (
    SELECT
        a.capture_id,
        CASE
            WHEN count(*) OVER (PARTITION BY a.capture_id) > 1 THEN error(
                (
                    SELECT c.name FROM captures AS c WHERE c.capture_id = a.capture_id
                ) || ' is on both sides, ' || base::VARCHAR || ' and '
                || new::VARCHAR || ': a capture can''t be compared with itself'
            )
            ELSE a.side
        END AS side
    FROM asked AS a
),
shared_labels AS (
    SELECT l.key, l.value
    FROM checked AS k
    JOIN labels AS l ON l.capture_id = k.capture_id
    GROUP BY l.key, l.value
    HAVING count(*) = 2
),
base_events AS (
    SELECT DISTINCT s.kind, s.label, coalesce(s.instruction_id, -1) AS instruction_id
    FROM checked AS k
    JOIN signatures AS s ON s.capture_id = k.capture_id
    WHERE k.side = 'base' AND (SELECT count(*) FROM checked AS n) = 2
),
alike AS (
    SELECT s.capture_id
    FROM base_events AS e
    JOIN signatures AS s
        ON s.kind = e.kind
        AND s.label = e.label
        AND coalesce(s.instruction_id, -1) = e.instruction_id
    GROUP BY s.capture_id
    HAVING count(DISTINCT (s.kind, s.label, coalesce(s.instruction_id, -1)))
        = (SELECT count(*) FROM base_events AS b)
),
others AS (
    SELECT a.capture_id
    FROM alike AS a
    JOIN captures AS c ON c.capture_id = a.capture_id
    JOIN checked AS b ON b.side = 'base'
    JOIN captures AS k ON k.capture_id = b.capture_id
    WHERE c.capture_id NOT IN (SELECT n.capture_id FROM checked AS n)
        AND CASE
            WHEN history IS NULL THEN
                c.format = k.format
                AND c.time_scale = k.time_scale
                AND c.profiling_level IS NOT DISTINCT FROM k.profiling_level
                AND (
                    SELECT count(*)
                    FROM labels AS l
                    JOIN shared_labels AS s ON s.key = l.key AND s.value = l.value
                    WHERE l.capture_id = c.capture_id
                ) = (SELECT count(*) FROM shared_labels AS s)
            ELSE c.capture_id IN (
                SELECT m.capture_id FROM _several_captures(history) AS m
            )
        END
),
recent AS (
    SELECT
        c.capture_id,
        row_number() OVER (
            ORDER BY c.captured_at DESC NULLS LAST, c.capture_id DESC
        ) AS place
    FROM others AS o
    JOIN captures AS c ON c.capture_id = o.capture_id
),
placed AS MATERIALIZED (
    SELECT
        k.capture_id,
        k.side,
        CASE
            WHEN count(c.captured_at) OVER () = count(*) OVER ()
                THEN row_number() OVER (ORDER BY c.captured_at, c.capture_id)
        END AS position
    FROM checked AS k
    JOIN captures AS c ON c.capture_id = k.capture_id
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
            '; the nearest are ' || _nearest_captures(capture),
            '; the warehouse is empty'
        )
    )
END) AS capture_id
FROM (
    SELECT coalesce(list(_match.capture_id), []) AS keys
    FROM _matching_captures(capture) AS _match
) AS _found;
