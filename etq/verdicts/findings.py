"""Findings of a comparison: conditions that make its verdicts less certain."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from etq.verdicts import words
from etq.verdicts.arithmetic import median
from etq.verdicts.samples import Samples
from etq.verdicts.states import LEAST, LEAST_SHIFT, States, common_shift

# A finding: its place in the order, the rule, the detail; and the capture and its side if it is about one capture.
Finding = tuple[int, str, str] | tuple[int, str, str, int, str]


def findings_of_input(
    samples: Mapping[str, Any],
    conditions: Sequence[tuple[str, str]],
    labels: Sequence[tuple[str, str]],
    others: Sequence[tuple[int, str, float, int]],
    phase: str | None,
) -> Iterator[Finding]:
    """Yield the findings of captures without times, and of conditions, labels and programs that differ. Conditions and
    labels have a name and a detail; `others` are `other_programs`.
    """
    for at in np.flatnonzero((samples["level"] == "none") & (samples["side"] != "history")):
        side, run = samples["side"][at], "step" if samples["is_trace"][at] else "execute"
        detail = words.NO_TIMES.format(side, run, "" if phase is None else f" of phase {phase}")
        yield 0, "no times", detail, int(samples["capture_id"][at]), side
    for condition in conditions:
        yield 1, *words.of_condition(*condition)
    for label in labels:
        yield 1, *words.of_label(*label, {name for name, _ in labels})
    for capture, side, share, count in others:
        yield 1, words.CONDITIONS_DIFFER, words.other_program(side, 100 * share, count - 1), capture, side
    is_op = samples["level"] == "op"
    base, new = ({*samples["item"][is_op & (samples["side"] == side)]} for side in ("base", "new"))
    matched = next(iter(samples["matched"][is_op]), "event")
    if matched != "event" and base | new:
        both = len(base & new)
        yield 6, "different programs", words.OTHER_PROGRAMS.format(matched, len(new) - both, len(base) - both)
        if 2 * both < min(len(base), len(new)):
            yield 6, words.FEW_COMMON_OPS, "fewer than half of the ops are in both: compare totals only"


def other_programs(samples: Mapping[str, Any]) -> Iterator[tuple[int, str, float, int]]:
    """Yield, for each side of dumps, a capture with other ops than others of its side: its key, the side, the share of
    its time in ops that at most half of the captures have, and the number of captures where this share is over half.
    Traces are left out: one program may run kernels of other names each time.
    """
    is_op = (samples["level"] == "op") & samples["is_additive"] & ~samples["is_trace"].astype(bool)
    for side in ("base", "new"):
        rows = np.flatnonzero(is_op & (samples["side"] == side))
        captures, of_captures = np.unique(samples["capture_id"][rows], return_inverse=True)
        _, of_items = np.unique(samples["item"][rows].astype(str), return_inverse=True)
        pairs = np.unique(np.stack([of_items, of_captures]), axis=1)
        is_rare = 2 * np.bincount(pairs[0])[of_items] <= len(captures)
        ticks = samples["ticks"][rows]
        total, rare = (np.bincount(of_captures, ticks * chosen) for chosen in (1, is_rare))
        found = np.flatnonzero(2 * rare > total)
        if len(captures) > 1 and len(found):
            first = found[0]
            yield int(captures[first]), side, float(rare[first] / total[first]), len(found)


def findings(samples: Samples, states: States, is_one_clock: bool) -> Iterator[Finding]:
    """Yield the findings of a comparison; for times on devices, only the findings about captures."""
    yield from _disturbed(samples, states)
    if samples.index > 0:
        return
    yield from _of_design(samples)
    if not is_one_clock:
        yield 7, "different clocks", words.TWO_CLOCKS
    if not states.has_factor:
        why = words.SCATTERED if states.is_scattered else words.NO_SHIFT
        yield 8, "no common shift", words.SHIFT_UNKNOWN.format(why)
    elif is_one_clock and (shift := common_shift(samples, states)) and abs(np.expm1(shift[0])) >= LEAST_SHIFT:
        yield 8, "common shift", words.common_shift(*map(words.percent, shift))


def _of_design(samples: Samples) -> Iterator[Finding]:
    bases, news = int(samples.is_base.sum()), int(samples.is_new.sum())
    if samples.is_by_step:
        more = words.MORE_STEPS if min(bases, news) < LEAST else ""
        yield 2, "one trace per side", words.ONE_TRACE.format(bases, news) + more
        return
    if min(bases, news) < LEAST:
        yield 2, "few captures", words.FEW_CAPTURES.format(bases, news)
    if not samples.has_order:
        yield 3, "time order unknown", words.ORDER_UNKNOWN
    elif not samples.is_interleaved:
        yield 3, "measured apart", words.APART


def _disturbed(samples: Samples, states: States) -> Iterator[Finding]:
    """Yield findings about disturbed captures, or about the disturbed steps of a side."""
    known = states.has_factor, samples.index > 0
    for side, is_side in (("base", samples.is_base), ("new", samples.is_new)):
        is_off, captures = states.is_disturbed & is_side, int(is_side.sum())
        count = int(is_off.sum())
        if samples.is_by_step and count:
            off = words.off(median(states.off[is_off]), *known)
            yield 4, "disturbed steps", f"{count} of {captures} steps of {side} {off} and are excluded"
        elif not samples.is_by_step:
            rest = "the rest of its side" if states.has_factor else "the captures of both sides"
            rest = "the other captures" if states.is_single else f"{rest}, and is excluded"
            for at in np.flatnonzero(is_off):
                detail = f"of {side} {words.off(states.off[at], *known)} than {rest}: measure again"
                yield 4, "disturbed capture", detail, samples.captures[at][0], side
            if samples.index == 0 and captures > 1 and count > 0.2 * captures:
                yield 5, "unstable side", words.MANY_DISTURBED.format(count, captures, side)
