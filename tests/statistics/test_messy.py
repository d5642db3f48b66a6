"""Messy designs: many ops slower at once, captures left out, clocks that are too coarse, common shifts."""

from __future__ import annotations

import numpy as np
import pytest

from tests.sampling import thinned
from tests.statistics.fleet import Draw, Fleet, Floats, blamed, fleet_of, judged, slower_in_all, slower_op
from tests.statistics.rates import found_and_others, halves, in_turn, some_of_new

# Rates need many draws.
pytestmark = pytest.mark.long

DRAWS = 60
# Two captures after their history.
SINGLE = [*((at, "history") for at in range(18)), (18, "base"), (19, "new")]


def in_turns(count: int) -> list[tuple[int, str]]:
    return [(at, ("base", "new", "new", "base")[at % 4]) for at in range(count)]


def with_states(states: Floats, fleet: Fleet | None = None) -> Fleet:
    """A fleet, by default of the mlp, each of its captures slower as a whole by a state of the machine."""
    fleet = fleet or fleet_of("mlp")
    factors = np.exp(states)
    return Fleet(fleet.items, fleet.ops * factors[:, None, None], fleet.totals * factors[:, None], fleet.resolutions)


@pytest.mark.parametrize("factor", thinned([1.05, 1.1], [1.1]))
@pytest.mark.parametrize("model", thinned(["mlp", "convnet"], ["mlp"]))
def test_half_of_the_ops_are_slower(model: str, factor: float) -> None:
    """The ops of the other half aren't called faster."""
    fleet = fleet_of(model)
    random = np.random.default_rng(1)
    draws = [in_turn(fleet, 10, random) for _ in range(DRAWS)]
    planted = [halves(fleet)[number % 2] for number in range(DRAWS)]
    found, others, covered = found_and_others(fleet, draws, planted, factor)
    assert found >= 98 and others <= 3 and covered >= 90


@pytest.mark.parametrize("model", thinned(["mlp", "convnet", "convnet_xnn"], ["mlp"]))
def test_disturbed_captures_hide_nothing(model: str) -> None:
    """Four of ten captures of new take 1.5 times as long: they are left out, but the total isn't called unchanged."""
    fleet = fleet_of(model)
    random = np.random.default_rng(2)
    draws = [in_turn(fleet, 10, random) for _ in range(DRAWS)]
    equal = judged(fleet, [Draw(each) for each in draws])
    some = judged(fleet, [Draw(each, slower_in_all(1.5), some_of_new(each, 4)) for each in draws])
    assert np.mean([each["total"].verdict == "unstable" for each in equal]) <= 0.03
    totals = [each["total"] for each in some]
    assert np.mean([each.verdict in ("unstable", "slower") for each in totals]) >= 0.97
    if model == "mlp":
        assert all((each.note or "").startswith("4 of 10 captures of new took ") for each in totals)


def test_a_common_shift_is_told_from_the_machine() -> None:
    """Captures that vary by 5 % as a whole: equal sides seldom have a shift whose interval is without 0."""
    random = np.random.default_rng(8)
    fleet = with_states(0.05 * random.standard_normal(20))
    draws = [in_turn(fleet, 10, random) for _ in range(DRAWS)]
    equal, slower = (
        [each["common shift"] for each in judged(fleet, [Draw(captures, plant) for captures in draws])]
        for plant in (None, slower_in_all(1.15))
    )
    assert np.mean([each.low * each.high > 0 for each in equal]) <= 0.08  # type: ignore[operator]
    assert np.mean([each.low > 0 for each in slower]) >= 0.9  # type: ignore[operator]
    apart = [(at, "base" if at < 10 else "new") for at in range(20)]
    [verdicts] = judged(fleet, [Draw(apart, slower_in_all(1.15))])
    assert verdicts["common shift"].low is None


def test_a_common_shift_of_unequal_sides() -> None:
    """Three captures among 30 of equal ones: their own few hardly show what captures vary by, but both sides do."""
    random = np.random.default_rng(9)
    fleet = fleet_of("mlp")
    many = Fleet(fleet.items, np.tile(fleet.ops, (9, 1, 1)), np.tile(fleet.totals, (9, 1)), fleet.resolutions)
    many = with_states(0.05 * random.standard_normal(len(many.totals)), many)
    draws = []
    for _ in range(2 * DRAWS):
        chosen = random.choice(len(many.totals), 33, replace=False)
        draws.append(Draw([(at, "new" if place % 11 == 5 else "base") for place, at in enumerate(chosen.tolist())]))
    shifts = [each["common shift"] for each in judged(many, draws)]
    assert 0.005 <= np.mean([each.low * each.high > 0 for each in shifts]) <= 0.09  # type: ignore[operator]


def test_no_difference_needs_an_interval_within_what_counts() -> None:
    """Equal programs: on a quiet machine there is no difference, on one that varies by 10 % it is not decided."""
    random = np.random.default_rng(6)
    noise = np.tile([1, 1, -1, -1], 5) * (0.1 + 0.01 * random.random(20))
    [quiet], [busy] = (judged(with_states(each), [Draw(in_turns(20))]) for each in (np.zeros(20), noise))
    total = quiet["total"]
    assert (total.verdict, busy["total"].verdict) == ("~", "not decided")
    assert total.low is not None and total.high is not None and -0.02 <= total.low <= total.high <= 0.02


