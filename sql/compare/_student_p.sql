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

-- The upper quantile of Student's t, by Cornish's and Fisher's expansion (Abramowitz and
-- Stegun, 26.7.5) of the normal quantile (26.2.23). Its error is below 1 % from 4 degrees
-- of freedom on, for probabilities of 0.01 and more.
CREATE MACRO _student_quantile(
    p,  -- the probability of a larger value, below 0.5
    freedom  -- the degrees of freedom
) AS (
    list_transform(
        list_transform([sqrt(-2 * ln(p))], lambda u:
            u - (2.515517 + 0.802853 * u + 0.010328 * u * u)
            / (1 + 1.432788 * u + 0.189269 * u * u + 0.001308 * u * u * u)),
        lambda x:
            x + (power(x, 3) + x) / (4 * freedom)
            + (5 * power(x, 5) + 16 * power(x, 3) + 3 * x) / (96 * freedom * freedom)
            + (3 * power(x, 7) + 19 * power(x, 5) + 17 * power(x, 3) - 15 * x)
            / (384 * freedom * freedom * freedom)
    )[1]
);
