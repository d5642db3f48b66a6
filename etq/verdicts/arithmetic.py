"""The arithmetic of tests: medians, Student's t, corrections for many tests, and how many captures show what."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Numbers: TypeAlias = "npt.NDArray[np.float64]"
Flags: TypeAlias = "npt.NDArray[np.bool_]"
Texts: TypeAlias = "npt.NDArray[np.object_]"

# The normal quantiles with 2.5 %, and a tenth, above them.
NORMAL, TENTH = 1.959963984540054, 1.2815515655446
# A normal distribution's standard deviation by its median deviation.
DEVIATION = 1.4826
# The numbers of captures per side that notes may state.
FEWEST, MOST = 5, 100


def medians(values: Numbers) -> Numbers:
    """Return the median of each row without its NaN. numpy's would import what takes 7 ms."""
    if not values.shape[1]:
        return np.full(len(values), np.nan)
    ordered, counts = np.sort(values, axis=1), np.isfinite(values).sum(axis=1)
    low, high = np.maximum(counts - 1, 0) // 2, np.minimum(counts // 2, values.shape[1] - 1)
    rows = np.arange(len(values))
    return np.where(counts > 0, (ordered[rows, low] + ordered[rows, high]) / 2, np.nan)


def median(values: Any) -> float:
    """Return the median without NaN; NaN of nothing."""
    given = np.asarray(values, np.float64)
    ordered = np.sort(given[np.isfinite(given)])
    return float(ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2 if len(ordered) else np.nan


def p_of(t: float, freedom: int) -> float:
    """Return the two-sided p-value of Student's t with a whole number of degrees of freedom.

    The finite sums of Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.3 (odd) and 26.7.4 (even), by
    Horner's scheme. With cos² = n / (n + t²) and angle = atan(|t| / √n), p is 1 less

        even n: sin · (1 + 1/2 cos² + (1·3)/(2·4) cos⁴ + ... up to cos^(n - 2))
        odd n:  2/π · (angle + sin · (cos + 2/3 cos³ + (2·4)/(3·5) cos⁵ + ... up to cos^(n - 2)))
    """
    if math.isinf(t):
        return 0.0
    size, cosine2, odd = abs(t), 1 / (1 + t * t / freedom), freedom % 2
    total = 1.0
    for j in range((freedom - 2 - odd) // 2, 0, -1):
        total = 1 + (2 * j - 1 + odd) / (2 * j + odd) * cosine2 * total
    if not odd:
        within = size / math.sqrt(freedom + t * t) * total
    else:
        sine = size * math.sqrt(freedom) / (freedom + t * t) * total if freedom > 1 else 0.0
        within = 2 / math.pi * (math.atan(size / math.sqrt(freedom)) + sine)
    # The rest of 1 may be rounded to less than zero.
    return max(0.0, 1 - within)


@lru_cache(4096)
def quantile(p: float, freedom: int) -> float:
    """Return the value that Student's t is above with probability `p`, below 0.5.

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


@dataclass(frozen=True)
class Differences:
    """Values for each item, NaN where a side lacks it."""

    base_captures: Numbers
    new_captures: Numbers
    values: Numbers  # the logarithms of the times without the common shift and what follows it
    difference: Numbers  # mean of new less that of base
    factor_difference: Numbers  # mean common shift of the captures in new less that in base
    freedom: Numbers
    variance: Numbers  # of these values within the sides
    per_capture: Numbers  # variance of the difference if theirs is 1


def differences(logs: Numbers, factors: Numbers, is_new: Flags, *, is_interleaved: bool) -> Differences:
    """Return the differences of items without what follows from the state of the machine.

    A busy machine slows some ops more than others: the part of an op's times that follows the factors of their captures
    is removed. It is a slope within the sides (analysis of covariance), shrunk towards 0 by a ridge, as if its standard
    deviation among ops were 1. The state of the machine moves from side to side by as much as within a side: by twice
    its standard deviation at most, by twice the error of the mean if the sides were measured in turns. A larger shift,
    as that of another clock, changes all ops by one ratio: what is followed becomes smaller, and 0 from twice that
    limit. Without the slope, 10 % more in an op of a busy machine is found in 18 instead of 38 % of comparisons.

    logs, factors  items and captures, two dimensions; NaN where a capture doesn't have the item
    """
    has = np.isfinite(logs)
    values = logs - factors
    with np.errstate(invalid="ignore", divide="ignore"):
        sides = (has & ~is_new, has & is_new)
        bases, news = (side.sum(axis=1).astype(float) for side in sides)
        means = [_means(values, side) for side in sides]
        of_factors = [np.where(side, factors, 0).sum(axis=1) / side.sum(axis=1) for side in sides]
        value_parts, factor_parts = (
            np.where(sides[0], each - both[0][:, None], 0) + np.where(sides[1], each - both[1][:, None], 0)
            for each, both in ((values, means), (factors, of_factors))
        )
        squares, products = (factor_parts**2).sum(axis=1), (value_parts * factor_parts).sum(axis=1)
        captures, inverse = bases + news, 1 / bases + 1 / news
        slope = np.where(squares > 0, products / squares, 0)
        # Value by value: the difference of two sums of squares would be imprecise.
        least = ((value_parts - slope[:, None] * factor_parts) ** 2).sum(axis=1)
        # The prior counts as much as one capture with a shift of 1; an op varies by 0.1 % at least.
        prior = np.where(captures > 3, np.maximum(1e-6, least) / (captures - 3), np.inf)
        kept = squares / (squares + prior)  # of the slope, between 0 and 1
        slope = products / (squares + prior)
        most = np.where(captures > 2, 2 * np.sqrt(squares / (captures - 2) * (inverse if is_interleaved else 1)), 0)
        shift = of_factors[1] - of_factors[0]
        state = np.sign(shift) * np.maximum(0, np.minimum(np.abs(shift), 2 * most - np.abs(shift)))
        left = np.where(squares > 0, ((1 - kept) * products) ** 2 / squares, 0)
        moved = np.where(is_new, factors + (state - shift)[:, None], factors)
        return Differences(
            bases,
            news,
            values - slope[:, None] * moved,
            means[1] - means[0] - slope * state,
            shift,
            captures - 2 - np.floor(kept + 0.5),
            np.where(captures > 2, (least + left) / (captures - 2 - kept), np.nan),
            inverse + np.where(squares > 0, (kept * state) ** 2 / squares, 0),
        )


def _means(values: Numbers, side: Flags) -> Numbers:
    """The mean of each item; equal values have no variance, however their mean is rounded."""
    low, high = (
        np.where(side, values, np.inf).min(1, initial=np.inf),
        np.where(side, values, -np.inf).max(1, initial=-np.inf),
    )
    means: Numbers = np.where(low == high, low, np.where(side, values, 0).sum(axis=1) / side.sum(axis=1))
    return means


def holm(p: Sequence[float], weights: Sequence[float]) -> list[float]:
    """Return p-values corrected so that any false positive has this q: by Holm's procedure.

    A test of a smaller weight takes less of the error.
    """
    found, rest, most = [0.0] * len(p), sum(weights), 0.0
    for at in sorted(range(len(p)), key=lambda at: p[at] / weights[at]):
        found[at] = most = min(1.0, max(most, p[at] / weights[at] * rest))
        rest -= weights[at]
    return found


def false_discoveries(p: Sequence[float], tests: int) -> list[float]:
    """Return p-values corrected for the part of false ones among so many tests, of which others have larger p-values.

    Benjamini and Hochberg, Controlling the false discovery rate (J. R. Stat. Soc. B 57, 1995): the i-th smallest of m
    is multiplied by m / i, and is no larger than the next.
    """
    found, smallest = [1.0] * len(p), 1.0
    for rank, at in reversed([*enumerate(sorted(range(len(p)), key=lambda at: p[at]), 1)]):
        found[at] = smallest = min(smallest, p[at] * tests / min(rank, tests))
    return found


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
        is_certain = _is_beyond(abs(difference) / error, limit, freedom)
        return is_certain and _is_beyond((abs(difference) - smallest) / error, 0, freedom)

    return FEWEST + bisect_left(range(FEWEST, MOST + 1), True, key=is_found)


def _is_beyond(size: float, limit: float, freedom: float) -> bool:
    """Whether a statistic with this noncentrality is beyond its limit in nine of ten cases.

    The variance is an estimate, too: by the approximation of Johnson and Welch, Applications of the non-central
    t-distribution, 1940.
    """
    return (1 - 1 / (4 * freedom)) * size - limit >= TENTH * math.sqrt(1 + size * size / (2 * freedom))
