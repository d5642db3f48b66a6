-- The captures per side, from 5 to 100, that show a difference of this size in nine of
-- ten comparisons: that the test has this power, and that the difference found reaches
-- the smallest one that counts. NULL if that takes more than 100. The variance is an
-- estimate, too: what is found is a t-statistic with the power as its noncentrality, by
-- the approximation of Johnson and Welch, Applications of the non-central
-- t-distribution, 1940.
CREATE MACRO _captures_needed(
    difference,  -- difference of logarithms
    variance,  -- variance of one capture
    freedom,  -- degrees of freedom of that variance
    captures,  -- captures of both sides that it was estimated from
    alpha,  -- accepted probability of a false positive of this test
    smallest  -- smallest difference that counts, as a logarithm
) AS (
    list_filter(
        range(5, 101),
        lambda n:
            _is_found(
                abs(difference) * sqrt(n / 2 / variance),
                _student_quantile(alpha / 2, 2 * n + freedom - captures),
                freedom
            )
            AND _is_found(
                (abs(difference) - smallest) * sqrt(n / 2 / variance), 0, freedom
            )
    )[1]
);

-- Whether a statistic is beyond its limit in nine of ten cases.
CREATE MACRO _is_found(
    size,  -- its expected value, if the variance is as estimated
    most,  -- the limit
    freedom  -- degrees of freedom of the variance
) AS (
    (1 - 1 / (4 * freedom)) * size - most
    >= 1.2815515655446 * sqrt(1 + size * size / (2 * freedom))
);
