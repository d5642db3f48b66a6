-- The captures of each group except the last ones. Captures are ordered by the time of recording, like for @latest, or
-- by a label. Captures without that label are neither counted nor returned.
CREATE MACRO _outdated_captures(
    keep_last,  -- number of captures to keep in each group
    "by" := [],  -- keys of the labels whose values are equal within a group
    selectors := NULL,  -- list of captures and selectors; a capture must match at least one; NULL: all
    over := NULL  -- key of the label to order by, as in `trend`, or captured_at; NULL: by the time of recording
) AS TABLE
SELECT r.capture_id, r.name, r.group_values, r.age, r.captured_at,
    EXISTS (FROM findings AS f WHERE f.capture_id = r.capture_id AND f.rule = 'events pruned') AS is_pruned
FROM (
    SELECT g.*,
        row_number() OVER (
            PARTITION BY g.group_values
            ORDER BY g.place DESC NULLS LAST, _recorded_at(g.captured_at, g.ingested_at) DESC, g.ingested_at DESC,
                g.capture_id DESC
        ) AS age
    FROM (
        SELECT c.capture_id, c.name, c.captured_at, c.ingested_at,
            list_transform("by"::VARCHAR[], lambda k: c.labels[k]) AS group_values,
            CASE over::VARCHAR
                WHEN 'captured_at' THEN c.captured_at::VARCHAR
                WHEN 'commit' THEN c.labels['commit_time']
                ELSE _version_key(c.labels[over::VARCHAR])
            END AS place
        FROM labelled_captures AS c
        WHERE selectors IS NULL OR c.capture_id IN (SELECT m.capture_id FROM _captures_matching_any(selectors) AS m)
    ) AS g
    WHERE over IS NULL OR g.place IS NOT NULL
) AS r
WHERE r.age > keep_last
ORDER BY r.group_values, r.age DESC;
