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
from etq.verdicts.differences import Test, tests
from etq.verdicts.power import captures_needed
from etq.verdicts.samples import Samples, comparisons, median, medians
from etq.verdicts.singles import Single, singles
from etq.verdicts.states import LEAST, states

# With fewer captures in a history, single ones have no verdict.
LEAST_HISTORY = 10
# All verdicts of a comparison share one probability of a false positive: the parts of it that tests may take. Those of
# ops are one test, by Holm's procedure; so are those of modules, which are sums of ops. Slow runs have a 40th each.
PARTS, SLOW_PARTS = {"total": 0.35, "op": 0.6, "call": 0.6, "module": 0.6}, {"total": 0.025, "op": 0.025}


@dataclass
class Verdict:
    """What is decided about an item of a level. Changes are ratios of new to base, less 1."""

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
    # Of level capture: the state of one.
    capture_id: int = 0
    step: int = 0
    off: float | None = None
    factor: float | None = None
    is_disturbed: bool = False
    has_factor: bool = False
    is_scattered: bool = False
    other_shift: float | None = None


def compare(
    samples: Mapping[str, Any], shapes: Mapping[str, Any], alpha: float, min_effect: float | None
) -> dict[str, list[Any]]:
    """Return the verdicts on all items, the change that all ops share, and the state of each capture, by column.

    samples     columns of `_comparison_samples`
    shapes      ops with inputs of other shapes on both sides: item, and shapes that only base, and only new, has
    alpha       accepted probability of a false verdict slower or faster
    min_effect  smallest change that counts; None: the default
    """
    columns = (shapes[name].tolist() for name in ("item", "base_shapes", "new_shapes"))
    of_shapes = {item: words.shapes(base, new) for item, base, new in zip(*columns, strict=True)}
    found: list[Verdict] = []
    for each in comparisons(samples):
        comparison = _Comparison(each, {level: part * alpha for level, part in PARTS.items()}, min_effect)
        found += comparison.rows(of_shapes)
        if (slow := each.of_slow_runs()) is not None:
            of_slow = _Comparison(slow, {level: part * alpha for level, part in SLOW_PARTS.items()}, min_effect)
            found += of_slow.slow_runs({(row.level, row.item): row.verdict for row in found})
    return {field.name: [getattr(row, field.name) for row in found] for field in fields(Verdict)}


@dataclass
class _Item:
    """An item, with what is known of it; `whole` is the test with the captures that are left out."""

    level: str
    name: str
    scope: str | None
    bases: int
    news: int
    used_bases: int
    used_news: int
    base_ticks: float
    new_ticks: float
    is_zero: bool
    test: Test | None
    whole: Test | None
    single: Single | None
    share: float | None
    smallest: float  # what counts of it by itself
    counting: float  # and as a part of the total

    @property
    def part(self) -> float:
        return 1.0 if self.share is None else self.share

    @property
    def excluded(self) -> int:
        return self.bases + self.news - self.used_bases - self.used_news


