"""The method of comparing several captures a side, once more in numpy and scipy.

It is written from the method's description and not from etq's code, one comparison at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import special, stats

Floats = np.ndarray[Any, np.dtype[np.float64]]
Flags = np.ndarray[Any, np.dtype[np.bool_]]
LONELY = 3


@dataclass(frozen=True)
class Sides:
    """Captures in time order: the side of each, its ops' times in ns (captures, ops) and its total."""

    sides: list[str]
    ops: Floats
    totals: Floats
    steps: Floats  # of each op's clock
    step: float = 1  # of the total's

    @property
    def rough(self) -> Flags:
        """The ops of less than 50 steps of a clock."""
        return np.asarray(2 * (self.ops < 50 * self.steps).sum(axis=0) >= len(self.ops))

    def of(self, side: str, without: Flags | None = None) -> Flags:
        chosen = np.array([each == side for each in self.sides])
        return chosen if without is None else chosen & ~without


@dataclass(frozen=True)
class Common:
    """The shift that all ops of a capture share, and which captures are disturbed."""

    factors: Floats
    has_factor: bool
    disturbed: Flags
    off: Floats


@dataclass
class Judged:
    """The judgement on one item."""

    verdict: str
    change: float
    low: float | None = None
    high: float | None = None
    p: float | None = None
    q: float | None = None
    share: float = 1.0


def common_of(given: Sides) -> Common:
    """The size factor of each capture; none if ops moved apart."""
    logs = np.log(given.ops)
    precise = ~given.rough
    has_factor = bool(precise.sum() >= LONELY)
    deviations = logs - np.median(logs, axis=0)
    totals = np.log(given.totals) - np.median(np.log(given.totals))
    factors = np.median(deviations[:, precise], axis=1) if has_factor else np.zeros(len(logs))
    states = factors if has_factor else totals
    middle = np.zeros(len(logs))
    for side in set(given.sides):
        of_side = given.of(side) if has_factor else np.ones(len(logs), bool)
        middle[of_side] = np.median(states[of_side])
    off = states - middle
    most = max(0.03, 5 * 1.4826 * np.median(np.abs(off)))
    disturbed = np.abs(off) > most
    if not has_factor:
        for side in set(given.sides):
            of_side = given.of(side)
            if of_side.any() and abs(np.median(off[of_side])) > most:
                disturbed[of_side] = False
    if has_factor:
        # Where the machine has two states, a capture may be in the one that most of the other side is in.
        for side, other in (("base", "new"), ("new", "base")):
            if given.of(other).any():
                is_near = np.abs(states - np.median(states[given.of(other)])) <= most
                disturbed[given.of(side) & is_near] = False
    # Where fewer than 3 would be left of a side, none is left out.
    if min(given.of(side, disturbed).sum() for side in ("base", "new")) < LONELY:
        disturbed[:] = False
    if has_factor:
        base, new = given.of("base", disturbed), given.of("new", disturbed)
        if base.any() and new.any() and are_apart(deviations[:, precise], factors, base, new):
            return Common(np.zeros(len(logs)), False, disturbed, off)
    return Common(factors, has_factor, disturbed, off)


def are_apart(deviations: Floats, factors: Floats, base: Flags, new: Flags) -> bool:
    """Whether ops of a quarter of the weight, the inverse of the squared error and (1 %)², moved 2.25 % further than the
    median op one way or the other, or an error of the common shift.
    """
    counts = base.sum(), new.sum()
    within = squares(factors[base]) + squares(factors[new])
    error = np.sqrt(within / max(1, sum(counts) - 2) * (1 / counts[0] + 1 / counts[1])) if min(counts) > 1 else np.inf
    moved = differences_of(deviations - factors[:, None], factors, base, new)
    shifts = np.array([each.size for each in moved]) + factors[new].mean() - factors[base].mean()
    weights = 1 / (0.01**2 + np.nan_to_num([each.variance * sum(1 / np.array(counts)) for each in moved]))
    return bool(4 * weights[np.abs(shifts - np.median(shifts)) > max(0.0225, error)].sum() >= weights.sum())


