"""The effect of each item: its difference between the sides, and the noise of the difference.

The sample is a capture, never a run: runs of one capture share the state of the device. With several captures a side,
the noise is the variation of captures within a side, and the machine's drift between the sides. With one capture a
side, it is the differences of successive captures of the same program, the history.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from etq.verdicts.arithmetic import (
    DEVIATION,
    Differences,
    Flags,
    Numbers,
    differences,
    holm,
    mean_difference,
    median,
    medians,
    p_of,
    quantile,
)
from etq.verdicts.samples import COARSE, Samples, is_unseen
from etq.verdicts.states import States

# With fewer captures, the machine's drift and outliers are hardly seen; with fewer ops, their variation is hardly seen.
FEW = 5
# Times of both sides are rounded to a step of the clock, so 95 % of their differences are wrong by less than this many
# steps.
ROUNDED = 1 - math.sqrt(0.05)
# Values of ops that are further from the median than this many standard deviations are clipped.
FAR = 5
# The most degrees of freedom of the prior, which is the variance of the median op. The prior has at least one, so that
# an op can be judged if its times are equal in all captures of a side.
MOST_PRIOR = 4
# Two sizes of ops: those with 0.1 to 1 % of the total, and those with more.
SMALL, LARGE = 0.001, 0.01
# The machine slows all ops down alike, up to this part.
STATE = 0.5
# The largest half of an interval of logarithms: a factor of 10.
WIDEST = math.log(10)
# A difference of single captures is rare if it is this multiple of the largest one of the history. In comparisons of
# five programs, an op is then blamed in 0 to 3 % of comparisons of equal captures, and an op that takes 20 % longer is
# found in 92 to 100 %. With 2 as the multiple, it is found in 8 to 100 %.
RARE = 1.5


@dataclass
class Effect:
    """The difference of an item, and its noise; NaN if a side has no used capture with the item."""

    level: str
    row: int  # the row of the item in the samples
    bases: int  # the captures of base that have it
    news: int
    used_bases: int  # the number of captures that are not left out
    used_news: int
    base_ticks: float  # the median of the used captures of base
    new_ticks: float
    share: float  # the share of base's total; NaN if unknown
    resolution: float  # the step of the clock
    difference: float  # the difference of logarithms, without the common shift
    error: float  # the standard error of the difference
    freedom: int  # the degrees of freedom of the error; 0 if it is unknown
    is_drift: bool = False  # whether most of the error is the machine's drift between the sides
    p: float | None = None
    q: float | None = None  # corrected p: the probability that any item with this q or less is a false positive
    history: int | None = None  # for single captures: the number of captures of the history that have the item
    usual: float = math.nan  # the greatest difference between two successive captures of the history

    @property
    def change(self) -> float:
        """The ratio of new to base, minus 1."""
        return math.expm1(self.difference)

    @property
    def part(self) -> float:
        return 1.0 if math.isnan(self.share) else self.share

    @property
    def is_below_resolution(self) -> bool:
        is_coarse = min(self.base_ticks, self.new_ticks) < COARSE * self.resolution
        return is_coarse and is_unseen(self.new_ticks - self.base_ticks, self.resolution)

    @property
    def variance(self) -> float:
        """The variance of one capture that leads to this error."""
        return self.error**2 / (1 / self.used_bases + 1 / self.used_news)

    @property
    def is_rare(self) -> bool:
        """Whether the difference exceeds those within the history by enough. The distribution of the latter is unknown
        and has heavy tails.
        """
        return abs(self.difference) > RARE * self.usual

    def interval(self, alpha: float = 0.05) -> tuple[float | None, float | None]:
        """The ends of an interval for the change; with probability `alpha`, the change lies outside of it. None if
        it is unknown, or so wide that it says nothing.
        """
        if self.p is None:
            return None, None
        rounded = ROUNDED * self.resolution / self.base_ticks
        half = math.hypot(self.error * quantile(alpha / 2, self.freedom), rounded)
        if half > WIDEST:
            return None, None
        return math.expm1(self.difference - half), math.expm1(self.difference + half)


def effects(samples: Samples, states: States, level: str) -> list[Effect]:
    """Return the effects of the items of a level, with p and q of a t-test on logarithms."""
    rows = np.flatnonzero(samples.of_level(level))
    columns = np.flatnonzero(states.is_used & (samples.is_base | samples.is_new))
    part = np.ix_(rows, columns)
    logs, is_new, is_total = samples.logs[part], samples.is_new[columns], level == "total"
    has, factors = np.isfinite(logs), np.zeros(len(columns)) if is_total else states.factors[columns]
    is_precise = 2 * (samples.is_rough[part] & has).sum(axis=1) < has.sum(axis=1)
    base, new, *resolutions = (
        medians(each[part][:, side]) for each in (samples.ticks, samples.resolutions) for side in (~is_new, is_new)
    )
    resolution = np.fmax(*resolutions)
    found = differences(logs, factors, is_new)
    if not is_total and min(is_new.sum(), (~is_new).sum()) >= FEW:
        with np.errstate(invalid="ignore", divide="ignore"):
            logs = _bounded(logs, found.within, is_new, resolution / np.fmin(base, new))
        found = differences(logs, factors, is_new)
    bases, news = (np.isfinite(samples.ticks[rows][:, side]).sum(axis=1) for side in (samples.is_base, samples.is_new))
    with np.errstate(invalid="ignore"):
        shares = np.where((bases > 0) & (news > 0), base / _totals(samples, rows, columns[~is_new]), np.nan)
        variance, freedom = found.variance, np.where(np.isfinite(found.variance), found.freedom, 0)
        if not is_total:
            variance, freedom = shrunk(variance, freedom, is_precise)
        squared_error = variance * found.inverse
        if level == "op":
            squared_error = squared_error + _of_state(found, squared_error, *mean_difference(factors, is_new)[:2])
        drift = drift_of(found.within, is_new, samples.positions[columns]) if samples.is_apart else np.zeros(len(rows))
        of_effects = {
            "row": rows, "bases": bases, "news": news,
            "used_bases": found.bases.astype(int), "used_news": found.news.astype(int),
            "base_ticks": base, "new_ticks": new, "share": shares,
            "resolution": resolution, "difference": found.difference, "error": np.sqrt(squared_error + drift),
            "freedom": freedom.astype(int), "is_drift": drift > squared_error,
        }  # fmt: skip
    values = zip(*(column.tolist() for column in of_effects.values()), strict=True)
    listed = [effect for effect in (Effect(level, *each) for each in values) if effect.bases or effect.news]
    _test(listed)
    return listed


def _totals(samples: Samples, rows: Any, columns: Any) -> Numbers:
    """The total of each item's scope, the median of these captures; NaN if unknown."""
    of_totals = np.flatnonzero(samples.of_level("total"))
    typical = medians(samples.ticks[np.ix_(of_totals, columns)])
    known = {samples.scopes[row]: total for row, total in zip(of_totals, typical, strict=True) if total > 0}
    return np.array([known.get(scope, np.nan) for scope in samples.scopes[rows]])


