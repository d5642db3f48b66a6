-- Rule: the runtime logged values. Its times include copying them, so rules about
-- time do not apply.
CREATE MACRO _advice_logged_values(capture_key) AS TABLE
SELECT
    'logged values' AS rule,
    'medium' AS severity,
    'The runtime logged values. The times of this capture include copying them and '
    || 'are not judged here.' AS finding,
    'profiling_level debug in captures' AS evidence,
    NULL::DOUBLE AS time_at_stake,
    NULL::DOUBLE AS share_percent,
    'Take times from a capture that logs only events, and values from this one.'
        AS remedy
FROM captures AS c
WHERE c.capture_id = capture_key AND c.profiling_level = 'debug';