def squares(values: Floats) -> float:
    return 0.0 if np.ptp(values) == 0 else float(((values - values.mean()) ** 2).sum())


def drift_of(values: Floats, base: Flags, new: Flags) -> float:
    """What the machine may have changed from side to side, squared: how far a side's halves differ, of both in the mean.

    Halves of fewer than 5 captures hardly show it: it counts twice.
    """
    moved = []
    for side in (base, new):
        first, second = values[side][: side.sum() // 2], values[side][side.sum() // 2 :]
        moved.append(second.mean() - first.mean() if len(first) else 0.0)
    return float(np.mean(np.square(moved))) * (4 if min(base.sum(), new.sum()) < 5 else 1)


@dataclass(frozen=True)
class Difference:
    """One item's values without what follows the machine's state, and their difference."""

    values: Floats
    size: float
    variance: float
    freedom: int


def within(values: Floats, base: Flags, new: Flags) -> Floats:
    """The values less the mean of their side. Equal values have no variance, however their mean is rounded."""
    parts = [(values[side] - values[side].mean()) * (np.ptp(values[side]) > 0) for side in (base, new)]
    return np.concatenate(parts)


@dataclass(frozen=True)
class Slope:
    """How one item follows the captures' common shift within the sides: a ridge regression."""

    size: float
    used: float  # degrees of freedom
    left: float  # the mean square of what doesn't follow it
    squared: float  # of the shift within the sides

    def cost(self, difference: float, moved: float, counts: float) -> float:
        """That of what is left of a difference, if the machine moved the shift by so much; at most 3 errors, squared."""
        if not self.left > 0:
            return 0.0
        penalised = self.squared / self.used if self.used else np.inf
        error = self.left * (counts + moved**2 * self.squared / penalised**2)
        return min(9.0, (difference - self.size * moved) ** 2 / error)


def slope_of(values: Floats, factors: Floats, base: Flags, new: Flags) -> Slope:
    free = max(1, int(base.sum() + new.sum()) - 2)
    residuals, states = within(values, base, new), within(factors, base, new)
    squared = float(states @ states)
    penalised = squared + max(1e-6, float(residuals @ residuals) / free)
    size, used = float(residuals @ states) / penalised, squared / penalised
    return Slope(size, used, float(((residuals - size * states) ** 2).sum()) / max(1, free - used), squared)


def differences_of(values: Floats, factors: Floats, base: Flags, new: Flags) -> list[Difference]:
    """The differences of all items, a column each, less what the machine's part of the shift moved of them."""

    def between(each: Floats) -> float:
        return float(each[new].mean() - each[base].mean())

    free, counts, shift = int(base.sum() + new.sum()) - 2, 1 / base.sum() + 1 / new.sum(), between(factors)
    slopes = [slope_of(each, factors, base, new) for each in values.T]
    error = np.sqrt(slopes[0].squared / max(1, free) * counts) if slopes else 0.0
    moved = 0.0
    if error > 0 and any(each.left > 0 for each in slopes):
        sizes = [shift, *(error * np.linspace(-2.5, 2.5, 101))]
        costs = [
            (size / error) ** 2 + (0 if place == 0 else 4 if size == 0 else 13) for place, size in enumerate(sizes)
        ]
        if sum(each.left > 0 for each in slopes) >= 5:
            for place, size in enumerate(sizes):
                of_items = zip(values.T, slopes, strict=True)
                costs[place] += sum(slope.cost(between(each), size, counts) for each, slope in of_items)
        moved = float(sizes[int(np.argmin(costs))])
    found = []
    for each, slope in zip(values.T, slopes, strict=True):
        size, used = (slope.size, round(slope.used)) if moved and free else (0.0, 0)
        rest = each - size * factors
        left, freedom = float((within(rest, base, new) ** 2).sum()), free - used
        variance = left / freedom if freedom > 0 else np.nan
        found.append(Difference(rest, between(each) - size * moved, variance, max(0, freedom)))
    return found


def bounded(values: Floats, rest: Floats, base: Flags, new: Flags, step: float = 0) -> Floats:
    """One op's values, at most 5 standard deviations, or steps of its clock, off their side's median in what doesn't
    follow the common shift.
    """
    if min(base.sum(), new.sum()) < 5:
        return values
    off = np.zeros(len(values))
    for side in (base, new):
        off[side] = rest[side] - np.median(rest[side])
    chosen = np.abs(off[base | new])
    most = 5 * max(step, 0.001, 1.4826 * float(np.median(chosen)) * np.sqrt(len(chosen) / (len(chosen) - 3)))
    return np.asarray(values - np.sign(off) * np.maximum(0, np.abs(off) - most))


def holm(p: list[float], shares: list[float]) -> Floats:
    """The p-values corrected for their number; ops below 1 % of the total count less."""
    weights = np.clip(shares, 0.0005, 0.01)
    weighed = np.array(p) / weights
    order = np.argsort(weighed, kind="stable")
    corrected = np.empty(len(p))
    stepped = [weighed[at] * weights[order[place:]].sum() for place, at in enumerate(order)]
    corrected[order] = np.minimum(1, np.maximum.accumulate(stepped))
    return corrected


def shrunk(values: Floats, freedom: Floats, precise: Flags) -> tuple[Floats, int]:
    """Variances, shrunk to that of the median op, and as how many degrees of freedom: by what logarithms vary beyond."""
    known, own = values[precise], freedom[precise]
    beyond = np.log(np.maximum(known, 1e-6)).var(ddof=1) - special.polygamma(1, own / 2).mean()
    prior = int(np.clip(np.round((1 + np.sqrt(1 + 2 * beyond)) / beyond), 1, 4)) if beyond > 0 else 4
    typical = np.median(known / (1 - 2 / (9 * own)) ** 3)
    return np.asarray((freedom * values + prior * typical) / (freedom + prior)), prior


def is_interleaved(sides: list[str]) -> bool:
    changes = sum(first != second for first, second in pairwise(sides))
    return changes >= min(sides.count("base"), sides.count("new"))


def tested(given: Sides, factors: Floats, base: Flags, new: Flags) -> tuple[dict[int, Judged], Floats, Flags]:
    """The change of each op with its p and q; its values, and whether it is below the clock's resolution."""
    shifted, in_turns = np.log(given.ops) - factors[:, None], is_interleaved(given.sides)
    fitted = differences_of(shifted, factors, base, new)
    steps = given.steps / np.minimum(*(np.median(given.ops[side], axis=0) for side in (base, new)))
    clipped = [
        bounded(each, found.values, base, new, step) for each, found, step in zip(shifted.T, fitted, steps, strict=True)
    ]
    fitted = differences_of(np.column_stack(clipped), factors, base, new)
    values = np.column_stack([each.values for each in fitted])
    variances, free = np.array([each.variance for each in fitted]), np.array([each.freedom for each in fitted])
    drifts = np.array([0.0 if in_turns else drift_of(each, base, new) for each in values.T])
    precise, more = (free > 0) & ~given.rough, 0
    if precise.sum() >= 5:
        variances, more = shrunk(variances, free, precise)
    errors = variances * (1 / base.sum() + 1 / new.sum())
    by_state = np.zeros(len(fitted))
    if (sizes := np.array([each.size for each in fitted])[free > 0]).size >= 5:
        # By what ops differ from the median op beyond their errors, if the state moved: at most half of that.
        beyond = (1.4826 * np.median(np.abs(sizes - np.median(sizes)))) ** 2 - np.median(errors[free > 0])
        spread = (squares(factors[base]) + squares(factors[new])) / (base.sum() + new.sum() - 2)
        moved = abs(factors[new].mean() - factors[base].mean())
        moved -= 2 * np.sqrt(spread * (1 / base.sum() + 1 / new.sum()))
        by_state[:] = min(max(0, beyond), (max(0, moved) / 2) ** 2)
    base_total = np.median(given.totals[base])
    below = np.zeros(len(fitted), bool)
    found = {}
    for at, each in enumerate(fitted):
        before, after = np.median(given.ops[base, at]), np.median(given.ops[new, at])
        # 2 % of less than 75 steps are less than one and a half.
        below[at] = min(before, after) < 75 * given.steps[at] and abs(after - before) < 1.5 * given.steps[at]
        squared = errors[at] + by_state[at] + drifts[at]
        step = float(given.steps[at] / before)
        found[at] = judged_of(each.size, squared, each.freedom + more if each.freedom > 0 else 0, step)
        found[at].share = float(before / base_total)
    asked = [at for at in found if not below[at] and found[at].p is not None]
    shares = [found[at].share for at in asked]
    for at, q in zip(asked, holm([float(found[at].p or 0) for at in asked], shares), strict=True):
        found[at].q = float(q)
    return found, values, below


def judged_of(size: float, squared_error: float, freedom: int, step: float = 0) -> Judged:
    """The change with its p and its interval, wider by what a clock rounds; without degrees of freedom, neither."""
    found = Judged("", float(np.expm1(size)))
    if freedom > 0:
        error = np.sqrt(squared_error)
        found.p = float(2 * stats.t.sf(abs(size) / error, freedom)) if error > 0 else 1.0
        # 95 % of differences of two times, each rounded to a step, are less than 1 - sqrt(0.05) steps off.
        half = np.hypot(error * stats.t.ppf(0.975, freedom), (1 - 0.05**0.5) * step)
        found.low, found.high = float(np.expm1(size - half)), float(np.expm1(size + half))
    return found


def several(given: Sides) -> dict[Any, Judged]:
    """Several captures a side. By the op's position, and `total`."""
    common = common_of(given)
    base, new = given.of("base", common.disturbed), given.of("new", common.disturbed)
    all_base, all_new = given.of("base"), given.of("new")
    if not base.any() or not new.any():
        return {}
    of_ops, _, below = tested(given, common.factors, base, new)
    few = min(base.sum(), new.sum()) < LONELY
    # All tests share 0.05: totals have 0.33 of it, ops 0.57, slow runs and loading the rest.
    for at, each in of_ops.items():
        is_large = abs(each.change) >= 0.02 and abs(each.change) * each.share >= 0.0005
        counts = is_large and each.q is not None and each.q < 0.0285
        counting = max(0.02, 0.0005 / each.share)
        is_hidden = bool(below[at]) and counting * np.median(given.ops[base, at]) < 1.5 * given.steps[at]
        each.verdict = _word(few, is_hidden, counts, each, counting, each.p == 1 and is_large)
    logs = np.log(given.totals)
    smallest = 0.02 if is_interleaved(given.sides) else 0.03
    freedom = int(base.sum() + new.sum() - 2)
    squared = (squares(logs[base]) + squares(logs[new])) / max(1, freedom) * (1 / base.sum() + 1 / new.sum())
    squared += 0 if is_interleaved(given.sides) else drift_of(logs, base, new)
    step = given.step / float(np.median(given.totals[base]))
    total = judged_of(float(logs[new].mean() - logs[base].mean()), squared, freedom, step)
    is_large = abs(total.change) >= smallest
    counts = is_large and total.p is not None and total.p < 0.0165
    total.verdict = _word(few, False, counts, total, smallest, total.p == 1 and is_large)
    if total.verdict != "slower":
        is_slow = common.disturbed & (common.off > 0)
        more = is_slow[all_new].mean() - is_slow[all_base].mean()
        if (is_slow & all_new).sum() >= 2 and more > 0.2:
            is_unstable = is_interleaved(given.sides) and more > 0.3 + 1e-12
            total.verdict = "unstable" if is_unstable else "not decided"
    return {**of_ops, "total": total}


def _word(few: bool, below: bool, counts: bool, judged: Judged, counting: float, is_constant: bool = False) -> str:
    """The verdict; there is no difference only if the whole interval lies within what doesn't count."""
    if few:
        return "too few"
    if below:
        return "can't judge"
    if counts:
        return "slower" if judged.change > 0 else "faster"
    if judged.low is not None and judged.high is not None and max(-judged.low, judged.high) <= counting:
        return "~"
    return "can't judge" if is_constant else "not decided"
