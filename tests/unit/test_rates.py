"""Limits in a minute, against counting what was allowed in any minute."""

from __future__ import annotations

import random

import pytest

from etq.serve.rates import MOST, Rates


def test_a_minute_at_once_and_then_at_the_rate() -> None:
    now = 1000.0
    rates = Rates(6, lambda: now)
    assert [rates.wait("ada") for _ in range(7)] == [0] * 6 + [10]
    assert rates.wait("bob") == 0
    now += 9
    assert rates.wait("ada") == pytest.approx(1)
    now += 1
    assert [rates.wait("ada"), rates.wait("ada")] == [0, 10]
    now += 3600
    assert [rates.wait("ada") for _ in range(7)] == [0] * 6 + [10]


@pytest.mark.parametrize("seed", range(5))
def test_as_a_bucket_that_is_filled_each_time(seed: int) -> None:
    """A bucket of 20 that fills at 20 a minute gives the same answers as the time that is kept."""
    draw = random.Random(seed)
    now = left_at = 0.0
    left = 20.0
    rates = Rates(20, lambda: now)
    for _ in range(2000):
        now += draw.choice([0, 0, 0.125, 1, 5, 40])
        left, left_at = min(20.0, left + (now - left_at) / 3), now
        is_allowed = left >= 1 - 1e-9
        assert (rates.wait("ada") == 0) == is_allowed
        left -= is_allowed


def test_names_are_forgotten() -> None:
    rates = Rates(1, lambda: 0.0)
    for number in range(MOST + 1):
        assert rates.wait(str(number)) == 0
    assert rates.wait("1") == 60 and rates.wait("0") == 0
