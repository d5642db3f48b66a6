"""The arithmetic of tests: medians, Student's t, the correction for many tests, and the number of captures that a test
needs.
"""

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
Places: TypeAlias = "npt.NDArray[np.int64]"

# The standard deviation of a normal distribution, as a multiple of its median absolute deviation.
DEVIATION = 1.4826
# A normally distributed value exceeds this one with probability 0.1.
TENTH = 1.2815515655446
# Constants for estimating the part of a common shift that the machine caused. `PARTS` are tried, in standard errors of
# the shift. Costs are in squared standard errors: a difference costs at most `CLEAR`; compared with the whole shift, no
# part costs `NONE` more, and another part `PART` more. With fewer items than `FEW_ITEMS`, no part is estimated.
PARTS, CLEAR, NONE, PART, FEW_ITEMS = np.linspace(-2.5, 2.5, 101), 9, 4, 13, 5
# The numbers of captures per side that a note may state.
FEWEST, MOST = 5, 100


def medians(values: Numbers) -> Numbers:
    """Return the median of each row without its NaN. numpy's nanmedian would import modules for 7 ms."""
    if not values.shape[1]:
        return np.full(len(values), np.nan)
    ordered, counts = np.sort(values, axis=1), np.isfinite(values).sum(axis=1)
    low, high = np.maximum(counts - 1, 0) // 2, np.minimum(counts // 2, values.shape[1] - 1)
    rows = np.arange(len(values))
    return np.where(counts > 0, (ordered[rows, low] + ordered[rows, high]) / 2, np.nan)


def median(values: Any) -> float:
    """Return the median of the values that aren't NaN; NaN if there are none."""
    return float(medians(np.asarray(values, np.float64)[None])[0])


def p_of(t: float, freedom: int) -> float:
    """Return the two-sided p-value of Student's t with a whole number of degrees of freedom.

    It uses the finite sums of Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.3 (odd) and 26.7.4
    (even), by Horner's scheme. With cos² = n / (n + t²) and angle = atan(|t| / √n), p is 1 minus

        even n: sin · (1 + 1/2 cos² + (1·3)/(2·4) cos⁴ + ... up to cos^(n - 2))
        odd n:  2/π · (angle + sin · (cos + 2/3 cos³ + (2·4)/(3·5) cos⁵ + ... up to cos^(n - 2)))
    """
    if math.isinf(t):
        return 0.0
    size, cosine2, odd = abs(t), 1 / (1 + t * t / freedom), freedom % 2
    total = 1.0
    for ratio in _ratios(freedom):
        total = 1 + ratio * cosine2 * total
    if not odd:
        within = size / math.sqrt(freedom + t * t) * total
    else:
        sine = size * math.sqrt(freedom) / (freedom + t * t) * total if freedom > 1 else 0.0
        within = 2 / math.pi * (math.atan(size / math.sqrt(freedom)) + sine)
    # Rounding may make the difference negative.
    return max(0.0, 1 - within)


