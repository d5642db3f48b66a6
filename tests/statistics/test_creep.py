"""Series that change for a while, or slowly: bumps and creep are found, and nothing in series that don't change."""

from __future__ import annotations

import numpy as np
import pytest

from tests.sampling import thinned
from tests.statistics.fleet import fleet_of
from tests.statistics.rates_of_series import LENGTH, changes_of, creep_of, made_series, step_of

# Rates need many draws.
pytestmark = pytest.mark.long

SERIES = 40


@pytest.mark.long
@pytest.mark.parametrize("of_total", [False, True], ids=["op", "total"])
@pytest.mark.parametrize("model", thinned(["mlp", "convnet"], ["mlp"]))
def test_bumps_and_creep(model: str, of_total: bool) -> None:
    fleet = fleet_of(model)
    random = np.random.default_rng(4)
    large = fleet.large()
    ops = [None if of_total else large[number % len(large)] for number in range(SERIES)]
    steps, creeps = changes_of([made_series(fleet, op, None, random) for op in ops])
    assert np.mean([bool(a) or b for a, b in zip(steps, creeps, strict=True)]) <= 0.02
    # A tenth of the series is slower by 10 %; then the change ends.
    ats = random.integers(15, LENGTH - 35, SERIES)
    bumps = [
        made_series(fleet, op, step_of(0.1, at, at + LENGTH // 10), random) for op, at in zip(ops, ats, strict=True)
    ]
    found = changes_of(bumps)[0]
    held = [
        any(abs(step - at) <= 2 for step in each) and any(abs(step - at - LENGTH // 10) <= 2 for step in each)
        for each, at in zip(found, ats, strict=True)
    ]
    assert np.mean(held) >= 0.9
    creeping = [made_series(fleet, op, creep_of(0.1), random) for op in ops]
    steps, creeps = changes_of(creeping)
    assert np.mean(creeps) >= 0.9
    assert np.mean([bool(each) for each in steps]) <= 0.1


@pytest.mark.long
def test_a_step_is_not_creep() -> None:
    random = np.random.default_rng(5)
    noise = [random.normal(0, 0.01, LENGTH) for _ in range(SERIES)]
    assert changes_of(noise) == ([[]] * SERIES, [False] * SERIES)
    steps, creeps = changes_of([each + step_of(0.2, 100) for each in noise])
    assert not any(creeps) and all(len(each) == 1 for each in steps)


@pytest.mark.long
def test_creep_and_staircases_are_distinguished() -> None:
    random = np.random.default_rng(6)
    noise = [random.normal(0, 0.01, LENGTH) for _ in range(SERIES)]
    steps, creeps = changes_of([each + creep_of(0.8) for each in noise])
    assert all(creeps) and not any(steps)
    stairs = sum(step_of(0.1, at) for at in (50, 100, 150))
    steps, creeps = changes_of([each + stairs for each in noise])
    assert not any(creeps) and all(len(each) == 3 for each in steps)
