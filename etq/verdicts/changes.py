"""Since when a series is slower: steps of its level, and creep, slow growth.

A series has a value for each capture, in order: the logarithm of a time, so that a difference is a ratio. Its noise is
not independent: captures near each other are alike, as the machine changes, and single ones are far off. So

1. the noise is measured twice, by differences of neighbours and of captures further apart (`noise_of`);
2. the series is cut where that explains it best, by an exact segmentation with a loss that a few captures far off can't
   pull (`segmentation`);
3. a cut is a step if the levels beside it differ materially, for long enough, and by more than levels of this series
   differ by themselves; other cuts are undone, the least clear first (`steps_of`);
4. a stretch between steps that grows steadily creeps (`creep_of`);
5. p-values are corrected for the number of series.

Where somebody has accepted a change, a series begins anew: what is before is no longer looked at (`changes_of`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from etq.verdicts import words
from etq.verdicts.arithmetic import DEVIATION, holm, p_of
from etq.verdicts.samples import is_unseen

Floats = npt.NDArray[Any]

# A level has at least so many captures. With fewer than twice as many, a series has no verdict.
LEAST: Final = 5
# The captures on each side of a step that must differ as the whole levels do, so that a slope isn't a step: without it,
# creep of 30 % is found as steps in 10 to 16 % of series of a busy machine, with it in 3 to 7 %.
NEAR: Final = 15
# A step as small as the smallest that counts must have held for so many captures, one twice as large for half as many.
# A disturbed machine lasts for some captures, and a series is scanned again with each new one: without this, 35 instead
# of 28 % of unchanged totals of convolution 1 have a step at one of 171 scans.
HELD: Final = 25
# The captures between those whose differences tell how levels vary by themselves.
APART: Final = 10
# Where the loss of a capture stops growing, in standard deviations (Fearnhead and Rigaill).
BOUND: Final = 3.0
# The price of a cut, in units of ln(n): a squared loss has 2 in Schwarz's criterion.
PRICE: Final = 4.0
# The most levels that are tried.
LEVELS: Final = 256
# A series without changes has a step with less than this probability, before the correction for many series. With 0.05,
# unchanged totals of a busy machine have one in 3 to 5 %, with 0.01 in 0 to 2 %.
CHANCE: Final = 0.01
# The same for creep, which a line through ten medians finds easily.
CREEP_CHANCE: Final = 0.001
CREEP_LEAST: Final = 30
TENTHS: Final = 10

# The standard error of a median in units of that of a mean.
MEDIAN: Final = math.sqrt(math.pi / 2)


@dataclass(frozen=True)
class Change:
    """A change of a series' level. `place` is the first capture after a step, from 0, or a creep's first."""

    place: int
    before: float
    after: float
    step: float
    p: float
    captures_before: int
    captures_after: int
    is_creep: bool = False
    is_accepted: bool = False

    @property
    def ends(self) -> tuple[int, int]:
        """The captures before and after a step, or the first and the last of a creep."""
        return (self.place, self.place + self.captures_after - 1) if self.is_creep else (self.place - 1, self.place)


@dataclass(frozen=True)
class Least:
    """What a change must be to count: as a logarithm at least `ratio`, and as a time what a clock with steps of `ticks`
    shows; 0 if its steps are not coarse.
    """

    ratio: float
    ticks: float = 0.0

    def is_seen(self, change: Change) -> bool:
        return not is_unseen(math.exp(change.before) * math.expm1(change.step), self.ticks)


class Reset(NamedTuple):
    """The position of an accepted change, from 0: the first capture after a step, or the last one of a creep."""

    place: int
    is_creep: bool = False


class Noise(NamedTuple):
    """Standard deviations: of a capture among its neighbours, and of levels that are `APART`."""

    own: float
    slow: float


def level_changes(series: Mapping[str, Any], min_step: float) -> dict[str, list[Any]]:
    """Return the changes of series, a row each.

    series    columns series, is_total, and, with an array for each, positions (by which its captures are ordered),
              values, and steps and creeps: positions of the first captures after those that were accepted; resolution:
              the step of a coarse clock in the time whose logarithms the values are, else 0
    min_step  the smallest change that counts
    """
    orders = [np.argsort(positions) for positions in series["positions"]]
    values, positions = (
        [each[order] for each, order in zip(series[name], orders, strict=True)] for name in ("values", "positions")
    )
    # A reset has a place among the captures of a series that have the op.
    resets = [
        [
            Reset(int(at), name == "creeps")
            for name in ("steps", "creeps")
            for at in known.searchsorted(series[name][row])
        ]
        for row, known in enumerate(positions)
    ]
    leasts = [Least(min_step, clock) for clock in series["resolution"].tolist()]
    are_totals = series["is_total"].tolist()
    found = [(at, change) for at, changes in enumerate(changes_of(values, leasts, resets)) for change in changes]
    found.sort(key=lambda each: each[1].is_accepted)
    q = [change.p for _, change in found]
    for of_totals in {*are_totals}:
        family = [row for row, (at, each) in enumerate(found) if are_totals[at] == of_totals and not each.is_accepted]
        others = max(0, are_totals.count(of_totals) - len(family))
        corrected = holm([q[row] for row in family], [1] * len(family), others)
        for row, value in zip(family, corrected, strict=True):
            q[row] = value
    numbers = ("before", "after", "step", "p", "captures_before", "captures_after", "is_accepted")
    return {
        "series": [int(series["series"][at]) for at, _ in found],
        "kind": ["creep" if change.is_creep else "step" for _, change in found],
        "verdict": [words.direction(change.step) for _, change in found],
        "place": [change.place + 1 for _, change in found],
        "last_good": [int(positions[at][change.ends[0]]) for at, change in found],
        "first_bad": [int(positions[at][change.ends[1]]) for at, change in found],
        "q": q,
        **{name: [getattr(change, name) for _, change in found] for name in numbers},
    }


def changes_of(
    all_values: Sequence[Floats], leasts: Sequence[Least], resets: Sequence[Sequence[Reset]] | None = None
) -> list[list[Change]]:
    """Return the changes of each series, in order, and where a change was accepted, that one.

    A series is as many series as it has levels that somebody has accepted: neither a step nor a creep is across one.
    """
    all_resets = [()] * len(all_values) if resets is None else resets
    bounds = [
        [0, *sorted({reset.place for reset in given if 0 < reset.place < len(values)}), len(values)]
        for values, given in zip(all_values, all_resets, strict=True)
    ]
    parts = [(at, values[first:end]) for at, values in enumerate(all_values) for first, end in pairwise(bounds[at])]
    of_parts = iter(_changes_of_parts([values for _, values in parts], [leasts[at] for at, _ in parts]))
    found = []
    for values, ends, least, given in zip(all_values, bounds, leasts, all_resets, strict=True):
        of_series = [[replace(each, place=first + each.place) for each in next(of_parts)] for first in ends[:-1]]
        found.append(_with_accepted(values, ends, of_series, given, least))
    return found


def _with_accepted(
    values: Floats, ends: Sequence[int], parts: list[list[Change]], resets: Sequence[Reset], least: Least
) -> list[Change]:
    """Return the changes of the parts of a series, which meet where changes were accepted, with these.

    An accepted step has the size that it would have: from the level before it, up to the one after it. An accepted
    creep is one that lasts up to there.
    """
    found = [change for changes in parts for change in changes]
    creeps = {reset.place for reset in resets if reset.is_creep}
    for at, cut in enumerate(ends[1:-1], 1):
        if cut in creeps:
            is_accepted = [each.is_creep and each.ends[1] + 1 == cut for each in found]
            found = [
                replace(each, is_accepted=each.is_accepted or is_it)
                for each, is_it in zip(found, is_accepted, strict=True)
            ]
            continue
        first = max([ends[at - 1], *(each.place for each in parts[at - 1] if not each.is_creep)])
        end = min([ends[at + 1], *(each.place for each in parts[at] if not each.is_creep)])
        step, _ = _tested(values, noise_of(values, least), first, cut, end)
        if step.p < CHANCE and _is_material(step, least):
            found.append(replace(step, is_accepted=True))
    return sorted(found, key=lambda each: each.place)


def _changes_of_parts(parts: Sequence[Floats], leasts: Sequence[Least]) -> list[list[Change]]:
    """Return the changes of each part of a series."""
    found: list[list[Change]] = [[] for _ in parts]
    long = [at for at, values in enumerate(parts) if len(values) >= 2 * LEAST]
    deviations = [math.hypot(*noise_of(parts[at], leasts[at])) for at in long]
    for at, cuts in zip(long, _segmented([parts[at] for at in long], deviations), strict=True):
        found[at] = with_creep(parts[at], steps_of(parts[at], cuts, leasts[at]), leasts[at])
    return found


def noise_of(values: Floats, least: Least) -> Noise:
    """Return the noise of a series, by the median difference of its captures, those across its steps included.

    If captures were independent, those that are far apart would differ as neighbours do. What they differ by more
    averages out only over so many captures; without that, unchanged ops of a busy machine have a step in 10 to 36 %.
    Noise far below what counts is taken for a sixth of it; that of a coarse clock is at least its step. Without the
    differences across steps, 10 % more in 20 captures of a busy machine is found at both ends in 10 to 48 instead of 3
    to 33 %, but unchanged ops have a step in 2 to 5 instead of 0 %.
    """
    near, far = (
        DEVIATION * float(np.median(np.abs(values[lag:] - values[:-lag]))) / math.sqrt(2)
        for lag in (1, min(len(values) - 1, max(2, min(APART, len(values) // 6))))
    )
    own = max(near, least.ratio / 6, least.ticks / math.exp(float(np.median(values))))
    return Noise(own, math.sqrt(max(0.0, far**2 - own**2)))


def segmentation(z: Floats, levels: Floats, price: Floats) -> npt.NDArray[np.int32]:
    """Return, for each series and place, where the last segment begins in the best segmentation of all before it.

    Optimal partitioning (Jackson et al., An algorithm for optimal partitioning of data on an interval, 2005) with a
    biweight loss, by the level of the last segment (Fearnhead and Rigaill, Changepoint detection in the presence of
    outliers, JASA 114, 2019, algorithm 1, with levels on a grid). The least cost of the values so far, if they end at
    a level, is the last one's loss there and the cost before, at that level or at the best one with the price of a cut.

    z       series x places: values in standard deviations
    levels  series x levels
    price   of a cut, for each series
    """
    cost, begin, loss = (np.zeros(levels.shape, kind) for kind in (np.float32, np.int32, np.float32))
    begins = np.empty((1 + z.shape[1], len(z)), np.int32)
    rows, bound = np.arange(len(z)), np.float32(BOUND**2)
    for place, values in enumerate(np.ascontiguousarray(z.T)):
        best = cost.argmin(axis=1)
        begins[place] = begin[rows, best]
        cut = (cost[rows, best] + price)[:, None]
        np.copyto(begin, place, where=cost > cut)
        np.minimum(cost, cut, out=cost)
        np.subtract(values[:, None], levels, out=loss)
        np.square(loss, out=loss)
        cost += np.minimum(loss, bound, out=loss)
    begins[-1] = begin[rows, cost.argmin(axis=1)]
    return begins.T


def _segmented(all_values: Sequence[Floats], deviations: Sequence[float]) -> list[list[int]]:
    """Return the cuts of each series. Series with a similar number of levels are cut at once."""
    lows = [np.partition(values, LEAST - 1)[LEAST - 1] for values in all_values]
    spans = [
        (np.partition(values, -LEAST)[-LEAST] - low) / deviation
        for values, low, deviation in zip(all_values, lows, deviations, strict=True)
    ]
    # Levels are half a standard deviation apart.
    counts = [min(LEVELS, 2 + int(2 * span)) for span in spans]
    groups: dict[tuple[int, int], list[int]] = {}
    for at, (values, count) in enumerate(zip(all_values, counts, strict=True)):
        groups.setdefault((len(values).bit_length(), (count - 1).bit_length() // 2), []).append(at)
    found: list[list[int]] = [[] for _ in all_values]
    for group in groups.values():
        lengths = [len(all_values[at]) for at in group]
        z = np.zeros((len(group), max(lengths)), np.float32)
        for row, at in zip(z, group, strict=True):
            row[: len(all_values[at])] = (all_values[at] - lows[at]) / deviations[at]
        most = max(counts[at] for at in group)
        levels = np.linspace(0, [spans[at] for at in group], most, axis=1, dtype=np.float32)
        begins = segmentation(z, levels, (PRICE * np.log(lengths)).astype(np.float32))
        for at, length, begin in zip(group, lengths, begins, strict=True):
            place = length
            while (place := int(begin[place])) > 0:
                found[at].insert(0, place)
    return found


def steps_of(values: Floats, cuts: Sequence[int], least: Least) -> list[Change]:
    """Return the cuts that are steps. The least clear of the others is undone until none is left."""
    noise = noise_of(values, least)
    tested = cache(partial(_tested, values, noise))
    left = _beside_nearer(values, cuts, BOUND * math.hypot(*noise))
    while left:
        ends = [0, *left, len(values)]
        steps = [tested(*around) for around in zip(ends, ends[1:], ends[2:], strict=False)]
        failed = [at for at, (step, _) in enumerate(steps) if step.p >= CHANCE or not _is_material(step, least)]
        if not failed:
            return [step for step, _ in steps]
        del left[min(failed, key=lambda at: steps[at][1])]
    return []


def _beside_nearer(values: Floats, cuts: Sequence[int], bound: float) -> list[int]:
    """Return the cuts, with captures further than `bound` from both levels beside the nearer one: either side costs the
    same there.
    """
    ends = [0, *cuts, len(values)]
    for at in range(1, len(ends) - 1):
        first, cut, end = ends[at - 1 : at + 2]
        before, after = (np.abs(values - np.median(part)) for part in (values[first:cut], values[cut:end]))
        is_far = np.minimum(before, after) > bound
        while cut < end - 1 and is_far[cut] and before[cut] < after[cut]:
            cut += 1
        while cut > first + 1 and is_far[cut - 1] and after[cut - 1] < before[cut - 1]:
            cut -= 1
        ends[at] = cut
    return ends[1:-1]


def _tested(values: Floats, noise: Noise, first: int, cut: int, end: int) -> tuple[Change, float]:
    """Return the step at a cut, and how many standard errors it has.

    The step is the lesser of the differences of both levels and of the nearest captures. Its error is that of medians
    of so many captures, and of what levels differ by themselves: over `APART` captures that averages out as one value.
    The noise comes from about a quarter as many independent differences as there are captures. Any place may be the
    one that differs most: Bonferroni.
    """
    old, new = values[first:cut], values[cut:end]
    before, after = float(np.median(old)), float(np.median(new))
    near = float(np.median(new[:NEAR]) - np.median(old[-NEAR:]))
    step = min(near, after - before, key=abs) if near * (after - before) > 0 else 0.0
    variances = [(MEDIAN * noise.own) ** 2 / n + noise.slow**2 / max(1, n / APART) for n in (len(old), len(new))]
    t = abs(step) / math.sqrt(sum(variances))
    p = min(1.0, len(values) * p_of(t, max(1, len(values) // 4)))
    return Change(cut, before, after, step, p, len(old), len(new)), t


def _is_material(step: Change, least: Least) -> bool:
    """Whether a step counts, and both levels have held for long enough."""
    held = min(step.captures_before, step.captures_after)
    return held >= LEAST and abs(step.step) * min(HELD, held) >= HELD * least.ratio and least.is_seen(step)


def with_creep(values: Floats, steps: Sequence[Change], least: Least) -> list[Change]:
    """Return the steps, and the creep between them; without steps if creep of the whole series explains it better:
    else, creep of 30 % is found as steps in 42 to 67 % of series of a busy machine.
    """
    whole = creep_of(values, 0, least) if steps else None
    if whole is not None:
        line = values - whole.step * np.arange(len(values)) / (len(values) - 1)
        levels = np.split(values, [step.place for step in steps])
        if _deviation(line) < sum(map(_deviation, levels)):
            steps = []
    ends = [0, *(step.place for step in steps), len(values)]
    creeps = [creep_of(values[first:end], first, least) for first, end in pairwise(ends)]
    return [*steps, *(creep for creep in creeps if creep is not None)]


def _deviation(values: Floats) -> float:
    return float(np.abs(values - np.median(values)).sum())


def creep_of(values: Floats, first: int, least: Least) -> Change | None:
    """Return the creep of a stretch; None if it doesn't grow or decline steadily.

    A line is fitted by least squares through the medians of tenths, so that captures near each other count once. Its
    slope must make the smallest change that counts, not be by chance, and the line fit better than any one step.
    """
    if len(values) < CREEP_LEAST:
        return None
    bounds = -(-np.arange(TENTHS + 1) * len(values) // TENTHS)
    medians = np.array([np.median(values[at:end]) for at, end in pairwise(bounds)])
    places = np.arange(TENTHS) - (TENTHS - 1) / 2
    squares, spread = float(((medians - medians.mean()) ** 2).sum()), float((places**2).sum())
    slope = float((places * medians).sum()) / spread
    beside_line = squares - spread * slope**2
    beside_step = squares - max(
        at * (TENTHS - at) / TENTHS * (medians[at:].mean() - medians[:at].mean()) ** 2 for at in range(1, TENTHS)
    )
    freedom = TENTHS - 2
    t = abs(slope) * math.sqrt(spread * freedom / beside_line) if beside_line > 0 else math.inf
    if abs(TENTHS * slope) < least.ratio or beside_line >= beside_step or p_of(t, freedom) >= CREEP_CHANCE:
        return None
    growth = TENTHS * slope * (len(values) - 1) / len(values)
    creep = Change(first, medians[0], medians[-1], growth, p_of(t, freedom), 0, len(values), is_creep=True)
    return creep if least.is_seen(creep) else None
