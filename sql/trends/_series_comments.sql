-- Comments on changes by the series that have them, with the position of the change's
-- first capture: those whose captures all have the labels of the comment, in the order
-- that it names. A commit is found as it is, other labels at their place, also if no
-- capture has them any more.
CREATE MACRO _series_comments(selector, over, "by") AS TABLE
WITH
placed AS MATERIALIZED (
    SELECT s.*, count(*) OVER (PARTITION BY s.series) AS captures
    FROM _series_captures(selector, over, "by") AS s
    WHERE EXISTS (FROM change_comments)
),
-- The labels that all captures of a series have.
shared AS (
    SELECT
        p.series,
        l.key || '=' || _selector_value(any_value(l.value)) AS part
    FROM placed AS p
    JOIN labels AS l USING (capture_id)
    GROUP BY p.series, l.key
    HAVING count(*) = any_value(p.captures) AND min(l.value) = max(l.value)
),
series_parts AS (
    SELECT p.series, list(s.part) FILTER (WHERE s.part IS NOT NULL) AS parts
    FROM (SELECT DISTINCT d.series FROM placed AS d) AS p
    LEFT JOIN shared AS s ON s.series = p.series
    GROUP BY p.series
)
SELECT
    c.comment_id, p.series, min(p.position) AS position, c.what, c.item, c.identity,
    c.kind, c.verdict, c.text, c.author, c.written_at
FROM change_comments AS c
JOIN series_parts AS s
    ON list_has_all(coalesce(s.parts, []), _selector_parts(c.series))
JOIN placed AS p
    ON p.series = s.series
    AND p.ordered_by = c.ordered_by
    AND CASE
        WHEN c.ordered_by = 'commit' THEN p.label = c.first_bad
        ELSE p.label_key >= _version_key(c.first_bad)
    END
GROUP BY ALL;

-- Whether a comment is on a total, op, module or metric: its name, as in `trend`, and its
-- identity, as `item` of `op_times`; NULL where it is not one.
CREATE MACRO _is_comment_on(c, what, item, identity) AS (
    c.what = 'all'
    OR c.what = what AND coalesce(
        c.item IS NULL
        OR c.item = item
        OR coalesce(c.identity, CASE c.what WHEN 'total' THEN c.item END) = identity,
        false
    )
);
