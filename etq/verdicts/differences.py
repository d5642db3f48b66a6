"""The difference of each item between two sides of several captures: its size, its interval and how likely it is.

The sample is a capture, never a run: runs of one capture share the state of the device.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from etq.verdicts.samples import Flags, Numbers, Samples, Texts, median, medians
from etq.verdicts.student import p_of

# The normal quantile with 2.5 % above it.
NORMAL = 1.959963984540054
# The smallest change that counts, unless another is asked for.
SMALLEST = 0.02


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
    limit.

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


@dataclass
class Test:
    """The difference of one item that both sides have. Ratios are of new to base, less 1."""

    base_captures: int
    new_captures: int
    base_ticks: float
    new_ticks: float
    change: float
    low: float | None  # the ends of its interval; None if there are too few captures for one
    high: float | None
    p: float | None
    q: float | None  # p, corrected for the number of items: that of any false positive with this q or less
    share: float | None  # of base's total
    resolution: float
    is_below_resolution: bool
    is_consistent: bool  # each of few captures has at least half of the difference to the median of the other side
    difference: float
    variance: float
    freedom: float
    weight: float  # the part of the probability of a false positive that it may take


def tests(samples: Samples, factors: Numbers, used: Flags, level: str) -> dict[int, Test]:
    """Return the test of each item of a level by its row: a t-test on logarithms.

    The variance of an item is moderated towards the median of those of its type, with fewer than 3 of these, or if the
    sides were not measured in turns, of all: as 3 more degrees of freedom (Smyth, Linear models and empirical Bayes
    methods, 2004). The ratio is that of Hodges and Lehmann: the median of all ratios of a new to a base capture, with
    the interval from Mann's and Whitney's statistic, widened by the error of the part that follows the common shift,
    and by the resolution of a coarse clock. `q` is by Holm's procedure, in which items below 1 % of the total count
    less, by their share: 5 % more of a large op among 28 is found in 85 instead of 72 of 100 comparisons of 5 captures
    a side, and no more are blamed.
    """
    rows = np.flatnonzero(samples.of_level(level))
    columns = np.flatnonzero(used & (samples.is_base | samples.is_new))
    part = np.ix_(rows, columns)
    is_new, logs = samples.is_new[columns], samples.logs[part]
    is_total, is_interleaved = level == "total", samples.is_interleaved
    of_items = np.zeros(logs.shape) if is_total else np.broadcast_to(factors[columns], logs.shape)
    found = differences(logs, of_items, is_new, is_interleaved=is_interleaved)
    ticks = np.where(np.isfinite(logs), samples.ticks[part], np.nan)
    bases, news = medians(ticks[:, ~is_new]), medians(ticks[:, is_new])
    counts = np.isfinite(logs).sum(axis=1)
    is_coarse = 2 * (samples.is_coarse[part] & np.isfinite(logs)).sum(axis=1) >= counts
    resolutions = np.where(np.isfinite(logs), samples.resolutions[part], -np.inf).max(axis=1, initial=-np.inf)
    totals = _totals(samples, columns)
    have = (found.base_captures > 0) & (found.new_captures > 0)
    typical = (
        _typical(found, samples.ops[rows], is_coarse, have, is_interleaved) if not is_total else [None] * len(rows)
    )
    tested: dict[int, Test] = {}
    for at in np.flatnonzero(have):
        total = totals.get(samples.scopes[rows[at]])
        values = found.values[at][np.isfinite(logs[at])]
        test = _hodges_lehmann(values, is_new[np.isfinite(logs[at])], found.per_capture[at])
        test.base_ticks, test.new_ticks, test.resolution = float(bases[at]), float(news[at]), float(resolutions[at])
        test.share = test.base_ticks / total if total else None
        test.weight = weight_of(test.share)
        if is_coarse[at]:
            test.is_below_resolution = abs(test.new_ticks - test.base_ticks) <= test.resolution
            if test.low is not None and test.high is not None:
                test.low -= test.resolution / test.base_ticks
                test.high += test.resolution / test.base_ticks
        test.difference = float(found.difference[at])
        _judge_chance(test, float(found.variance[at]), float(found.freedom[at]), typical[at], found.per_capture[at])
        tested[int(rows[at])] = test
    _correct(tested, samples.items)
    return tested


def weight_of(share: float | None) -> float:
    """Return the weight of an op of this share of the total among the tests of all ops: less than all below 1 %."""
    return min(0.01, max(0.0005, 0.01 if share is None else share))


def _totals(samples: Samples, columns: npt.NDArray[np.intp]) -> dict[str | None, float]:
    """The median of base's total of each scope."""
    chosen = columns[~samples.is_new[columns]]
    rows = np.flatnonzero(samples.of_level("total"))
    logs = samples.logs[np.ix_(rows, chosen)]
    of_rows = medians(np.where(np.isfinite(logs), samples.ticks[np.ix_(rows, chosen)], np.nan))
    return {samples.scopes[row]: float(value) for row, value in zip(rows, of_rows, strict=True) if value > 0}


