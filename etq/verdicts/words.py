"""The words of verdicts, and of the notes that say why there is none and what it takes."""

from __future__ import annotations

import math

SLOWER, FASTER, SAME, OPEN = "slower", "faster", "~", "not decided"
POSSIBLY = "possibly "
UNSTABLE, TOO_FEW, CANT_JUDGE = "unstable", "too few", "can't judge"
ADDED, REMOVED = "added", "removed"
MORE_CALLS, FEWER_CALLS, OTHER_SHAPES = "more calls", "fewer calls", "other shapes"

ZERO = "shorter than one step of the clock"
DISTURBED = "a capture is disturbed: take 2 more of base and of new"
CONSTANT = "the same in all captures of a side: its variation is unknown"
SHARED = "other ops differ as much between single captures: measure 3 more per side"
INCONSISTENT = "not clear in all captures: take at least 5 per side, better 10"
NO_INTERVAL = "too few captures for an interval: take at least 5 per side, better 10"
FEW_STEPS = "fewer than 3 steps have it: measure 3 traces per side"
BY_STEPS = "by their steps alone: measure 3 traces per side"
STEPS_DIFFER = "the steps differ, but so may single traces: measure 3 per side"
MORE_THAN_100 = "it would take more than 100 captures per side to show a difference of this size"


def direction(change: float) -> str:
    """The verdict on a change that counts."""
    return SLOWER if change > 0 else FASTER


def again(is_interleaved: bool) -> str:
    """What to do if a disturbed machine hides the difference."""
    return "measure more captures of both" if is_interleaved else "measure both again, in turns"


def unstable_single(off: float) -> str:
    """Why the total of a single capture is unstable."""
    return (
        f"all ops of new took {100 * math.expm1(off):.0f} % more than in its history, by this build or by a disturbed "
        "machine: take 2 more captures of base and of new"
    )


def unstable_side(slow: int, captures: int, off: float, is_interleaved: bool) -> str:
    """Why a total is unstable of which new has more slow captures than base."""
    return (
        f"{slow} of {captures} captures of new took {100 * math.expm1(off):.0f} % more than the others and are left "
        f"out of the change: {again(is_interleaved)}"
    )


def unstable_left_out(change: float, is_interleaved: bool) -> str:
    """Why a total is unstable that is slower with the captures that are left out."""
    return f"+{100 * change:.1f} % with disturbed captures, which are left out of the change: {again(is_interleaved)}"


def left_out(excluded: int, change: float, low: float | None, high: float | None, is_interleaved: bool) -> str:
    """Why a change is not decided that the captures without disturbed ones show."""
    captures, verb, them = ("capture", "is", "it") if excluded == 1 else ("captures", "are", "them")
    interval = "" if low is None or high is None else f" ({100 * low:+.1f} to {100 * high:+.1f} %)"
    return (
        f"it depends on {excluded} disturbed {captures} that {verb} left out: with {them} {100 * change:+.1f} %"
        f"{interval}; {again(is_interleaved)}"
    )


def within_noise(captures: int | None) -> str:
    """Why a difference that may count isn't shown, and how many captures would show it, if that is known."""
    if captures is None:
        return "within the noise"
    if captures > 100:
        return f"within the noise; {MORE_THAN_100}"
    shown = "would show a difference of this size in nine of ten comparisons"
    return f"within the noise; {captures} captures per side {shown}"


def wide(smallest: float) -> str:
    """Why it isn't decided whether there is a difference, if none that counts was found."""
    return f"a difference of {100 * smallest:.3g} % or more is not excluded"


def too_few(base: int, new: int, histories: int | None) -> str:
    """How many more captures of which side a verdict needs; `histories` are those of single captures."""
    needed = [f"{3 - captures} more of {side}" for side, captures in (("base", base), ("new", new)) if captures < 3]
    text = f"take {' and '.join(needed)}"
    if histories is None:
        text += ", better 5 per side"
    else:
        text += f", or {10 - histories} more captures of the program of base for its history"
    return f"{text}: the runs of one capture share the state of the device"


def history_differs(worst_step: float) -> str:
    """The largest difference of successive captures of the history."""
    return (
        f"single captures of its history differ by up to {100 * math.expm1(worst_step):.1f} %: take 2 more per side, "
        "better 4"
    )


def below_clock(resolution: float, ticks: float) -> str:
    """Why the clock can't show a change."""
    return (
        f"below the clock's resolution: it counts in steps of {_length(resolution)}, and this takes {_length(ticks)}: "
        f"changes under {math.ceil(100 * resolution / ticks)} % cannot be measured"
    )


def immaterial(change: float, share: float) -> str:
    """What is certain but doesn't count."""
    return f"changed, but only by {100 * abs(change) * share:.2g} % of the total"


def calls(base: float, new: float, base_ticks: float, new_ticks: float) -> str:
    """How much more or less often an op is called, and how long that takes."""
    return f"calls per step {base:.4g} to {new:.4g}, each {_call_length(base_ticks)} to {_call_length(new_ticks)}"


def shapes(base: str | None, new: str | None) -> str:
    """Which shapes of an op's inputs only one side has."""
    parts = [f"{_shortened(each)} only in {side}" for each, side in ((base, "base"), (new, "new")) if each is not None]
    return f"shapes {', '.join(parts)}"


def _length(ticks: float) -> str:
    """A duration in the greatest unit that fits into it."""
    unit, size = next(
        ((unit, size) for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)) if ticks >= size), ("ns", 1)
    )
    return f"{ticks / size:.4g} {unit}"


def _call_length(ticks: float) -> str:
    return f"{ticks / 1e6:.2f} ms" if ticks >= 1e6 else f"{ticks / 1e3:.2f} us"


def _shortened(text: str) -> str:
    return f"{text[:57]}..." if len(text) > 60 else text
