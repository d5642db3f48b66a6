"""The effect of each item, its difference between both sides, and the noise of that.

The sample is a capture, never a run: runs of one capture share the state of the device. Of several captures a side, the
noise is what captures vary by within their side, and how the machine drifts from one side to the other. Of one capture
a side, it is what successive captures of the same program, the history, differ by.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from etq.verdicts.arithmetic import (
    Differences,
    Flags,
    Numbers,
    Texts,
    differences,
    holm,
    median,
    medians,
    p_of,
    quantile,
)
from etq.verdicts.samples import Samples, is_unseen
from etq.verdicts.states import States

# With fewer captures, the halves of a side hardly show how the machine drifts.
FEW = 5


@dataclass
class Effect:
    """The difference of an item that a side has, and its noise; NaN if a side has none that is used."""

    level: str
    row: int  # in the samples
    bases: int  # the captures of base that have it
    news: int
    used_bases: int  # those of them that aren't left out
    used_news: int
    base_ticks: float  # the median of these
    new_ticks: float
    share: float  # of base's total; NaN if unknown
    resolution: float  # of the clock
    is_coarse: bool  # whether that is coarse for the time
    difference: float  # of logarithms, without the common shift
    error: float  # the standard error of that; of single captures, the standard deviation of two in the history
    freedom: int
    is_drift: bool = False  # most of the error is what the machine changed from side to side
    p: float | None = None
    q: float | None = None  # p, corrected for the number of items: that of any false positive with this q or less
    history: int | None = None  # of single captures, those of the history that have it
    worst: float = math.nan  # the greatest difference of two successive ones of them
    is_shared: bool = False  # of single captures: other ops differ as much, the machine may be the reason

    @property
    def change(self) -> float:
        """The ratio of new to base, less 1."""
        return math.expm1(self.difference)

    @property
    def part(self) -> float:
        return 1.0 if math.isnan(self.share) else self.share

    @property
    def is_below_resolution(self) -> bool:
        return self.is_coarse and is_unseen(self.new_ticks - self.base_ticks, self.resolution)

    @property
    def variance(self) -> float:
        """The variance of one capture that the error is of."""
        return self.error**2 / (1 / self.used_bases + 1 / self.used_news)

    @property
    def score(self) -> float:
        """The difference in standard errors."""
        return abs(self.difference) / self.error

    @property
    def is_rare(self) -> bool:
        """Whether single captures of the history hardly differ as much.

        Heavy tails are usual there: a p-value would need an unknown distribution. By 8 standard deviations alone, up to
        42 % of equal comparisons of single captures would blame an op, by both rules 2 to 7 %.
        """
        return self.score > 8 and abs(self.difference) > 1.5 * self.worst

    def interval(self) -> tuple[float | None, float | None]:
        """The ends of the interval of 95 % of the change; a clock's step wider at both if it is coarse."""
        if self.p is None:
            return None, None
        half = self.error * quantile(0.025, self.freedom)
        step = self.resolution / self.base_ticks if self.is_coarse else 0.0
        return math.expm1(self.difference - half) - step, math.expm1(self.difference + half) + step


def effects(samples: Samples, states: States, level: str) -> list[Effect]:
    """Return the effects of the items of a level that a side has, with p and q of a t-test on logarithms."""
    rows = np.flatnonzero(samples.of_level(level))
    columns = np.flatnonzero(states.is_used & (samples.is_base | samples.is_new))
    part = np.ix_(rows, columns)
    logs, is_new = samples.logs[part], samples.is_new[columns]
    has, is_total = np.isfinite(logs), level == "total"
    factors = np.broadcast_to(0 if is_total else states.factors[columns], logs.shape)
    found = differences(logs, factors, is_new, is_interleaved=samples.is_interleaved)
    is_coarse = 2 * (samples.is_coarse[part] & has).sum(axis=1) >= has.sum(axis=1)
    freedom, squared_error, drift = _noise(samples, columns, found, is_coarse, None if is_total else samples.ops[rows])
    base, new = (medians(samples.ticks[part][:, side]) for side in (~is_new, is_new))
    bases, news = (np.isfinite(samples.ticks[rows][:, side]).sum(axis=1) for side in (samples.is_base, samples.is_new))
    with np.errstate(invalid="ignore"):
        of_effects = {
            "row": rows,
            "bases": bases,
            "news": news,
            "used_bases": found.base_captures.astype(int),
            "used_news": found.new_captures.astype(int),
            "base_ticks": base,
            "new_ticks": new,
            "share": np.where((bases > 0) & (news > 0), base / _totals(samples, rows, columns[~is_new]), np.nan),
            "resolution": np.where(has, samples.resolutions[part], -np.inf).max(axis=1, initial=-np.inf),
            "is_coarse": is_coarse,
            "difference": found.difference,
            "error": np.sqrt(squared_error + drift),
            "freedom": freedom.astype(int),
            "is_drift": drift > squared_error,
        }
    values = zip(*(column.tolist() for column in of_effects.values()), strict=True)
    listed = [effect for effect in (Effect(level, *each) for each in values) if effect.bases or effect.news]
    _test(listed)
    return listed


def _totals(samples: Samples, rows: Any, columns: Any) -> Numbers:
    """The total of the scope of each item, the median of these captures; NaN if it is unknown."""
    of_totals = np.flatnonzero(samples.of_level("total"))
    typical = medians(samples.ticks[np.ix_(of_totals, columns)])
    known = {samples.scopes[row]: total for row, total in zip(of_totals, typical, strict=True) if total > 0}
    return np.array([known.get(scope, np.nan) for scope in samples.scopes[rows]])


