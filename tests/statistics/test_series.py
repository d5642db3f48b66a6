"""Change points in series of 200 captures, made of blocks of neighbours of the fleet, so that they drift as it does."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from tests.sampling import thinned
from tests.statistics.fleet import Floats, fleet_of
from tests.statistics.rates_of_series import LENGTH, changes_of, creep_of, made_series, step_of

# Rates need many draws.
pytestmark = pytest.mark.long

SERIES = 150


def share_near(found: Sequence[Sequence[int]], planted: Sequence[Sequence[int]]) -> float:
    """The share of series in which all planted steps are found, each within two captures."""
    return float(
        np.mean(
            [
                all(any(abs(step - at) <= 2 for step in steps) for at in ats)
                for steps, ats in zip(found, planted, strict=True)
            ]
        )
    )


@pytest.mark.parametrize("of_total", [False, True], ids=["op", "total"])
@pytest.mark.parametrize("model", thinned(["mlp", "convnet"], ["mlp"]))
def test_steps_bumps_and_creep(model: str, of_total: bool) -> None:
    fleet = fleet_of(model)
    random = np.random.default_rng(10)
    large = fleet.large()
    ops = [None if of_total else large[number % len(large)] for number in range(SERIES)]

    def made(shapes: Sequence[Floats | None]) -> list[Floats]:
        return [made_series(fleet, op, shape, random) for op, shape in zip(ops, shapes, strict=True)]

    steps, creeps = changes_of(made([None] * SERIES))
    assert np.mean([bool(a) or b for a, b in zip(steps, creeps, strict=True)]) <= 0.02
    for size, at_least in ((0.1, 0.95), (0.05, 0.90)):
        ats = random.integers(15, LENGTH - 15, SERIES)
        found = changes_of(made([step_of(size, at) for at in ats]))[0]
        assert share_near(found, [(at,) for at in ats]) >= at_least
    ends = list(zip(random.integers(20, 80, SERIES), random.integers(110, 180, SERIES), strict=True))
    found = changes_of(made([step_of(0.1, first) + step_of(1 / 1.1 - 1, last) for first, last in ends]))[0]
    assert share_near(found, ends) >= 0.80
    # A tenth of the series is slower by 10 %; then the change ends.
    bumps = [(at, at + LENGTH // 10) for at in random.integers(15, LENGTH - 35, SERIES)]
    assert share_near(changes_of(made([step_of(0.1, *each) for each in bumps]))[0], bumps) >= 0.9
    steps, creeps = changes_of(made([creep_of(0.1)] * SERIES))
    assert np.mean(creeps) >= 0.9
    assert np.mean([bool(each) for each in steps]) <= 0.1


def test_steps_creep_and_staircases_are_distinguished() -> None:
    random = np.random.default_rng(5)
    noise = [random.normal(0, 0.01, LENGTH) for _ in range(40)]
    assert changes_of(noise) == ([[]] * 40, [False] * 40)
    stairs = step_of(0.1, 50) + step_of(0.1, 100) + step_of(0.1, 150)
    for shape, number, is_creep in ((step_of(0.2, 100), 1, False), (creep_of(0.8), 0, True), (stairs, 3, False)):
        steps, creeps = changes_of([each + shape for each in noise])
        assert ({len(each) for each in steps}, {*creeps}) == ({number}, {is_creep})


def test_odd_and_short_series_have_no_changes() -> None:
    noise = np.random.default_rng(1).normal(0, 0.01, LENGTH)
    spike = noise.copy()
    spike[100] += 3
    odd = [np.full(LENGTH, 3.0), noise, spike, np.round(noise, 2)]
    short = [np.linspace(0, 9, length) for length in (0, 1, 2, 9)]
    assert changes_of([*odd, *short])[0] == [[]] * 8
