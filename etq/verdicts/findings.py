"""Findings of a comparison: what affects how far its verdicts can be trusted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from etq.verdicts import words
from etq.verdicts.arithmetic import median
from etq.verdicts.samples import Samples
from etq.verdicts.states import LEAST, States, common_shift

# The place in the order of findings, the rule, the detail; if it is of one capture, that and its side.
Finding = tuple[int, str, str] | tuple[int, str, str, int, str]
# A common shift from here on is a finding.
LEAST_SHIFT = 0.02


def findings_of_input(
    samples: Mapping[str, Any], conditions: Mapping[str, Any], phase: str | None
) -> Iterator[Finding]:
    """Yield the findings of captures without times, and of conditions and programs that differ."""
    for at in np.flatnonzero((samples["level"] == "none") & (samples["side"] != "history")):
        side = samples["side"][at]
        yield 0, "no times", words.no_times(side, samples["is_trace"][at], phase), int(samples["capture_id"][at]), side
    for name, detail in zip(conditions["name"], conditions["detail"], strict=True):
        yield 1, "conditions differ", words.condition(name, detail)
    is_op = samples["level"] == "op"
    base, new = ({*samples["item"][is_op & (samples["side"] == side)]} for side in ("base", "new"))
    matched = next(iter(samples["matched"][is_op]), "event")
    if matched != "event" and base | new:
        both = len(base & new)
        yield 6, "different programs", words.other_programs(matched, len(base) - both, len(new) - both)
        if 2 * both < min(len(base), len(new)):
            yield 6, words.FEW_COMMON_OPS, "fewer than half of the ops are in both: compare totals only"


def findings(samples: Samples, states: States, is_one_clock: bool) -> Iterator[Finding]:
    """Yield the findings of a comparison; for times on devices, only those about captures."""
    yield from _disturbed_steps(samples, states) if samples.is_by_step else _disturbed_captures(samples, states)
    if samples.index == 0:
        yield from _of_design(samples)
        if not is_one_clock:
            yield 7, "different clocks", words.TWO_CLOCKS
        if not states.has_factor:
            yield 8, "no common shift", words.no_common_shift(states.is_scattered)
        elif is_one_clock and (shift := common_shift(samples, states)) and abs(np.expm1(shift.size)) >= LEAST_SHIFT:
            yield 8, "common shift", words.common_shift(*np.expm1([shift.size, shift.low, shift.high]).tolist())
            if np.isfinite(states.other_shift):
                one, other = np.expm1([shift.size, states.other_shift]).tolist()
                yield 8, "two groups of ops", words.two_groups(one, other, samples.is_interleaved)


def _of_design(samples: Samples) -> Iterator[Finding]:
    bases, news = int(samples.is_base.sum()), int(samples.is_new.sum())
    if samples.is_by_step:
        yield 2, "one trace per side", words.one_trace(bases, news)
        return
    if min(bases, news) < LEAST:
        yield 2, "few captures", words.few_captures(bases, news)
    if np.isnan(samples.positions[samples.is_base | samples.is_new]).any():
        yield 3, "time order unknown", words.ORDER_UNKNOWN
    elif not samples.is_interleaved:
        yield 3, "measured apart", words.APART


def _disturbed_captures(samples: Samples, states: States) -> Iterator[Finding]:
    for at in np.flatnonzero(states.is_disturbed & (samples.is_base | samples.is_new)):
        side, key = samples.sides[at], samples.captures[at][0]
        detail = words.disturbed(
            side, states.off[at], states.has_factor, samples.index > 0, is_left_out=not states.is_single
        )
        yield 4, "disturbed capture", detail, key, side
    for side, is_side in (("base", samples.is_base), ("new", samples.is_new)):
        count, captures = int((states.is_disturbed & is_side).sum()), int(is_side.sum())
        if samples.index == 0 and captures > 1 and count > 0.2 * captures:
            yield 5, "unstable side", words.unstable(side, count, captures)


def _disturbed_steps(samples: Samples, states: States) -> Iterator[Finding]:
    for side, is_side in (("base", samples.is_base), ("new", samples.is_new)):
        is_off = states.is_disturbed & is_side
        if is_off.any():
            off = median(states.off[is_off])
            detail = words.disturbed_steps(
                side, int(is_off.sum()), int(is_side.sum()), off, states.has_factor, samples.index > 0
            )
            yield 4, "disturbed steps", detail
