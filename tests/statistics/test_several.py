"""Several captures a side, in turns and one side after the other, and one capture a side after its history."""

from __future__ import annotations

from collections.abc import Callable

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

# The models whose clock shows changes of 5 %; only one of them, unless all tests run.
MODELS = ("mlp", "convnet") if IS_WHOLE else ("mlp",)
DRAWS = 200
Verdicts = dict[str, Judged]
of_models = pytest.mark.parametrize("fleet", thinned(MODELS, ["mlp"]), indirect=True)


@pytest.fixture
def fleet(request: pytest.FixtureRequest) -> Fleet:
    return fleet_of(request.param)


def drawn(fleet: Fleet, size: int, plant: Callable[[int], Plant | None], draws: int = DRAWS) -> list[Verdicts]:
    """The verdicts of comparisons of `size` pairs of neighbours in time, each with its plant."""
    random, pairs = np.random.default_rng(20261120), fleet.neighbours()
    chosen = [np.sort(random.choice(len(pairs), size, replace=False)) for _ in range(draws)]
    made = []
    for number, places in enumerate(chosen):
        is_first_new = random.random(size) < 0.5
        captures = [
            (pairs[at][k], "new" if is_new == (k == 0) else "base")
            for at, is_new in zip(places, is_first_new, strict=True)
            for k in (0, 1)
        ]
        made.append(Draw(captures, plant(number)))
    return judged(fleet, made)


@pytest.mark.parametrize("fleet", thinned([*MODELS, "convnet_xnn"], ["mlp"]), indirect=True)
def test_nothing_planted(fleet: Fleet) -> None:
    found = drawn(fleet, 10, lambda _: None)
    assert np.mean([bool(blamed(each)) for each in found]) <= 0.05
    is_precise = fleet.resolutions.count(1) > len(fleet.items) / 2
    assert np.mean([each["total"].verdict != "~" for each in found]) <= 0.05 or not is_precise
    windows = range(len(fleet.totals) - 13)
    apart = [Draw([(start + at, "base" if at < 7 else "new") for at in range(14)]) for start in windows]
    assert np.mean([bool(blamed(each)) for each in judged(fleet, apart)]) <= 0.05 or not is_precise


# With 5, ops have 60 % of the error that all tests of a comparison share: with all of it, 88 % would be found.
@pytest.mark.parametrize(("size", "found_at_least"), thinned([(10, 0.90), (5, 0.80)], [10]))
@of_models
def test_one_op_slower_by_5_percent(fleet: Fleet, size: int, found_at_least: float) -> None:
    large = fleet.large()
    planted = [fleet.items[large[number % len(large)]] for number in range(DRAWS)]
    found = drawn(fleet, size, lambda number: slower_op(large[number % len(large)], 1.05))
    assert np.mean([each[op].verdict == "slower" for each, op in zip(found, planted, strict=True)]) >= found_at_least
    assert np.mean([bool(blamed(each) - {op}) for each, op in zip(found, planted, strict=True)]) <= 0.05


@of_models
def test_all_slower_by_5_percent_is_common_shift(fleet: Fleet) -> None:
    plain = drawn(fleet, 10, lambda _: None, 100)
    planted = drawn(fleet, 10, lambda _: slower_in_all(1.05), 100)
    assert np.mean([each["total"].verdict == "slower" for each in planted]) >= 0.90
    # What all ops have in common can be the machine's state, which slows some ops more than others: in few draws, what is
    # removed of it changes an op's verdict.
    pairs = list(zip(plain, planted, strict=True))
    assert sum(bool(blamed(after) - blamed(before)) for before, after in pairs) <= 0.05 * len(pairs)
    assert sum(bool(blamed(before) - blamed(after)) for before, after in pairs) <= 1
    # Factors are medians over the captures of both sides, so they don't shift by exactly the change of one side.
    shifts = np.array([after["common shift"].change - before["common shift"].change for before, after in pairs])
    assert shifts.mean() == pytest.approx(0.05, abs=0.003)
    assert np.abs(shifts - 0.05).max() <= 0.01


@of_models
def test_slow_runs_are_found_at_the_90th_percentile(fleet: Fleet) -> None:
    large = fleet.large()
    found = drawn(fleet, 10, lambda number: slow_runs(large[number % len(large)], 1.5, 0.3, number))
    names = [f"slow {fleet.items[large[number % len(large)]]}" for number in range(DRAWS)]
    assert np.mean([name in each for each, name in zip(found, names, strict=True)]) >= 0.85


def singles(fleet: Fleet) -> list[list[tuple[int, str]]]:
    """Each ordered pair of captures, with all others as history."""
    count = len(fleet.totals)
    return [
        [(at, "base" if at == base else "new" if at == new else "history") for at in range(count)]
        for base in range(count)
        for new in range(count)
        if base != new
    ]


@pytest.mark.parametrize("fleet", thinned(["mlp", "convnet", "convnet_xnn"], ["convnet"]), indirect=True)
def test_one_capture_a_side_with_nothing_planted(fleet: Fleet) -> None:
    found = judged(fleet, [Draw(each) for each in singles(fleet)])
    assert np.mean([bool(blamed(each)) for each in found]) <= 0.08


@of_models
def test_one_capture_a_side_with_one_op_slower_by_20_percent(fleet: Fleet) -> None:
    large = fleet.large()
    planted = [(each, large[number % len(large)]) for number, each in enumerate(singles(fleet))]
    found = judged(fleet, [Draw(each, slower_op(at, 1.2)) for each, at in planted])
    slower = [each[fleet.items[at]].verdict == "slower" for each, (_, at) in zip(found, planted, strict=True)]
    assert np.mean(slower) >= 0.90


@of_models
def test_never_a_verdict_without_a_history(fleet: Fleet) -> None:
    for factor in (1.0, 3.0):
        plant = slower_op(fleet.large()[0], factor)
        ends = [(base, new) for base in range(0, 20, 3) for new in range(1, 20, 3)]
        found = judged(fleet, [Draw([(base, "base"), (new, "new")], plant) for base, new in ends])
        words = {each.verdict for verdicts in found for each in verdicts.values()} - {None}
        assert "too few" in words <= {"too few", "can't judge"}
