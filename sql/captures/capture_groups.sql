-- The captures that share a value of a label: their number and time range.
-- Shown: value!, captures!#, runs!#, first_captured_at (moment), last_captured_at! (moment), undated#,
--   first_ingested_at (moment), last_ingested_at (moment)
-- Columns:
--   value: the label's value; NULL for captures without it
--   captures: number of captures
--   runs: number of their runs
--   first_captured_at: when the first capture was measured, in UTC; NULL if unknown for all
--   last_captured_at: when the last capture was measured, in UTC; NULL if unknown for all
--   undated: number of captures with unknown time
--   first_ingested_at: when the first capture was read, in UTC
--   last_ingested_at: when the last capture was read, in UTC
CREATE MACRO capture_groups(
    "by",  -- the label's key
    selectors := NULL  -- list of captures and selectors; a capture must match at least one; NULL: all
) AS TABLE
WITH chosen AS (
    SELECT c.capture_id, c.captured_at, c.ingested_at,
        (SELECT any_value(l.value) FROM labels AS l WHERE l.capture_id = c.capture_id AND l.key = "by") AS value,
        (SELECT count(*) FROM runs AS r WHERE r.capture_id = c.capture_id) AS runs
    FROM captures AS c
    WHERE selectors IS NULL OR c.capture_id IN (SELECT m.capture_id FROM _captures_matching_any(selectors) AS m)
)
SELECT c.value, count(*) AS captures, sum(c.runs)::BIGINT AS runs, min(c.captured_at) AS first_captured_at,
    max(c.captured_at) AS last_captured_at, count(*) FILTER (WHERE c.captured_at IS NULL) AS undated,
    min(c.ingested_at) AS first_ingested_at, max(c.ingested_at) AS last_ingested_at
FROM chosen AS c
GROUP BY c.value
ORDER BY c.value NULLS LAST;

-- The captures that match any of a list of names and selectors, one row each.
CREATE MACRO _captures_matching_any(selectors) AS TABLE
SELECT DISTINCT _match.capture_id
FROM (SELECT unnest(selectors) AS selector) AS _given, LATERAL (FROM _matching_captures(_given.selector)) AS _match;
