"""Messy designs: many ops slower at once, captures left out, clocks that are too coarse, common shifts."""

from __future__ import annotations

import numpy as np
import pytest

from tests.sampling import thinned
from tests.statistics.fleet import Draw, fleet_of, judged, slower_in_all, slower_op, slower_ops
from tests.statistics.rates import found_and_others, halves, in_turn, some_of_new

# Rates need many draws.
pytestmark = pytest.mark.long

DRAWS = 60


@pytest.mark.parametrize("factor", thinned([1.05, 1.1], [1.1]))
@pytest.mark.parametrize("model", thinned(["mlp", "convnet"], ["mlp"]))
def test_half_of_the_ops_are_slower(model: str, factor: float) -> None:
    """The ops of the other half aren't called faster."""
    fleet = fleet_of(model)
    random = np.random.default_rng(1)
    draws = [in_turn(fleet, 10, random) for _ in range(DRAWS)]
    planted = [halves(fleet)[number % 2] for number in range(DRAWS)]
    found, others, covered = found_and_others(fleet, draws, planted, factor)
    print(f"{model}, half of the ops x {factor}: found {found:.1f} %, others {others:.1f} %, covered {covered:.1f} %")
    assert found >= 98
    assert others <= 3
    assert covered >= 90


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
        assert all(each.note is not None and each.note.startswith("4 of 10 captures of new took ") for each in totals)


def test_one_capture_with_all_slower_is_unstable() -> None:
    fleet = fleet_of("mlp")
    captures = [(at, "history") for at in range(18)] + [(18, "base"), (19, "new")]
    [equal, all_slower] = judged(fleet, [Draw(captures), Draw(captures, slower_in_all(2))])
    assert equal["total"].verdict == "~"
    assert all_slower["total"].verdict == "unstable"
    assert (
        all_slower["total"].note is not None and "take 2 more captures of base and of new" in all_slower["total"].note
    )


@pytest.mark.long
def test_the_total_chooses_no_captures_by_side() -> None:
    """If no op shows a capture's common shift, captures must not be left out by the total's values on each side."""
    fleet = fleet_of("convnet_xnn")
    half = [(at, "base" if at % 2 else "new") for at in range(20)]
    # Two levels, as from two clock speeds: 6 fast and 4 slow captures in base, 4 and 6 in new.
    fast = frozenset([*range(1, 12, 2), *range(0, 8, 2)])
    draw = Draw(half, None, None, slower_in_all(1.3), frozenset(range(20)) - fast)
    [verdicts] = judged(fleet, [draw])
    assert verdicts["total"].verdict == "not decided"
    assert verdicts["DELEGATE_CALL@0"].verdict == "not decided"


def test_few_captures_of_base_are_not_disturbed() -> None:
    """Without a common shift, the whole smaller side differs from most captures: that is the change."""
    fleet = fleet_of("convnet_xnn")
    half = [(at, "base" if at in (3, 7, 11, 15) else "new") for at in range(20)]
    [verdicts] = judged(fleet, [Draw(half, slower_in_all(1.5))])
    assert verdicts["total"].verdict == "slower"


def test_intervals_have_the_resolution_of_the_clock() -> None:
    """A clock of 1 us can't show a change of 5 % in 5 us: the interval covers it, and the note has the reason."""
    fleet = fleet_of("convnet_xnn")
    random = np.random.default_rng(3)
    at = fleet.items.index("Convolution (NHWC, F32) IGEMM #1@0")
    draws = [Draw(in_turn(fleet, 10, random), slower_op(at, 1.05)) for _ in range(20)]
    for verdicts in judged(fleet, draws):
        found = verdicts[fleet.items[at]]
        assert found.low is not None and found.high is not None
        assert found.low <= 0.05 <= found.high
        assert found.verdict == "can't judge"
        assert found.note is not None and found.note.startswith("below the clock's resolution")


def test_an_accepted_change_in_the_history_is_not_noise() -> None:
    """An op takes 1.5 times as long from the middle of its history on. Only its variation around both levels counts."""
    fleet = fleet_of("mlp")
    op = fleet.large()[0]
    sides = ["history"] * 18 + ["base", "new"]
    draws = [
        Draw(list(enumerate(sides)), slower_op(op, factor), None, slower_op(op, 1.5), frozenset(range(9, 20)))
        for factor in (1.0, 1.5)
    ]
    same, slower = (verdicts[fleet.items[op]].verdict for verdicts in judged(fleet, draws))
    assert (same, slower) == ("~", "slower")


def test_changes_of_other_ops_are_only_possibly_slower() -> None:
    """Other ops deviated for a whole capture: an op that does so in the one capture of new isn't called slower."""
    fleet = fleet_of("mlp")
    first, second = fleet.large()[:2]
    sides = ["history"] * 18 + ["base", "new"]
    draw = Draw(list(enumerate(sides)), slower_op(first, 1.25), None, slower_op(second, 1.25), frozenset({7}))
    [verdicts] = judged(fleet, [draw])
    judgement = verdicts[fleet.items[first]]
    assert judgement.verdict == "possibly slower"
    assert judgement.note is not None and "measure 3 more" in judgement.note


@pytest.mark.parametrize(
    ("ops", "factor", "verdict"),
    [(1, 1.4, "slower"), (2, 1.4, "slower"), (3, 1.4, "possibly slower"), (3, 2.4, "slower")],
)
def test_three_ops_of_one_capture_are_only_possibly_slower(ops: int, factor: float, verdict: str) -> None:
    """Several ops may deviate together for a whole capture, but not by a factor of 2."""
    fleet = fleet_of("mlp")
    chosen = fleet.large()[:ops]
    sides = ["history"] * 18 + ["base", "new"]
    [verdicts] = judged(fleet, [Draw(list(enumerate(sides)), slower_ops(chosen, factor))])
    assert {verdicts[fleet.items[op]].verdict for op in chosen} == {verdict}


def test_a_few_captures_must_agree() -> None:
    """An op deviates in two of three captures of new: it is not called slower."""
    fleet = fleet_of("mlp")
    op = fleet.large()[0]
    captures = [(at, "base" if at < 17 else "new") for at in range(20)]
    of_two = Draw(captures, slower_op(op, 1.08), frozenset({17, 18}))
    of_all = Draw(captures, slower_op(op, 1.08))
    two, all_three = (verdicts[fleet.items[op]] for verdicts in judged(fleet, [of_two, of_all]))
    assert (two.verdict, all_three.verdict) == ("not decided", "slower")
    assert two.note is not None and "take at least 5 per side" in two.note
