"""The texts of verdicts and notes; a note says why there is no verdict, and what a verdict needs."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

SLOWER, FASTER, SAME, OPEN = "slower", "faster", "~", "not decided"
POSSIBLY = "possibly "
UNSTABLE, TOO_FEW, CANT_JUDGE = "unstable", "too few", "can't judge"
BETTER, WORSE, DIFFERS = "better", "worse", "differs"
ADDED, REMOVED, CONDITIONS_DIFFER = "added", "removed", "conditions differ"
MORE_CALLS, FEWER_CALLS, OTHER_SHAPES = "more calls", "fewer calls", "other shapes"

# The names of verdicts in the scripts of pages.
KEYS = {
    "slower": SLOWER, "faster": FASTER, "better": BETTER, "worse": WORSE, "same": SAME, "open": OPEN, "added": ADDED,
    "removed": REMOVED,
}  # fmt: skip
# The words before the names of ops to which an added or removed op may correspond.
MAY_BE = {REMOVED: "may have become", ADDED: "may have been"}
# Words that pages and sentences show instead of the name of a verdict.
SHOWN = {SAME: "about the same", TOO_FEW: "too few captures to tell"}
# Explanations of short verdicts and of the row of all ops, printed below a comparison on a terminal.
MEANING = {
    SAME: "about the same, no difference that counts",
    OPEN: "the captures do not show whether there is a difference",
    TOO_FEW: "too few captures to tell",
    UNSTABLE: "some captures of a side differ from its others",
    "common shift": "what all ops changed by; already removed from each op",
}
# Verdicts on totals as the first words of a page.
STATED = {
    SLOWER: "New is slower",
    FASTER: "New is faster",
    SAME: "About the same",
    OPEN: "Not decided",
    POSSIBLY + SLOWER: "New is possibly slower",
    POSSIBLY + FASTER: "New is possibly faster",
    UNSTABLE: "Some captures of new are slower",
    TOO_FEW: "Too few captures to tell",
    CANT_JUDGE: "It can't be judged",
    CONDITIONS_DIFFER: "Measured under other conditions",
}
# Verdicts that count as a change, and verdicts that mean worse.
COUNTING, ARE_WORSE = (SLOWER, FASTER, BETTER, WORSE), (SLOWER, WORSE)
# Verdicts that leave open whether something changed: a gate that demands a clear result fails.
UNCLEAR = (UNSTABLE, POSSIBLY + SLOWER, TOO_FEW, CANT_JUDGE, CONDITIONS_DIFFER, ADDED, REMOVED)
# Verdicts that are shown as `DIFFERS` between different devices.
DIRECTIONS = (SLOWER, FASTER, POSSIBLY + SLOWER, POSSIBLY + FASTER, BETTER, WORSE)
# The order in which a page counts ops by verdict.
ORDER = (
    *(SLOWER, FASTER, ADDED, REMOVED, UNSTABLE, POSSIBLY + SLOWER, POSSIBLY + FASTER, MORE_CALLS, FEWER_CALLS),
    *(OTHER_SHAPES, OPEN, SAME, TOO_FEW, CANT_JUDGE, CONDITIONS_DIFFER),
)

# The finding that programs have too little in common to compare their ops.
FEW_COMMON_OPS = "few common ops"
LABELS_DIFFER = "labels differ"
# Notes, which say why there is no verdict, and what a verdict needs.
ZERO = "shorter than one step of the clock"
DISTURBED = "a capture is disturbed: take 2 more of base and of new"
CONSTANT = "the same in all captures of a side: its variation is unknown"
FEW_STEPS = "fewer than 3 steps have it: measure 3 traces per side"
BY_STEPS = "judged by the steps of one trace per side: measure 3"
STEPS_DIFFER = "the steps differ, but single traces may differ as much: measure 3 per side"
SIZES_VARY = "the captures of a side differ as much"
FEW_VALUES = "take at least 3 captures per side, better 5"
TWO_CLOCKS = "one side counts cycles and the other time: only shares are comparable"
WITHIN_NOISE = "within the noise"
WIDE = "a difference of {:.3g} % or more is not excluded"
SMALLEST = "less than {:.3g} % is no change"
IMMATERIAL = "changed, but only by {:.2g} % of the total"
HISTORY = "single captures of its history differ by up to {:.1f} %: take 2 more per side, better 4"
UNSTABLE_SINGLE = (
    "all ops of new took {:.0f} % more than in its history, due to this build or a disturbed machine: take 2 more "
    "captures of base and of new"
)
UNSTABLE_SIDE = "{} of {} captures of new took {:.0f} % more than the others and are left out of the change: {}"

# Findings: conditions that make verdicts less certain. A finding about one capture begins with the capture's name.
MACHINE = "a slower machine would look like a slower program"
ORDER_UNKNOWN = f"some captures have no timestamps (etq ingest --captured-at sets them): {MACHINE}"
APART = f"the sides were measured at different times: {MACHINE}; interleave them (etq bench)"
MEASURED_APART = f"measured apart: {MACHINE}; measure both sides in turns (etq bench)"
NO_TIMES = "of {} has no {}{}, and is excluded"
OTHER_PROGRAMS = "ops are matched by {}: {} of new are not in base, {} of base not in new"
CONDITION = "{}: {}; this may be the reason for differences"
# Findings about ranks of jobs: the rule and its meaning.
RANKS_OF_A_JOB = (
    "ranks of one job (not builds)",
    "{}: processes of a job do different work and wait for each other; whom they wait for, and why: etq FOLDER, or etq "
    "summary job=NAME",
)
RANKS_AS_CAPTURES = (
    "ranks of jobs",
    "{}: they wait for each other, so that their steps are no independent samples; rank by rank: etq show compare_jobs "
    "BASE NEW",
)
FEW_CAPTURES = "{} in base, {} in new: take at least 3 per side, better 5 to 10 (etq bench)"
ONE_TRACE = (
    "the samples are steps, {} of base and {} of new, which share the machine's state: a difference is possible at "
    "most; take at least 3 traces per side, in turns"
)
MORE_STEPS = ", or traces of more steps (--step-name NAME: calls of an annotation)"
MANY_DISTURBED = "{} of {} captures of {} are disturbed: the others may not be typical either"
NO_SHIFT = "fewer than 3 ops with a precise clock in all captures, or fewer than half of them"
SCATTERED = "ops moved apart, and it is unknown which of them the program changed"
SHIFT_UNKNOWN = "{}: the common shift of all ops cannot be told from the change of one op"

# Texts of benchmarks, after rounds.
DECIDED = "decided after {}"
NO_PRECISION = "{} measured; an interval needs 3"
PRECISE = "known to ±{:.2g} % after {}"
IMPRECISE = "known to ±{:.2g} %, wanted ±{:.2g} %; {}"
TOO_EARLY = "too early to say how many more rounds it needs"


def of_condition(name: str, detail: str) -> tuple[str, str]:
    """The rule and text of a condition that differs."""
    return CONDITIONS_DIFFER, CONDITION.format(name, detail)


def other_program(side: str, percent: float, more: int) -> str:
    """That a capture has other ops than others of its side, as `more` captures have. Its name comes before the text."""
    others = f", as have {more} more" if more else ""
    return (
        f"of {side} has other ops than others of its side{others}: {number_text(percent, 3)} % of its time is in ops "
        f"that at most half of the captures of {side} have; compare the captures of one program"
    )


def of_label(name: str, detail: str, labels: Collection[str]) -> tuple[str, str]:
    """The rule and text of a label that differs; `labels` are all differing labels. For ranks, the text says what is
    compared.
    """
    if name == "ranks":
        return RANKS_AS_CAPTURES[0], RANKS_AS_CAPTURES[1].format(detail)
    if name == "rank" and "job" not in labels:
        return RANKS_OF_A_JOB[0], RANKS_OF_A_JOB[1].format(detail)
    return LABELS_DIFFER, CONDITION.format(name, detail)


def direction(change: float) -> str:
    """The verdict on a change that counts."""
    return SLOWER if change > 0 else FASTER


def better(is_better: bool, is_time: bool) -> str:
    """The verdict on a value that changed: better or worse."""
    return (FASTER if is_better else SLOWER) if is_time else (BETTER if is_better else WORSE)


def are(verdict: str) -> str:
    """A text that says that several items have this verdict."""
    return "differ" if verdict == DIFFERS else f"are {verdict}"


def counted_ops(count: int, verdict: str) -> str:
    """How many ops have this verdict."""
    if count == 1:
        return f"1 op {DIFFERS if verdict == DIFFERS else f'is {verdict}'}"
    return f"{count} ops {are(verdict)}"


def other_devices(base: str, new: str, has_verdicts: bool) -> str:
    """A text that says that the sides ran on different devices."""
    asked = "" if has_verdicts else f"; {SLOWER} and {FASTER} are shown as {DIFFERS} (--verdicts shows them)"
    return f"base ran on {base}, new on {new}: ops are matched by name and inputs, their kernels differ{asked}"


def again(is_interleaved: bool) -> str:
    """The advice if a disturbed machine may hide the difference."""
    return "measure more captures of both" if is_interleaved else "measure both again, in turns"


def percent(log: float) -> float:
    """A difference of logarithms in percent."""
    return 100 * math.expm1(log)


def within_noise(captures: int | None) -> str:
    """A note that a possible difference isn't shown, with the number of captures that would show it, if known."""
    if captures is None:
        return WITHIN_NOISE
    if captures > 100:
        return f"{WITHIN_NOISE}; it would take more than 100 captures per side to show a difference of this size"
    return (
        f"{WITHIN_NOISE}; {captures} captures per side would show a difference of this size in nine of ten comparisons"
    )


