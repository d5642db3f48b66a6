"""One capture a side, judged by the others of the fleet: all pairs of its captures, not a sample of them."""

from __future__ import annotations

import numpy as np
import pytest

from tests.sampling import thinned
from tests.statistics.fleet import Draw, Fleet, blamed, fleet_of, judged, slower_op

# Rates need many draws.
pytestmark = pytest.mark.long

MODELS = ("mlp", "convnet")


def pairs(fleet: Fleet) -> list[list[tuple[int, str]]]:
    """Each ordered pair of captures, with all others as history."""
    count = len(fleet.totals)
    return [
        [(at, "base" if at == base else "new" if at == new else "history") for at in range(count)]
        for base in range(count)
        for new in range(count)
        if base != new
    ]


@pytest.mark.long
@pytest.mark.parametrize("model", [*MODELS, "convnet_xnn"])
def test_nothing_planted(model: str) -> None:
    fleet = fleet_of(model)
    found = judged(fleet, [Draw(each) for each in pairs(fleet)])
    of_captures = [[bool(blamed(verdicts)) for verdicts in found[at * 19 : at * 19 + 19]] for at in range(20)]
    value = float(np.mean(of_captures))
    random = np.random.default_rng(3)
    again = [np.mean([of_captures[at] for at in random.integers(0, 20, 20)]) for _ in range(1000)]
    print(f"{model}, 1 v 1, history 18, any op blamed: {100 * value:.1f} % (error {100 * float(np.std(again)):.1f})")
    assert value <= 0.08


@pytest.mark.long
@pytest.mark.parametrize("model", MODELS)
def test_one_op_slower_by_20_percent(model: str) -> None:
    fleet = fleet_of(model)
    large = fleet.large()
    sides = pairs(fleet)
    planted = [large[number % len(large)] for number in range(len(sides))]
    draws = [Draw(each, slower_op(at, 1.2)) for each, at in zip(sides, planted, strict=True)]
    found = [
        verdicts[fleet.items[at]][0] == "slower" for verdicts, at in zip(judged(fleet, draws), planted, strict=True)
    ]
    random = np.random.default_rng(3)
    of_captures = [found[at * 19 : at * 19 + 19] for at in range(20)]
    again = [np.mean([of_captures[at] for at in random.integers(0, 20, 20)]) for _ in range(1000)]
    value = float(np.mean(found))
    print(f"{model}, 1 v 1, history 18, 20 % found: {100 * value:.1f} % (error {100 * float(np.std(again)):.1f})")
    assert value >= 0.90


@pytest.mark.parametrize("model", thinned(MODELS, ["mlp"]))
def test_never_a_verdict_without_a_history(model: str) -> None:
    fleet = fleet_of(model)
    for factor in (1.0, 3.0):
        draws = [
            Draw([(base, "base"), (new, "new")], slower_op(fleet.large()[0], factor))
            for base in range(0, 20, 3)
            for new in range(1, 20, 3)
        ]
        words = {verdict for verdicts in judged(fleet, draws) for verdict, *_ in verdicts.values()}
        assert words - {None} <= {"too few", "can't judge"}
        assert "too few" in words
