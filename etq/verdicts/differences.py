"""The effect of each item, its difference between two sides of several captures, and its noise.

The sample is a capture, never a run: runs of one capture share the state of the device.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from etq.verdicts.samples import Flags, Numbers, Samples, Texts, is_unseen, median, medians
from etq.verdicts.student import p_of, quantile

# With fewer captures, the halves of a side hardly show how the machine drifts.
FEW = 5
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
    """The difference of one item that both sides have."""

    base_captures: int
    new_captures: int
    base_ticks: float
    new_ticks: float
    resolution: float
    is_coarse: bool
    share: float | None  # of base's total
    difference: float  # of logarithms
    error: float  # the standard error of that
    freedom: int
    is_drift: bool  # most of the error is what the machine changed from side to side
    p: float | None = None
    q: float | None = None  # p, corrected for the number of items: that of any false positive with this q or less

    @property
    def change(self) -> float:
        """The ratio of new to base, less 1."""
        return math.expm1(self.difference)

    @property
    def is_below_resolution(self) -> bool:
        return self.is_coarse and is_unseen(self.new_ticks - self.base_ticks, self.resolution)

    @property
    def variance(self) -> float:
        """The variance of one capture that the error is of."""
        return self.error**2 / (1 / self.base_captures + 1 / self.new_captures)

    def interval(self) -> tuple[float | None, float | None]:
        """The ends of the interval of 95 % of the change; a clock's step wider at both if it is coarse."""
        if self.p is None:
            return None, None
        half = self.error * quantile(0.025, self.freedom)
        step = self.resolution / self.base_ticks if self.is_coarse else 0.0
        return math.expm1(self.difference - half) - step, math.expm1(self.difference + half) + step


def tests(samples: Samples, factors: Numbers, used: Flags, level: str) -> dict[int, Test]:
    """Return the test of each item of a level by its row: a t-test on logarithms."""
    rows = np.flatnonzero(samples.of_level(level))
    columns = np.flatnonzero(used & (samples.is_base | samples.is_new))
    part = np.ix_(rows, columns)
    is_new, logs = samples.is_new[columns], samples.logs[part]
    has, is_total = np.isfinite(logs), level == "total"
    of_items = np.zeros(logs.shape) if is_total else np.broadcast_to(factors[columns], logs.shape)
    found = differences(logs, of_items, is_new, is_interleaved=samples.is_interleaved)
    ticks = np.where(has, samples.ticks[part], np.nan)
    bases, news = medians(ticks[:, ~is_new]), medians(ticks[:, is_new])
    is_coarse = 2 * (samples.is_coarse[part] & has).sum(axis=1) >= has.sum(axis=1)
    resolutions = np.where(has, samples.resolutions[part], -np.inf).max(axis=1, initial=-np.inf)
    totals = _totals(samples, columns)
    have = (found.base_captures > 0) & (found.new_captures > 0)
    precise = have & (found.freedom > 0) & ~is_coarse
    variance, freedom, drift = found.variance, found.freedom, np.zeros(len(rows))
    if samples.is_apart:
        drift = _drift(found.values, is_new, samples.positions[columns])
    if not is_total:
        variance, freedom = _moderated(found, samples.ops[rows] if samples.is_interleaved else None, precise)
        # Of two differences, as variances are: shrunk towards the median item's.
        drift = (2 * drift + 3 * median(drift[precise])) / 5 if precise.any() else drift
    squared_error = np.where(have, variance, 0) * np.where(have, found.per_capture, 0)
    tested: dict[int, Test] = {}
    for at in np.flatnonzero(have):
        total = totals.get(samples.scopes[rows[at]])
        test = Test(
            int(found.base_captures[at]),
            int(found.new_captures[at]),
            float(bases[at]),
            float(news[at]),
            float(resolutions[at]),
            bool(is_coarse[at]),
            float(bases[at]) / total if total else None,
            float(found.difference[at]),
            math.sqrt(squared_error[at] + drift[at]),
            int(freedom[at]),
            bool(drift[at] > squared_error[at]),
        )
        if found.freedom[at] >= 1:
            test.p = p_of(test.difference / test.error, test.freedom) if test.error > 0 else 1.0
        tested[int(rows[at])] = test
    _correct(tested, samples.items)
    return tested


