"""Print how often comparisons are right and wrong, for each fleet: python -m tests.statistics.rates [FOLDER...]

A FOLDER has captures of one program in the order of time; by default these are the fleets that are kept here. Beside
etq's are the rates of other methods on the same draws: a Mann-Whitney test of each op at 5 % (as benchstat does), the
same on all runs pooled, and a threshold of 5 % on medians. The last column is the fleet with the worst rate. Series are
in `worlds_of_series`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np

from tests.conftest import CAPTURES
from tests.statistics.fleet import (
    CHANGED,
    Draw,
    Fleet,
    Floats,
    Plant,
    blamed,
    fleet_in,
    judged,
    slow_runs,
    slower_in_all,
    slower_op,
    slower_ops,
)

Captures = list[tuple[int, str]]
Random = np.random.Generator
Rates = dict[str, float]
# The designs in which changes are planted, and the number of captures of new that have them, if not all.
PLANTED: Final = {"10 v 10 in turn": 4, "5 v 5 in turn": 2, "3 v 3 in turn": 0, "20 v 3 apart": 0}


def in_turn(fleet: Fleet, size: int, random: Random) -> Captures:
    """`size` pairs of neighbours in time; one of each pair is on each side."""
    pairs = fleet.neighbours()
    chosen = np.sort(random.choice(len(pairs), size, replace=False))
    sides = [("base", "new") if random.random() < 0.5 else ("new", "base") for _ in chosen]
    return [(pairs[at][k], side[k]) for at, side in zip(chosen, sides, strict=True) for k in (0, 1)]


def apart(fleet: Fleet, bases: int, news: int, random: Random) -> Captures:
    """A window of successive captures: the first are base."""
    start = int(random.integers(0, len(fleet.totals) - bases - news + 1))
    return [(start + at, "base" if at < bases else "new") for at in range(bases + news)]


def singles(fleet: Fleet, history: int, most: int, random: Random) -> list[Captures]:
    """Two neighbours in time, after their history: each such window once, or `most` of them."""
    sides = ["history"] * history + ["base", "new"]
    starts = len(fleet.totals) - history - 1
    chosen = np.sort(random.permutation(starts)[:most])
    return [[(int(start) + at, side) for at, side in enumerate(sides)] for start in chosen]


def halves(fleet: Fleet) -> tuple[list[int], list[int]]:
    """The ops in the order of instructions, as two halves of the program."""
    order = sorted(range(len(fleet.items)), key=lambda at: int(fleet.items[at].rpartition("@")[2]))
    return order[: len(order) // 2], order[len(order) // 2 :]


def share(held: Sequence[bool]) -> float:
    return 100 * float(np.mean(held)) if len(held) else float("nan")


def found_and_others(
    fleet: Fleet, draws: Sequence[Captures], planted: Sequence[Sequence[int]], factor: float, least_share: float = 0.03
) -> tuple[float, float, float]:
    """The shares of planted ops found, of comparisons that blame other ops, and of intervals that cover the truth.

    Of the planted ops, those of `least_share` of the total or more.
    """
    made = [Draw(each, slower_ops(ops, factor)) for each, ops in zip(draws, planted, strict=True)]
    found, others, covered = [], [], []
    for verdicts, ops in zip(judged(fleet, made), planted, strict=True):
        names = {fleet.items[at] for at in ops}
        large = {fleet.items[at] for at in ops if fleet.shares[at] >= least_share}
        found += [verdicts[name].verdict == "slower" for name in large]
        others.append(bool(blamed(verdicts) - names - {"DELEGATE_CALL@0"}))
        covered += [
            verdicts[name].low <= factor - 1 <= verdicts[name].high  # type: ignore[operator]
            for name in large
            if verdicts[name].low is not None
        ]
    return share(found), share(others), share(covered)


def comparison_rates(fleet: Fleet, count: int) -> Rates:
    """Rates for several captures per side, by design, and for one."""
    random = np.random.default_rng(21)
    captures = len(fleet.totals)
    designs: dict[str, Callable[[], Captures]] = {}
    for size in (3, 5, 10):
        designs[f"{size} v {size} in turn"] = partial(in_turn, fleet, size, random)
        designs[f"{size} v {size} apart"] = partial(apart, fleet, size, size, random)
    if captures >= 30:
        designs["20 v 3 apart"] = lambda: apart(fleet, 20, 3, random)
    rates: Rates = {}
    for name, make in designs.items():
        draws = [make() for _ in range(count)]
        rates |= equal_rates(fleet, name, draws)
        if name in PLANTED:
            rates |= planted_rates(fleet, name, draws)
    for history in (18, 30):
        if captures >= history + 12:
            rates |= single_rates(fleet, history, count, random)
    return rates


def equal_rates(fleet: Fleet, name: str, draws: Sequence[Captures]) -> Rates:
    """Rates of verdicts on sides without a difference."""
    found = judged(fleet, [Draw(each) for each in draws])
    fails = [any(judgement.verdict in ("slower", "unstable") for judgement in each.values()) for each in found]
    rates = {
        f"equal, {name}: any op blamed": share([bool(blamed(each)) for each in found]),
        f"equal, {name}: total blamed": share([each["total"].verdict in CHANGED for each in found]),
        f"equal, {name}: unstable": share([each["total"].verdict == "unstable" for each in found]),
        f"equal, {name}: slow runs of an op blamed": share([any(map(is_slow_op, each)) for each in found]),
        f"equal, {name}: slow runs of the total blamed": share(["slow total" in each for each in found]),
        f"equal, {name}: a gate fails": share(fails),
    }
    for method, of_ops in OTHERS.items():
        blames = [any(of_ops(fleet, each, None)) for each in draws]
        rates[f"equal, {name}: any op blamed by {method}"] = share(blames)
    return rates


def is_slow_op(item: str) -> bool:
    """Whether a verdict is on the slow runs of an op."""
    return item.startswith("slow ") and item != "slow total"


def planted_rates(fleet: Fleet, name: str, draws: Sequence[Captures]) -> Rates:
    """Rates of verdicts on sides that differ: in one op, in all, in half of the ops, in some runs, in some captures."""
    large, count = fleet.large(), len(draws)
    planted = [[large[k % len(large)]] for k in range(count)]
    rates: Rates = {}
    for factor in (1.05, 1.1):
        of_op = found_and_others(fleet, draws, planted, factor)
        for what, value in zip(("found", "others blamed", "interval has it"), of_op, strict=True):
            rates[f"op +{100 * factor - 100:.0f} %, {name}: {what}"] = value
    small = [at for at, share_of_total in enumerate(fleet.shares) if 0.01 <= share_of_total < 0.03]
    if small:
        of_small = [[small[k % len(small)]] for k in range(count)]
        rates[f"op of 1 to 3 % +5 %, {name}: found"] = found_and_others(fleet, draws, of_small, 1.05, 0.01)[0]
    plants = [slower_ops(ops, 1.05) for ops in planted]
    for method, of_ops in OTHERS.items():
        found = [of_ops(fleet, each, plant)[ops[0]] for each, plant, ops in zip(draws, plants, planted, strict=True)]
        rates[f"op +5 %, {name}: found by {method}"] = share(found)
    totals = [each["total"] for each in judged(fleet, [Draw(each, slower_in_all(1.05)) for each in draws])]
    rates[f"total +5 %, {name}: found"] = share([each.verdict == "slower" for each in totals])
    rates[f"total +5 %, {name}: interval has it"] = share(
        [each.low <= 0.05 <= each.high for each in totals if each.low is not None and each.high is not None]
    )
    # Without ops of a precise clock, half of the ops can't be distinguished from the rest.
    for factor in (1.05, 1.1) if fleet.resolutions.count(1) > 3 else ():
        half = found_and_others(fleet, draws, [halves(fleet)[k % 2] for k in range(count)], factor)
        for what, value in zip(("found", "others blamed", "interval has it"), half, strict=True):
            rates[f"half of the ops +{100 * factor - 100:.0f} %, {name}: {what}"] = value
    runs = [slow_runs(large[k % len(large)], 1.5, 0.3, k) for k in range(count)]
    slow = judged(fleet, [Draw(each, plant) for each, plant in zip(draws, runs, strict=True)])
    rates[f"30 % of runs +50 % at p90, {name}: found"] = share(
        [f"slow {fleet.items[large[k % len(large)]]}" in each for k, each in enumerate(slow)]
    )
    if (part := PLANTED[name]) > 0:
        hidden = judged(fleet, [Draw(each, slower_in_all(1.5), some_of_new(each, part)) for each in draws])
        rates[f"{part} new captures +50 %, {name}: reported"] = share(
            [each["total"].verdict in ("slower", "unstable") for each in hidden]
        )
    return rates


def some_of_new(captures: Captures, part: int) -> frozenset[int]:
    """The places of the first captures of new, as many as `part`."""
    return frozenset([place for place, (_, side) in enumerate(captures) if side == "new"][:part])


def single_rates(fleet: Fleet, history: int, count: int, random: Random) -> Rates:
    large = fleet.large()
    draws = singles(fleet, history, count, random)
    name = f"1 v 1 after {history}"
    rates: Rates = {}
    equal = judged(fleet, [Draw(each) for each in draws])
    rates[f"equal, {name}: any op blamed"] = share([bool(blamed(each)) for each in equal])
    rates[f"equal, {name}: total blamed"] = share([each["total"].verdict in CHANGED for each in equal])
    rates[f"equal, {name}: total unstable"] = share([each["total"].verdict == "unstable" for each in equal])
    rates[f"equal, {name}: any op possibly slower"] = share(
        [any(v.verdict.startswith("possibly") for v in each.values() if v.verdict) for each in equal]
    )
    for factor in (1.2, 1.5):
        for is_after_change in (False, True):
            made = []
            for number, each in enumerate(draws):
                plant = slower_op(large[number % len(large)], factor)
                # The accepted change: all later captures are already slower.
                accepted = slower_op(large[number % len(large)], 1.5)
                later = frozenset(range(history // 2, history + 2)) if is_after_change else frozenset()
                made.append(Draw(each, plant, None, accepted, later))
            found = judged(fleet, made)
            verdicts = [each[fleet.items[large[k % len(large)]]].verdict for k, each in enumerate(found)]
            what = f"op +{100 * factor - 100:.0f} %, {name}" + (", accepted change" if is_after_change else "")
            rates[f"{what}: found"] = share([each == "slower" for each in verdicts])
            rates[f"{what}: possibly slower"] = share([each == "possibly slower" for each in verdicts])
    all_slower = judged(fleet, [Draw(each, slower_in_all(2)) for each in draws])
    rates[f"everything x 2, {name}: reported"] = share(
        [each["total"].verdict in ("slower", "unstable") for each in all_slower]
    )
    return rates


def _values(fleet: Fleet, captures: Captures, plant: Plant | None, is_pooled: bool) -> list[tuple[Floats, Floats]]:
    """The values of each op on both sides: medians of captures, or all runs."""
    sides: dict[str, list[Floats]] = {"base": [], "new": []}
    for capture, side in captures:
        ops = fleet.ops[capture]
        if plant is not None and side == "new":
            ops = plant(ops, fleet.totals[capture])[0]
        sides[side].append(ops if is_pooled else np.median(ops, axis=1, keepdims=True))
    base, new = (np.concatenate(sides[side], axis=1) for side in ("base", "new"))
    return list(zip(base, new, strict=True))


def rank_test(base: Floats, new: Floats) -> bool:
    """Whether the Mann-Whitney test (normal approximation, corrected for ties) finds a difference at 5 %."""
    values = np.concatenate([base, new])
    _, inverse, ties = np.unique(values, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(ties) - (ties - 1) / 2)[inverse]
    count = len(values)
    deviation = abs(ranks[len(base) :].sum() - len(new) * (count + 1) / 2)
    variance = len(base) * len(new) / 12 * (count + 1 - (ties**3 - ties).sum() / (count * (count - 1)))
    return bool(variance > 0 and deviation - 0.5 > 1.959964 * np.sqrt(variance))


def by_ranks(fleet: Fleet, captures: Captures, plant: Plant | None) -> list[bool]:
    return [rank_test(base, new) for base, new in _values(fleet, captures, plant, is_pooled=False)]


def by_pooled_runs(fleet: Fleet, captures: Captures, plant: Plant | None) -> list[bool]:
    return [rank_test(base, new) for base, new in _values(fleet, captures, plant, is_pooled=True)]


def by_threshold(fleet: Fleet, captures: Captures, plant: Plant | None) -> list[bool]:
    pairs = _values(fleet, captures, plant, is_pooled=False)
    return [bool(abs(np.median(new) / max(np.median(base), 1e-9) - 1) >= 0.05) for base, new in pairs]


OTHERS: Final = {"ranks (benchstat)": by_ranks, "pooled runs": by_pooled_runs, "a threshold of 5 %": by_threshold}


def worst_of(rate: str, values: Rates) -> str:
    """The fleet with the lowest rate of what is right, or the highest of what is wrong; - if no rate is known."""
    known = {name: value for name, value in values.items() if not np.isnan(value)}
    # A planted change is slower or possibly slower: more of the second alone is neither better nor worse.
    if not known or "possibly" in rate:
        return "-"
    is_right = any(word in rate for word in (": found", ": reported", "interval has it"))
    return (min if is_right else max)(known, key=known.__getitem__)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path, help="folders of captures, each a fleet")
    parser.add_argument("--draws", type=int, default=200, help="draws of captures a rate")
    arguments = parser.parse_args()
    folders = arguments.folders or sorted(each for each in (CAPTURES / "fleet").iterdir() if each.is_dir())
    rates: dict[str, Rates] = {}
    for folder in folders:
        rates[f"{folder.parent.name}/{folder.name}"] = comparison_rates(fleet_in(folder), arguments.draws)
    names = list(dict.fromkeys(rate for each in rates.values() for rate in each))
    width = max(map(len, names))
    print("in percent".ljust(width), *(f"{name[-24:]:>24}" for name in rates), "worst".rjust(24))
    for rate in names:
        values = {name: each.get(rate, float("nan")) for name, each in rates.items()}
        of_fleets = [f"{value:24.1f}" for value in values.values()]
        print(rate.ljust(width), *of_fleets, worst_of(rate, values)[-24:].rjust(24))


if __name__ == "__main__":
    main()
