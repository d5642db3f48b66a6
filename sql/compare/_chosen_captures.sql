-- The captures that a selector chooses, as `_several_captures` finds them; all captures if it is NULL.
CREATE MACRO _captures_chosen_by(selector) AS TABLE
SELECT _each.*
FROM captures AS _each
WHERE selector IS NULL OR _each.capture_id IN (SELECT _meant.capture_id FROM _several_captures(selector) AS _meant);

-- The same. etq replaces this macro by one with a body for NULL, which is planned without the search, see `CHOSEN`.
CREATE MACRO _chosen_captures(selector) AS TABLE
FROM _captures_chosen_by(selector);
