-- A clause that lists names of a kind: "label is a", "labels are a, b"; NULL without names.
CREATE MACRO _listed(
    one,  -- the kind, in the singular
    names  -- a list
) AS (
    one || CASE WHEN len(names) = 1 THEN ' is ' WHEN len(names) > 1 THEN 's are ' END || array_to_string(names, ', ')
);
