-- One comment on a change of a series, at the capture where the change begins. A comment belongs to each series whose
-- captures all have the comment's labels, in the order that the comment names. A commit must be in the series; other
-- labels are found by their place in the order, even if no capture has them any more. Some comments follow
-- from others: a change of a total is accepted where the changes of ops that were accepted explain at least half of it,
-- within 2 captures. The change of the total then has the comments on these ops. The item of the total of all
-- methods together is empty.
CREATE MACRO _trend_comments(
    ordered,  -- the name of a table with the rows of `_series_factors`
    phase, alpha, min_effect
) AS TABLE
-- The labels that all captures of a series have.
WITH shared AS (
    SELECT d.series, l.key || '=' || _selector_value(l.key, any_value(l.value)) AS part
    FROM query_table(ordered) AS d
    JOIN labels AS l USING (capture_id)
    WHERE EXISTS (FROM change_comments)
    GROUP BY d.series, l.key
    HAVING count(*) = any_value(d.captures) AND min(l.value) = max(l.value)
),
series_parts AS (
    SELECT d.series, list(h.part) FILTER (WHERE h.part IS NOT NULL) AS parts
    FROM query_table(ordered) AS d
    LEFT JOIN shared AS h ON h.series = d.series
    WHERE d.position = 1
    GROUP BY d.series
),
commented AS MATERIALIZED (
    SELECT d.series, min(d.position) AS position, c.comment_id, c.what, c.item, c.identity, c.kind, c.verdict, c.text,
        c.author, c.written_at
    FROM change_comments AS c
    JOIN series_parts AS s ON list_has_all(coalesce(s.parts, []), _selector_parts(c.series))
    JOIN query_table(ordered) AS d
        ON d.series = s.series
        AND d.ordered_by = c.ordered_by
        AND CASE
            WHEN c.ordered_by = 'commit' THEN d.label = c.first_bad
            ELSE d.label_key >= _version_key(c.first_bad)
        END
    GROUP BY ALL
),
affected AS MATERIALIZED (
    SELECT d.* FROM query_table(ordered) AS d
    WHERE d.series IN (SELECT c.series FROM commented AS c WHERE c.verdict = 'accepted' AND c.what = 'op')
),
items AS MATERIALIZED (
    SELECT e.*, row_number() OVER () AS number
    FROM (
        SELECT f.series, f.scope, f.item, f.what, f.name, f.resolution, f.positions, f.builds, f.values,
            f.is_total AND f.kind <> 'device_total' AS is_of_all
        FROM _series_items('affected', phase) AS f
        UNION ALL
        SELECT a.series, NULL, NULL, 'total', '', 0, list(a.position), list(a.build), list(ln(a.ticks)), false
        FROM (
            SELECT d.series, d.position, d.build, sum(o.p25 * d.scale) AS ticks
            FROM affected AS d
            JOIN op_times AS o USING (capture_id)
            WHERE o.phase IS NOT DISTINCT FROM _checked_phase(phase) AND o.op_index = 0 AND o.kind <> 'device_total'
            GROUP BY d.series, d.position, d.build
        ) AS a
        WHERE a.ticks > 0
        GROUP BY a.series
    ) AS e
),
accepted AS (
    SELECT i.number, c.position, c.comment_id, c.what = 'op' AS is_of_op, c.kind = 'creep' AS is_creep
    FROM commented AS c
    JOIN items AS i ON i.series = c.series AND _is_comment_on(c, i.what, i.name, i.item)
    WHERE c.verdict = 'accepted'
),
judged AS (SELECT i.* EXCLUDE (item, name) FROM items AS i),
derived AS (
    SELECT unnest(
        needs_etq_to_explain_totals(
            (SELECT list(i) FROM judged AS i), (SELECT list(a) FROM accepted AS a), ln(1 + min_effect), alpha::DOUBLE
        ),
        recursive := true
    )
)
FROM commented
UNION ALL
SELECT i.series, e.position, e.comment_id, 'total', i.name, i.item, e.kind, 'accepted', c.text, c.author, c.written_at
FROM derived AS e
JOIN items AS i USING (number)
JOIN change_comments AS c USING (comment_id);
