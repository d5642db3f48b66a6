"""When a benchmark has measured enough: by hand, and by enumeration in plain Python."""

from __future__ import annotations

import math
from itertools import combinations_with_replacement, product
from statistics import median

import numpy as np
import pytest
from scipy import stats

from etq.verdicts.sequential import Judged, Standing, alpha_of, looks, precision, standing, widened


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


@pytest.mark.parametrize(("captures", "alpha"), [(8, 0.001), (12, 0.015), (40, 0.005)])
def test_an_interval_is_widened_as_a_t_tests(captures: int, alpha: float) -> None:
    middle, half = math.log(1.01), 0.02
    row = Judged("total", "", "~", 0.01, math.expm1(middle - half), math.expm1(middle + half), None, captures)
    wide = half * stats.t.isf(alpha / 2, captures - 2) / stats.t.isf(0.025, captures - 2)
    assert np.log1p(widened(row, alpha)) == pytest.approx([middle - wide, middle + wide], rel=0.02)
    assert widened(row, 0.05) == pytest.approx((row.low, row.high))
    assert widened(Judged("op", "", "too few", 0.01, None, None), alpha) == (-1, 1)


def total(verdict: str, change: float, half: float) -> Judged:
    """A total at the look after 2 rounds; `half` of the interval is of logarithms."""
    low, high = (math.expm1(math.log1p(change) + end) for end in (-half, half))
    return Judged("total", "total", verdict, change, low, high, None, 8)


def stands(verdicts: list[Judged], rounds: int, min_effect: float | None = None) -> Standing:
    """How a benchmark of at most so many rounds stands after 2."""
    level = alpha_of(2, 0.05, rounds)
    assert level is not None
    return standing(verdicts, 2, rounds, level=level, min_effect=min_effect)


def test_about_the_same_must_be_so_with_the_looks_part() -> None:
    """The quantiles of t with 6 degrees of freedom are 2.447 at 5 % and 6.788 at 0.05 %: 2.77 times as wide.

    0.7 % become 1.9 %, and 0.75 % become 2.1 %, more than the 2 % that count.
    """
    assert stands([total("~", 0, 0.007)], 20).is_decided
    assert not stands([total("~", 0, 0.0075)], 20).is_decided
    assert stands([total("~", 0, 0.0075)], 20, min_effect=0.03).is_decided
    # As the only look, it takes 5 %.
    assert stands([total("~", 0, 0.019)], 2).is_decided


def test_of_a_change_of_the_total_only_ops_that_may_explain_a_quarter_are_waited_for() -> None:
    """An op of a tenth with 1 % to 3 % (0.05 %: to 6.6 %) may explain 0.66 % of the total: a quarter of 2.64 %."""
    op = Judged("op", "conv @3", "not decided", 0.01, -0.0096, 0.03, 0.1, 8)
    assert stands([total("slower", 0.0275, 0.01), op], 20).is_decided
    assert not stands([total("slower", 0.0255, 0.01), op], 20).is_decided
    # Without an interval, it may have doubled.
    unknown = Judged("op", "conv @3", "too few", None, None, None, 0.2, 6)
    assert stands([total("slower", 0.81, 0.1), unknown], 20).is_decided
    assert not stands([total("slower", 0.79, 0.1), unknown], 20).is_decided


def errors(half: float, look: int) -> float:
    """The standard error at a later look, of an interval after 2 rounds."""
    return half / float(stats.t.isf(0.025, 6)) * math.sqrt(2 / look)


def within(look: int, level: float, half: float) -> bool:
    """Whether a tenth of intervals at a look is beyond 2 %, or less, if there is no difference."""
    limit = stats.t.isf(level / 2, 4 * look - 2) + stats.norm.isf(0.1)
    return bool(limit * errors(half, look) <= math.log(1.02))


def test_rounds_that_show_that_there_is_no_difference() -> None:
    """After 5 rounds (18 degrees of freedom, 0.2 %) the interval is 3.61 errors wide on each side, after 7 (26) 3.27.

    Of 3 rounds, the last look has 2.8 %, which is 2.57 errors; as the last of 5, it would have 3.2 %, 2.32 errors.
    """
    half = 0.0195
    assert [within(5, 0.002, half), within(7, 0.003, half)] == [False, True]
    found = stands([total("not decided", 0, half)], 20)
    assert (found.is_decided, found.rounds_needed) == (False, 5)
    assert found.sentence == "not decided after 2 rounds: total; needs about 5 more rounds"
    assert [within(3, 0.05 * 5 / 9, half), within(5, 0.05 * 16 / 25, half)] == [False, True]
    sentence = stands([total("not decided", 0, half)], 3).sentence
    assert sentence == "not decided after 2 rounds: total; needs about 3 more rounds, more than allowed"


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
    assert (few.is_decided, few.rounds_needed, few.low) == (False, 1, None)
    assert few.sentence == "2 rounds measured; an interval needs 3"
    assert precision([]).typical is None
    narrow = precision([100, 100.5, 99.7, 100.2, 99.6, 100.4])
    assert narrow.is_decided and (narrow.low, narrow.high) == pytest.approx((99.6, 100.5))
    assert narrow.sentence.startswith("known to ±0.45 % after")
    # Half of the interval is 2.02 % of 99.98: 4.08 times as many rounds make it half as wide, 13.
    wide = precision([98, 102, 98, 102, 98, 102], rounds=11)
    assert (wide.is_decided, wide.rounds_needed) == (False, 10)
    assert wide.sentence == "known to ±2 %, wanted ±1 %; too early to say how many more rounds it needs"
