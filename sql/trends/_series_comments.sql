-- One comment on a change of a series, at the capture where the change begins. A comment belongs to each series whose
-- captures all have the comment's labels, in the order that the comment names. A commit must be in the series; other
-- labels are found by their place in the order, even if no capture has them any more.
CREATE MACRO _series_comments(
    ordered  -- the name of a table with the rows of `_series_factors`
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
)
SELECT d.series, min(d.position) AS position, c.comment_id, c.what, c.item, c.identity, c.kind,
    c.verdict = 'accepted' AS accepts, c.text, c.author, epoch_us(c.written_at) AS written
FROM change_comments AS c
JOIN series_parts AS s ON list_has_all(coalesce(s.parts, []), _selector_parts(c.series))
JOIN query_table(ordered) AS d
    ON d.series = s.series
    AND d.ordered_by = c.ordered_by
    AND CASE
        WHEN c.ordered_by = 'commit' THEN d.label = c.first_bad
        ELSE d.label_key >= _version_key(c.first_bad)
    END
GROUP BY ALL;