def _totals(samples: Samples, columns: npt.NDArray[np.intp]) -> dict[str | None, float]:
    """The median of base's total of each scope."""
    rows = np.flatnonzero(samples.of_level("total"))
    part = np.ix_(rows, columns[~samples.is_new[columns]])
    of_rows = medians(np.where(np.isfinite(samples.logs[part]), samples.ticks[part], np.nan))
    return {samples.scopes[row]: float(value) for row, value in zip(rows, of_rows, strict=True) if value > 0}


def _moderated(found: Differences, ops: Texts | None, precise: Flags) -> tuple[Numbers, Numbers]:
    """The variances of items, shrunk towards the median of their type's as 3 more degrees of freedom, and all of these.

    After Smyth, Linear models and empirical Bayes methods, 2004: it finds 81 instead of 65 % of changes by 5 % with 3
    captures a side. Of fewer than 3 items of a type, or without types, the median is that of all items. Of chi-square's
    distribution, the median is about (1 - 2/9n)^3 of its n degrees of freedom (Wilson, Hilferty 1931).
    """
    at = np.flatnonzero(precise)
    if len(at) < 5:
        return found.variance, found.freedom
    variances = found.variance[at] / (1 - 2 / (9 * found.freedom[at])) ** 3
    typical = np.full(len(precise), median(variances))
    if ops is not None:
        for op in {*ops[at]} - {None}:
            of_type = variances[ops[at] == op]
            if len(of_type) >= 3 and median(of_type) > 0:
                typical[ops == op] = median(of_type)
    variance, freedom = found.variance, found.freedom
    return np.where(freedom > 0, (3 * typical + freedom * variance) / (3 + freedom), typical), freedom + 3


def _drift(values: Numbers, is_new: Flags, positions: Numbers) -> Numbers:
    """The squared error of items by what the machine changed from side to side, of sides that were measured apart.

    By so much each item moved between the halves of a side in time, in the mean of both sides. Without it, totals of
    equal sides of a busy machine differ in 20 %, ops in 13 to 15 %. Halves of few captures hardly show it: it counts
    twice then.
    """
    order = np.argsort(positions, kind="stable")
    sides = order[~is_new[order]], order[is_new[order]]
    squares = np.zeros(len(values))
    for side in sides:
        halves = values[:, side[: len(side) // 2]], values[:, side[len(side) // 2 :]]
        first, second = (np.nansum(half, axis=1) / np.maximum(1, np.isfinite(half).sum(axis=1)) for half in halves)
        squares += (second - first) ** 2 / 2 if len(side) > 1 else 0
    return squares * (4 if min(map(len, sides)) < FEW else 1)


def _correct(tested: Mapping[int, Test], items: Texts) -> None:
    """Set q of all items that the clock can show: by Holm's procedure, in which small items count less.

    So 5 % more of a large op is found in 82 instead of 76 % of comparisons of 5 captures a side (mlp).
    """
    shown = [(test.p / weight_of(test.share), items[row], test) for row, test in tested.items() if test.p is not None]
    shown = [each for each in shown if not each[2].is_below_resolution]
    rest, most = sum(weight_of(test.share) for _, _, test in shown), 0.0
    for chance, _, test in sorted(shown, key=lambda each: each[:2]):
        test.q = most = min(1.0, max(most, chance * rest))
        rest -= weight_of(test.share)


def weight_of(share: float | None) -> float:
    """Return the weight of an op of this share of the total among the tests of all ops: less than all below 1 %."""
    return min(0.01, max(0.0005, 0.01 if share is None else share))
