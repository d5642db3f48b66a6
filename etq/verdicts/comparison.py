"""The verdicts of a comparison of two sides; the steps from samples to words:

1. samples   the time of each item in each capture, as arrays (`samples`)
2. shift     the change common to all ops of a capture, such as by the clock's frequency, and which captures are
             disturbed and left out (`states`)
3. effects   the difference of each item between the sides, without the common shift (`effects`)
4. noise     the variation of captures within a side, and the machine's drift; for single captures, from a history
5. verdict   here, `_Comparison.decided`: a difference counts if it isn't chance, if it reaches the smallest effect
             (2 %; of totals 3 % if the sides were not measured in turns; of single captures 10 %), if it is 0.05 % of
             the total (0.1 %), and if the clock shows it. There is no difference if the whole interval is below what
             counts. Otherwise the verdict is not decided.
6. words     of verdicts, notes and findings (`words`)

The arithmetic of tests is in `arithmetic`. How often verdicts are wrong is measured in docs/explanation/error-rates.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from etq.verdicts import words
from etq.verdicts.arithmetic import captures_needed, median
from etq.verdicts.effects import Effect, effects, set_history, weight_of
from etq.verdicts.findings import Finding, findings
from etq.verdicts.samples import SEEN, Samples, is_unseen
from etq.verdicts.states import LEAST, common_shift, states

# Single captures have no verdict if their history has fewer captures than this.
LEAST_HISTORY = 10
# Defaults for the smallest change that counts: in general, for totals of sides that were not measured in turns, and for
# single captures. For totals of the quiet mlp with 10 captures a side, no verdict is "about the same" with 2 %, but all
# are with 3 %.
SMALLEST, SMALLEST_APART, SMALLEST_OF_SINGLE = 0.02, 0.03, 0.1
# The smallest change that counts, as a part of the total: for several captures a side, and for single captures.
LEAST_PART, LEAST_PART_OF_SINGLE = 0.0005, 0.001
# All verdicts of a comparison share one probability of a false positive; these are the parts of the tests. All ops
# together are one test, by Holm's procedure, and so are all modules, which are sums of ops. Slow runs of totals have a
# 40th, slow runs of ops another 40th, and start-up a 20th. Of start-up, a gate only judges loading.
PARTS = {"total": 0.33, "op": 0.57, "call": 0.57, "module": 0.57}
SLOW_PART, LOADING_PART = 0.025, 0.05


@dataclass
class Verdict:
    """The verdict on an item of a level, with its numbers. Changes are ratios of new to base, minus 1."""

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
    share: float | None = None  # the share of base's total
    p: float | None = None
    q: float | None = None
    base_captures: int = 0
    new_captures: int = 0
    note: str | None = None
    may_be: str | None = None  # for an op of one side: words before the ops that may correspond to it
    # At level capture: the capture's state.
    capture_id: int = 0
    step: int = 0
    side: str | None = None
    off: float | None = None
    is_disturbed: bool = False
    place: int = 0  # for a finding: its place in the order of findings


def compare(
    comparisons: Iterable[Samples],
    shapes: Mapping[str, Any],
    do_conditions_differ: bool,
    is_one_clock: bool,
    alpha: float,
    min_effect: float | None,
    allow_mismatch: bool,
    given: Iterable[Finding] | None = None,
) -> dict[str, list[Any]]:
    """Return the verdicts on all items, the common shift of all ops, the state of each capture, and findings.

    The result is columns, those of `Verdict`.

    shapes                ops whose input shapes differ between the sides: item, shapes of base only, shapes of new only
    do_conditions_differ  whether conditions of measurement differ between the sides
    is_one_clock          whether both sides count time, or both count cycles
    alpha                 accepted probability of a false verdict slower or faster
    min_effect            smallest change that counts; None: the default
    allow_mismatch        whether there are verdicts although conditions differ
    given                 other findings; None: only items and the common shift are judged
    """
    columns = (shapes[name].tolist() for name in ("item", "base_shapes", "new_shapes"))
    of_shapes = {item: words.shapes(base, new) for item, base, new in zip(*columns, strict=True)}
    found: list[Verdict] = []
    for each in comparisons:
        comparison = _Comparison(each, alpha, PARTS, min_effect)
        found += comparison.rows(of_shapes)
        if given is None:
            continue
        found += comparison.more()
        found += [_finding(each.index, *finding) for finding in findings(each, comparison.states, is_one_clock)]
        slow = None if comparison.states.is_single or each.is_apart else each.of_slow_runs()
        if slow is not None:
            # Slow runs drift more. If they were judged for sides measured apart, 5 % of gates of equal sides would
            # fail. For slow runs of ops, the sides must have been measured in turns.
            levels = ("total", "op") if each.is_interleaved else ("total",)
            of_slow = _Comparison(slow, alpha, dict.fromkeys(levels, SLOW_PART), min_effect)
            found += of_slow.slow_runs({(row.level, row.item): row.verdict for row in found})
    found += [_finding(0, *finding) for finding in given or ()]
    for row in found:
        if row.verdict in (words.SLOWER, words.FASTER) and do_conditions_differ and not allow_mismatch:
            row.verdict = words.CONDITIONS_DIFFER
        if row.level in ("total", "common shift") and not is_one_clock:
            row.change = row.change_low = row.change_high = row.p = None
            if row.level == "total":
                row.verdict, row.note = words.CANT_JUDGE, words.TWO_CLOCKS
    return {field.name: [getattr(row, field.name) for row in found] for field in fields(Verdict)}


class _Comparison:
    """The samples of a comparison, the states of their captures, the effects, and the options of its verdicts."""

    def __init__(self, samples: Samples, alpha: float, parts: Mapping[str, float], min_effect: float | None) -> None:
        self.samples, self.alpha, self.min_effect = samples, alpha, min_effect
        self.states = state = states(samples, is_slow=parts is not PARTS)
        self.alphas = alphas = {level: part * alpha for level, part in parts.items()}
        levels = [level for level in dict.fromkeys(samples.levels.tolist()) if level in alphas]
        self.effects = {level: effects(samples, state, level) for level in levels}
        if state.is_single:
            set_history(samples, state, [effect for found in self.effects.values() for effect in found])
        # The sum of the weights of a level's tests whose result isn't certain.
        self.open_weights = {
            level: sum(weight_of(each.share) for each in found if each.q is not None and each.q >= alphas[level])
            for level, found in self.effects.items()
        }
        slow = state.is_disturbed & (state.off > 0)
        self.slow_bases, self.slow_news = int((slow & samples.is_base).sum()), int((slow & samples.is_new).sum())
        self.slow_off = words.percent(median(state.off[slow & samples.is_new]))

    def decided(self, effect: Effect) -> tuple[str, str | None]:
        """Return the verdict on an item, and a note that says why there is no verdict, or what a verdict needs."""
        if not effect.bases or not effect.news:
            return words.REMOVED if effect.bases else words.ADDED, None
        verdict, note = self._of_used(effect)
        if effect.level == "total" and verdict != words.SLOWER:
            return self._hidden(effect) or (verdict, note)
        return verdict, note

    def _hidden(self, effect: Effect) -> tuple[str, str] | None:
        """The verdict on a total that may be slower because of captures of new that were left out; None if there are
        too few.

        With this rule, changes in 4 of new's 10 captures are reported in 82 to 100 % of comparisons, without it in 0 to
        3 %. If sides are measured apart, the machine may disturb several captures of one side. So the verdict is then
        only "not decided"; with "unstable", 5 to 7 % of equal totals would fail a gate. The threshold for "unstable" is
        30 %. With 20 %, 4 to 8 % of equal sides of 10 captures in turns would fail under a load in every fourth
        capture.
        """
        if effect.history is not None:
            is_slower = self.slow_news == 1 and effect.is_rare and effect.change >= self._smallest(effect)
            return (words.UNSTABLE, words.UNSTABLE_SINGLE.format(self.slow_off)) if is_slower else None
        # The share of captures that were left out as slower, of new minus that of base.
        more = (self.slow_news * effect.bases - self.slow_bases * effect.news) / (effect.news * effect.bases)
        if self.slow_news < 2 or more <= 0.2:
            return None
        again = words.again(self.samples.is_interleaved)
        note = words.UNSTABLE_SIDE.format(self.slow_news, effect.news, self.slow_off, again)
        return words.OPEN if self.samples.is_apart or more <= 0.3 else words.UNSTABLE, note

    def _unjudged(self, effect: Effect, is_single: bool) -> tuple[str, str] | None:
        """Why a verdict is impossible; None if it is possible."""
        if (self.samples.ticks[effect.row] <= 0).any():
            return words.CANT_JUDGE, words.ZERO
        if not is_single and min(effect.used_bases, effect.used_news) < LEAST:
            return words.TOO_FEW, words.too_few(effect.used_bases, effect.used_news, effect.history)
        if is_single and self.states.is_disturbed[self.samples.is_base | self.samples.is_new].any():
            return words.CANT_JUDGE, words.DISTURBED
        if effect.is_below_resolution and is_unseen(self._counting(effect) * effect.base_ticks, effect.resolution):
            least = SEEN * effect.resolution
            return words.CANT_JUDGE, words.below_clock(effect.resolution, effect.base_ticks, least)
        return None

    def _of_used(self, effect: Effect) -> tuple[str, str | None]:
        """The verdict based on the captures that are not left out."""
        is_single = effect.history is not None and effect.history >= LEAST_HISTORY
        if (unjudged := self._unjudged(effect, is_single)) is not None:
            return unjudged
        change, counting, least = abs(effect.change), self._counting(effect), self._smallest(effect)
        chance = effect.p if effect.level == "total" else effect.q
        is_certain = effect.is_rare if is_single else chance is not None and chance < self.alphas[effect.level]
        if change >= counting and is_certain:
            return words.direction(effect.change), None
        if self._most(effect) <= counting:
            if change >= least and is_certain:
                return words.SAME, words.IMMATERIAL.format(100 * change * effect.part)
            return words.SAME, words.SMALLEST.format(100 * counting) if effect.level == "total" else None
        if not is_single and change >= counting and effect.p == 1:
            return words.CANT_JUDGE, words.CONSTANT
        return words.OPEN, self._open(effect, is_single)

    def _open(self, effect: Effect, is_single: bool) -> str | None:
        """Why a change is not decided, and what would decide it."""
        if is_single:
            return words.HISTORY.format(words.percent(effect.usual))
        if abs(effect.change) < self._counting(effect):
            return words.WIDE.format(100 * self._counting(effect)) if effect.level == "total" else None
        return words.MEASURED_APART if effect.is_drift else words.within_noise(self._needed(effect))

    def _most(self, effect: Effect) -> float:
        """The largest change that isn't excluded: the far end of the interval, or, for single captures, the change plus
        the largest difference of the history.
        """
        if effect.history is not None:
            return math.expm1(abs(effect.difference) + effect.usual)
        low, high = effect.interval(self.alpha)
        return math.inf if low is None or high is None else max(-low, high)

    def _smallest(self, effect: Effect) -> float:
        """The smallest change of an item that counts, without regard to its part of the total."""
        if effect.history is not None:
            return max(SMALLEST_OF_SINGLE, self.min_effect or 0)
        if self.min_effect is not None:
            return self.min_effect
        return SMALLEST_APART if effect.level == "total" and not self.samples.is_interleaved else SMALLEST

    def _counting(self, effect: Effect) -> float:
        """The smallest change of an item that counts, by itself and as a part of the total.

        Without the condition on the total, an op would be blamed in 12 % instead of 3 % of comparisons of equal sides
        of 3 captures.
        """
        of_total = LEAST_PART if effect.history is None else LEAST_PART_OF_SINGLE
        return max(self._smallest(effect), of_total / effect.part if effect.part else math.inf)

    def _needed(self, effect: Effect) -> int | None:
        """The captures per side that would show a difference; None if there are already that many."""
        if not effect.error > 0:
            return None
        part = 1 if effect.level == "total" else weight_of(effect.share) / self.open_weights[effect.level]
        alpha, smallest = self.alphas[effect.level] * part, math.log1p(self._counting(effect))
        captures = effect.used_bases + effect.used_news
        needed = captures_needed(effect.difference, effect.variance, effect.freedom, captures, alpha, smallest)
        needed = math.ceil(max(effect.bases / effect.used_bases, effect.news / effect.used_news) * needed)
        return needed if needed > min(effect.bases, effect.news) else None

    def rows(self, shapes: Mapping[str, str]) -> Iterator[Verdict]:
        """Yield the verdicts on items, and the common shift."""
        of_calls = {each.item: each for each in self._of_level("call")}
        for level in self.effects:
            for each in self._of_level(level):
                if level == "op":
                    yield self._of_trace(each, of_calls.get(each.item), shapes.get(each.item))
                elif level != "call":
                    yield self._of_trace(each, None, None)
        yield from self._common_shift()

    def more(self) -> Iterator[Verdict]:
        """Yield the parts outside ops, and the captures."""
        yield from self._outside_ops()
        yield from self._captures()

    def slow_runs(self, verdicts: Mapping[tuple[str, str], str | None]) -> Iterator[Verdict]:
        """Yield totals whose slow runs are slower or faster although the total is not, and ops whose slow runs are
        slower although the op is not.

        A slow tail is found in no other way. If 30 % of an op's runs take 1.5 times as long, it is found in 20 to 100 %
        of comparisons of 10 captures a side. Slow runs of ops need a common shift.
        """
        for level in ("total", "op") if self.states.has_factor else ("total",):
            for each in self._of_level(level):
                is_wanted = each.verdict == words.SLOWER or (level == "total" and each.verdict == words.FASTER)
                if is_wanted and each.verdict != verdicts.get((level, each.item)):
                    yield replace(each, level=f"slow {level}")

    def _of_level(self, level: str) -> Iterator[Verdict]:
        """Yield the verdicts on the items of a level, with their numbers and notes."""
        samples = self.samples
        for effect in self.effects.get(level, ()):
            verdict, note = self.decided(effect)
            row = Verdict(samples.index, level, samples.scopes[effect.row], samples.items[effect.row], verdict)
            row.note, row.may_be = note, words.MAY_BE.get(verdict)
            row.base_ticks, row.new_ticks = effect.base_ticks, effect.new_ticks
            row.share = None if math.isnan(effect.share) else effect.share
            if math.isfinite(effect.difference):
                row.change, (row.change_low, row.change_high) = effect.change, effect.interval()
                row.base_captures, row.new_captures = effect.used_bases, effect.used_news
                row.p, row.q = effect.p, effect.q
            yield row

    def _of_trace(self, found: Verdict, of_calls: Verdict | None, shapes: str | None) -> Verdict:
        """Change a verdict to one that only traces have; other verdicts stay unchanged.

        If every sample of one side has more calls of an op than every sample of the other side, the time per call is
        judged. The op is slower or faster if its calls are slower or faster; otherwise it has more or fewer calls. An
        op whose input shapes differ between the sides isn't called slower or faster, because it computes something
        else. A dump's times are quantiles of executes, which may have other numbers of calls than the average execute.
        So they don't show times per call, and the numbers of calls are only noted.
        """
        if not self.samples.is_trace:
            if of_calls is None:
                return found
            noted = words.calls(*self._calls(found.item), "execute")
            return replace(found, note="; ".join(filter(None, (noted, found.note))))
        verdict, note = self._of_steps(of_calls or found, found.share)
        is_changed = verdict.endswith((words.SLOWER, words.FASTER))
        notes = [] if shapes is None else [shapes]
        if of_calls is not None:
            base, new = self._calls(found.item)
            each = words.each_call(of_calls.base_ticks or 0, of_calls.new_ticks or 0)
            notes.insert(0, words.calls(base, new, "step") + each)
            if not is_changed or shapes is not None:
                verdict = words.MORE_CALLS if new > base else words.FEWER_CALLS
        elif shapes is not None and is_changed:
            verdict = words.OTHER_SHAPES
        return replace(found, verdict=verdict, note="; ".join(notes) or note)

    def _of_steps(self, found: Verdict, share: float | None) -> tuple[str, str | None]:
        """Return the verdict and its note. If each side's samples are steps of one trace, they share the state of the
        machine, so the verdict on a difference is at most "possible".
        """
        verdict = found.verdict or ""
        if not self.samples.is_by_step:
            return verdict, found.note
        if verdict in (words.SLOWER, words.FASTER, words.UNSTABLE):
            change = found.change or 0
            least = max(
                SMALLEST_OF_SINGLE if self.min_effect is None else self.min_effect, LEAST_PART_OF_SINGLE / (share or 1)
            )
            if abs(change) >= least:
                return words.POSSIBLY + words.direction(change), words.BY_STEPS
            return words.OPEN, words.STEPS_DIFFER
        # The note then doesn't say how many captures would show the difference.
        return verdict, {words.TOO_FEW: words.FEW_STEPS, words.SAME: None, words.OPEN: None}.get(verdict, found.note)

    def _calls(self, item: str) -> tuple[float, float]:
        """The calls of an op per step on both sides."""
        row = next(at for at in np.flatnonzero(self.samples.of_level("call")) if self.samples.items[at] == item)
        calls = self.samples.calls[row]
        return median(calls[self.samples.is_base]), median(calls[self.samples.is_new])

    def _common_shift(self) -> Iterator[Verdict]:
        """The change that all ops have in common."""
        if (shift := common_shift(self.samples, self.states)) is not None:
            found = Verdict(self.samples.index, "common shift", None, "")
            found.change, *ends = np.expm1(shift).tolist()
            if not math.isnan(ends[0]):
                found.change_low, found.change_high = ends
            sides = (self.samples.is_base, self.samples.is_new)
            found.base_captures, found.new_captures = (int((side & self.states.is_used).sum()) for side in sides)
            yield found

    def _outside_ops(self) -> Iterator[Verdict]:
        """The part of each run's total outside ops, in the median capture; not judged."""
        for row in np.flatnonzero(self.samples.of_level("outside ops")):
            ticks = self.samples.ticks[row]
            found = Verdict(self.samples.index, "outside ops", self.samples.scopes[row], self.samples.items[row])
            found.base_ticks, found.new_ticks = median(ticks[self.samples.is_base]), median(ticks[self.samples.is_new])
            yield found

    def _captures(self) -> Iterator[Verdict]:
        """The states of captures, with their totals."""
        totals = np.nansum(self.samples.ticks[self.samples.of_level("total")], axis=0).tolist()
        states = zip(self.states.off.tolist(), self.states.is_disturbed.tolist(), strict=True)
        captures = zip(self.samples.captures, self.samples.sides, totals, states, strict=True)
        for (capture_id, step), side, total, (off, is_disturbed) in captures:
            found = Verdict(self.samples.index, "capture", None, "", base_ticks=total, capture_id=capture_id, step=step)
            found.side, found.off, found.is_disturbed = side, off, is_disturbed
            yield found


def _finding(
    comparison: int, place: int, rule: str, detail: str, capture_id: int = 0, side: str | None = None
) -> Verdict:
    return Verdict(comparison, "finding", None, rule, note=detail, capture_id=capture_id, side=side, place=place)
