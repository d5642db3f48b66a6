"""The method of comparing several captures a side, once more in numpy and scipy.

It is written from the method's description and not from etq's code, one comparison at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import stats

Floats = np.ndarray[Any, np.dtype[np.float64]]
Flags = np.ndarray[Any, np.dtype[np.bool_]]
LONELY = 3
PRIOR = 3


@dataclass(frozen=True)
class Sides:
    """Captures in time order: the side of each, its ops' times in ns (captures, ops) and its total."""

    sides: list[str]
    ops: Floats
    totals: Floats
    coarse: Flags
    resolution: int = 1000
    op_types: Sequence[str | None] | None = None

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
    """The size factor of each capture. It takes two passes; the second uses only the ops that moved least."""
    logs = np.log(given.ops)
    precise = ~given.coarse
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
        if base.any() and new.any():
            staying, is_scattered = unmoved(deviations[:, precise], factors, base, new)
            if is_scattered:
                return Common(np.zeros(len(logs)), False, disturbed, off)
            if staying.any():
                factors = np.median(deviations[:, precise][:, staying], axis=1)
    return Common(factors, has_factor, disturbed, off)


def unmoved(deviations: Floats, factors: Floats, base: Flags, new: Flags) -> tuple[Flags, bool]:
    """The ops of the group that moved least among the groups with a quarter of the weight, or none.

    Also whether it can't be determined which of two groups moved: a quarter of the weight moved 4.5 % further one way,
    and the machine's differences within the sides don't distinguish which of these two moved less.
    """
    states = np.zeros(len(factors))
    for side in (base, new):
        states[side] = np.median(deviations[side] - np.median(deviations[side], axis=0), axis=1)
    error = float(np.sqrt(sum(factors[side].var(ddof=1) / side.sum() for side in (base, new) if side.sum() > 1)))
    if min(base.sum(), new.sum()) < 2:
        error = np.nan
    shift = factors[new].mean() - factors[base].mean()
    # Unknown limits are none.
    states[new] += shift if np.isnan(error) else np.clip(shift, -2 * error, 2 * error)
    moved = [difference_of(each - states, states, base, new) for each in deviations.T]
    shifts = np.array([each.size for each in moved]) + states[new].mean() - states[base].mean()
    errors = np.nan_to_num([each.variance * each.per_capture for each in moved])
    width = max(0.01, 1.5 * np.sqrt(np.median(errors)))
    weights = 1 / (0.01**2 + errors)
    distances = np.abs(shifts[:, None] - shifts) / width
    near = distances <= 1
    heights = near @ weights
    middles = near @ (weights * shifts) / heights
    is_peak = np.array(
        [height >= 0.999999 * heights[row <= 2].max() for height, row in zip(heights, distances, strict=True)]
    )
    groups = middles[is_peak & (near.sum(axis=1) >= LONELY) & (heights >= weights.sum() / 4)]
    if not len(groups):
        return np.zeros(len(shifts), bool), False
    least = groups[np.argmin(np.abs(groups))]
    is_ambiguous = False
    for away in (shifts - least > 0.045, least - shifts > 0.045):
        if 4 * weights[away].sum() >= weights.sum():
            other = np.average(shifts[away], weights=weights[away])
            is_ambiguous |= abs(abs(other) - abs(least)) < 2 * error
    return np.abs(shifts - least) <= 2 * width, bool(is_ambiguous)


def squares(values: Floats) -> float:
    return 0.0 if np.ptp(values) == 0 else float(((values - values.mean()) ** 2).sum())


def hodges_lehmann(base: Floats, new: Floats, stretch: float = 1) -> tuple[float, float | None, float | None]:
    """The median of all differences, and the ends of its 95 % interval, so many times as wide as usual."""
    differences = np.sort((new[:, None] - base[None, :]).ravel())
    count = len(base) * len(new)
    place = int(np.floor(count / 2 - stats.norm.ppf(0.975) * np.sqrt(count * (len(base) + len(new) + 1) / 12)))
    middle = float(np.median(differences))
    if place < 1:
        return float(np.exp(middle) - 1), None, None
    low, high = (middle + stretch * (differences[at] - middle) for at in (place - 1, -place))
    return float(np.exp(middle) - 1), float(np.exp(low) - 1), float(np.exp(high) - 1)


@dataclass(frozen=True)
class Difference:
    """One item's values without what follows the machine's state, and their difference."""

    values: Floats
    size: float
    variance: float
    freedom: int
    per_capture: float


