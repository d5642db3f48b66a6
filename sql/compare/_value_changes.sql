-- Verdicts of `etq.verdicts` on values of one kind (metric, time or size). A capture has one value for each name and
-- unit.
CREATE MACRO _value_changes(
    samples, kind,
    compared,  -- the name of a table with the captures: columns side (base, new) and capture_id
    alpha, min_effect, allow_mismatch
) AS TABLE
WITH value_sides AS MATERIALIZED (
    SELECT 0 AS comparison, c.side = 'new' AS is_new, c.capture_id FROM query_table(compared) AS c
)
SELECT unnest(
    needs_etq_to_compare_values(
        samples, kind, alpha::DOUBLE, min_effect::DOUBLE,
        NOT allow_mismatch AND (
            SELECT count(*) > 0 FROM _conditions_of('value_sides', ['governor'], ' in base', ' in new') AS d
        )
    ),
    recursive := true
)
WHERE _has_valid_options(alpha, min_effect);
