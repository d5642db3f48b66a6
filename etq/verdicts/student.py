"""Student's t distribution with a whole number of degrees of freedom."""

from __future__ import annotations

import math
from bisect import bisect_left
from functools import lru_cache

# The normal quantiles with 2.5 %, and a tenth, above them.
NORMAL, TENTH = 1.959963984540054, 1.2815515655446
# The numbers of captures per side that notes may state.
FEWEST, MOST = 5, 100


def p_of(t: float, freedom: int) -> float:
    """Return the two-sided p-value of a statistic `t`.

    The finite sums of Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.3 (odd) and 26.7.4 (even), by
    Horner's scheme. With cos² = n / (n + t²) and angle = atan(|t| / √n), p is 1 less

        even n: sin · (1 + 1/2 cos² + (1·3)/(2·4) cos⁴ + ... up to cos^(n - 2))
        odd n:  2/π · (angle + sin · (cos + 2/3 cos³ + (2·4)/(3·5) cos⁵ + ... up to cos^(n - 2)))
    """
    if math.isinf(t):
        return 0.0
    size, cosine2 = abs(t), 1 / (1 + t * t / freedom)
    total = 1.0
    if freedom % 2 == 0:
        for j in range(freedom // 2 - 1, 0, -1):
            total = 1 + (2 * j - 1) / (2 * j) * cosine2 * total
        within = size / math.sqrt(freedom + t * t) * total
    else:
        for j in range((freedom - 3) // 2, 0, -1):
            total = 1 + 2 * j / (2 * j + 1) * cosine2 * total
        within = math.atan(size / math.sqrt(freedom))
        if freedom > 1:
            within += size * math.sqrt(freedom) / (freedom + t * t) * total
        within *= 2 / math.pi
    # The rest of 1 may be rounded to less than zero.
    return max(0.0, 1 - within)


@lru_cache(4096)
def quantile(p: float, freedom: int) -> float:
    """Return the value that t is above with probability `p`, below 0.5.

    By Newton's method, from Cornish's and Fisher's expansion (Abramowitz and Stegun, 26.7.5) of the normal quantile
    (26.2.23): it comes from below, where the tail is convex.
    """
    u = math.sqrt(-2 * math.log(p))
    x = u - (2.515517 + 0.802853 * u + 0.010328 * u**2) / (1 + 1.432788 * u + 0.189269 * u**2 + 0.001308 * u**3)
    t = x + (x**3 + x) / (4 * freedom) + (5 * x**5 + 16 * x**3 + 3 * x) / (96 * freedom**2)
    scale = math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)) / math.sqrt(math.pi * freedom)
    step = t
    while step > 1e-9 * t:
        step = (p_of(t, freedom) / 2 - p) / (scale * (1 + t * t / freedom) ** (-(freedom + 1) / 2))
        t += step
    return t


def captures_needed(
    difference: float, variance: float, freedom: int, captures: int, alpha: float, smallest: float
) -> int:
    """Return the captures per side, from 5, that show a difference in nine of ten comparisons; 101 for more than 100.

    The test has this power, and the difference that it finds reaches the smallest one that counts.

    difference, smallest  of logarithms
    variance, freedom     of one capture, estimated from so many `captures` of both sides
    """

    def is_found(count: int) -> bool:
        error = math.sqrt(2 * variance / count)
        limit = quantile(alpha / 2, 2 * count + freedom - captures)
        is_certain = _is_found(abs(difference) / error, limit, freedom)
        return is_certain and _is_found((abs(difference) - smallest) / error, 0, freedom)

    return FEWEST + bisect_left(range(FEWEST, MOST + 1), True, key=is_found)


def _is_found(size: float, limit: float, freedom: float) -> bool:
    """Whether a statistic with this noncentrality is beyond its limit in nine of ten cases.

    The variance is an estimate, too: by the approximation of Johnson and Welch, Applications of the non-central
    t-distribution, 1940.
    """
    return (1 - 1 / (4 * freedom)) * size - limit >= TENTH * math.sqrt(1 + size * size / (2 * freedom))