def difference_of(values: Floats, factors: Floats, base: Flags, new: Flags, in_turns: bool = False) -> Difference:
    """A ridge regression of the values on the captures' common shift, within the sides."""
    count = int(base.sum() + new.sum())

    def within(each: Floats) -> Floats:
        # Equal values have no variance, however their mean is rounded.
        return np.concatenate([(each[side] - each[side].mean()) * (np.ptp(each[side]) > 0) for side in (base, new)])

    def between(each: Floats) -> float:
        return float(each[new].mean() - each[base].mean())

    residuals, states = within(values), within(factors)
    slope, used, widened = 0.0, 0.0, 0.0
    # What the machine's state may move from side to side: all ops follow the rest by one ratio.
    part = 1 / base.sum() + 1 / new.sum() if in_turns else 1.0
    most = float(2 * np.sqrt(states @ states / max(count - 2, 1) * part))
    # A larger shift is not the machine's variation; between, it is partly.
    shift = between(factors)
    moved = float(np.sign(shift)) * max(0.0, min(abs(shift), 2 * most - abs(shift)))
    followed = factors - new * (shift - moved)
    if count > 3:
        squared = float(states @ states)
        ordinary = float(residuals @ states) / squared if squared else 0.0
        penalty = max(1e-6, float(((residuals - ordinary * states) ** 2).sum())) / (count - 3)
        slope = float(residuals @ states) / (squared + penalty)
        used = squared / (squared + penalty)
        widened = moved**2 * squared / (squared + penalty) ** 2
    left = float(((residuals - slope * states) ** 2).sum())
    return Difference(
        values - slope * followed,
        between(values) - slope * moved,
        left / (count - 2 - used) if count > 2 else np.nan,
        count - 2 - round(used),
        1 / base.sum() + 1 / new.sum() + widened,
    )


def holm(p: list[float], shares: list[float]) -> Floats:
    """The p-values corrected for their number; ops below 1 % of the total count less."""
    weights = np.clip(shares, 0.0005, 0.01)
    weighed = np.array(p) / weights
    order = np.argsort(weighed, kind="stable")
    corrected = np.empty(len(p))
    stepped = [weighed[at] * weights[order[place:]].sum() for place, at in enumerate(order)]
    corrected[order] = np.minimum(1, np.maximum.accumulate(stepped))
    return corrected


def priors_of(given: Sides, fitted: list[Difference]) -> list[tuple[float, int]]:
    """For each op, the variance that it is shrunk towards, and the degrees of freedom that it counts as."""
    known = {
        at: each.variance / (1 - 2 / (9 * each.freedom)) ** 3
        for at, each in enumerate(fitted)
        if not given.coarse[at] and each.freedom > 0
    }
    of_all = (float(np.median(list(known.values()))), PRIOR) if len(known) >= 5 else (0.0, 0)
    # How the machine moves between sides that were not measured in turn, the variance within them doesn't show.
    if given.op_types is None or not is_interleaved(given.sides):
        return [of_all] * len(fitted)
    priors = []
    for op_type in given.op_types:
        alike = [variance for at, variance in known.items() if given.op_types[at] == op_type]
        is_known = op_type is not None and len(alike) >= LONELY and np.median(alike) > 0
        priors.append((float(np.median(alike)), PRIOR) if is_known else of_all)
    return priors


def is_interleaved(sides: list[str]) -> bool:
    changes = sum(first != second for first, second in pairwise(sides))
    return changes >= min(sides.count("base"), sides.count("new"))


def tested(given: Sides, factors: Floats, base: Flags, new: Flags) -> tuple[dict[int, Judged], Floats, Flags]:
    """The change of each op with its p and q; its values, and whether it is below the clock's resolution."""
    shifted = np.log(given.ops) - factors[:, None]
    fitted = [difference_of(each, factors, base, new, is_interleaved(given.sides)) for each in shifted.T]
    values = np.column_stack([each.values for each in fitted])
    priors = priors_of(given, fitted)
    base_total = np.median(given.totals[base])
    below = np.zeros(len(fitted), bool)
    found = {}
    for at, each in enumerate(values.T):
        before, after = np.median(given.ops[base, at]), np.median(given.ops[new, at])
        below[at] = bool(given.coarse[at]) and abs(after - before) <= given.resolution
        p = None
        if (freedom := fitted[at].freedom) > 0:
            prior, more = priors[at]
            variance = (more * prior + freedom * fitted[at].variance) / (more + freedom)
            t = fitted[at].size / np.sqrt(variance * fitted[at].per_capture) if variance > 0 else 0
            p = float(2 * stats.t.sf(abs(t), freedom + more))
        stretch = np.sqrt(fitted[at].per_capture / (1 / base.sum() + 1 / new.sum()))
        interval = hodges_lehmann(each[base], each[new], stretch)
        found[at] = Judged("", *interval, p=p, share=float(before / base_total))
        if given.coarse[at] and found[at].low is not None and found[at].high is not None:
            found[at].low -= given.resolution / float(before)  # type: ignore[operator]
            found[at].high += given.resolution / float(before)  # type: ignore[operator]
    asked = [at for at in found if not below[at] and found[at].p is not None]
    shares = [found[at].share for at in asked]
    for at, q in zip(asked, holm([float(found[at].p or 0) for at in asked], shares), strict=True):
        found[at].q = float(q)
    return found, values, below


