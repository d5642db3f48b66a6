"""Decides when a benchmark that measures round by round has measured enough.

A round is two captures of each side, in turns. After some of the rounds, the comparison gives its verdicts: this is a
look. Repeated looks eventually find a difference where there is none; with 5 % per look, they do in far more than 5 %
of benchmarks. Therefore the looks share the probability of a false verdict: each look has a part of it, `alpha_of`, and
the sum of the parts is the whole. This is Bonferroni's bound, which also holds for looks that depend on each other. The
parts follow a spending function like those of Kim and DeMets, Design and analysis of group sequential tests, 1987.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from etq.verdicts import words
from etq.verdicts.arithmetic import Numbers, median

# Captures of each side in a round.
CAPTURES = 2
# Ops with this share of the total must be decided.
MATTERS = 0.03
# If the total is slower or faster, only ops that may explain this part of its change must be decided.
EXPLAINS = 0.25
# The most rounds that a forecast names.
MOST_ROUNDS = 100
# Half of an interval that is narrow enough, as a part of the latency.
_WIDTH = 0.01
# The normal quantile with 2.5 % above it.
NORMAL = 1.959963984540054
# With fewer rounds, the spread of one program's captures doesn't show how many more rounds are needed.
FORECAST = 5
_CHANGED = {words.SLOWER, words.FASTER, words.DIFFERS}
# Verdicts that more captures don't change.
_CLOSED = {
    *(*_CHANGED, words.SAME, words.ADDED, words.REMOVED, words.MORE_CALLS, words.FEWER_CALLS, words.OTHER_SHAPES),
    words.CANT_JUDGE,
}
# With this many captures, a difference of conditions is final, too. By chance, the ranges of a condition are apart in 3
# % of comparisons with 4 captures a side, and in 0.8 % with 5.
_OF_CONDITIONS = 10


@dataclass(frozen=True)
class Judged:
    """The verdict on an item at a look. Changes are ratios of new to base, minus 1; `share` is the share of base's
    total.
    """

    level: str  # total or op
    item: str
    verdict: str | None
    change: float | None
    low: float | None  # the ends of its 95 % interval; None without an interval
    high: float | None
    share: float | None = None  # None if it isn't part of the total
    captures: int = 0  # the number of used captures of both sides


@dataclass(frozen=True)
class Standing:
    """Whether a benchmark has measured enough."""

    is_decided: bool
    sentence: str
    open_items: tuple[str, ...] = ()  # what the benchmark still waits for
    # For one program alone: its interval, in the unit of the latencies.
    typical: float | None = None
    low: float | None = None
    high: float | None = None


def looks(rounds: int) -> list[int]:
    """Return the rounds after which a benchmark of at most `rounds` rounds is looked at: 2, 3, 5, 7, 10, 14, 20, ..."""
    found = [2, 3, 5, 7]
    while found[-1] < rounds:
        found.append(2 * found[-2])
    return [*(look for look in found if look < rounds), *([rounds] if rounds >= found[0] else [])]


def alpha_of(measured: int, alpha: float, rounds: int, *, is_last: bool = False) -> float | None:
    """Return the probability of a false verdict that the look after `measured` rounds may use; None if there is no
    look.

    The probabilities of all looks of a benchmark of at most `rounds` rounds sum to `alpha`. The part that is spent up
    to a look grows with the square of the look's rounds. So early looks get little, because few captures hardly show
    the noise.

    is_last  the benchmark ends now for a reason independent of its verdicts, such as the end of its time: this is then
             a look, which takes the rest of alpha. Not set if a user ends the benchmark, because the user has seen its
             intervals
    """
    at = looks(rounds)
    before = max((look for look in at if look < measured), default=0)
    if is_last and at and measured >= at[0]:
        measured = rounds
    elif measured not in at:
        return None
    return alpha * (measured**2 - before**2) / rounds**2


def standing(verdicts: Iterable[Judged], measured: int) -> Standing:
    """Return whether the verdicts of the look after `measured` rounds decide a benchmark.

    They do if the verdicts on all totals, and on all ops that matter, are closed. An op matters if it has 3 % of the
    total. If the total is slower or faster, the op must also be able to explain a quarter of that change. Closed
    verdicts are slower, faster, about the same, and those that more captures don't change.
    """
    rows = list(verdicts)
    total = max((abs(row.change or 0) for row in rows if row.level == "total" and row.verdict in _CHANGED), default=0.0)
    opened = tuple(row.item or row.level for row in rows if _is_open(row, total))
    sentence = words.still_open(measured, opened) if opened else words.DECIDED.format(words.rounds(measured))
    return Standing(not opened, sentence, opened)


def _is_open(row: Judged, total: float) -> bool:
    """Whether a verdict is still open and matters. `total` is the change of the total if the total is slower or faster,
    else 0.
    """
    share = row.share or 0.0
    if row.verdict is None or row.verdict in _CLOSED or (row.level == "op" and share < MATTERS):
        return False
    if row.verdict == words.CONDITIONS_DIFFER and row.captures >= _OF_CONDITIONS:
        return False
    # Without an interval, any change is possible.
    most = 1.0 if row.low is None or row.high is None else max(-row.low, row.high)
    return not (row.level == "op" and share * most < EXPLAINS * total)


def precision(latencies: Sequence[float], *, rounds: int | None = None) -> Standing:
    """Return whether the latency of one program is known to ±`_WIDTH`, with its interval of 95 %.

    The typical latency is the median of the means of all pairs of captures, as logarithms, with the interval from
    Wilcoxon's signed ranks (Hodges and Lehmann). With fewer than 6 captures, there is no interval. Captures that follow
    each other in time are alike, so the interval is widened by the root of (1 + r) / (1 - r), where r is their
    autocorrelation.

    latencies  of each capture, in the order of measurement: the median of its runs, in any unit, above 0
    rounds     the most rounds, of two captures each; None: no limit
    """
    values = np.log(np.asarray(latencies, float))
    measured = len(values) // CAPTURES
    middle, low, high = _signed_ranks(values)
    typical = math.exp(middle) if len(values) else None
    if low is None or high is None:
        sentence = words.NO_PRECISION.format(words.rounds(measured))
        return Standing(False, sentence, typical=typical)
    wider = _following(values)
    low, high = middle - wider * (middle - low), middle + wider * (high - middle)
    half = max(math.expm1(high - middle), -math.expm1(low - middle))
    ends = typical, math.exp(low), math.exp(high)
    if half <= _WIDTH:
        return Standing(True, words.PRECISE.format(100 * half, words.rounds(measured)), (), *ends)
    needed = math.ceil(measured * (half / _WIDTH) ** 2)
    more = needed - measured if needed <= MOST_ROUNDS else None
    forecast = words.rounds_needed(more, rounds is not None and needed > rounds)
    forecast = words.TOO_EARLY if measured < FORECAST else forecast
    return Standing(False, words.IMPRECISE.format(100 * half, 100 * _WIDTH, forecast), (), *ends)


def _following(values: Numbers) -> float:
    """The factor, 1 or more, by which autocorrelation widens the interval of successive values.

    The estimate of the autocorrelation r from n values is too low by (1 + 4 r) / n (Marriott and Pope, Bias in the
    estimation of autocorrelations, 1954).
    """
    off = values - values.mean()
    count, squares = len(off), float((off**2).sum())
    r = float((off[1:] * off[:-1]).sum()) / squares if squares > 0 else 0.0
    r = min(0.9, max(0.0, (count * r + 1) / (count - 4)))
    return math.sqrt((1 + r) / (1 - r))


def _signed_ranks(values: Numbers) -> tuple[float, float | None, float | None]:
    """The median of the means of all pairs, each value with itself included, and its interval of 95 %."""
    count = len(values)
    above, below = np.triu_indices(count)
    pairs = np.sort((values[above] + values[below]) / 2)
    place = int(np.floor(count * (count + 1) / 4 - NORMAL * np.sqrt(count * (count + 1) * (2 * count + 1) / 24)))
    if place < 1:
        return median(pairs), None, None
    return median(pairs), float(pairs[place - 1]), float(pairs[len(pairs) - place])
