"""What verdicts and notes claim, against what was planted in draws of captures in turns."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.sampling import thinned
from tests.statistics.fleet import CHANGED, Draw, Fleet, Judged, Plant, fleet_of, judged, slower_in_all, slower_op

# Rates need many draws.
pytestmark = pytest.mark.long

Captures = list[tuple[int, str]]


def drawn(fleet: Fleet, size: int, random: np.random.Generator) -> Captures:
    """`size` pairs of neighbours in time, some more than once: as from a longer record of the same machine."""
    pairs = fleet.neighbours()
    chosen = random.integers(0, len(pairs), size)
    sides = [("base", "new") if random.random() < 0.5 else ("new", "base") for _ in chosen]
    return [(pairs[at][k], side[k]) for at, side in zip(chosen, sides, strict=True) for k in (0, 1)]


@pytest.mark.parametrize("what", thinned(["op", "total"], ["op"]))
def test_the_promised_captures_show_the_difference(what: str) -> None:
    """Of an op, or of a total whose captures vary by 5 %, changes that some captures don't show."""
    size, factors = (5, (1.025, 1.03, 1.04)) if what == "op" else (6, (1.04, 1.06))
    fleet = fleet_of("mlp")
    random = np.random.default_rng(4)
    if what == "total":
        noise = np.exp(0.05 * random.standard_normal(len(fleet.totals)))
        fleet = Fleet(fleet.items, fleet.ops * noise[:, None, None], fleet.totals * noise[:, None], fleet.resolutions)
    ops = fleet.large()
    plants = [
        (fleet.items[op], slower_op(op, factor)) if what == "op" else ("total", slower_in_all(factor))
        for op in ops
        for factor in factors
    ]
    chosen = [plants[at % len(plants)] for at in range(150)]
    found = judged(fleet, [Draw(drawn(fleet, size, random), plant) for _, plant in chosen])
    promised = []
    for verdicts, (item, _) in zip(found, chosen, strict=True):
        note = verdicts[item].note
        number = re.search(r"; (\d+) captures per side would show a difference of this size", note or "")
        if number and verdicts[item].change > 0:
            promised.append((item, verdicts[item].change, int(number[1])))
    assert len(promised) >= 5
    assert all(size < captures <= 100 for *_, captures in promised)
    draws, items = [], []
    for item, change, captures in promised * 3:
        plant = slower_op(fleet.items.index(item), 1 + change) if item != "total" else slower_in_all(1 + change)
        draws.append(Draw(drawn(fleet, captures, random), plant))
        items.append(item)
    shown = [verdicts[item].verdict == "slower" for verdicts, item in zip(judged(fleet, draws), items, strict=True)]
    assert np.mean(shown) >= 0.85


def test_more_than_100_captures_are_no_number() -> None:
    """The total of captures that vary by 30 % in turns: no number is promised."""
    fleet = fleet_of("mlp")
    noise = np.exp(np.tile([0.3, -0.3, -0.3, 0.3], 5))
    fleet = Fleet(fleet.items, fleet.ops * noise[:, None, None], fleet.totals * noise[:, None], fleet.resolutions)
    captures = [(at, "base" if at % 4 in (0, 1) else "new") for at in range(20)]
    [verdicts] = judged(fleet, [Draw(captures, slower_in_all(1.04))])
    total = verdicts["total"]
    assert total.verdict == "not decided" and total.note is not None
    assert total.note.startswith("within the noise; it would take more than 100 captures per side")


# What is planted: in an op, in all ops, in nothing.
PLANTED = [("op", 0.03), ("op", 0.1), ("all", 0.05), ("all", -0.05), ("all", 0.0)]


def is_true(claim: Judged, truth: float, item: str) -> dict[str, bool]:
    """Whether what is claimed of an item holds, by the claim; nothing where nothing is."""
    assert claim.low is not None and claim.high is not None
    number = re.search(r"less than ([\d.]+) % is no change", claim.note or "")
    least = float(number[1]) / 100 if number else 0.02
    claims = {"interval": claim.low <= truth <= claim.high}
    if claim.verdict in CHANGED:
        claims["direction"] = truth != 0 and (claim.verdict == "slower") == (truth > 0)
    elif claim.verdict == "~":
        claims["same"] = abs(truth) <= least
    elif item == "common shift" and claim.low * claim.high > 0 and abs(claim.change) >= 0.02:
        claims["program"] = abs(truth) > 0 and (claim.change > 0) == (truth > 0)
    return claims


@pytest.mark.parametrize("size", thinned([5, 10], [5]))
@pytest.mark.parametrize("model", thinned(["mlp", "convnet"], ["mlp"]))
def test_what_is_claimed_of_ops_totals_and_the_common_shift_was_planted(model: str, size: int) -> None:
    fleet, random = fleet_of(model), np.random.default_rng(7)
    op = fleet.large()[0]
    held: dict[tuple[str, str], list[bool]] = {}
    for what, change in PLANTED:
        plant: Plant = slower_op(op, 1 + change) if what == "op" else slower_in_all(1 + change)
        truths = {fleet.items[op]: change if what == "op" else 0, "common shift": 0 if what == "op" else change}
        truths["total"] = change * (float(fleet.shares[op]) if what == "op" else 1)
        for verdicts in judged(fleet, [Draw(drawn(fleet, size, random), plant) for _ in range(40)]):
            for item in truths.keys() & verdicts.keys():  # no common shift where ops moved apart
                for claim, is_held in is_true(verdicts[item], truths[item], item).items():
                    held.setdefault((item, claim), []).append(is_held)
    rates = {key: float(np.mean(each)) for key, each in held.items()}
    assert {claim for _, claim in rates} == {"interval", "direction", "same", "program"}
    assert {key: rate for key, rate in rates.items() if rate < 0.95 and key[1] != "interval"} == {}
    assert {key: rate for key, rate in rates.items() if rate < 0.88} == {}


@pytest.mark.parametrize("model", thinned(["mlp", "convnet"], ["mlp"]))
def test_the_time_outside_of_ops_changes_by_what_was_planted_there(model: str) -> None:
    """Of the total, what an op takes longer is not outside; what a half more outside, and 5 % more of all, takes is."""
    fleet, random = fleet_of(model), np.random.default_rng(8)
    rests = fleet.totals - fleet.ops.sum(axis=1)
    part = float(np.median(rests) / np.median(fleet.totals))
    plants: list[tuple[Plant, float]] = [
        (slower_op(fleet.large()[0], 1.1), 0.0),
        (lambda ops, totals: (ops, totals + 0.5 * (totals - ops.sum(axis=0))), 0.5 * part),
        (slower_in_all(1.05), 0.05 * part),
    ]
    draws = [drawn(fleet, 10, random) for _ in range(40)]
    equal = judged(fleet, [Draw(captures) for captures in draws])
    for plant, truth in plants:
        said = []
        for before, verdicts in zip(equal, judged(fleet, [Draw(captures, plant) for captures in draws]), strict=True):
            outside, without = verdicts["outside ops"], before["outside ops"]
            assert outside.base_ticks == without.base_ticks
            said.append((outside.new_ticks - outside.base_ticks) / verdicts["total"].base_ticks)
            moved = (outside.new_ticks - without.new_ticks) / without.new_ticks * part
            assert moved == pytest.approx(truth, abs=1e-9 if truth == 0 else 0.002)
        assert np.mean(np.abs(np.array(said) - truth) <= 0.005) >= 0.95