def too_few(base: int, new: int, history: int | None) -> str:
    """How many more captures, of which side, a verdict needs; `history` is the size of the history of single
    captures.
    """
    needed = [f"{3 - captures} more of {side}" for side, captures in (("base", base), ("new", new)) if captures < 3]
    rest = ", better 5 per side"
    if history is not None:
        more = f"{10 - history} more capture{'' if history == 9 else 's'}"
        rest = f", or {more} of base's program for its history"
    return f"take {' and '.join(needed)}{rest}: the runs of one capture share the state of the device"


def below_clock(resolution: float, ticks: float, least: float) -> str:
    """Why the clock can't show a change of less than `least`."""
    return (
        f"below the clock's resolution: it counts in steps of {_length(resolution)}, and this takes {_length(ticks)}: "
        f"changes under {math.ceil(100 * least / ticks)} % cannot be measured"
    )


def calls(base: float, new: float, per: str) -> str:
    """How much more or less often an op is called."""
    return f"calls per {per} {number_text(base)} to {number_text(new)}"


def each_call(base_ticks: float, new_ticks: float) -> str:
    """How long an op's calls take."""
    return f", each {_length(base_ticks)} to {_length(new_ticks)}"


def shapes(base: str | None, new: str | None) -> str:
    """Which shapes of an op's inputs only one side has."""
    parts = [f"{_shortened(each)} only in {side}" for each, side in ((base, "base"), (new, "new")) if each is not None]
    return f"shapes {', '.join(parts)}"


