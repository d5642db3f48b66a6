-- The value of a label as selectors have it: in quotation marks where it needs them.
CREATE MACRO _selector_value(value) AS (
    CASE WHEN regexp_matches(value, '[,"|]') THEN '"' || replace(value, '"', '""') || '"' ELSE value END
);
