-- The value of a label as written in selectors. It is quoted if it contains a comma, | or a quotation mark, if it has a
-- space at an end, which forms drop, or if its key would otherwise mean a time. Python's `selector_of` and the pages'
-- `etq.selectorOf` write the same.
CREATE MACRO _selector_value(key, value) AS (
    CASE
        WHEN regexp_matches(value, '[,"|]|^ | $') OR key = 'since' THEN '"' || replace(value, '"', '""') || '"'
        ELSE value
    END
);

-- The part of a selector for captures that have one of several values of a label.
CREATE MACRO _one_of_values(
    key,
    texts  -- a list
) AS (
    concat(key, '=', array_to_string(list_transform(texts, lambda v: _selector_value(key, v)), '|'))
);
