"""The state of the machine in each capture: the change that all ops share, and whether the capture is disturbed.

A capture's factor is the size factor of Anders and Huber (Differential expression analysis for sequence count data,
2010). For each op, its time is divided by its median over all captures; the factor is the median of these ratios over
the ops. Here, all of these are logarithms.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from etq.verdicts.arithmetic import (
    DEVIATION,
    Flags,
    Numbers,
    Texts,
    differences,
    mean_difference,
    median,
    medians,
    quantile,
)
from etq.verdicts.samples import Samples

# With fewer captures a side, there is no verdict.
LEAST = 3
# Ops have moved apart if ops with a quarter of the weight are far from the median op: at least by the first number, or
# by one standard error of the common shift. Then it is unknown which of the ops the program changed, and no common
# shift is removed. Without this, if half of the ops take 10 % longer, the other ops are blamed in 53 to 100 % of
# comparisons.
APART = 0.0225
# Limits for single captures, for which the errors of ops are unknown. An op agrees with the common shift if it differs
# from it by at most the first number, or by at most a quarter of the shift. If the ops that agree have less than half
# of the time, a common shift of at least the second number isn't removed.
NEAR, LEAST_SHIFT = 0.05, 0.02
# Added to each op's squared error, (1 %)², so that an op whose estimated error is almost 0 does not outweigh all
# others.
LEAST_SQUARED_ERROR = 0.0001


@dataclass(frozen=True)
class States:
    """The state of each capture, as arrays, and flags for all of them."""

    is_single: bool  # whether each side is one capture, which is compared with a history
    has_factor: bool
    is_scattered: bool  # whether ops moved apart
    factors: Numbers  # the factor of each capture; 0 if unknown
    off: Numbers  # deviation from its side's median; for single captures or without factors, from that of all
    is_disturbed: Flags

    @property
    def is_used(self) -> Flags:
        return ~self.is_disturbed | self.is_single


def states(samples: Samples, *, is_slow: bool = False) -> States:
    """Return the states of all captures. For slow runs, it is not checked whether ops moved apart, because only slower
    ops are reported. Otherwise, if 30 % of runs take 1.5 times as long, they are found in 50 % of comparisons instead
    of 100 % (convnet, 5 captures a side).
    """
    is_op, is_total = samples.of_level("op"), samples.of_level("total")
    is_single = "history" in samples.sides
    precise = np.isfinite(samples.logs) & ~samples.is_rough
    called = {*samples.items[samples.of_level("call")]}
    # Some ops don't show the common state: those with a coarse clock, those that a capture lacks, those that one side
    # calls more often, and calls of delegates that run another graph.
    usable = np.isfinite(samples.logs).all(axis=1) & (2 * samples.is_rough.sum(axis=1) < len(samples.captures))
    usable &= np.array([item not in called for item in samples.items], np.bool_) & ~samples.is_other_graph
    deviations = samples.logs - medians(samples.logs)[:, None]
    of_ops, totals = deviations[usable & is_op], deviations[usable & is_total]
    least_ops = int(precise[is_op].sum(axis=0).min(initial=2**31))
    has_factor = len(of_ops) >= 3 and 2 * len(of_ops) >= least_ops
    factors = np.zeros(len(samples.captures))
    if has_factor:
        factors = _common(of_ops, samples.ops[usable & is_op])
    state = factors
    if not has_factor:
        state = totals.mean(axis=0) if len(totals) else np.full(len(samples.captures), np.nan)
    off, is_disturbed = _disturbed(samples, state, has_factor, is_single)
    if is_single and 2 * len(of_ops) < least_ops:  # the sides are different programs
        is_disturbed = np.zeros_like(is_disturbed)
    used = ~is_disturbed
    is_judged = has_factor and not is_single and not is_slow
    is_scattered = is_judged and _are_apart(of_ops[:, used], factors[used], samples.is_new[used])
    if has_factor and not is_slow and 0 < min(samples.is_base.sum(), samples.is_new.sum()) < LEAST:
        is_scattered |= _disagree(of_ops, samples.ticks[usable & is_op], samples.is_base, samples.is_new)
    if is_scattered:
        factors = np.zeros_like(factors)
    return States(is_single, has_factor and not is_scattered, is_scattered, factors, off, is_disturbed)


def _common(deviations: Numbers, ops: Texts) -> Numbers:
    """The factor of each capture: the median over ops. If more than half of the items are instances of one op, each op
    first gets the median of its instances, so that this op alone doesn't determine the factor.
    """
    _, places, counts = np.unique(ops.astype(np.str_), return_inverse=True, return_counts=True)
    if len(counts) >= 3 and 2 * counts.max() > len(ops):
        deviations = np.stack([medians(deviations[places == place].T) for place in range(len(counts))])
    return medians(deviations.T)


def common_shift(samples: Samples, found: States) -> tuple[float, float, float] | None:
    """The change that all ops have in common, as a logarithm: the mean factor of new minus that of base, and its 95 %
    interval.

    None if factors are unknown, or a side has no used capture. The interval is valid only for sides measured in turns:
    otherwise its ends are NaN.
    """
    used = found.is_used & (samples.is_base | samples.is_new)
    factors, is_new = found.factors[used], samples.is_new[used]
    if not found.has_factor or is_new.all() or not is_new.any():
        return None
    size, error, freedom = mean_difference(factors, is_new)
    half = error * quantile(0.025, freedom) if freedom and samples.is_interleaved else np.nan
    return size, size - half, size + half


def _disturbed(samples: Samples, state: Numbers, has_factor: bool, is_single: bool) -> tuple[Numbers, Flags]:
    """Return how far captures deviate, and which captures are disturbed.

    A capture is disturbed if it deviates by 3 % (a single capture by 5 %) and by 5 standard deviations. With factors,
    it must deviate from both sides, because a machine may have two states, one more frequent in base, one in new.
    Without factors, the state is the total itself; if most captures of a side deviate, this is the difference to
    compare. If fewer than 3 captures of a side would remain, none is left out. Otherwise, 68 of 100 comparisons of 3
    equal captures a side of the smallest model would have no verdict. This rule doesn't make false verdicts more
    frequent. With captures left out, 50 % of comparisons find a change of 5 % in a total (convolution 1), and no equal
    totals measured apart differ. Without this, 35 % find the change, and 3 % of equal totals differ.
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


def _are_apart(deviations: Numbers, factors: Numbers, is_new: Flags) -> bool:
    """Whether ops changed from base to new by different ratios. False if a side has one capture: errors are then
    unknown.

    An op's weight is the inverse of its squared error.
    """
    found = differences(deviations, factors, is_new)
    shifts = found.difference + found.shift
    weights = 1 / (LEAST_SQUARED_ERROR + np.nan_to_num(found.variance * found.inverse))
    is_far = np.abs(shifts - median(shifts)) > np.maximum(APART, mean_difference(factors, is_new)[1])
    return bool(4 * weights[is_far].sum() >= weights.sum() > 0)


def _disagree(deviations: Numbers, ticks: Numbers, is_base: Flags, is_new: Flags) -> bool:
    """Whether the median op changed, and ops with half of the time changed by another ratio."""
    shifts = deviations[:, is_new].mean(axis=1) - deviations[:, is_base].mean(axis=1)
    shift = median(shifts)
    times = medians(ticks[:, is_base | is_new])
    is_near = np.abs(shifts - shift) <= max(NEAR, abs(shift) / 4)
    return abs(np.expm1(shift)) >= LEAST_SHIFT and bool(2 * times[is_near].sum() < times.sum())