def test_one_capture_with_all_slower_is_unstable() -> None:
    """But if every sixth capture of the history takes 1.5 times as long, one that does so is not the build's."""
    [equal, all_slower] = judged(fleet_of("mlp"), [Draw(SINGLE), Draw(SINGLE, slower_in_all(2))])
    assert (equal["total"].verdict, all_slower["total"].verdict) == ("~", "unstable")
    assert "take 2 more captures of base and of new" in (all_slower["total"].note or "")
    states = np.zeros(20)
    states[[3, 9, 15]] = np.log(1.5)
    [busy] = judged(with_states(states), [Draw(SINGLE, slower_in_all(1.5))])
    assert busy["total"].verdict != "unstable"


def test_the_total_chooses_no_captures_by_side() -> None:
    """If no op shows a capture's common shift, captures must not be left out by the total's values on each side."""
    half = [(at, "base" if at % 2 else "new") for at in range(20)]
    # Two levels, as from two clock speeds: 6 fast and 4 slow captures in base, 4 and 6 in new.
    slow = frozenset(range(20)) - {*range(1, 12, 2), *range(0, 8, 2)}
    # And the whole smaller side differs from most captures: that is the change.
    few = [(at, "base" if at in (3, 7, 11, 15) else "new") for at in range(20)]
    draws = [Draw(half, None, None, slower_in_all(1.3), slow), Draw(few, slower_in_all(1.5))]
    levels, change = judged(fleet_of("convnet_xnn"), draws)
    assert levels["total"].verdict == levels["DELEGATE_CALL@0"].verdict == "not decided"
    assert change["total"].verdict == "slower"


def test_intervals_have_the_resolution_of_the_clock() -> None:
    """A clock of 1 us can't show a change of 5 % in 5 us: the interval covers it, and the note has the reason."""
    fleet = fleet_of("convnet_xnn")
    random = np.random.default_rng(3)
    at = fleet.items.index("Convolution (NHWC, F32) IGEMM #1@0")
    draws = [Draw(in_turn(fleet, 10, random), slower_op(at, 1.05)) for _ in range(20)]
    for verdicts in judged(fleet, draws):
        found = verdicts[fleet.items[at]]
        assert found.low is not None and found.high is not None and found.low <= 0.05 <= found.high
        assert found.verdict == "can't judge" and (found.note or "").startswith("below the clock's resolution")


def on_a_clock(step: float, at: int, factor: float, random: np.random.Generator) -> Fleet:
    """Ten captures of 40 runs of 12 ops in turns, each op of 1 to 300 steps of a clock; one takes longer in new."""
    sizes = step * np.exp(random.uniform(np.log(1.2), np.log(300), 12))
    logs = 0.01 * random.normal(size=(10, 1)) + random.uniform(0.003, 0.01, 12) * random.normal(size=(10, 12))
    logs[1::2, at] += np.log(factor)
    ops = (sizes * np.exp(logs))[:, :, None] * np.exp(np.abs(random.normal(0, 0.02, (10, 12, 40))))
    begun = np.concatenate([np.zeros((10, 1, 40)), ops.cumsum(axis=1)], axis=1)
    shown = np.rint(np.floor((begun + random.uniform(0, 1000 * step, (10, 1, 40))) / step) * step)
    return Fleet([f"{at}@{at}" for at in range(12)], np.diff(shown, axis=1), shown[:, -1] - shown[:, 0], [step] * 12)


@pytest.mark.parametrize("step", [1e4, 31_250, 1000 / 24])
def test_what_a_clock_of_any_step_rounds_is_no_change(step: float) -> None:
    """As if the clock rounded nothing, intervals would have 5 % of an op in 34 %, and others would be blamed in 30 %."""
    random = np.random.default_rng(20261129)
    turns = [(at, "new" if at % 2 else "base") for at in range(10)]
    blames, has = [], []
    for _ in range(80):
        at = int(random.integers(12))
        verdicts = judged(on_a_clock(step, at, 1.05, random), [Draw(turns)])[0]
        op = verdicts[f"{at}@{at}"]
        blames.append(bool(blamed(verdicts) - {f"{at}@{at}"}))
        has += [op.low <= 0.05 <= op.high] if op.low is not None and op.high is not None else []
    assert np.mean(blames) <= 0.05
    assert np.mean(has) >= 0.9


def test_changes_in_the_history() -> None:
    """An op takes 1.5 times as long from the middle of its history on, or another op 1.25 times in one capture of it: a
    change is told if it is 1.5 times as large, which is 1.84 and 1.40 times as long.
    """
    fleet = fleet_of("mlp")
    op, other = fleet.large()[:2]
    accepted, off = frozenset(range(9, 20)), frozenset({7})
    draws = [Draw(SINGLE, slower_op(op, factor), None, slower_op(op, 1.5), accepted) for factor in (1.0, 1.7, 2.0)]
    draws += [Draw(SINGLE, slower_op(op, factor), None, slower_op(other, 1.25), off) for factor in (1.3, 1.5)]
    found = [verdicts[fleet.items[op]] for verdicts in judged(fleet, draws)]
    assert [each.verdict for each in found] == ["not decided", "not decided", "slower", "not decided", "slower"]
    assert all("single captures of its history differ by up to " in (found[at].note or "") for at in (0, 1, 3))
