"""Change points in series of 200 captures, made of blocks of neighbours of the fleet, so that they drift as it does."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from tests.sampling import IS_WHOLE, thinned
from tests.statistics.fleet import QUANTILE, Fleet, Floats, fleet_of
from tests.statistics.rates_of_series import changes_of

# Rates need many draws.
pytestmark = pytest.mark.long

MODELS = ("mlp", "convnet")
LENGTH = 200
SERIES = 300
Random = np.random.Generator
Steps = Sequence[tuple[int, float]]


def series(fleet: Fleet, block: int, op: int | None, steps: Steps, random: Random) -> Floats:
    """Logarithms of an op without the common shift, or of the total, with steps planted at given places."""
    starts = random.integers(0, len(fleet.totals) - block + 1, LENGTH // block + 1)
    captures = np.concatenate([np.arange(start, start + block) for start in starts])[:LENGTH]
    if op is None:
        values = np.log(np.quantile(fleet.totals, QUANTILE, axis=1))[captures]
    else:
        ops = np.log(np.quantile(fleet.ops, QUANTILE, axis=2))[captures]
        values = ops[:, op] - np.median(ops - np.median(ops, axis=0), axis=1)
    for place, step in steps:
        values[place:] += np.log1p(step)
    return np.asarray(values)


def found(made: Sequence[Floats]) -> list[list[int]]:
    """The places of the steps found in each series."""
    return changes_of(made)[0]


def are_found(places: Sequence[int], steps: Steps) -> bool:
    return all(any(abs(place - at) <= 2 for place in places) for at, _ in steps)


def share_of(name: str, held: Sequence[bool]) -> float:
    value = float(np.mean(held))
    print(f"{name}: {100 * value:.1f} % (error {100 * np.sqrt(value * (1 - value) / len(held)):.1f})")
    return value


@pytest.mark.parametrize("block", [5, 10] if IS_WHOLE else [10])
@pytest.mark.parametrize(
    "of_total", [False, True] if IS_WHOLE else [True], ids=["op", "total"] if IS_WHOLE else ["total"]
)
@pytest.mark.parametrize("model", thinned(MODELS, ["mlp"]))
def test_change_points(model: str, of_total: bool, block: int) -> None:
    fleet = fleet_of(model)
    random = np.random.default_rng(block)
    large = fleet.large()
    name = f"{model}, {'total' if of_total else 'op'}, blocks of {block}"

    def made(all_steps: Sequence[Steps]) -> list[Floats]:
        ops = [None if of_total else large[number % len(large)] for number in range(len(all_steps))]
        return [series(fleet, block, op, steps, random) for op, steps in zip(ops, all_steps, strict=True)]

    unchanged: list[Steps] = [() for _ in range(SERIES)]
    assert share_of(f"{name}, unchanged, flagged", [bool(each) for each in found(made(unchanged))]) <= 0.05
    for step, at_least in ((0.1, 0.95), (0.05, 0.90)):
        planted = [[(int(random.integers(15, LENGTH - 15)), step)] for _ in range(SERIES)]
        places = found(made(planted))
        held = [are_found(each, steps) for each, steps in zip(places, planted, strict=True)]
        assert share_of(f"{name}, {100 * step:.0f} % found within 2", held) >= at_least
    opposite = [
        [(int(random.integers(20, 80)), 0.1), (int(random.integers(110, 180)), 1 / 1.1 - 1)] for _ in range(SERIES)
    ]
    places = found(made(opposite))
    held = [are_found(each, steps) for each, steps in zip(places, opposite, strict=True)]
    assert share_of(f"{name}, two opposite changes, both found within 2", held) >= 0.80


def test_odd_series_have_no_changes() -> None:
    random = np.random.default_rng(1)
    noise = random.normal(0, 0.01, LENGTH)
    spike = noise.copy()
    spike[100] += 3
    tied = np.round(noise, 2)
    assert found([np.full(LENGTH, 3.0), noise, spike, tied]) == [[], [], [], []]


def test_series_too_short_for_a_verdict() -> None:
    assert found([np.linspace(0, 9, length) for length in (0, 1, 2, 9)]) == [[]] * 4
