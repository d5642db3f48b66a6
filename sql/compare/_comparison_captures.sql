-- The captures of both sides, with their position in the order of captured_at (NULL if any has none) and their ops. It
-- is an error if a capture is on both sides. `only_scope` is the scope of all captures, if each ran one method and
-- those with records ran the same one: without a record, runs have only their own names. A history has its own
-- positions and scope, and none of the captures of the sides.
CREATE MACRO _placed_sides(
    chosen  -- the name of a table: capture_id, side (base, new, history) and selector, the one that chose it
) AS TABLE
SELECT
    CASE WHEN count(CASE WHEN a.side <> 'history' THEN 1 END) OVER of_capture > 1 THEN error(
        c.name || ' is on both sides, ' || first_value(a.selector) OVER of_capture || ' and '
        || last_value(a.selector) OVER of_capture || '; choose different captures'
    ) ELSE a.side END AS side,
    a.selector, count(*) OVER of_kind AS captures,
    CASE
        WHEN count(c.captured_at) OVER of_kind = count(*) OVER of_kind
            THEN row_number() OVER (PARTITION BY a.side = 'history' ORDER BY c.captured_at, c.capture_id)
    END AS position,
    c.capture_id, c.name, c.captured_at, c.format, c.time_scale, c.profiling_level, c.record_id, o.scope, o.ops_hash,
    CASE
        WHEN o.scope IS NOT NULL
            AND count(o.scope) OVER of_kind = count(o.ops_hash) OVER of_kind
            AND coalesce(
                min(o.scope) FILTER (WHERE o.is_method) OVER of_kind
                = max(o.scope) FILTER (WHERE o.is_method) OVER of_kind, true
            )
            THEN coalesce(max(o.scope) FILTER (WHERE o.is_method) OVER of_kind, max(o.scope) OVER of_kind)
    END AS only_scope
FROM query_table(chosen) AS a
JOIN captures AS c USING (capture_id)
LEFT JOIN capture_ops AS o USING (capture_id)
WINDOW of_kind AS (PARTITION BY a.side = 'history'),
of_capture AS (
    PARTITION BY c.capture_id ORDER BY a.side ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING
)
QUALIFY a.side <> 'history' OR count(*) OVER of_capture = 1;

-- The captures that selectors choose, as in `_placed_sides`. It is an error if a side is empty, or if it matches
-- several captures without a selector.
CREATE MACRO _compared_sides(
    base, new,
    history := NULL  -- NULL: none
) AS TABLE
WITH chosen_sides AS (FROM _sided_captures(base, new, history := history))
FROM _placed_sides('chosen_sides');

-- The captures of a comparison: those of both sides, and, if each side is one capture, a history that shows how much
-- single captures differ: up to 30 of the chosen ones, or, if none were chosen, of those with all the labels that both
-- sides have in common, of the same format, time scale and level. They have the same ops as base. Their positions are
-- below 0.
CREATE MACRO _comparison_captures(
    compared,  -- the name of a table with the rows of `_placed_sides`
    history
) AS TABLE
WITH shared_labels AS (
    SELECT l.key, l.value, count(*) OVER () AS labels
    FROM query_table(compared) AS k
    JOIN labels AS l USING (capture_id)
    WHERE k.side <> 'history' AND k.captures = 2
    GROUP BY l.key, l.value
    HAVING count(*) = 2
),
labelled AS (
    SELECT l.capture_id
    FROM labels AS l
    JOIN shared_labels AS s USING (key, value)
    GROUP BY l.capture_id
    HAVING count(*) = any_value(s.labels)
),
others AS (
    SELECT c.capture_id, c.name, c.format, c.time_scale, c.profiling_level, c.record_id, o.scope, o.ops_hash,
        row_number() OVER (
            ORDER BY _recorded_at(c.captured_at, c.ingested_at) DESC, c.ingested_at DESC, c.capture_id DESC
        ) AS age,
        CASE WHEN o.scope IS NOT NULL THEN k.only_scope END AS only_scope
    FROM query_table(compared) AS k
    JOIN capture_ops AS o ON o.ops_hash = k.ops_hash
    JOIN captures AS c ON c.capture_id = o.capture_id
    LEFT JOIN query_table(compared) AS n ON n.capture_id = c.capture_id
    LEFT JOIN labelled AS l ON l.capture_id = c.capture_id
    -- Base itself is labelled if both sides have a label in common.
    LEFT JOIN labelled AS b ON b.capture_id = k.capture_id
    -- If each side is one capture.
    WHERE k.side = 'base'
        AND k.captures = 2
        AND CASE
            WHEN history IS NULL THEN
                n.side IS NULL
                AND c.format = k.format
                AND c.time_scale = k.time_scale
                AND c.profiling_level IS NOT DISTINCT FROM k.profiling_level
                AND (l.capture_id IS NOT NULL OR b.capture_id IS NULL)
            ELSE n.side = 'history'
        END
)
SELECT s.capture_id, s.side, s.position, s.selector, s.name, s.time_scale, s.profiling_level, s.record_id, s.format,
    s.scope, s.ops_hash, s.only_scope
FROM query_table(compared) AS s
WHERE s.side <> 'history'
UNION ALL
SELECT h.capture_id, 'history', -h.age, NULL, h.name, h.time_scale, h.profiling_level, h.record_id, h.format, h.scope,
    h.ops_hash, h.only_scope
FROM others AS h
WHERE h.age <= 30;

-- The captures of two sides, and of a history, as `_several_captures` finds them.
CREATE MACRO _sided_captures(
    base, new,
    history := NULL  -- NULL: none
) AS TABLE
SELECT _meant.capture_id, _side.side, _side.selector
FROM _asked_sides(base, new, history := history) AS _side, LATERAL (FROM _several_captures(_side.meant)) AS _meant;

-- All captures that an argument (name, hash prefix, @latest or selector) matches; none if it is NULL. If no capture
-- matches, it is an error that lists the nearest names; if several match without a selector, it is an error, too.
CREATE MACRO _several_captures(capture) AS TABLE
SELECT unnest(CASE
    WHEN capture IS NULL THEN []
    WHEN len(_meant.keys) = 1 OR len(_meant.keys) > 1 AND _is_selector(capture::VARCHAR) THEN _meant.keys
    WHEN len(_meant.keys) > 1 THEN error(
        capture::VARCHAR || ' matches ' || len(_meant.keys) || ' captures; name one, or select by labels'
    )
    ELSE error(_meant.missing)
END) AS capture_id
FROM _resolved_captures(capture) AS _meant;
