-- Verdicts of `etq.verdicts` on values of one kind (metric, time or size). A capture has one value for each name and
-- unit.
CREATE MACRO _value_changes(samples, kind, base_captures, new_captures, alpha, min_effect, allow_mismatch) AS TABLE
SELECT unnest(
    needs_etq_to_compare_values(
        samples, kind, alpha::DOUBLE, min_effect::DOUBLE,
        NOT allow_mismatch AND (SELECT count(*) > 0 FROM _differing_conditions(base_captures, new_captures) AS d)
    ),
    recursive := true
)
WHERE _has_valid_options(alpha, min_effect);
