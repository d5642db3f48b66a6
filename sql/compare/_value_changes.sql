-- Verdicts of `etq.verdicts` on values of one kind (metric, time or size). A capture has one value for each name and
-- unit.
CREATE MACRO _value_changes(
    samples, kind,
    compared,  -- the name of a table with the captures: columns side (base, new) and capture_id
    alpha, min_effect, allow_mismatch
) AS TABLE
WITH value_sides AS MATERIALIZED (
    SELECT c.capture_id, c.side = 'new' AS is_new FROM query_table(compared) AS c
)
SELECT unnest(
    needs_etq_to_compare_values(
        samples, (SELECT list(s) FROM value_sides AS s), (SELECT list(c) FROM _conditions('value_sides') AS c), kind,
        alpha::DOUBLE, min_effect::DOUBLE, allow_mismatch::BOOLEAN
    ),
    recursive := true
)
WHERE _has_valid_options(alpha, min_effect);
