"""Several captures a side: interleaved, and one side after the other. What must hold is asserted of 500 draws a model;
what is printed beside it (`-rP`) is the error, from drawing the pairs of captures themselves again and again."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from tests.sampling import IS_WHOLE, thinned
from tests.statistics.fleet import (
    Draw,
    Fleet,
    Judged,
    Plant,
    blamed,
    fleet_of,
    judged,
    slow_runs,
    slower_in_all,
    slower_op,
)

# Rates need many draws.
pytestmark = pytest.mark.long

# The models whose clock shows changes of 5 %; one of them, unless all are asked for.
MODELS = ("mlp", "convnet") if IS_WHOLE else ("mlp",)
DRAWS = 500
Random = np.random.Generator
Verdicts = dict[str, Judged]


def interleaved(pairs: Sequence[tuple[int, int]], random: Random) -> list[tuple[int, str]]:
    """Of each pair of neighbours one on each side, at random."""
    swapped = random.random(len(pairs)) < 0.5
    return [
        (capture, side)
        for (first, second), is_swapped in zip(pairs, swapped, strict=True)
        for capture, side in ((first, "new" if is_swapped else "base"), (second, "base" if is_swapped else "new"))
    ]


def rate(
    name: str,
    fleet: Fleet,
    size: int,
    plant: Callable[[int], Plant | None],
    holds: Callable[[int, Verdicts], bool],
    quantile: float = 0.25,
) -> float:
    """The share of draws that something holds of; prints it with its error, by bootstrap over pairs of captures."""
    random = np.random.default_rng(20261120)

    def share(pairs: Sequence[tuple[int, int]], draws: int) -> float:
        chosen = [[pairs[at] for at in sorted(random.choice(len(pairs), size, replace=False))] for _ in range(draws)]
        made = [Draw(interleaved(each, random), plant(number)) for number, each in enumerate(chosen)]
        found = judged(fleet, made, quantile)
        return float(np.mean([holds(number, verdicts) for number, verdicts in enumerate(found)]))

    pairs = fleet.neighbours()
    value = share(pairs, DRAWS)
    again = [share([pairs[at] for at in random.integers(0, len(pairs), len(pairs))], 20) for _ in range(10)]
    print(f"{name}: {100 * value:.1f} % (error {100 * float(np.std(again)):.1f})")
    return value


def nothing(number: int) -> None:
    return None


@pytest.mark.long
@pytest.mark.parametrize("model", thinned([*MODELS, "convnet_xnn"], ["mlp"]))
def test_nothing_planted_interleaved(model: str) -> None:
    fleet = fleet_of(model)
    false_alarms = rate(f"{model}, 10 v 10, any op blamed", fleet, 10, nothing, lambda _, v: bool(blamed(v)))
    of_total = rate(f"{model}, 10 v 10, total blamed", fleet, 10, nothing, lambda _, v: v["total"][0] != "~")
    assert false_alarms <= 0.05
    assert of_total <= 0.05 or model not in MODELS


@pytest.mark.parametrize("model", thinned(MODELS, ["mlp"]))
def test_nothing_planted_one_side_after_the_other(model: str) -> None:
    fleet = fleet_of(model)
    draws = [
        Draw([(start + at, "base" if at < 7 else "new") for at in range(14)]) for start in range(len(fleet.totals) - 13)
    ]
    found = judged(fleet, draws)
    false_alarms = float(np.mean([bool(blamed(verdicts)) for verdicts in found]))
    print(f"{model}, 7 v 7 one after the other, any op blamed: {100 * false_alarms:.1f} % of {len(draws)} windows")
    assert false_alarms <= 0.05


@pytest.mark.parametrize(("size", "found_at_least"), thinned([(10, 0.90), (5, 0.85)], [10]))
@pytest.mark.parametrize("model", thinned(MODELS, ["mlp"]))
def test_one_op_slower_by_5_percent(model: str, size: int, found_at_least: float) -> None:
    fleet = fleet_of(model)
    large = fleet.large()

    def planted(number: int) -> int:
        return large[number % len(large)]

    def is_found(number: int, verdicts: Verdicts) -> bool:
        return verdicts[fleet.items[planted(number)]][0] == "slower"

    def blames_others(number: int, verdicts: Verdicts) -> bool:
        return bool(blamed(verdicts) - {fleet.items[planted(number)]})

    def plant(number: int) -> Plant:
        return slower_op(planted(number), 1.05)

    assert rate(f"{model}, {size} v {size}, 5 % found", fleet, size, plant, is_found) >= found_at_least
    assert rate(f"{model}, {size} v {size}, others blamed", fleet, size, plant, blames_others) <= 0.05


@pytest.mark.parametrize("model", thinned(MODELS, ["mlp"]))
def test_all_slower_by_5_percent_is_common_mode(model: str) -> None:
    fleet = fleet_of(model)
    random = np.random.default_rng(5)
    sides = [interleaved(fleet.neighbours(), random) for _ in range(100)]
    plain = judged(fleet, [Draw(each) for each in sides])
    planted = judged(fleet, [Draw(each, slower_in_all(1.05)) for each in sides])
    assert [blamed(before) for before in plain] == [blamed(after) for after in planted]
    # Factors are medians over the captures of both sides, which don't shift by exactly what one side does.
    told = np.array(
        [after["common shift"][1] - before["common shift"][1] for before, after in zip(plain, planted, strict=True)]
    )
    print(
        f"{model}, 5 % on everything: told {100 * told.mean():.2f} % (from {100 * told.min():.2f} to {100 * told.max():.2f})"
    )
    assert told.mean() == pytest.approx(0.05, abs=0.003)
    assert np.abs(told - 0.05).max() <= 0.01


@pytest.mark.long
@pytest.mark.parametrize("model", thinned(MODELS, ["mlp"]))
def test_the_total_slower_by_5_percent(model: str) -> None:
    fleet = fleet_of(model)
    found = rate(
        f"{model}, 10 v 10, total 5 % found",
        fleet,
        10,
        lambda _: slower_in_all(1.05),
        lambda _, v: v["total"][0] == "slower",
    )
    assert found >= 0.90


@pytest.mark.long
@pytest.mark.parametrize("model", thinned(MODELS, ["mlp"]))
def test_slow_runs_are_found_at_the_90th_percentile(model: str) -> None:
    fleet = fleet_of(model)
    large = fleet.large()

    def plant(number: int) -> Plant:
        return slow_runs(large[number % len(large)], 1.5, 0.3, number)

    def is_found(number: int, verdicts: Verdicts) -> bool:
        return verdicts[fleet.items[large[number % len(large)]]][0] == "slower"

    assert rate(f"{model}, 10 v 10, slow runs found", fleet, 10, plant, is_found, 0.9) >= 0.85
