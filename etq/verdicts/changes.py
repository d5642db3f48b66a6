"""Finds the builds from which on a series is slower: steps of its level (kept, not kept yet, or reverted), and creep.

A series has a value for each capture, in order. It is the logarithm of a time, so that a difference is a ratio. The
captures are of builds, and the program only changes between builds.

1. The captures of a build become one level. Its error follows from the differences between captures of a build
(`levels_of`). 2. Builds are modelled in windows that overlap by half (`etq.verdicts.fits`). A change is taken from the
window in whose
   middle it lies.
3. A step is kept if its levels are further apart than levels of a disturbed week usually are, or if both lasted long.
   Otherwise, the last level is "not kept yet", and an earlier level consists of disturbed builds and is no change
   (`_levels_kept`).
4. A step back to a level that the series had before means that the change was reverted. Levels between which the series
   often alternates are states: no change between them is kept (`_with_stages`).
5. p-values are corrected for the number of series (Bonferroni).

At an accepted change, a new series begins: the builds before it are ignored (`changes_of`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np

from etq.verdicts.arithmetic import DEVIATION, Numbers, median, p_of, quantile
from etq.verdicts.comparison import LEAST_PART
from etq.verdicts.fits import CHANCE, CLIP, LEAST, LONG, Column, Model, modelled, trimmed_sd
from etq.verdicts.samples import is_unseen

# The builds of a window, and the distance between windows.
WINDOW: Final = 120
STRIDE: Final = 60
# Levels are apart if p of Welch's test is smaller than this. Of disturbed weeks of 7 builds, each build 0 to 20 %
# slower, 1 % reach this p.
APART: Final = 1e-7
# A level of this many builds has lasted longer than a disturbed week.
LASTING: Final = 15
# A step of the last builds is reported if it has at least this many standard errors.
SEEN: Final = 4.7
# A build is disturbed if it is further than this from its level's median, and five times as far as the other builds.
# The rule is that for captures in a comparison.
FAR: Final = math.log(1.03)
# If the length of a stay in a state is less probable than this, the stay is a new level.
RETURNS: Final = 0.05

# More degrees of freedom change results by less than 0.2 %.
NORMAL: Final = 1000

KEPT, OPEN, REVERTED, RETURNED, STATE = "kept", "not kept yet", "reverted", "returned", "one of two levels"


class Least(NamedTuple):
    """The smallest change that counts: at least `ratio` (a logarithm), enough of the `total` (a time), and visible by a
    clock with steps of `ticks`. `total` and `ticks` are 0 if they don't apply.
    """

    ratio: float
    ticks: float = 0.0
    total: float = 0.0

    def counts(self, before: float, step: float) -> bool:
        cost = math.exp(before) * math.expm1(step)
        return abs(step) >= self.ratio and abs(cost) >= LEAST_PART * self.total and not is_unseen(cost, self.ticks)

    def noise(self, level: float) -> float:
        """The initially assumed noise: a sixth of the change, or the step of a coarse clock."""
        return max(self.ratio / 6, 1e-4, self.ticks / math.exp(level) if self.ticks else 0.0)


class Reset(NamedTuple):
    """An accepted change: its place is the index of the first build after the step or creep."""

    place: int
    is_creep: bool = False


class Level(NamedTuple):
    """The builds between two steps, and their mean without outliers."""

    first: int
    end: int
    mean: float
    sd: float
    kept: int  # the number of builds in the mean
    step: Column  # the step with which it begins

    @property
    def builds(self) -> int:
        return self.end - self.first


@dataclass(frozen=True)
class Change:
    """A change of a series' level. Builds are numbered from 0; those between `last` and `place` are disturbed."""

    first: int  # the first build of the level before
    last: int
    place: int  # the first build after a step, or of a creep
    end: int  # the first build of the next level, or after a creep
    before: float
    step: float
    low: float
    high: float
    p: float
    stage: str = KEPT
    is_creep: bool = False
    is_accepted: bool = False
    back: int | None = None  # the build at which it was reverted

    def moved(self, by: int) -> Change:
        """Return the change with its builds moved by this number."""
        places = {name: getattr(self, name) + by for name in ("first", "last", "place", "end")}
        return replace(self, **places, back=None if self.back is None else self.back + by)

    @property
    def ends(self) -> tuple[int, int]:
        """The builds before and after a step, or the first and the last of a creep."""
        return (self.place, self.end - 1) if self.is_creep else (self.last, self.place)