def _noise(
    samples: Samples, columns: Any, found: Differences, is_coarse: Flags, ops: Texts | None
) -> tuple[Numbers, Numbers, Numbers]:
    """Degrees of freedom, the squared error of each item by what captures vary by within a side, and by the drift.

    Both are shrunk towards those of other items, but for totals, which have no `ops`.
    """
    known = (found.base_captures > 0) & (found.new_captures > 0) & (found.freedom > 0)
    precise = known & ~is_coarse
    variance, freedom, drift = found.variance, found.freedom, np.zeros(len(known))
    if samples.is_apart:
        drift = _drift(found.values, samples.is_new[columns], samples.positions[columns])
    if ops is not None:
        variance, freedom = _moderated(found, ops if samples.is_interleaved else None, precise)
        # Of two differences, as variances are: shrunk towards the median item's.
        drift = (2 * drift + 3 * median(drift[precise])) / 5 if precise.any() else drift
    with np.errstate(invalid="ignore"):
        return np.where(known, freedom, 0), variance * found.per_capture, drift


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


def weight_of(share: float | None) -> float:
    """Return the weight of an op of this share of the total among the tests of all ops: less than all below 1 %.

    So 5 % more of a large op is found in 82 instead of 76 % of comparisons of 5 captures a side (mlp).
    """
    return min(0.01, max(0.0005, 0.01 if share is None or math.isnan(share) else share))


def _test(found: Sequence[Effect]) -> None:
    """Set p where the noise is known, and q of those of them that the clock can show."""
    for effect in found:
        if effect.freedom >= 1:
            effect.p = p_of(effect.difference / effect.error, effect.freedom) if effect.error > 0 else 1.0
    tested = [effect for effect in found if effect.p is not None and not effect.is_below_resolution]
    corrected = holm([effect.p or 0.0 for effect in tested], [weight_of(effect.share) for effect in tested])
    for effect, q in zip(tested, corrected, strict=True):
        effect.q = q


def judge_by_history(samples: Samples, states: States, found: Iterable[Effect]) -> None:
    """Take the noise of single captures from their history, and find which differences other ops have, too.

    Either an op differed by two thirds of it in the history: one of 1 % of the total or more, for smaller items one of
    0.1 to 1 %. Or two other ops have a rare difference now, and this one is below a factor of 2: an op may be slower
    for a whole capture, and others with it.
    """
    known = [effect for effect in found if math.isfinite(effect.difference)]
    _set_history(samples, states, known)
    known = [effect for effect in known if effect.history is not None]
    of_ops = [effect for effect in known if effect.level == "op" and effect.share >= 0.001]
    worst = [
        np.fmax.reduce([op.worst for op in of_ops if (op.share >= 0.01) == is_large], initial=np.nan)
        for is_large in (False, True)
    ]
    rare_ops = sum(effect.is_rare for effect in known if effect.level == "op")
    for effect in known:
        size = abs(effect.difference)
        is_usual = effect.share >= 0 and size <= 1.5 * worst[effect.share >= 0.01]
        is_one_of_many = effect.level == "op" and effect.is_rare and size < math.log(2) and rare_ops >= 3
        effect.is_shared = effect.level != "total" and bool(is_usual or is_one_of_many)


def _set_history(samples: Samples, states: States, found: Sequence[Effect]) -> None:
    """Set what the history shows of each item.

    Standard deviations are shrunk towards the median item's, and at least 0.3 %. Disturbed captures are left out, but
    not for totals: a total is judged by how often whole captures are disturbed. With them left out, the total of equal
    captures was unstable in 9 % on a very busy machine, with them in 0 %.
    """
    of_history = ~(samples.is_base | samples.is_new)
    in_time = np.lexsort((np.arange(len(samples.sides)), samples.positions))
    deviations: dict[int, float] = {}
    precise: dict[str, list[float]] = {}
    for effect in found:
        row, level = effect.row, effect.level
        has = of_history & np.isfinite(samples.ticks[row])
        used = has & ((level == "total") | ~states.is_disturbed)
        if has.any():
            effect.history = int(used.sum())
        if used.any():
            values = samples.logs[row] - (0 if level == "total" else states.factors)
            deviations[row], effect.worst = _usual_differences(values[in_time[used[in_time]]])
            if level != "total" and 2 * samples.is_coarse[row, used].sum() < used.sum():
                precise.setdefault(level, []).append(deviations[row])
    typical = {level: median(each) for level, each in precise.items()}
    for effect in found:
        if (deviation := deviations.get(effect.row)) is not None:
            weight = 0.4 * ((effect.history or 0) + 1)
            usual = typical.get(effect.level, deviation)
            shrunk = np.sqrt((3 * usual**2 + weight * deviation**2) / (3 + weight))
            effect.error = math.sqrt(2) * float(np.fmax(0.003, shrunk))


def _usual_differences(values: Numbers) -> tuple[float, float]:
    """The standard deviation of an item in its history, and the greatest difference of two successive captures.

    The first is the greater of those by the median deviation and by successive differences. A change of the history's
    level that stayed is no variation: values before it are moved to the new level.
    """
    found = [(np.sqrt(k * (len(values) - k)) * abs(_shift(values, k)), k) for k in range(3, len(values) - 2)]
    if found:
        place = max(found)[1]
        shift = _shift(values, place)
        if abs(shift) > np.fmax(0.03, 6 * median(np.abs(np.diff(values)))):
            values = np.concatenate([values[:place] + shift, values[place:]])
    steps = np.abs(np.diff(values))
    most = np.fmax(median(np.abs(values - median(values))), median(steps) / math.sqrt(2))
    return float(most), float(max(steps, default=np.nan))


def _shift(values: Numbers, place: int) -> float:
    """How far the median after a place is from that before it."""
    return median(values[place:]) - median(values[:place])
