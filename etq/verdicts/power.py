"""How many captures a difference takes."""

from __future__ import annotations

import math

from etq.verdicts.student import quantile

# Of the normal distribution: a tenth is above.
TENTH = 1.2815515655446
FEWEST, MOST = 5, 100


def captures_needed(
    difference: float, variance: float, freedom: float, captures: int, alpha: float, smallest: float
) -> int:
    """Return the captures per side, from 5, that show a difference in nine of ten comparisons; 101 for more than 100.

    The test has this power, and the difference that it finds reaches the smallest one that counts.

    difference, smallest  of logarithms
    variance, freedom     of one capture, estimated from so many `captures` of both sides
    """
    for count in range(FEWEST, MOST + 1):
        error = math.sqrt(2 * variance / count)
        limit = quantile(alpha / 2, 2 * count + freedom - captures)
        if _is_found(abs(difference) / error, limit, freedom) and _is_found(
            (abs(difference) - smallest) / error, 0, freedom
        ):
            return count
    return MOST + 1


def _is_found(size: float, limit: float, freedom: float) -> bool:
    """Whether a statistic with this noncentrality is beyond its limit in nine of ten cases.

    The variance is an estimate, too: by the approximation of Johnson and Welch, Applications of the non-central
    t-distribution, 1940.
    """
    return (1 - 1 / (4 * freedom)) * size - limit >= TENTH * math.sqrt(1 + size * size / (2 * freedom))