class Stretch(NamedTuple):
    """The builds between accepted changes, their deviation from their neighbours, and the change that five more builds
    would show. Both are NaN if there are too few builds to judge.
    """

    first: int
    end: int
    shows: float
    noise: float


class Found(NamedTuple):
    """The changes of a series, and its stretches."""

    changes: list[Change]
    stretches: list[Stretch]


def levels_of(values: Numbers, builds: Numbers) -> tuple[Numbers, Numbers | None]:
    """Return the levels of builds, and their error variances in units of their mean; None if the variances are equal.

    The captures of a build are clipped around their median.
    """
    starts = np.flatnonzero(np.r_[True, builds[1:] != builds[:-1]])
    counts = np.diff(np.r_[starts, len(values)])
    if len(starts) == len(values):
        return values, None
    build = np.repeat(np.arange(len(starts)), counts)
    ordered = values[np.lexsort((values, build))]
    middles = (ordered[starts + (counts - 1) // 2] + ordered[starts + counts // 2]) / 2
    own = trimmed_sd(np.diff(values)[build[1:] == build[:-1]][None])[0]
    clipped = np.clip(values, middles[build] - CLIP * own, middles[build] + CLIP * own)
    levels = np.add.reduceat(clipped, starts) / counts
    if np.ptp(counts) == 0 or len(levels) < 2:
        return levels, None
    parts = own**2 / counts
    between = max(trimmed_sd(np.diff(levels)[None])[0] ** 2 - parts.mean(), 0.1 * parts.min(), 1e-12)
    # Errors are rounded, so that many series share them.
    share = round(2 * parts.mean() / (parts.mean() + between)) / 2
    return levels, (1 - share) + share * (1 / counts) / (1 / counts).mean()


def changes_of(
    all_values: Sequence[Numbers],
    leasts: Sequence[Least],
    resets: Sequence[Sequence[Reset]] | None = None,
    errors: Sequence[Numbers | None] | None = None,
) -> list[Found]:
    """Return the changes of each series in order, including accepted ones.

    An accepted change splits a series, so that no step or creep crosses it.
    """
    all_resets = [()] * len(all_values) if resets is None else resets
    all_errors = [None] * len(all_values) if errors is None else errors
    bounds = [
        [0, *sorted({reset.place for reset in given if 0 < reset.place < len(values)}), len(values)]
        for values, given in zip(all_values, all_resets, strict=True)
    ]
    parts = [
        _Part(values[first:end], leasts[at], None if error is None else error[first:end])
        for at, (values, error) in enumerate(zip(all_values, all_errors, strict=True))
        for first, end in pairwise(bounds[at])
    ]
    _model(parts)
    rest, found = iter(parts), []
    for ends, given in zip(bounds, all_resets, strict=True):
        of_series = [next(rest) for _ in ends[:-1]]
        stretches = [
            Stretch(*each, part.shows, part.noise) for each, part in zip(pairwise(ends), of_series, strict=True)
        ]
        found.append(Found(_with_accepted(ends, of_series, given), stretches))
    return found


class _Part:
    """A series between accepted changes, with the results of its windows."""

    def __init__(self, values: Numbers, least: Least, errors: Numbers | None) -> None:
        self.values, self.least, self.errors = values, least, errors
        self.floor, self.shows = least.noise(median(values)), math.nan
        self.slopes, self.other = np.zeros(len(values)), np.zeros(len(values))
        self.steps: list[Column] = []
        self.bends: list[Column] = []

    @property
    def noise(self) -> float:
        """The standard deviation of builds, from differences between neighbours; NaN if there are too few builds to
        judge.
        """
        return float(trimmed_sd(np.diff(self.values)[None])[0]) if len(self.values) >= LONG else math.nan

    def windows(self) -> list[tuple[int, int, int, int]]:
        """The start and end of each window, and of its middle. Together, the middles contain all builds."""
        n = len(self.values)
        if n < LONG:
            return []
        starts = [0] if n <= WINDOW else [*range(0, n - WINDOW, STRIDE), n - WINDOW]
        ends = [min(start + WINDOW, n) for start in starts]
        middles = [0, *((start + end) // 2 for start, end in zip(starts[1:], ends, strict=False)), n]
        return [*zip(starts, ends, middles, middles[1:], strict=False)]

    def errors_of(self, first: int, end: int) -> bytes | None:
        """The errors of some builds in units of their mean, as bytes for `basis_of`; None if they are equal."""
        if self.errors is None:
            return None
        errors = self.errors[first:end] / self.errors[first:end].mean()
        return None if np.ptp(errors) < 1e-9 else errors.tobytes()

    def take(self, model: Model, window: tuple[int, int, int, int]) -> None:
        """Take a model's results for the middle of its window. Steps near the middle are also taken, because the next
        window may place them later.
        """
        start, _, first, last = window
        self.slopes[first:last] = model.slopes[first - start : last - start]
        self.other[first:last] = model.other[first - start : last - start]
        self.shows = max(self.least.ratio, SEEN * model.seen)
        for column in model.columns:
            place = start + column.place
            if column.is_bend:
                self.bends.append(column._replace(place=place))
            elif first - LEAST < place < last + LEAST and all(abs(place - step.place) >= LEAST for step in self.steps):
                self.steps.append(column._replace(place=place))


def _model(parts: Sequence[_Part]) -> None:
    """Model windows of one length together, sorted by their errors."""
    asked = [(part, window) for part in parts for window in part.windows()]
    errors = [part.errors_of(*window[:2]) for part, window in asked]
    lengths = np.array([window[1] - window[0] for _, window in asked])
    models: dict[int, Model] = {}
    for length in np.unique(lengths):
        at = sorted(np.flatnonzero(lengths == length).tolist(), key=lambda number: errors[number] or b"")
        y = np.stack([asked[number][0].values[slice(*asked[number][1][:2])] for number in at])
        y -= np.median(y, axis=1, keepdims=True)
        floors, leasts = np.array([(asked[number][0].floor, asked[number][0].least.ratio) for number in at]).T
        models |= zip(at, modelled(y, [errors[number] for number in at], floors, leasts), strict=True)
    for number, (part, window) in enumerate(asked):
        part.take(models[number], window)


def _with_accepted(ends: Sequence[int], parts: Sequence[_Part], resets: Sequence[Reset]) -> list[Change]:
    """Return the changes of the parts of a series, and the accepted changes between the parts.

    The size of an accepted step is the difference between the levels after and before it. A creep that ends at an
    accepted change is the accepted creep.
    """
    creeps = {reset.place for reset in resets if reset.is_creep}
    found: list[Change] = []
    of_parts = [_decided(part) for part in parts]
    for at, (changes, _) in enumerate(of_parts):
        if at and ends[at] not in creeps and (before := of_parts[at - 1][1]) and (after := of_parts[at][1]):
            old, new = before[-1], after[0]
            step = _step(old, new, parts[at].least).moved(ends[at])
            if step.p < CHANCE and parts[at].least.counts(old.mean, step.step):
                first = ends[at - 1] + old.first
                found.append(replace(step, first=first, last=ends[at] - 1, place=ends[at], is_accepted=True))
        is_of_creep = ends[at + 1] in creeps
        found += [
            replace(
                each.moved(ends[at]), is_accepted=is_of_creep and each.is_creep and each.end == len(parts[at].values)
            )
            for each in changes
        ]
    return sorted(found, key=lambda each: each.place)


def _decided(part: _Part) -> tuple[list[Change], list[Level]]:
    """Return the changes of a part of a series, and its levels without disturbed builds."""
    if not len(part.values):
        return [], []
    for first, end in _stretches(part.slopes):
        if end - first < LASTING and first > 0:  # a few disturbed builds may look like a creep
            part.slopes[first + 1 : end] = 0
    growth = np.cumsum(part.slopes)
    rest = part.values - growth - part.other
    begin = Column(0, False, 0.0, 0.0, 1.0)
    bounds = [begin, *sorted(part.steps), begin._replace(place=len(rest))]
    levels = [_level(rest, step, after.place) for step, after in pairwise(bounds)]
    levels, last = _levels_kept(levels, part.least)
    known = levels if last is None else [*levels, last]
    changes = [_step(old, new, part.least) for old, new in pairwise(known)]
    staged = _with_stages(rest, known, changes, part.least)
    if last is not None and staged[-1].stage != RETURNED:  # disturbed builds are rarely at an old level
        staged = _with_stages(rest, levels, changes[:-1], part.least)
        staged.append(replace(changes[-1], stage=OPEN))
    changes = staged
    changes = [replace(each, before=each.before + growth[each.place - 1]) for each in changes]
    return [*changes, *_creeps(part, rest, growth)], levels


def _level(rest: Numbers, step: Column, end: int) -> Level:
    """Return the level that begins with a step."""
    values = rest[step.place : end]
    off = np.abs(values - median(values))
    kept = values[off <= max(FAR, 5 * DEVIATION * median(off))]
    sd = float(kept.std(ddof=1)) if len(kept) > 1 else 0.0
    return Level(step.place, end, float(kept.mean()), sd, len(kept), step)


def _step(old: Level, new: Level, least: Least) -> Change:
    """Return the step between two levels, with Welch's interval or, if that is wider, the model's interval."""
    t, freedom, error = _apart(old, new, least)
    size, width = new.mean - old.mean, quantile(0.025, freedom) * max(error, new.step.error)
    p = new.step.p if new.step.p < 1 else p_of(t, freedom)
    return Change(old.first, old.end - 1, new.first, new.end, old.mean, size, size - width, size + width, p)


def _apart(old: Level, new: Level, least: Least) -> tuple[float, int, float]:
    """Return Welch's t of two levels, its degrees of freedom, and the error of their difference. A level has at least
    the initially assumed noise.
    """
    parts = [max(level.sd, least.noise(level.mean)) ** 2 / level.kept for level in (old, new)]
    error = math.sqrt(sum(parts))
    freedom = sum(parts) ** 2 / sum(
        part**2 / max(1, level.kept - 1) for part, level in zip(parts, (old, new), strict=True)
    )
    return abs(new.mean - old.mean) / error, min(max(1, int(freedom)), NORMAL), error


def _levels_kept(levels: Sequence[Level], least: Least) -> tuple[list[Level], Level | None]:
    """Return the levels of the series without disturbed builds, and the last level if it isn't kept yet.

    If two levels aren't clearly apart, the shorter one consists of disturbed builds. This doesn't apply if the next
    level is clearly apart from the first and even further from it.
    """
    kept, between = [levels[0]], None
    for level in levels[1:]:
        while kept:
            old = kept[-1]
            if not least.counts(old.mean, level.mean - old.mean):
                kept[-1], between = _joined(old, level), None
                break
            if _are_apart(old, level, least):
                if between is not None and 0 < (between.mean - old.mean) / (level.mean - old.mean) <= 1:
                    kept.append(between)
                kept.append(level)
                between = None
                break
            if level is levels[-1] and level.builds < LASTING:
                return kept, level
            if level.builds <= old.builds:
                between = level if least.counts(old.mean, level.mean - old.mean) else None
                break
            kept.pop()
        else:
            kept.append(level)
    return kept, None


def _are_apart(old: Level, new: Level, least: Least) -> bool:
    """Whether two levels are further apart than disturbed builds usually are, or both lasted long."""
    t, freedom, _ = _apart(old, new, least)
    return (new.builds >= LASTING and old.builds >= LONG) or p_of(t, freedom) < APART


def _joined(old: Level, new: Level) -> Level:
    """Merge two levels that are really one level with disturbed builds between its parts."""
    count = old.kept + new.kept
    mean = (old.kept * old.mean + new.kept * new.mean) / count
    squares = sum((part.kept - 1) * part.sd**2 + part.kept * (part.mean - mean) ** 2 for part in (old, new))
    return old._replace(end=new.end, mean=mean, sd=math.sqrt(squares / (count - 1)), kept=count)


def _with_stages(rest: Numbers, levels: Sequence[Level], changes: Sequence[Change], least: Least) -> list[Change]:
    """Return the changes between levels, with a stage for changes that were reverted or are between states."""
    changes = list(changes)
    for at in range(2, len(levels)):
        error = max(level.sd / math.sqrt(level.kept) for level in levels[: at + 1])
        near = [
            i for i in range(at - 1)
            if abs(levels[at].mean - levels[i].mean)
            < min(max(2 * least.ratio / 3, 2 * error), abs(levels[at].mean - levels[at - 1].mean))
        ]  # fmt: skip
        if near:
            place = changes[at - 1].place
            for i in range(near[-1], at - 1):
                changes[i] = replace(changes[i], stage=REVERTED, back=place)
            changes[at - 1] = replace(changes[at - 1], stage=RETURNED)
    known = [_is_known(rest, old, new) for old, new in pairwise(levels)]
    apart = 1.25 * max((abs(each.step) for each, is_known in zip(changes, known, strict=True) if is_known), default=0.0)
    return [replace(each, stage=STATE, back=None) if abs(each.step) <= apart else each for each in changes]


def _is_known(rest: Numbers, old: Level, new: Level) -> bool:
    """Whether a series alternates between two levels. It must have been at the new level before. Neither its current
    stay nor its last stay at the old level may be longer than chance allows. Outliers that happen to be at the new
    level don't count.
    """
    y = rest[max(0, new.end - WINDOW) : new.end]
    off, reach = np.minimum(np.abs(y - new.mean), np.abs(y - old.mean)), abs(new.mean - old.mean) / 4
    at = (np.abs(y - new.mean) < np.abs(y - old.mean))[off < reach]
    stays = np.diff(np.r_[0, np.flatnonzero(np.diff(at)) + 1, len(at)])[::-1]  # the last one first
    if len(stays) < 4 or not at[-1] or trimmed_sd(np.diff(y)[None])[0] > reach:
        return False
    visits = min(stays[2::2].sum(), int((~at[at.argmax() :]).sum()))
    return bool(visits > (off > 2 * reach).sum() and all(_may_last(stays[side::2]) for side in (0, 1)))


def _may_last(stays: Numbers) -> bool:
    """Whether chance allows the length of the first stay.

    If states end at random, (1 + m)^-K is the probability that one of K + 1 stays is longer than m times the sum of the
    others.
    """
    return bool((1 + stays[0] / stays[1:].sum()) ** (1 - len(stays)) >= RETURNS)


def _stretches(slopes: Numbers) -> list[tuple[int, int]]:
    """Return the stretches that grow or decline: of each, the build before its first slope, and its end."""
    bounds = [0, *(np.flatnonzero(np.diff(np.sign(slopes))) + 1).tolist(), len(slopes)]
    return [(max(0, first - 1), end) for first, end in pairwise(bounds) if slopes[first]]


def _creeps(part: _Part, rest: Numbers, growth: Numbers) -> list[Change]:
    """Return the stretches of a part that grow or decline by enough to count."""
    found = []
    for first, end in _stretches(part.slopes):
        size, before = float(part.slopes[first + 1 : end].sum()), float(np.median(rest) + growth[first])
        if end - first >= LONG and part.least.counts(before, size):
            bends = [bend for bend in part.bends if bend.place < end]
            bend = min(bends, key=lambda bend: (bend.place <= first - LONG, bend.p))
            width, stage = 2 * bend.error * (end - first), KEPT if end - first >= LASTING and bend.p < APART else OPEN
            sizes = _sizes(part, first, end, size, width)
            found.append(Change(first, first, first, end, before, *sizes, bend.p, stage, is_creep=True))
    return found


def _sizes(part: _Part, first: int, end: int, size: float, width: float) -> tuple[float, float, float]:
    """Return the size of a creep, and its interval. What grows in a few steps grows by less than the line through it,
    so the interval also covers the difference of the last builds from the first ones. The size is this difference if it
    contradicts the line.
    """
    if any(first < step.place < end for step in part.steps):
        return size, size - width, size + width
    values = part.values[first:end]
    of_ends = float(values[-LEAST:].mean() - values[:LEAST].mean())
    width_of_ends = 2 * float(trimmed_sd(np.diff(values)[None])[0]) * math.sqrt(2 / LEAST)
    return (
        of_ends if abs(size - of_ends) > width_of_ends else size,
        min(size - width, of_ends - width_of_ends),
        max(size + width, of_ends + width_of_ends),
    )