class _Comparison:
    """The samples of a comparison, the states of their captures, and the options of its verdicts."""

    def __init__(self, samples: Samples, alphas: Mapping[str, float], min_effect: float | None) -> None:
        self.samples = samples
        self.states = state = states(samples)
        self.min_effect = min_effect
        self.alphas = alphas
        self.is_interleaved = samples.is_interleaved
        self.is_by_step = any(step > 0 for _, step in samples.captures)
        slow = state.is_disturbed & (state.off > 0)
        self.slow_bases, self.slow_news = int((slow & samples.is_base).sum()), int((slow & samples.is_new).sum())
        self.slow_off = median(state.off[slow & samples.is_new])

    def rows(self, shapes: Mapping[str, str]) -> Iterator[Verdict]:
        """Yield the verdicts on items, the common shift, and the captures."""
        single = singles(self.samples, self.states) if self.states.is_single else {}
        found = [verdict for level in dict.fromkeys(self.samples.levels) for verdict in self._of_level(level, single)]
        of_calls = {each.item: each for each in found if each.level == "call"}
        for each in found:
            if each.level == "op":
                yield self._of_trace(each, of_calls.get(each.item), shapes.get(each.item))
            elif each.level != "call":
                yield self._of_trace(each, None, None)
        if self.states.has_factor:
            yield self._common_shift()
        yield from self._captures()

    def slow_runs(self, verdicts: Mapping[tuple[str, str], str | None]) -> Iterator[Verdict]:
        """Yield the totals whose slow runs are slower or faster, as they are not, and the ops of which they are slower.

        Those of ops drift more than the total's: they need sides that were measured in turns, and a common shift.
        """
        levels = ("total", "op") if self.is_interleaved and self.states.has_factor else ("total",)
        for level in levels:
            for each in self._of_level(level, {}):
                is_wanted = each.verdict == words.SLOWER or (level == "total" and each.verdict == words.FASTER)
                if is_wanted and each.verdict != verdicts.get((level, each.item)):
                    yield replace(each, level=f"slow {level}")

    def _of_level(self, level: str, single: Mapping[tuple[str, str], Single]) -> Iterator[Verdict]:
        kept = ~self.states.is_disturbed
        several = tests(self.samples, self.states.factors, kept, level)
        whole = {} if kept.all() else tests(self.samples, self.states.factors, np.ones_like(kept), level)
        weights = sum(test.weight for test in several.values() if test.q is not None and test.q >= self.alphas[level])
        for item in self._items(level, several, whole, single):
            if item.bases or item.news:
                yield self._decided(item, weights)

    def _items(
        self,
        level: str,
        several: Mapping[str, Test],
        whole: Mapping[str, Test],
        single: Mapping[tuple[str, str], Single],
    ) -> Iterator[_Item]:
        samples = self.samples
        rows = np.flatnonzero(samples.of_level(level))
        has = np.isfinite(samples.ticks[rows])
        is_used = ~self.states.is_disturbed | self.states.is_single
        is_of_history = ~(samples.is_base | samples.is_new)
        base_ticks, new_ticks = (
            medians(samples.ticks[np.ix_(rows, side)]) for side in (samples.is_base, samples.is_new)
        )
        for at, row in enumerate(rows):
            name = samples.items[row]
            test, one = several.get(name), single.get((level, name))
            shares = [each.share for each in (test, one) if each is not None and each.share is not None]
            bases, news = int((has[at] & samples.is_base).sum()), int((has[at] & samples.is_new).sum())
            if not (has[at, is_of_history].any() and bases == news == 1):
                one = None
            smallest, least = self._smallest(level, one is not None), 0.0005 if one is None else 0.001
            yield _Item(
                level,
                name,
                samples.scopes[row],
                bases,
                news,
                int((has[at] & samples.is_base & is_used).sum()),
                int((has[at] & samples.is_new & is_used).sum()),
                float(base_ticks[at]),
                float(new_ticks[at]),
                bool((has[at] & ~np.isfinite(samples.logs[row])).any()),
                test,
                whole.get(name),
                one,
                shares[0] if shares else None,
                smallest,
                max(smallest, math.inf if shares and not shares[0] else least / (shares[0] if shares else 1)),
            )

    def _smallest(self, level: str, is_single: bool) -> float:
        """The smallest change that counts of an item by itself."""
        if is_single:
            return max(0.1, self.min_effect or 0)
        if self.min_effect is not None:
            return self.min_effect
        return 0.03 if level == "total" and not self.is_interleaved else 0.02

    def _decided(self, item: _Item, weights: float) -> Verdict:
        """The verdict on an item, with its numbers and note."""
        found = Verdict(self.samples.index, item.level, item.scope, item.name, share=item.share)
        found.base_ticks, found.new_ticks = item.base_ticks, item.new_ticks
        found.verdict = self._verdict(item)
        if (test := item.test) is not None:
            found.base_captures, found.new_captures = test.base_captures, test.new_captures
            found.base_ticks, found.new_ticks = test.base_ticks, test.new_ticks
            if item.single is None:
                found.change, found.change_low, found.change_high = test.change, test.low, test.high
                found.p, found.q = test.p, test.q
        if item.single is not None:
            found.change, found.score = item.single.change, item.single.score
        found.note = self._note(item, found.verdict, weights)
        return found

    def _verdict(self, item: _Item) -> str:
        if not item.bases or not item.news:
            return words.REMOVED if item.bases else words.ADDED
        if item.is_zero:
            kept = words.CANT_JUDGE
        elif item.single is not None and item.single.history_captures >= LEAST_HISTORY:
            kept = self._of_single(item, item.single)
        elif item.test is None or min(item.test.base_captures, item.test.new_captures) < LEAST:
            kept = words.TOO_FEW
        else:
            kept = self._of_several(item, item.test)
        if item.level != "total" or kept == words.SLOWER:
            return kept
        # What is left out must not hide that new is slower.
        if item.single is not None:
            is_unstable = self.slow_news == 1 and item.single.is_rare and item.single.change >= item.smallest
        else:
            is_unstable = self._is_uneven(item) or self._is_slower_in_all(item)
        return words.UNSTABLE if is_unstable else kept

    def _is_uneven(self, item: _Item) -> bool:
        """Whether new has more slow captures than base."""
        return self.slow_news >= 2 and self.slow_news / item.news - self.slow_bases / item.bases > 0.2

    def _is_slower_in_all(self, item: _Item) -> bool:
        """Whether new is slower if nothing is left out."""
        whole = item.whole
        return (
            whole is not None
            and whole.p is not None
            and whole.p < self.alphas[item.level]
            and whole.change >= item.smallest
        )

    def _of_single(self, item: _Item, single: Single) -> str:
        if single.is_disturbed or single.is_below_twice:
            return words.CANT_JUDGE
        if single.is_rare and abs(single.change) >= item.smallest and abs(single.change) * item.part >= 0.001:
            return (words.POSSIBLY if single.is_shared else "") + words.direction(single.change)
        # The greatest difference of the history, more, would not count.
        if math.expm1(abs(single.difference) + single.worst_step) <= item.counting:
            return words.SAME
        return words.OPEN

    def _of_several(self, item: _Item, test: Test) -> str:
        if test.is_below_resolution:
            return words.CANT_JUDGE
        if self._counts(item, test) and self._is_certain(item, test) and self._is_consistent(item, test):
            return words.OPEN if self._is_contradicted(item, test) else words.direction(test.change)
        if test.low is not None and test.high is not None and max(-test.low, test.high) <= item.counting:
            return words.SAME
        if test.p == 1 and self._counts(item, test):
            return words.CANT_JUDGE
        return words.OPEN

    def _counts(self, item: _Item, test: Test) -> bool:
        """Whether a change is large enough, by itself and as a part of the total."""
        return abs(test.change) >= item.smallest and abs(test.change) * item.part >= 0.0005

    def _is_certain(self, item: _Item, test: Test) -> bool:
        p = test.p if item.level == "total" else test.q
        return p is not None and p < self.alphas[item.level]

    def _is_consistent(self, item: _Item, test: Test) -> bool:
        if item.level != "total" or test.low is None or test.high is None:
            return test.is_consistent
        return test.is_consistent and test.low * test.high > 0

    def _is_contradicted(self, item: _Item, test: Test) -> bool:
        """Whether the change isn't there, by its ranks or by the t-test, with the captures that are left out."""
        whole = item.whole
        if whole is None:
            return False
        excludes_0 = whole.is_consistent if whole.low is None or whole.high is None else whole.low * whole.high > 0
        return not (test.change * whole.change > 0 and (excludes_0 or self._is_certain(item, whole)))

    def _note(self, item: _Item, verdict: str, weights: float) -> str | None:  # noqa: PLR0911 - a verdict a line
        """Why there is no verdict, or what one takes."""
        test, single = item.test, item.single
        if verdict == words.UNSTABLE:
            return self._unstable_note(item)
        if verdict == words.TOO_FEW:
            histories = None if single is None else single.history_captures
            return words.too_few(item.used_bases, item.used_news, histories)
        if verdict == words.CANT_JUDGE:
            if item.is_zero:
                return words.ZERO
            if single is not None and single.is_disturbed:
                return words.DISTURBED
            if single is not None or (test is not None and test.is_below_resolution):
                resolution = single.resolution if single is not None else test.resolution if test is not None else 0
                return words.below_clock(resolution, item.base_ticks)
            return words.CONSTANT
        if verdict.startswith(words.POSSIBLY):
            return words.SHARED
        if single is not None:
            return words.history_differs(single.worst_step) if verdict == words.OPEN else None
        return None if test is None else self._open_note(item, test, verdict, weights)

    def _unstable_note(self, item: _Item) -> str:
        if item.single is not None:
            return words.unstable_single(self.slow_off)
        if self._is_uneven(item):
            return words.unstable_side(self.slow_news, item.news, self.slow_off, self.is_interleaved)
        return words.unstable_left_out(item.whole.change if item.whole is not None else 0, self.is_interleaved)

    def _open_note(self, item: _Item, test: Test, verdict: str, weights: float) -> str | None:
        """The note on an item of several captures that isn't decided."""
        is_large = abs(test.change) >= item.smallest
        if verdict == words.SAME and is_large and not self._counts(item, test) and self._is_certain(item, test):
            return words.immaterial(test.change, item.part)
        if verdict != words.OPEN:
            return None
        if not self._counts(item, test):
            no_interval = test.low is None
            return (words.NO_INTERVAL if no_interval else words.wide(item.counting)) if item.level == "total" else None
        if not self._is_certain(item, test):
            alpha = self.alphas[item.level] * (1 if item.level == "total" else test.weight / weights)
            return words.within_noise(self._captures_needed(item, test, alpha))
        if not self._is_consistent(item, test) or item.whole is None:
            return words.INCONSISTENT
        whole = item.whole
        return words.left_out(item.excluded, whole.change, whole.low, whole.high, self.is_interleaved)

    def _captures_needed(self, item: _Item, test: Test, alpha: float) -> int | None:
        """The captures per side that would show a difference; None if there are as many, and more won't be needed."""
        # More captures have disturbed ones, too.
        variance = test.variance if item.whole is None else max(test.variance, item.whole.variance)
        if not variance > 0:
            return None
        smallest = math.log1p(item.counting)
        if abs(test.difference) <= smallest:
            return 101
        captures = test.base_captures + test.new_captures
        needed = captures_needed(test.difference, variance, test.freedom, captures, alpha, smallest)
        needed = math.ceil(max(item.bases / item.used_bases, item.news / item.used_news) * needed)
        return needed if needed > min(item.bases, item.news) else None

    def _of_trace(self, found: Verdict, of_calls: Verdict | None, shapes: str | None) -> Verdict:
        """What is special to traces; others as they are.

        An op that each sample of one side calls more often than each of the other is judged by the time per call: it is
        slower or faster if its calls are, and has more or fewer calls otherwise. One with inputs of shapes that the
        other side doesn't have isn't slower or faster, as it computes something else.
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
        if not self.is_by_step:
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

    def _common_shift(self) -> Verdict:
        """The change that all ops have in common."""
        is_used = ~self.states.is_disturbed | self.states.is_single
        base, new = (self.states.factors[side & is_used] for side in (self.samples.is_base, self.samples.is_new))
        change = float(np.expm1(new.mean() - base.mean())) if len(base) and len(new) else None
        found = Verdict(self.samples.index, "common shift", None, "", change=change)
        found.base_captures, found.new_captures = len(base), len(new)
        return found

    def _captures(self) -> Iterator[Verdict]:
        """The states of captures."""
        state = self.states
        for at, (capture_id, step) in enumerate(self.samples.captures):
            yield Verdict(
                self.samples.index,
                "capture",
                None,
                "",
                capture_id=capture_id,
                step=step,
                off=float(state.off[at]),
                factor=float(state.factors[at]),
                is_disturbed=bool(state.is_disturbed[at]),
                has_factor=state.has_factor,
                is_scattered=state.is_scattered,
                other_shift=state.other_shift,
            )
