-- The two-sided p-value of Student's t with a whole number of degrees of freedom,
-- by the finite sums of Abramowitz and Stegun, Handbook of Mathematical Functions,
-- 26.7.3 and 26.7.4, evaluated by Horner's scheme. NULL for less than one degree of
-- freedom.
CREATE MACRO _student_p(
    t,  -- the statistic
    freedom  -- its degrees of freedom, a whole number
) AS (
    CASE
        WHEN freedom < 1 OR t IS NULL THEN NULL
        WHEN freedom = 1 THEN 1 - 2 * atan(abs(t)) / pi()
        -- The rest of 1 may be rounded to less than zero.
        WHEN freedom % 2 = 0 THEN greatest(
            0, 1 - abs(t) / sqrt(freedom + t * t) * list_reduce(
                list_transform(range(freedom // 2 - 1, 0, -1), lambda j: j::DOUBLE),
                lambda sum, j:
                    1 + (2 * j - 1) / (2 * j) / (1 + t * t / freedom) * sum,
                1::DOUBLE
            )
        )
        ELSE greatest(0, 1 - 2 / pi() * (
            atan(abs(t) / sqrt(freedom))
            + abs(t) * sqrt(freedom) / (freedom + t * t) * list_reduce(
                list_transform(
                    range((freedom - 3) // 2, 0, -1), lambda j: j::DOUBLE
                ),
                lambda sum, j:
                    1 + 2 * j / (2 * j + 1) / (1 + t * t / freedom) * sum,
                1::DOUBLE
            )
        ))
    END
);