def _typical(found: Differences, ops: Texts, is_coarse: Flags, have: Flags, is_interleaved: bool) -> list[float | None]:
    """The variance of an item's type, or of all items; None with fewer than 5 items that have a precise clock.

    The median of a chi-square distribution is about (1 - 2/9n)³ of its n degrees of freedom (Wilson, Hilferty 1931).
    The variance of a type doesn't show how a machine moves between sides that were not measured in turns.
    """
    precise = np.flatnonzero(have & (found.freedom > 0) & ~is_coarse)
    freedom = found.freedom[precise]
    variances = found.variance[precise] / (1 - 2 / (9 * freedom)) ** 3
    of_all = median(variances) if len(precise) >= 5 else None
    by_op: dict[str, list[float]] = {}
    for at, variance in zip(precise, variances, strict=True):
        op = ops[at]
        if op is not None and is_interleaved:
            by_op.setdefault(op, []).append(variance)
    of_types = {op: median(each) for op, each in by_op.items() if len(each) >= 3 and median(each) > 0}
    return [of_all if op is None else of_types.get(op, of_all) for op in ops]


def _hodges_lehmann(values: Numbers, is_new: Flags, per_capture: float) -> Test:
    """The change by all pairs of captures, with its interval."""
    base, new = values[~is_new], values[is_new]
    bases, news = len(base), len(new)
    pairs = np.sort((new[:, None] - base).ravel())
    middle = median(pairs)
    stretch = float(np.sqrt(per_capture / (1 / bases + 1 / news)))
    place = int(np.floor(bases * news / 2 - NORMAL * np.sqrt(bases * news * (bases + news + 1) / 12)))
    low, high = None, None
    if place >= 1:
        low, high = (
            float(np.exp(stretch * pairs[end] + (1 - stretch) * middle) - 1) for end in (place - 1, len(pairs) - place)
        )
    sign, half = np.sign(middle), abs(middle) / 2
    is_consistent = bool(
        (news > 4 or ((new - median(base)) * sign).min() >= half)
        and (bases > 4 or ((median(new) - base) * sign).min() >= half)
    )
    change = float(np.exp(middle) - 1)
    return Test(bases, news, 0, 0, change, low, high, None, None, None, 0, False, is_consistent, 0, 0, 0, 0)


def _judge_chance(test: Test, variance: float, freedom: float, typical: float | None, per_capture: float) -> None:
    """Set p, with the variance and degrees of freedom that it is about."""
    is_known = freedom >= 1
    if typical is not None:
        variance, freedom = (3 * typical + freedom * variance) / (3 + freedom), freedom + 3
    if is_known:
        test.p = p_of(test.difference / np.sqrt(variance * per_capture), int(freedom)) if variance > 0 else 1.0
    test.variance = variance * float(per_capture) / (1 / test.base_captures + 1 / test.new_captures)
    test.freedom = freedom


def _correct(tested: Mapping[int, Test], items: Texts) -> None:
    """Set q of all items that the clock can show."""
    for test in tested.values():
        test.q = None if test.is_below_resolution else 1.0
    shown = [(test.p / test.weight, items[row], test) for row, test in tested.items() if test.q and test.p is not None]
    rest, most = sum(test.weight for _, _, test in shown), 0.0
    for chance, _, test in sorted(shown, key=lambda each: each[:2]):
        most = max(most, chance * rest)
        test.q = min(1.0, most)
        rest -= test.weight