def off(size: float, has_factor: bool, is_on_devices: bool) -> str:
    """How far a disturbed capture or step deviates, as a logarithm."""
    of = f"{'all ops' if has_factor else 'total'}{' on devices' if is_on_devices else ''}"
    return f"took {_more(percent(size))} in {of}"


def _more(percent: float) -> str:
    return f"{abs(percent):.1f} % {'more' if percent > 0 else 'less'}"


def no_op_changed(is_same_program: bool) -> str:
    """The reason why a total changed at a capture although none of its ops did."""
    if not is_same_program:
        return "different programs: their ops differ, so only totals can be compared"
    return "no op changed more than the others: the device changed all ops alike, or the time outside of ops changed"


def common_shift(shift: float, low: float, high: float) -> str:
    """A text on by how many percent all ops differ, with the interval. Without an interval, its ends are NaN."""
    interval = "" if math.isnan(low) else f" ({low:+.1f} to {high:+.1f} %)"
    if low * high > 0:
        changed = f"the whole program took {_more(shift)}{interval}"
    else:
        changed = f"all ops changed by {shift:+.1f} %{interval}, which the machine may do"
    return f"{changed}: verdicts on ops exclude this common shift"


# Numbers of rounds in a forecast for one program.
_STEPS = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100)


def rounds(count: int) -> str:
    """A number of rounds of a benchmark, as text."""
    return f"{count} round{'' if count == 1 else 's'}"


def rounds_needed(count: int | None, is_beyond: bool) -> str:
    """Return a text on how many more rounds are needed. `count` is None if more than 100 are needed in all.

    The estimate is as rough as the spread on which it is based, so it is given in steps of about a factor of 1.5.
    """
    if count is None:
        return "likely needs more than 100 rounds"
    step = min(_STEPS, key=lambda step: abs(math.log(step / count)))
    return f"needs about {step} more round{'' if step == 1 else 's'}{', more than allowed' if is_beyond else ''}"


def still_open(round: int, items: Sequence[str]) -> str:
    """A text on what isn't decided after a round."""
    named = ", ".join(items[:3]) + (f" and {len(items) - 3} more" if len(items) > 3 else "")
    return f"not decided after {rounds(round)}: {named}"


def number_text(value: float, digits: int = 4) -> str:
    """A number as text, to this many significant digits, never with an exponent. A number with more digits has no
    decimals.
    """
    return f"{value:.0f}" if 10.0**digits <= abs(value) < math.inf else f"{value:.{digits}g}"


def share_text(percent: float, is_least: bool | None = False) -> str:
    """Return a share in percent as a text, with a mark if it is a lower bound."""
    return f"{'≥ ' if is_least else ''}{number_text(percent)} %"


def _length(ticks: float) -> str:
    """A duration in the greatest unit that fits into it."""
    unit, size = next(
        ((unit, size) for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)) if ticks >= size), ("ns", 1)
    )
    return f"{ticks / size:.4g} {unit}"


def _shortened(text: str) -> str:
    return f"{text[:57]}..." if len(text) > 60 else text
