-- One capture of a series, in order: the captures of a series have the same labels
-- of some keys. Labels are ordered as numbers and versions, 9 before 10 and 1.0-rc1
-- before 1.0; commits by their label commit_time; captures with equal labels in the
-- order in which they were recorded. Captures without the label are in no series.
-- Columns:
--   capture_id: the capture
--   series: its labels of these keys, as a selector; empty if it has none
--   label: text by which it is ordered: the label, or captured_at
--   position: position in its series, from 1
CREATE MACRO _series_captures(
    selector,  -- as in `trend`
    over,  -- as in `trend`
    "by"  -- as in `trend`
) AS TABLE
WITH
chosen AS (
    SELECT c.capture_id, c.captured_at, c.ingested_at
    FROM captures AS c
    WHERE selector IS NULL
        OR c.capture_id IN (SELECT s.capture_id FROM _several_captures(selector) AS s)
),
keys AS (
    SELECT DISTINCT trim(k.key) AS key
    FROM (SELECT unnest(string_split("by", ',')) AS key) AS k
),
kinds AS (
    SELECT
        l.capture_id,
        array_to_string(
            list_sort(list(l.key || '=' || _selector_value(l.value))), ','
        ) AS series
    FROM labels AS l
    JOIN keys AS k ON k.key = l.key
    GROUP BY l.capture_id
),
placed AS (
    SELECT
        c.capture_id,
        coalesce(k.series, '') AS series,
        c.captured_at,
        c.ingested_at,
        CASE over WHEN 'captured_at' THEN c.captured_at::VARCHAR ELSE l.value END
            AS label,
        t.value AS committed_at
    FROM chosen AS c
    LEFT JOIN kinds AS k ON k.capture_id = c.capture_id
    LEFT JOIN labels AS l ON l.capture_id = c.capture_id AND l.key = over
    LEFT JOIN labels AS t
        ON over = 'commit' AND t.capture_id = c.capture_id AND t.key = 'commit_time'
),
-- The keys of `by` that no capture has; those of its default may be missing.
unknown_keys AS (
    SELECT string_agg(k.key, ', ' ORDER BY k.key) AS keys
    FROM keys AS k
    WHERE k.key NOT IN ('model', 'device', 'backend', '')
        AND k.key NOT IN (SELECT l.key FROM labels AS l)
),
known AS (
    SELECT coalesce(
        'labels are ' || string_agg(DISTINCT l.key, ', ' ORDER BY l.key),
        'no capture has labels'
    ) AS labels
    FROM labels AS l
),
checked AS (
    SELECT
        count(*) AS captures,
        count(p.label) AS labelled,
        count(p.committed_at) AS committed,
        count(p.captured_at) AS timed
    FROM placed AS p
)
SELECT
    p.capture_id,
    p.series,
    p.label,
    row_number() OVER (
        PARTITION BY p.series
        ORDER BY
            CASE
                WHEN over = 'commit' THEN p.committed_at ELSE _version_key(p.label)
            END,
            _recorded_at(p.captured_at, p.ingested_at),
            p.ingested_at,
            p.capture_id
    ) AS position
FROM placed AS p
CROSS JOIN checked AS k
CROSS JOIN unknown_keys AS u
CROSS JOIN known AS n
WHERE CASE
    WHEN u.keys IS NOT NULL THEN error(
        'no capture has a label ' || u.keys || ' to separate series by; ' || n.labels
    )
    WHEN k.labelled = 0 AND k.captures > 0 THEN error(
        'no capture has ' || CASE over
            WHEN 'captured_at' THEN 'a captured_at'
            ELSE 'a label ' || over
        END || ' to order by; ' || n.labels
        || CASE over WHEN 'captured_at' THEN '' ELSE '; or order by captured_at' END
    )
    WHEN over = 'commit' AND k.committed < k.labelled AND k.timed < k.labelled
        THEN error(
            'commits cannot be ordered: not all captures have a label '
            || 'commit_time (--label-git) or a captured_at'
        )
    ELSE p.label IS NOT NULL
END;
