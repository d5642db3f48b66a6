-- The value of a label as selectors have it: in quotation marks where it needs them, for a comma, | or a mark in it, or a
-- key that is a time otherwise. Python's `selector_of` and the pages' `etq.selectorOf` write the same.
CREATE MACRO _selector_value(key, value) AS (
    CASE
        WHEN regexp_matches(value, '[,"|]') OR key = 'since' THEN '"' || replace(value, '"', '""') || '"'
        ELSE value
    END
);

-- The part of a selector that chooses captures with one of several values of a label.
CREATE MACRO _one_of_values(
    key,
    texts  -- a list
) AS (
    concat(key, '=', array_to_string(list_transform(texts, lambda v: _selector_value(key, v)), '|'))
);
