"""When a benchmark has measured enough: by hand, and by enumeration in plain Python."""

from __future__ import annotations

import math
from itertools import combinations_with_replacement, product
from statistics import median

import numpy as np
import pytest

from etq.verdicts import words
from etq.verdicts.sequential import Judged, alpha_of, looks, precision, standing


def test_the_looks_share_the_probability_by_the_squares_of_their_rounds() -> None:
    """Of 400 parts of 5 %, the looks after 2, 3, 5, 7, 10, 14 and 20 rounds have 4, 5, 16, 24, 51, 96 and 204."""
    parts = [alpha_of(look, 0.05, 20) for look in (2, 3, 5, 7, 10, 14, 20)]
    assert parts == pytest.approx([part * 0.05 / 400 for part in (4, 5, 16, 24, 51, 96, 204)])
    assert [alpha_of(measured, 0.05, 20) for measured in (0, 1, 4, 6, 19, 21)] == [None] * 6
    for rounds in range(2, 101):
        assert math.fsum(alpha_of(look, 0.03, rounds) or 0 for look in looks(rounds)) == pytest.approx(0.03)


def test_a_benchmark_that_its_time_ends_takes_what_is_left() -> None:
    """After 12 of 20 rounds, the look after 10 was the last; after 5, that after 3, as the one after 5 is replaced."""
    left = [alpha_of(measured, 0.05, 20, is_last=True) for measured in (2, 5, 12, 20)]
    assert left == pytest.approx([0.05, 0.05 * 391 / 400, 0.05 * 300 / 400, 0.05 * 204 / 400])
    assert alpha_of(1, 0.05, 20, is_last=True) is None
    assert alpha_of(1, 0.05, 1, is_last=True) is None


def total(verdict: str, change: float, half: float) -> Judged:
    """A total at the look after 3 rounds; `half` of the interval is of logarithms."""
    low, high = (math.expm1(math.log1p(change) + end) for end in (-half, half))
    return Judged("total", "total", verdict, change, low, high, None, 12)


def test_of_a_change_of_the_total_only_ops_that_may_explain_a_quarter_are_waited_for() -> None:
    """An op of a tenth with 1 % to 3 % may explain 0.3 % of the total: a quarter of 1.2 %."""
    op = Judged("op", "conv @3", "not decided", 0.01, -0.0096, 0.03, 0.1, 12)
    assert standing([total("slower", 0.0125, 0.01), op], 3).is_decided
    assert not standing([total("slower", 0.0115, 0.01), op], 3).is_decided
    # Without an interval, it may have doubled.
    unknown = Judged("op", "conv @3", "too few", None, None, None, 0.2, 6)
    assert standing([total("slower", 0.81, 0.1), unknown], 3).is_decided
    assert not standing([total("slower", 0.79, 0.1), unknown], 3).is_decided


def test_what_is_open_is_named() -> None:
    assert standing([total("not decided", 0, 0.0195)], 3).sentence == "not decided after 3 rounds: total"
    assert standing([total(words.SAME, 0, 0.01)], 3).is_decided


def in_zigzag(values: list[float]) -> list[float]:
    """The least, the greatest, the next least and so on: none follows the one before."""
    ordered = sorted(values)
    return [ordered.pop(0 if at % 2 == 0 else -1) for at in range(len(ordered))]


@pytest.mark.parametrize("count", (6, 9, 12))
def test_the_interval_of_one_program_is_that_of_signed_ranks(count: int) -> None:
    """Its ends are means of pairs; how often these miss the middle, all signs of the ranks say: in 2 to 5 %."""
    values = in_zigzag(np.random.default_rng(count).normal(0, 0.01, count).tolist())
    means = sorted((one + other) / 2 for one, other in combinations_with_replacement(values, 2))
    found = precision([math.exp(each) for each in values])
    assert found.typical == pytest.approx(math.exp(median(means)))
    [below] = [at for at, mean in enumerate(means) if math.exp(mean) == pytest.approx(found.low, rel=1e-12)]
    assert found.high == pytest.approx(math.exp(means[-1 - below]))
    sums = [sum(rank for rank, sign in enumerate(signs, 1) if sign) for signs in product((False, True), repeat=count)]
    assert 0.02 <= 2 * sum(each <= below for each in sums) / len(sums) <= 0.05


def test_one_program_is_measured_until_its_latency_is_known() -> None:
    """Of 6 captures, the interval is from the least to the greatest."""
    few = precision([100, 101, 99, 100])
    assert (few.is_decided, few.low) == (False, None)
    assert few.sentence == "2 rounds measured; an interval needs 3"
    assert precision([]).typical is None
    narrow = precision([100, 100.5, 99.7, 100.2, 99.6, 100.4])
    assert narrow.is_decided and (narrow.low, narrow.high) == pytest.approx((99.6, 100.5))
    assert narrow.sentence.startswith("known to ±0.45 % after")
    wide = precision([98, 102, 98, 102, 98, 102], rounds=11)
    assert not wide.is_decided
    assert wide.sentence == "known to ±2 %, wanted ±1 %; too early to say how many more rounds it needs"
    # Half of the interval is 2.02 % of 99.98: 4.08 times as many rounds make it half as wide, 21.
    later = precision([98, 102] * 5, rounds=20)
    assert later.sentence == "known to ±2 %, wanted ±1 %; needs about 15 more rounds, more than allowed"
