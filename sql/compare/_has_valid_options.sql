-- True; an error for options of a comparison that are out of their range.
CREATE MACRO _has_valid_options(alpha, min_effect, phase := NULL) AS (
    CASE
        WHEN alpha IS NULL OR alpha <= 0 OR alpha >= 1 THEN error(
            'alpha must be a number above 0 and below 1, not ' || coalesce(alpha::VARCHAR, 'NULL')
        )
        ELSE _is_valid_effect(min_effect) AND coalesce(_checked_phase(phase), 'all') <> ''
    END
);

-- True; an error for a smallest effect that is not a fraction from 0 to below 10.
CREATE MACRO _is_valid_effect(min_effect) AS (
    CASE
        WHEN min_effect < 0 OR min_effect >= 10 THEN error(
            'min_effect must be a fraction from 0 to below 10, such as 0.03, not ' || min_effect::VARCHAR
        )
        ELSE true
    END
);