def shrunk(variances: Numbers, freedom: Numbers, is_precise: Flags) -> tuple[Numbers, Numbers]:
    """Return the variances of ops, shrunk towards their median, and their degrees of freedom with those of the prior.

    Few captures hardly show the variance of an op. The variances of other ops help, and help more if they are more
    alike. After Smyth, Linear models and empirical Bayes methods, 2004: the logarithm of an estimate with n degrees of
    freedom has variance trigamma(n/2); the additional variance among ops is trigamma of half of the prior's degrees.
    The median of chi-square with n degrees is about n (1 - 2/9n)^3 (Wilson, Hilferty 1931). Shrinkage raises the part
    of comparisons that find 5 % in an op from 40 to 60 % (quiet mlp, 3 captures a side). If the prior always had 3
    degrees of freedom, 40 instead of 50 % would find it (convolution 2, 5 captures a side).
    """
    is_known = is_precise & (freedom > 0)
    if is_known.sum() < FEW:
        return variances, freedom
    known, n = variances[is_known], freedom[is_known]
    # An op varies by 0.1 % at least.
    excess = np.log(np.maximum(1e-6, known)).var(ddof=1) - (2 / n + 2 / n**2 + 4 / (3 * n**3)).mean()
    prior = min(MOST_PRIOR, max(1, round((1 + math.sqrt(1 + 2 * excess)) / excess))) if excess > 0 else MOST_PRIOR
    typical = median(known / (1 - 2 / (9 * n)) ** 3)
    return (prior * typical + freedom * variances) / (prior + freedom), np.where(freedom > 0, prior + freedom, 0)


def _bounded(logs: Numbers, within: Numbers, is_new: Flags, steps: Numbers) -> Numbers:
    """Return the values of ops, without effects of the machine's state. Values too far from the side's median are
    clipped.

    A value is too far if its distance exceeds 5 standard deviations of the op (from the median deviation) and 5 `steps`
    of its clock. Example: an op takes 3 to 25 % longer in 5 % of captures. With clipping, a change of 5 % is found in
    83 % of comparisons of 10 captures a side, without it in 52 %.
    """
    off = np.empty_like(within)
    for side in (~is_new, is_new):
        off[:, side] = within[:, side] - medians(within[:, side])[:, None]
    # The medians of the two sides and the slope are estimates, which take 3 degrees of freedom. An op varies by at
    # least 0.1 %.
    deviations = DEVIATION * medians(np.abs(off)) * math.sqrt(within.shape[1] / (within.shape[1] - 3))
    most = FAR * np.fmax(steps, np.maximum(0.001, deviations))[:, None]
    return logs - off + np.clip(off, -most, most)