def several(given: Sides) -> dict[Any, Judged]:
    """Several captures a side. By the op's position, and `total`."""
    common = common_of(given)
    base, new = given.of("base", common.disturbed), given.of("new", common.disturbed)
    all_base, all_new = given.of("base"), given.of("new")
    if not base.any() or not new.any():
        return {}
    of_ops, values, below = tested(given, common.factors, base, new)
    whole, all_values, _ = tested(given, common.factors, all_base, all_new)
    few = min(base.sum(), new.sum()) < LONELY
    # All tests share 0.05: totals have 0.35 of it, ops 0.6, slow runs the rest.
    alpha, alpha_of_total = 0.03, 0.0175
    for at, each in of_ops.items():
        counts = (
            each.q is not None
            and each.q < alpha
            and abs(each.change) >= 0.02
            and is_consistent(values[base, at], values[new, at])
        )
        is_material = abs(each.change) * each.share >= 0.0005
        is_constant = each.p == 1 and abs(each.change) >= 0.02 and is_material
        counting = max(0.02, 0.0005 / each.share)
        each.verdict = _word(few, bool(below[at]), counts and is_material, each, counting, is_constant)
        agrees = is_consistent(all_values[all_base, at], all_values[all_new, at])
        if common.disturbed.any() and is_contradicted(each, whole[at], whole[at].q, agrees, alpha):
            each.verdict = "not decided"
    smallest = 0.02 if is_interleaved(given.sides) else 0.03
    logs = np.log(given.totals)
    is_clear = is_consistent(logs[base], logs[new]) and has_ranks(logs, base, new)
    total = _total(logs, base, new, smallest, few, alpha_of_total if is_clear else 0)
    with_all = _total(logs, all_base, all_new, smallest, False, alpha_of_total)
    agrees = is_consistent(logs[all_base], logs[all_new])
    if common.disturbed.any() and is_contradicted(total, with_all, with_all.p, agrees, alpha_of_total):
        total.verdict = "not decided"
    if total.verdict != "slower":
        is_slow = common.disturbed & (common.off > 0)
        more = is_slow[all_new].mean() - is_slow[all_base].mean()
        is_uneven = (is_slow & all_new).sum() >= 2 and more > 0.2
        if is_uneven or (common.disturbed.any() and with_all.verdict == "slower"):
            total.verdict = "unstable"
    return {**of_ops, "total": total}


def is_consistent(base: Floats, new: Floats) -> bool:
    """Whether each capture of a side of up to 4 shows half of the change, compared with the other side's median."""
    change = float(np.median(np.subtract.outer(new, base)))
    nearest = [
        np.min((side - np.median(other)) * way)
        for side, other, way in ((new, base, np.sign(change)), (base, new, -np.sign(change)))
        if len(side) <= 4
    ]
    return all(each >= abs(change) / 2 for each in nearest)


def has_ranks(logs: Floats, base: Flags, new: Flags) -> bool:
    """Whether the ranks of totals differ as they do."""
    change, low, high = hodges_lehmann(logs[base], logs[new])
    return low is None or high is None or (change * low > 0 and change * high > 0)


def is_contradicted(kept: Judged, whole: Judged, p: float | None, agrees: bool, alpha: float) -> bool:
    """Whether a change is none, or another one, with the captures that are left out: by ranks and by the t-test."""
    if kept.verdict not in ("slower", "faster"):
        return False
    if whole.low is not None and whole.high is not None:
        agrees = whole.change * whole.low > 0 and whole.change * whole.high > 0
    return kept.change * whole.change <= 0 or not (agrees or (p is not None and p < alpha))


def _total(logs: Floats, base: Flags, new: Flags, smallest: float, few: bool, alpha: float) -> Judged:
    total = Judged("", *hodges_lehmann(logs[base], logs[new]))
    if base.sum() + new.sum() > 2:
        spread = squares(logs[base]) + squares(logs[new])
        answer = stats.ttest_ind(logs[new], logs[base]).pvalue if spread > 0 else 1.0
        total.p = float(answer) if min(base.sum(), new.sum()) > 1 else None
    counts = total.p is not None and total.p < alpha and abs(total.change) >= smallest
    is_constant = total.p == 1 and abs(total.change) >= smallest
    total.verdict = _word(few, False, counts, total, smallest, is_constant)
    return total


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
