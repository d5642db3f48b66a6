"""Captures that are left out as disturbed: no verdict depends on them."""

from __future__ import annotations

import numpy as np
import pytest

from tests.statistics.fleet import Draw, Fleet, Floats, fleet_of, judged, slower_in_all

# Rates need many draws.
pytestmark = pytest.mark.long


def with_states(states: Floats) -> Fleet:
    """The fleet of the mlp, each of its captures slower as a whole by a state of the machine."""
    fleet = fleet_of("mlp")
    factors = np.exp(states)
    return Fleet(fleet.items, fleet.ops * factors[:, None, None], fleet.totals * factors[:, None], fleet.resolutions)


def test_what_a_disturbed_capture_contradicts_is_not_decided() -> None:
    """Five against five: four of new take 25 % more, the fifth as much less, and is left out."""
    states = np.zeros(20)
    states[[1, 2, 5, 6]] = np.log(1.25)
    states[9] = np.log(0.75)
    captures = [(at, ("base", "new", "new", "base")[at % 4]) for at in range(9)] + [(9, "new")]
    [verdicts] = judged(with_states(states), [Draw(captures)])
    total = verdicts["total"]
    assert total.verdict == "not decided"
    assert total.low is not None and total.low > 0.2
    assert total.note is not None and total.note.startswith(
        "it depends on 1 disturbed capture that is left out: with it"
    )
    # Without that capture the other four decide.
    [without] = judged(with_states(states), [Draw(captures[:9])])
    assert without["total"].verdict == "slower"


def test_a_disturbed_capture_that_agrees_changes_nothing() -> None:
    states = np.zeros(20)
    states[[1, 2, 5, 6]] = np.log(1.25)
    states[9] = np.log(2)
    captures = [(at, ("base", "new", "new", "base")[at % 4]) for at in range(9)] + [(9, "new")]
    [verdicts] = judged(with_states(states), [Draw(captures)])
    assert verdicts["total"].verdict == "slower"


def test_no_difference_needs_an_interval_within_what_counts() -> None:
    """Equal programs: on a quiet machine there is no difference, on one that varies by 10 % it is not decided."""
    random = np.random.default_rng(6)
    captures = [(at, ("base", "new", "new", "base")[at % 4]) for at in range(20)]
    noise = np.tile([1, 1, -1, -1], 5) * (0.1 + 0.01 * random.random(20))
    [quiet], [busy] = (judged(with_states(each), [Draw(captures)]) for each in (np.zeros(20), noise))
    assert quiet["total"].verdict == "~"
    assert quiet["total"].low is not None and quiet["total"].high is not None
    assert quiet["total"].low >= -0.02 and quiet["total"].high <= 0.02
    assert busy["total"].verdict == "not decided"


def test_three_captures_per_side_do_not_decide_on_no_difference() -> None:
    """There is no interval."""
    captures = [(at, ("base", "new", "new", "base")[at % 4]) for at in range(6)]
    [verdicts] = judged(fleet_of("mlp"), [Draw(captures)])
    assert verdicts["total"].verdict == "not decided" and verdicts["total"].low is None
    assert verdicts["total"].note == "too few captures for an interval: take at least 5 per side, better 10"


def test_one_capture_is_judged_by_disturbed_ones_of_the_history() -> None:
    """If every sixth capture takes 1.5 times as long, one that does so is not the build's."""
    states = np.zeros(20)
    states[[3, 9, 15]] = np.log(1.5)
    captures = [(at, "history") for at in range(18)] + [(18, "base"), (19, "new")]
    draw = Draw(captures, slower_in_all(1.5))
    [quiet], [busy] = (judged(with_states(each), [draw]) for each in (np.zeros(20), states))
    assert quiet["total"].verdict == "unstable"
    assert busy["total"].verdict != "unstable"
