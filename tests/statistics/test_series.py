"""Change points in series of 200 captures, made of blocks of neighbours of the fleet, so that they drift as it does."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from etq.verdicts.changes import Least
from etq.verdicts.changes import changes_of as of_series
from tests.sampling import thinned
from tests.statistics.fleet import Floats, fleet_of
from tests.statistics.rates_of_series import LENGTH, changes_of, creep_of, made_series, step_of
from tests.statistics.worlds_of_series import rate_of

SERIES = 150
# What rates of worlds are to reach, in percent of 200 draws, or builds: of 200, a rate of 2 % is up to 4.
WANTED = {
    "two steps of 5 %, 12 builds apart": (95, 100),
    "a disturbed week, queried after each build: kept": (0, 5),
    "a step of 10 % under a load of period 7": (95, 100),
    "a step of 5 % under a load of period 7": (90, 100),
    "unchanged: white, 1 %": (0, 1),
    "unchanged: white, 2 %": (0, 1),
    "unchanged: slow, 1 %": (0, 2),
    "unchanged: slow, 2 %": (0, 3),
    "unchanged: bimodal, 1 %": (0, 2),
    "unchanged: outliers, 1 %": (0, 2),
    "unchanged: two lasting states, 1 %": (0, 25),
    "3 captures a build with 3 % noise, a step of 8 %: the right build is found": (88, 100),
    "the same: a change inside a build is found": (0, 0),
    "5 % more from build 20, back at 40: both are found": (98, 100),
    "the same: reported as reverted": (98, 100),
    "totals of fleets, unchanged": (0, 1),
    "totals of fleets, a step of 5 %": (60, 100),
    "ops of fleets, unchanged": (0, 1),
    "ops of fleets, a step of 5 %": (75, 100),
}
LATENCIES = {4: 8, 5: 7, 10: 6, 20: 5}
GROWTH = {"0.2": 16, "0.5": 10, "1.0": 8}


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


@pytest.mark.long
@pytest.mark.parametrize("what", WANTED)
def test_rates_of_worlds(what: str) -> None:
    low, high = WANTED[what]
    assert low <= float(rate_of(what, 200)) <= high


@pytest.mark.long
def test_how_soon_changes_are_told() -> None:
    for size, builds in LATENCIES.items():
        seen, kept = rate_of(f"builds until a step of {size} % is seen; kept", 40).split("; ")
        assert (int(seen), int(kept) <= builds) == (3, True)
    for slope, builds in GROWTH.items():
        told, steps = rate_of(f"growth of {slope} % a build: builds until it is reported; a step is kept", 40).split(
            "; "
        )
        assert (int(told) <= builds, steps) == (True, "0")


def test_what_is_clear_is_told_in_few_draws() -> None:
    for what in (
        "two steps of 5 %, 12 builds apart",
        "a step of 10 % under a load of period 7",
        "the same: reported as reverted",
    ):
        assert float(rate_of(what, 12)) >= 90
    for what in (
        "unchanged: white, 2 %",
        "unchanged: slow, 1 %",
        "unchanged: bimodal, 1 %",
        "the same: a change inside a build is found",
    ):
        assert float(rate_of(what, 12)) <= 9


@pytest.mark.long
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


@pytest.mark.long
def test_steps_creep_and_staircases_are_distinguished() -> None:
    random = np.random.default_rng(5)
    noise = [random.normal(0, 0.01, LENGTH) for _ in range(40)]
    assert changes_of(noise) == ([[]] * 40, [False] * 40)
    stairs = step_of(0.1, 50) + step_of(0.1, 100) + step_of(0.1, 150)
    for shape, number, is_creep in ((step_of(0.2, 100), 1, False), (creep_of(0.8), 0, True), (stairs, 3, False)):
        steps, creeps = changes_of([each + shape for each in noise])
        assert ({len(each) for each in steps}, {*creeps}) == ({number}, {is_creep})


def test_the_interval_of_growth_covers_it_whether_it_is_steady_or_in_steps() -> None:
    random, grown = np.random.default_rng(3), math.log(1.01)
    shapes = {
        "steady": np.linspace(0, 0.1, 100),
        "five steps": grown * (np.arange(40) // 8),
        "ten steps": grown * (np.arange(100) // 10),
    }
    for name, shape in shapes.items():
        for sd in (0.002, 0.005):
            series = [shape + random.normal(0, sd, len(shape)) for _ in range(60)]
            found = [changes for changes, _ in of_series(series, [Least(math.log(1.03))] * 60)]
            creeps = [changes[0] for changes in found if len(changes) == 1 and changes[0].is_creep]
            assert len(creeps) >= 50, name
            covered = np.mean([each.low <= shape[-1] <= each.high for each in creeps])
            assert covered >= 0.9, (name, sd, covered)


def test_odd_and_short_series_have_no_changes() -> None:
    noise = np.random.default_rng(1).normal(0, 0.01, LENGTH)
    spike = noise.copy()
    spike[100] += 3
    odd = [np.full(LENGTH, 3.0), noise, spike, np.round(noise, 2)]
    short = [np.linspace(0, 9, length) for length in (0, 1, 2, 9)]
    assert changes_of([*odd, *short])[0] == [[]] * 8
