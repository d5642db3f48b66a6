"""What notes promise: the captures that would show a difference do so in nine of ten comparisons."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.sampling import thinned
from tests.statistics.fleet import Draw, Fleet, fleet_of, judged, slower_in_all, slower_op

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
    chosen = [plants[at % len(plants)] for at in range(100)]
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