@lru_cache(64)
def _ratios(freedom: int) -> tuple[float, ...]:
    """Return the ratios of the coefficients of `p_of`, the last ones first."""
    odd = freedom % 2
    return tuple((2 * j - 1 + odd) / (2 * j + odd) for j in range((freedom - 2 - odd) // 2, 0, -1))


@lru_cache(4096)
def quantile(p: float, freedom: int) -> float:
    """Return the value that Student's t exceeds with probability `p`, which is below 0.5; it is found by bisection."""
    low, high = 0.0, 1.0
    while p_of(high, freedom) > 2 * p:
        low, high = high, 2 * high
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if p_of(middle, freedom) > 2 * p else (low, middle)
    return high


@dataclass(frozen=True)
class Differences:
    """The difference between the sides for each item, without effects of the machine's state."""

    bases: Numbers  # the number of base's captures that have the item
    news: Numbers
    difference: Numbers  # the mean of new minus the mean of base
    shift: Numbers  # the mean common shift of the captures of new that have the item, minus that of base
    within: Numbers  # by item and capture: the difference from the side's mean; NaN if the capture lacks the item
    variance: Numbers  # the variance of these differences; NaN if unknown
    inverse: Numbers  # variance of the difference if the variance of one capture is 1
    freedom: Numbers


def differences(logs: Numbers, factors: Numbers, is_new: Flags) -> Differences:
    """Return the differences of items between the sides, without effects of the machine's state.

    A busy machine slows some ops more than others. So the common shift is removed, and also the part of an op's times
    that varies with the shifts within the sides (analysis of covariance). This part is a slope times the shift. A ridge
    shrinks the slope towards 0, as if its standard deviation among ops were 1. The slope is applied only to the part of
    the shift that the machine caused, not to the part of the program or of another clock. Without the slope, an op that
    takes 5 % longer on a busy machine is found in 8 to 35 % of comparisons instead of 65 to 82 % (10 captures a side).
    If the slope were applied to any shift, ops would be blamed in 58 to 95 % of comparisons in which all ops take 50 %
    longer (convolution 1).

    logs     logarithms of times by item and capture; NaN if a capture lacks the item
    factors  the common shift of each capture, as logarithms
    """
    has = np.isfinite(logs)
    sides = has & ~is_new, has & is_new
    bases, news = (side.sum(axis=1).astype(float) for side in sides)
    free = bases + news - 2
    with np.errstate(invalid="ignore", divide="ignore"):
        inverse = 1 / bases + 1 / news
        (base, new), within = _within(logs - factors, sides)
        (base_state, new_state), states = _within(np.broadcast_to(factors, logs.shape), sides)
        squares, shift = (states**2).sum(axis=1), new_state - base_state
        # An op varies by 0.1 % at least.
        ridge = np.maximum(1e-6, (within**2).sum(axis=1) / np.maximum(1, free))
        slope, used = (within * states).sum(axis=1) / (squares + ridge), squares / (squares + ridge)
        rest = ((within - slope[:, None] * states) ** 2).sum(axis=1) / np.maximum(1, free - used)
        # The squared errors of the differences, of the slopes, and of the shift, if the machine caused all of the
        # shift.
        errors = rest * inverse, rest * used / (squares + ridge), squares / np.maximum(1, free) * inverse
        moved = _of_machine(new - base, slope, shift, *errors)
        slope, used = slope * (moved != 0), np.round(used) * (moved != 0)
        within, freedom = within - slope[:, None] * states, free - used
        variance = np.where(freedom > 0, (within**2).sum(axis=1) / freedom, np.nan)
    within = np.where(has, within, np.nan)
    return Differences(bases, news, new - base - slope * moved, shift, within, variance, inverse, freedom)


def _of_machine(
    difference: Numbers, slope: Numbers, shift: Numbers, squared: Numbers, of_slope: Numbers, of_shift: Numbers
) -> Numbers:
    """Return the part of each item's common shift that the machine caused: all of it, or the part that explains most.

    The machine moves items by their slopes; a program moves all items alike. So the cost of a part is its square plus
    the squares of the remaining differences, each in units of its squared error. A remaining difference costs at most
    `CLEAR`, and any part costs `CLEAR` more than no part, so a single item that changed never leads to a part. With few
    items, no part is estimated. Then the machine caused the whole shift, or nothing if the shift exceeds two standard
    errors.
    """
    is_known = np.isfinite(difference) & (squared > 0) & (of_shift > 0)
    if not is_known.any():
        return np.zeros(len(shift))
    whole, error = median(shift[is_known]), math.sqrt(median(of_shift[is_known]))
    sizes = np.append(error * PARTS, whole)
    costs = (sizes / error) ** 2 + np.append(np.where(PARTS == 0, NONE, PART), 0)
    if is_known.sum() >= FEW_ITEMS:
        left = difference[is_known, None] - slope[is_known, None] * sizes
        squares = left**2 / (squared[is_known, None] + of_slope[is_known, None] * sizes**2)
        costs += np.minimum(CLEAR, squares).sum(axis=0)
    best = int(np.argmin(costs))
    return shift if best == len(PARTS) else np.full(len(shift), sizes[best])


def mean_difference(values: Numbers, is_new: Flags) -> tuple[float, float, int]:
    """Return the mean of new minus the mean of base, its standard error from the pooled variance, and the degrees of
    freedom.

    The error is NaN without degrees of freedom.
    """
    found = differences(values[None], np.zeros(len(values)), is_new)
    return float(found.difference[0]), math.sqrt(found.variance[0] * found.inverse[0]), int(found.freedom[0])


def _within(values: Numbers, sides: tuple[Flags, Flags]) -> tuple[list[Numbers], Numbers]:
    """Return the mean of each item on both sides, and the values minus the mean of their side. Missing values become
    0.
    """
    means, rest = [], np.zeros(values.shape)
    for side in sides:
        # Differences from the largest value are averaged, so that rounding gives equal values no variance.
        one = np.where(side, values, -np.inf).max(axis=1, initial=-np.inf)
        off = np.where(side, values - one[:, None], 0)
        mean = off.sum(axis=1) / side.sum(axis=1)
        means.append(one + mean)
        rest += np.where(side, off - mean[:, None], 0)
    return means, rest


def holm(p: Sequence[float], weights: Sequence[float]) -> list[float]:
    """Return the p-values corrected by Holm's procedure (q). If all tests with a corrected value of at most q are
    positive, the probability of any false positive is at most q.

    A test with a smaller weight uses less of the error probability.
    """
    found, rest, most = [0.0] * len(p), sum(weights), 0.0
    for at in sorted(range(len(p)), key=lambda at: p[at] / weights[at]):
        found[at] = most = min(1.0, max(most, p[at] / weights[at] * rest))
        rest -= weights[at]
    return found


def captures_needed(
    difference: float, variance: float, freedom: int, captures: int, alpha: float, smallest: float
) -> int:
    """Return the number of captures per side that show a difference in nine of ten comparisons: at least 5, and 101 for
    more than 100.

    In nine of ten comparisons, the test is then positive, and the difference reaches the smallest one that counts.
    Because the variance is an estimate, too, the standard deviation is replaced by an upper bound that holds in nine of
    ten cases (Wilson, Hilferty 1931).

    difference, smallest  of logarithms
    variance, freedom     of one capture, estimated from `captures` captures of both sides
    """
    times = (1 - 2 / (9 * freedom) - TENTH * math.sqrt(2 / (9 * freedom))) ** -1.5

    def is_found(count: int) -> bool:
        error = math.sqrt(2 * variance / count)
        certain = quantile(alpha / 2, freedom + 2 * count - captures) * error
        certain += math.hypot(TENTH * error, (times - 1) * difference)
        return abs(difference) >= max(certain, smallest + TENTH * error)

    return FEWEST + bisect_left(range(FEWEST, MOST + 1), True, key=is_found)
