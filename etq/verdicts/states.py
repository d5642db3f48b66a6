"""The state of the machine in each capture, as far as it shows: what all ops have in common, and what is disturbed.

A capture's factor is the size factor of Anders and Huber (Differential expression analysis for sequence count data,
2010): the median over ops of the ratio of the op's time to its median over all captures. Here all are logarithms.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from etq.verdicts.arithmetic import DEVIATION, Flags, Numbers, differences, median, medians, quantile
from etq.verdicts.samples import Samples

# With fewer captures a side there is no verdict.
LEAST = 3
# Ops are of one group if their shifts differ by at most this, or by so many standard errors of the median op. No
# derivation is recorded for these two and for `_APART`: the rates of docs/explanation/error-rates.md are measured with
# them, and the tests' own implementation has the same.
_WIDTH, _ERRORS_OF_WIDTH = 0.01, 1.5
# Added to each op's squared error, (1 %)²: an op whose error is estimated as almost 0 does not outweigh all others.
_LEAST_SQUARED_ERROR = 0.0001
# Weights from this part of the largest on count as equal: sums of the same ops may differ in their last digits.
_AS_LARGE = 0.999999
# A second group moved at least so far from the first: 4.5 %, or one standard error of the common shift. With three
# errors, where half of the ops of a busy convolution took 10 % longer, others were blamed in 12 to 23 %, with one in 1
# to 7 %; 10 % of one op are found as often, in 72 to 88 % with 10 captures a side, in 65 to 80 % with 5.
_APART = 0.045


@dataclass(frozen=True)
class States:
    """The state of each capture, as an array, and what holds for all of them."""

    is_single: bool  # each side is one capture, compared with a history
    has_factor: bool
    is_scattered: bool  # it can't be determined which of two groups of ops moved
    factors: Numbers  # 0 if unknown
    off: Numbers  # deviation from the rest of its side; of singles, and without factors, from all captures
    is_disturbed: Flags
    other_shift: float  # how far a second group of ops moved, common shift included; NaN if there is none

    @property
    def is_used(self) -> Flags:
        return ~self.is_disturbed | self.is_single


def states(samples: Samples) -> States:
    """Return the states of all captures."""
    is_op, is_total = samples.of_level("op"), samples.of_level("total")
    is_single = "history" in samples.sides
    precise = np.isfinite(samples.logs) & ~samples.is_coarse
    called = {item for item, level in zip(samples.items, samples.levels, strict=True) if level == "call"}
    # Ops with a coarse clock, that a capture lacks, or that one side calls more often, show no common state.
    usable = np.isfinite(samples.logs).all(axis=1) & (2 * samples.is_coarse.sum(axis=1) < len(samples.captures))
    usable &= np.array([item not in called for item in samples.items], np.bool_)
    deviations = samples.logs - medians(samples.logs)[:, None]
    of_ops = deviations[usable & is_op]
    least_ops = int(precise[is_op].sum(axis=0).min(initial=2**31))
    has_factor = len(of_ops) >= 3 and 2 * len(of_ops) >= least_ops
    totals = deviations[usable & is_total]
    of_total = totals.mean(axis=0) if len(totals) else np.full(len(samples.captures), np.nan)
    first = medians(of_ops.T) if len(of_ops) else of_total
    off, is_disturbed = _disturbed(samples, first if has_factor else of_total, has_factor, is_single)
    if is_single and 2 * len(of_ops) < least_ops:  # another program
        is_disturbed = np.zeros_like(is_disturbed)
    used = ~is_disturbed
    is_scattered, unmoved, other = False, None, np.nan
    if has_factor and not is_single and used.any():
        is_scattered, unmoved, other = _groups(of_ops[:, used], first[used], samples.is_new[used])
    has_factor = has_factor and not is_scattered
    factors = np.zeros(len(samples.captures))
    if has_factor:
        factors = first if unmoved is None else medians(of_ops[unmoved].T)
    return States(is_single, has_factor, is_scattered, factors, off, is_disturbed, other)


def common_shift(samples: Samples, found: States) -> tuple[float, float, float] | None:
    """What all ops changed by, as a logarithm: the mean factor of new less that of base, and its interval of 95 %.

    None if factors are unknown, or a side has no capture that is used. The interval is that of sides that the machine
    doesn't separate: its ends are NaN if they were not measured in turns.
    """
    used = found.is_used & (samples.is_base | samples.is_new)
    factors, is_new = found.factors[used], samples.is_new[used]
    if not found.has_factor or is_new.all() or not is_new.any():
        return None
    size = float(factors[is_new].mean() - factors[~is_new].mean())
    half = _error(factors, is_new) * quantile(0.025, len(factors) - 2) if len(factors) > 2 else np.nan
    half = half if samples.is_interleaved else np.nan
    return size, size - half, size + half


def _disturbed(samples: Samples, state: Numbers, has_factor: bool, is_single: bool) -> tuple[Numbers, Flags]:
    """How far captures are off, and which are disturbed: off by 3 % (single ones 5 %), and by 5 standard deviations.

    With factors, they must be so from both sides, as a machine may have two states of which each side has another one
    more often. Without, the state is the total, which is what is judged: where most of a side are off, that is what is
    compared. Where fewer than 3 would be left of a side, none is left out: else 68 of 100 equal comparisons of 3
    captures a side of the smallest model had no verdict; no more are blamed for it. With none left out at all, where
    half of the ops took 10 % longer, others were blamed in 12 instead of 0 % (quiet).
    """
    sides = np.array(samples.sides)
    middles = {side: median(state[sides == side]) for side in ("base", "new")}
    if has_factor and not is_single:
        off = state - np.array([middles[side] for side in sides])
        from_other = np.abs(state - np.array([middles["new" if side == "base" else "base"] for side in sides]))
    else:
        off, from_other = state - median(state), np.full(len(state), np.inf)
    most = max(0.05 if is_single else 0.03, np.nan_to_num(5 * DEVIATION * median(np.abs(off))))
    is_disturbed = np.fmin(np.abs(off), from_other) > most
    if not has_factor and not is_single:
        of_side = np.array([middles[side] - median(state) for side in sides])
        is_disturbed &= np.abs(of_side) <= most
    is_disturbed &= np.isfinite(off)
    if not is_single and min(((sides == side) & ~is_disturbed).sum() for side in middles) < LEAST:
        is_disturbed[:] = False
    return off, is_disturbed


def _groups(deviations: Numbers, factors: Numbers, is_new: Flags) -> tuple[bool, Flags | None, float]:
    """Find the groups of ops that moved from base to new by the same ratio.

    A group has 3 ops, and a quarter of the ops' weight, the inverse of their variance. The group that moved least is
    taken for the ops that the program did not change. Ops are scattered if captures of a side differ so much that it
    can't be determined which of two groups moved less. With all ops as one group, where half of them took 10 % longer,
    others were blamed in 43 to 67 % of comparisons; without being scattered, in 5 to 27 %.

    Returns whether they are scattered, the ops of the group that moved least (None if there is no group), and how far
    the others moved that have a quarter of the weight (NaN if there are none).
    """
    shifts, squared_errors = _moved(deviations, is_new)
    is_known = np.isfinite(shifts)
    shift, squared_error = shifts[is_known], squared_errors[is_known]
    if not len(shift):
        return False, None, np.nan
    width = max(_WIDTH, _ERRORS_OF_WIDTH * float(np.sqrt(median(squared_error))))
    weight = 1 / (_LEAST_SQUARED_ERROR + squared_error)
    # The ops within a width of each op are its neighbours. It is the middle of a group if no op within two widths has
    # heavier neighbours.
    place = shift / width
    are_neighbours = (place[None] >= place[:, None] - 1) & (place[None] <= place[:, None] + 1)
    weight_around = are_neighbours @ weight
    largest_around = np.where(np.abs(place[None] - place[:, None]) <= 2, weight_around[None], 0).max(axis=1)
    is_middle = weight_around >= _AS_LARGE * largest_around
    is_middle &= (are_neighbours.sum(axis=1) >= 3) & (4 * weight_around >= weight.sum())
    if not is_middle.any():
        return True, None, np.nan
    group_shifts = (are_neighbours @ (weight * shift)) / weight_around
    least = float(min(group_shifts[is_middle], key=abs))
    error = _error(factors, is_new)
    apart = np.fmax(_APART, error)
    sides = [side for side in (shift - least > apart, least - shift > apart) if 4 * weight[side].sum() >= weight.sum()]
    others = [float(np.average(shift[side], weights=weight[side])) for side in sides]
    other = min(others, key=lambda mean: abs(abs(mean) - abs(least)), default=np.nan)
    unmoved = np.zeros(len(shifts), np.bool_)
    unmoved[is_known] = np.abs(shift - least) <= 2 * width
    return abs(other) - abs(least) < 2 * error, unmoved if unmoved.any() else None, other


def _error(factors: Numbers, is_new: Flags) -> float:
    """The standard error of the common shift; NaN if a side has one capture."""
    parts = [factors[side].var() / (side.sum() - 1) if side.sum() > 1 else np.nan for side in (is_new, ~is_new)]
    return float(np.sqrt(sum(parts)))


def _moved(deviations: Numbers, is_new: Flags) -> tuple[Numbers, Numbers]:
    """How far each op moved, common shift included, and the squared error of that."""
    within = deviations.copy()
    for side in (is_new, ~is_new):
        within[:, side] -= medians(deviations[:, side])[:, None]
    state = np.broadcast_to(medians(within.T), deviations.shape)
    found = differences(deviations, state, is_new, is_interleaved=False)
    return found.difference + found.factor_difference, np.nan_to_num(found.variance * found.per_capture)
