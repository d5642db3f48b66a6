"""The verdicts of a comparison of two sides.

A difference counts if it isn't by chance, if it reaches the smallest effect (2 %; of totals 3 % if the sides were not
measured in turns; of single captures 10 %), if it is 0.05 % of the total (0.1 %), and if it is above the clock's
resolution; and if the captures that are left out as disturbed don't contradict. There is no difference if the interval
is within what doesn't count. Otherwise it isn't decided.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from etq.verdicts import words
from etq.verdicts.differences import SMALLEST, Test, tests, weight_of
from etq.verdicts.findings import findings, findings_of_input
from etq.verdicts.samples import Samples, comparisons, median, medians
from etq.verdicts.singles import Single, singles
from etq.verdicts.states import LEAST, Shift, common_shift, states
from etq.verdicts.student import captures_needed

# With fewer captures in a history, single ones have no verdict.
LEAST_HISTORY = 10
# The smallest change that counts, as a part of the total: of several captures, and of single ones.
LEAST_PART, LEAST_PART_OF_SINGLE = 0.0005, 0.001
# All verdicts of a comparison share one probability of a false positive: the parts of it that tests may take. Those of
# ops are one test, by Holm's procedure; so are those of modules, which are sums of ops. Slow runs have a 40th each.
PARTS = {"total": 0.35, "op": 0.6, "call": 0.6, "module": 0.6}
SLOW_PARTS = {"total": 0.025, "op": 0.025}


@dataclass
class Verdict:
    """The verdict on an item of a level, with its numbers. Changes are ratios of new to base, less 1."""

    comparison: int
    level: str
    scope: str | None
    item: str
    verdict: str | None = None
    change: float | None = None
    change_low: float | None = None
    change_high: float | None = None
    base_ticks: float | None = None
    new_ticks: float | None = None
    share: float | None = None  # of base's total
    p: float | None = None
    q: float | None = None
    score: float | None = None  # of single captures, the difference in standard deviations
    base_captures: int = 0
    new_captures: int = 0
    note: str | None = None
    may_be: str | None = None  # of an op of one side: the note's words before the ops that it may be on the other
    # At level capture: its state.
    capture_id: int = 0
    step: int = 0
    side: str | None = None
    off: float | None = None
    is_disturbed: bool = False
    place: int = 0  # of a finding, in their order


def compare(
    samples: Mapping[str, Any],
    shapes: Mapping[str, Any],
    conditions: Mapping[str, Any],
    is_one_clock: bool,
    alpha: float,
    min_effect: float | None,
    phase: str | None,
    allow_mismatch: bool,
) -> dict[str, list[Any]]:
    """Return the verdicts on all items, the change that all ops share, the state of each capture, and findings.

    They are returned by column, see `Verdict`.

    samples         columns of `_comparison_samples`
    shapes          ops with inputs of other shapes on both sides: item, and shapes that only base, and only new, has
    conditions      under which the sides were measured and that differ: name and detail
    is_one_clock    whether both sides count time, or cycles
    alpha           accepted probability of a false verdict slower or faster
    min_effect      smallest change that counts; None: the default
    phase           the runs that are compared; None: all
    allow_mismatch  whether there are verdicts although conditions differ
    """
    columns = (shapes[name].tolist() for name in ("item", "base_shapes", "new_shapes"))
    of_shapes = {item: words.shapes(base, new) for item, base, new in zip(*columns, strict=True)}
    found: list[Verdict] = []
    for each in comparisons(samples):
        comparison = _Comparison(each, {level: part * alpha for level, part in PARTS.items()}, min_effect)
        found += comparison.rows(of_shapes)
        found += [_finding(each.index, *finding) for finding in findings(each, comparison.states, is_one_clock)]
        if (slow := each.of_slow_runs()) is not None:
            of_slow = _Comparison(slow, {level: part * alpha for level, part in SLOW_PARTS.items()}, min_effect)
            found += of_slow.slow_runs({(row.level, row.item): row.verdict for row in found})
    found += [_finding(0, *finding) for finding in findings_of_input(samples, conditions, phase)]
    for row in found:
        if row.verdict in (words.SLOWER, words.FASTER) and len(conditions["name"]) and not allow_mismatch:
            row.verdict = words.CONDITIONS_DIFFER
        if row.level in ("total", "common shift") and not is_one_clock:
            row.change = row.change_low = row.change_high = row.p = None
            if row.level == "total":
                row.verdict, row.note = words.CANT_JUDGE, words.TWO_CLOCKS
    return {field.name: [getattr(row, field.name) for row in found] for field in fields(Verdict)}


@dataclass
class _Item:
    """An item, with what is known of it."""

    row: int  # in the samples
    level: str
    bases: int
    news: int
    used_bases: int
    used_news: int
    base_ticks: float
    new_ticks: float
    test: Test | None
    single: Single | None
    share: float | None  # of base's total
    weights: float  # of the tests of its level that aren't certain

    @property
    def part(self) -> float:
        return 1.0 if self.share is None else self.share


class _Comparison:
    """The samples of a comparison, the states of their captures, and the options of its verdicts."""

    def __init__(self, samples: Samples, alphas: Mapping[str, float], min_effect: float | None) -> None:
        self.samples = samples
        self.states = state = states(samples)
        self.min_effect = min_effect
        self.alphas = alphas
        self.is_interleaved = samples.is_interleaved
        slow = state.is_disturbed & (state.off > 0)
        self.slow_bases, self.slow_news = int((slow & samples.is_base).sum()), int((slow & samples.is_new).sum())
        self.slow_off = median(state.off[slow & samples.is_new])

    def rows(self, shapes: Mapping[str, str]) -> Iterator[Verdict]:
        """Yield the verdicts on items, the common shift, and the captures."""
        single = singles(self.samples, self.states) if self.states.is_single else {}
        levels = [level for level in dict.fromkeys(self.samples.levels.tolist()) if level in PARTS]
        found = [verdict for level in levels for verdict in self._of_level(level, single)]
        of_calls = {each.item: each for each in found if each.level == "call"}
        for each in found:
            if each.level == "op":
                yield self._of_trace(each, of_calls.get(each.item), shapes.get(each.item))
            elif each.level != "call":
                yield self._of_trace(each, None, None)
        if (shift := common_shift(self.samples, self.states)) is not None:
            yield self._common_shift(shift)
        yield from self._outside_ops()
        yield from self._captures()

    def slow_runs(self, verdicts: Mapping[tuple[str, str], str | None]) -> Iterator[Verdict]:
        """Yield totals whose slow runs are slower or faster although the total is not, and ops whose slow runs are
        slower.

        Those of ops drift more than the total's: they need sides that were measured in turns, and a common shift.
        """
        levels = ("total", "op") if self.is_interleaved and self.states.has_factor else ("total",)
        for level in levels:
            for each in self._of_level(level, {}):
                is_wanted = each.verdict == words.SLOWER or (level == "total" and each.verdict == words.FASTER)
                if is_wanted and each.verdict != verdicts.get((level, each.item)):
                    yield replace(each, level=f"slow {level}")

    def _of_level(self, level: str, single: Mapping[int, Single]) -> Iterator[Verdict]:
        """Yield the verdicts on the items of a level that a side has."""
        samples, kept = self.samples, ~self.states.is_disturbed
        several = tests(samples, self.states.factors, kept, level)
        open_tests = [test for test in several.values() if test.q is not None and test.q >= self.alphas[level]]
        weights = sum(weight_of(test.share) for test in open_tests)
        rows = np.flatnonzero(samples.of_level(level))
        ticks, sides = samples.ticks[rows], (samples.is_base, samples.is_new)
        has, used = np.isfinite(ticks), self.states.is_used
        counts = ((has & side).sum(axis=1).tolist() for side in (*sides, *(side & used for side in sides)))
        typical = (medians(ticks[:, side]).tolist() for side in sides)
        for row, bases, news, used_bases, used_news, base, new in zip(rows.tolist(), *counts, *typical, strict=True):
            test, one = several.get(row), single.get(row)
            shares = [each.share for each in (test, one) if each is not None and each.share is not None]
            if bases or news:
                known = test, one, shares[0] if shares else None
                yield self._of_item(_Item(row, level, bases, news, used_bases, used_news, base, new, *known, weights))

    def _of_item(self, item: _Item) -> Verdict:
        """The verdict on an item, with its numbers and note."""
        samples, (verdict, note) = self.samples, self._decided(item)
        found = Verdict(samples.index, item.level, samples.scopes[item.row], samples.items[item.row], verdict)
        found.base_ticks, found.new_ticks, found.share, found.note = item.base_ticks, item.new_ticks, item.share, note
        found.may_be = words.MAY_BE.get(verdict)
        if (test := item.test) is not None:
            found.base_captures, found.new_captures = test.base_captures, test.new_captures
            found.base_ticks, found.new_ticks = test.base_ticks, test.new_ticks
            if item.single is None:
                found.change, (found.change_low, found.change_high) = test.change, test.interval()
                found.p, found.q = test.p, test.q
        if item.single is not None:
            found.change, found.score = item.single.change, item.single.score
        return found

    def _smallest(self, item: _Item) -> float:
        """The smallest change that counts of an item by itself."""
        if item.single is not None:
            return max(0.1, self.min_effect or 0)
        if self.min_effect is not None:
            return self.min_effect
        return 0.03 if item.level == "total" and not self.is_interleaved else SMALLEST

    def _counting(self, item: _Item) -> float:
        """The smallest change that counts of an item by itself and as a part of the total."""
        of_total = LEAST_PART if item.single is None else LEAST_PART_OF_SINGLE
        return max(self._smallest(item), of_total / item.part if item.part else math.inf)

    def _decided(self, item: _Item) -> tuple[str, str | None]:
        """The verdict on an item, and why there is none or what is needed for one."""
        if not item.bases or not item.news:
            return words.REMOVED if item.bases else words.ADDED, None
        verdict, note = self._of_kept(item)
        if item.level != "total" or verdict == words.SLOWER:
            return verdict, note
        # What is left out must not hide that new is slower.
        single = item.single
        if single is not None:
            is_slow = self.slow_news == 1 and single.is_rare and single.change >= self._smallest(item)
            return (words.UNSTABLE, words.unstable_single(self.slow_off)) if is_slow else (verdict, note)
        # More of new is slow than of base.
        if self.slow_news >= 2 and self.slow_news / item.news - self.slow_bases / item.bases > 0.2:
            return words.UNSTABLE, words.unstable_side(self.slow_news, item.news, self.slow_off, self.is_interleaved)
        return verdict, note

    def _of_kept(self, item: _Item) -> tuple[str, str | None]:
        """The verdict by the captures that are not left out."""
        test, single = item.test, item.single
        ticks = self.samples.ticks[item.row]
        if (ticks <= 0).any():
            return words.CANT_JUDGE, words.ZERO
        if single is not None and single.history_captures >= LEAST_HISTORY:
            return self._of_single(item, single)
        if test is None or min(test.base_captures, test.new_captures) < LEAST:
            histories = None if single is None else single.history_captures
            return words.TOO_FEW, words.too_few(item.used_bases, item.used_news, histories)
        return self._of_several(item, test)

    def _of_single(self, item: _Item, single: Single) -> tuple[str, str | None]:
        if single.is_disturbed:
            return words.CANT_JUDGE, words.DISTURBED
        if single.is_below_twice:
            return words.CANT_JUDGE, words.below_clock(single.resolution, item.base_ticks)
        change = abs(single.change)
        if single.is_rare and change >= self._smallest(item) and change * item.part >= LEAST_PART_OF_SINGLE:
            direction = words.direction(single.change)
            return (words.POSSIBLY + direction, words.SHARED) if single.is_shared else (direction, None)
        # Even with the greatest difference of the history added, the change would not count.
        if math.expm1(abs(single.difference) + single.worst_step) <= self._counting(item):
            return words.SAME, self._rule(item)
        return words.OPEN, words.history_differs(single.worst_step)

    def _of_several(self, item: _Item, test: Test) -> tuple[str, str | None]:  # noqa: PLR0911 - a verdict a line
        if test.is_below_resolution:
            return words.CANT_JUDGE, words.below_clock(test.resolution, item.base_ticks)
        is_large = abs(test.change) >= self._smallest(item)
        counts = is_large and abs(test.change) * item.part >= LEAST_PART
        is_certain = self._is_certain(item, test)
        if counts and is_certain:
            return words.direction(test.change), None
        low, high = test.interval()
        if low is not None and high is not None and max(-low, high) <= self._counting(item):
            is_immaterial = is_large and not counts and is_certain
            return words.SAME, words.immaterial(test.change, item.part) if is_immaterial else self._rule(item)
        if not counts:
            return words.OPEN, words.wide(self._counting(item)) if item.level == "total" else None
        if test.p == 1:
            return words.CANT_JUDGE, words.CONSTANT
        if test.is_drift:
            return words.OPEN, words.MEASURED_APART
        return words.OPEN, words.within_noise(self._captures_needed(item, test))

    def _rule(self, item: _Item) -> str | None:
        """Why a total's difference doesn't count; a comparison has too many ops to repeat it for each."""
        return words.smallest(self._counting(item)) if item.level == "total" else None

    def _is_certain(self, item: _Item, test: Test) -> bool:
        p = test.p if item.level == "total" else test.q
        return p is not None and p < self.alphas[item.level]

    def _captures_needed(self, item: _Item, test: Test) -> int | None:
        """The captures per side that would show a difference; None if there are as many, and more won't be needed."""
        if not test.error > 0:
            return None
        smallest = math.log1p(self._counting(item))
        if abs(test.difference) <= smallest:
            return 101
        captures = test.base_captures + test.new_captures
        alpha = self.alphas[item.level] / (1 if item.level == "total" else item.weights / weight_of(test.share))
        needed = captures_needed(test.difference, test.variance, test.freedom, captures, alpha, smallest)
        needed = math.ceil(max(item.bases / item.used_bases, item.news / item.used_news) * needed)
        return needed if needed > min(item.bases, item.news) else None

    def _of_trace(self, found: Verdict, of_calls: Verdict | None, shapes: str | None) -> Verdict:
        """Verdicts that only traces have; others stay as they are.

        An op with more calls in each sample of one side than in each of the other is judged by the time per call: it is
        slower or faster if its calls are, and has more or fewer calls otherwise. An op with inputs of other shapes than
        the other side's isn't slower or faster, as it computes something else.
        """
        verdict, note = self._of_steps(found, of_calls or found)
        is_changed = verdict.endswith((words.SLOWER, words.FASTER))
        notes = [] if shapes is None else [shapes]
        if of_calls is not None:
            base, new = self._calls(found.item)
            notes.insert(0, words.calls(base, new, of_calls.base_ticks or 0, of_calls.new_ticks or 0))
            if not is_changed or shapes is not None:
                verdict = words.MORE_CALLS if new > base else words.FEWER_CALLS
        elif shapes is not None and is_changed:
            verdict = words.OTHER_SHAPES
        return replace(found, verdict=verdict, note="; ".join(notes) or note)

    def _of_steps(self, found: Verdict, tested: Verdict) -> tuple[str, str | None]:
        """The verdict by steps of one trace a side, which share the state of the machine, and its note."""
        verdict, before = tested.verdict or "", found.verdict or ""
        changed = (words.SLOWER, words.FASTER, words.UNSTABLE)
        if not self.samples.is_by_step:
            return verdict, found.note
        if verdict in changed:
            change = tested.change or 0
            is_large = abs(change) >= (0.1 if self.min_effect is None else self.min_effect)
            is_large = is_large and abs(change) * (1 if found.share is None else found.share) >= 0.001
            verdict = f"{words.POSSIBLY}{words.direction(change)}" if is_large else words.OPEN
        if before == words.TOO_FEW:
            return verdict, words.FEW_STEPS
        if verdict.startswith(words.POSSIBLY):
            return verdict, words.BY_STEPS
        if before in changed:
            return verdict, words.STEPS_DIFFER
        # Not of how many captures would show it.
        return verdict, None if before in (words.SAME, words.OPEN) else found.note

    def _calls(self, item: str) -> tuple[float, float]:
        """How often both sides call an op in a step."""
        row = next(at for at in np.flatnonzero(self.samples.of_level("call")) if self.samples.items[at] == item)
        calls = self.samples.calls[row]
        return median(calls[self.samples.is_base]), median(calls[self.samples.is_new])

    def _common_shift(self, shift: Shift) -> Verdict:
        """The change that all ops have in common."""
        is_used = self.states.is_used
        found = Verdict(self.samples.index, "common shift", None, "", change=math.expm1(shift.size))
        if not math.isnan(shift.low):
            found.change_low, found.change_high = math.expm1(shift.low), math.expm1(shift.high)
        found.base_captures = int((self.samples.is_base & is_used).sum())
        found.new_captures = int((self.samples.is_new & is_used).sum())
        return found

    def _outside_ops(self) -> Iterator[Verdict]:
        """What the ops leave of each run's total, in the median capture; not judged."""
        for row in np.flatnonzero(self.samples.of_level("outside ops")):
            ticks = self.samples.ticks[row]
            found = Verdict(self.samples.index, "outside ops", self.samples.scopes[row], self.samples.items[row])
            found.base_ticks, found.new_ticks = median(ticks[self.samples.is_base]), median(ticks[self.samples.is_new])
            yield found

    def _captures(self) -> Iterator[Verdict]:
        """The states of captures, with their totals."""
        totals = np.nansum(self.samples.ticks[self.samples.of_level("total")], axis=0)
        for at, (capture_id, step) in enumerate(self.samples.captures):
            yield Verdict(
                self.samples.index,
                "capture",
                None,
                "",
                base_ticks=float(totals[at]),
                capture_id=capture_id,
                step=step,
                side=self.samples.sides[at],
                off=float(self.states.off[at]),
                is_disturbed=bool(self.states.is_disturbed[at]),
            )


def _finding(
    comparison: int, place: int, rule: str, detail: str, capture_id: int = 0, side: str | None = None
) -> Verdict:
    return Verdict(comparison, "finding", None, rule, note=detail, capture_id=capture_id, side=side, place=place)