def _of_state(found: Differences, squared_error: Numbers, shift: float, error: float) -> float:
    """The squared error of ops due to the machine's state, which slows some ops more than others.

    It only applies if the sides' shifts differ by more than two standard errors. It is then the amount by which ops
    differ from the median op beyond their errors, but at most half of the shift beyond two standard errors. This was
    measured with gates of equal sides of 3 captures in turns, on a machine with a load in every fourth capture. With
    this error, 4 to 5 % of the gates fail; without it, 6 to 8 %.
    """
    known = np.isfinite(squared_error)
    if known.sum() < FEW:
        return 0.0
    differences = found.difference[known]
    typical = (DEVIATION * median(np.abs(differences - median(differences)))) ** 2
    beyond = max(0.0, typical - median(squared_error[known]))
    return min(beyond, (STATE * max(0.0, abs(shift) - 2 * float(np.nan_to_num(error)))) ** 2)


def drift_of(within: Numbers, is_new: Flags, positions: Numbers) -> Numbers:
    """Return the squared error of items due to the machine's drift between sides that were measured apart.

    The drift is estimated from each item's change from the first half of a side to the second, averaged over the sides.
    Without it, totals of equal sides of a busy machine differ in 20 % of comparisons, ops in 13 to 15 %. With few
    captures, the halves hardly show the drift, so the estimate is doubled. Without doubling, 5 % instead of 0 % of ops
    and totals would differ with 3 captures a side (convolution 2).
    """
    order = np.argsort(positions, kind="stable")
    sides = order[~is_new[order]], order[is_new[order]]
    squares = np.zeros(len(within))
    for side in sides:
        halves = within[:, side[: len(side) // 2]], within[:, side[len(side) // 2 :]]
        first, second = (np.nansum(half, axis=1) / np.maximum(1, np.isfinite(half).sum(axis=1)) for half in halves)
        squares += (second - first) ** 2 / 2 if len(side) > 1 else 0
    return squares * (4 if min(map(len, sides)) < FEW else 1)


def weight_of(share: float | None) -> float:
    """Return the weight of an op with this share of the total in the tests of all ops. It is the full weight from 1 %
    on. With weights, a large op that takes 5 % longer is found in 93 % of comparisons of 5 captures a side instead of
    88 % (quiet mlp).
    """
    return min(0.01, max(0.0005, 0.01 if share is None or math.isnan(share) else share))


def _test(found: Sequence[Effect]) -> None:
    """Set p if the noise is known, and q if the clock can also show the change."""
    for effect in found:
        if effect.freedom >= 1:
            effect.p = p_of(effect.difference / effect.error, effect.freedom) if effect.error > 0 else 1.0
    tested = [effect for effect in found if effect.p is not None and not effect.is_below_resolution]
    corrected = holm([effect.p or 0.0 for effect in tested], [weight_of(effect.share) for effect in tested])
    for effect, q in zip(tested, corrected, strict=True):
        effect.q = q


def set_history(samples: Samples, states: States, found: Sequence[Effect]) -> None:
    """Set the greatest difference between successive captures of the history for each item.

    For an op, it is at least that of the other ops of its size. Disturbed captures are left out for ops. They are not
    left out for totals, because disturbances of whole captures are the noise of totals. Without disturbed captures, the
    total of equal captures was unstable in 9 % of comparisons on a very busy machine; with them, in 0 %.
    """
    of_history = ~(samples.is_base | samples.is_new)
    in_time = np.argsort(samples.positions, kind="stable")
    for effect in found:
        has = of_history & np.isfinite(samples.logs[effect.row])
        used = has & (~states.is_disturbed | (effect.level == "total"))
        values = samples.logs[effect.row] - (0 if effect.level == "total" else states.factors)
        effect.history = int(used.sum()) if has.any() else None
        steps = np.abs(np.diff(values[in_time[used[in_time]]]))
        effect.usual = float(steps.max()) if len(steps) else math.inf
    for is_large in (False, True):
        ops = [effect for effect in found if effect.level == "op" and (effect.share >= LARGE) == is_large]
        known = [effect.usual for effect in ops if effect.share >= SMALL and math.isfinite(effect.usual)]
        for effect in ops:
            effect.usual = max([effect.usual, *known])
