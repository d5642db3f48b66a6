-- The captures that an argument matches; all captures if it is NULL.
CREATE MACRO _captures_matching(capture) AS TABLE
SELECT _each.*
FROM captures AS _each
WHERE capture IS NULL OR _each.capture_id IN (SELECT _meant.capture_id FROM _matching_captures(capture) AS _meant);

-- The same. etq replaces this macro by one with a body for NULL, which is planned without the search, see `CHOSEN`.
CREATE MACRO _matching_or_all(capture) AS TABLE
FROM _captures_matching(capture);
