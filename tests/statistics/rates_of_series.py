"""Rates of changes: series made of blocks of neighbours of a fleet, so that they drift as it does."""

from __future__ import annotations

import json
import math
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

from etq.verdicts.changes import KEPT, RETURNED, REVERTED, Least
from etq.verdicts.changes import changes_of as changes_of_series
from tests.statistics.fleet import QUANTILE, Fleet, Floats

LENGTH: Final = 200
LENGTHS: Final = (60, 200, 1000)
# The most neighbours that follow each other. Of a fleet of 20, half: 20 would be the same series again and again.
BLOCK: Final = 20
Random = np.random.Generator
Shape = Floats | None


def made_series(fleet: Fleet, op: int | None, shape: Shape, random: Random, length: int = LENGTH) -> Floats:
    """Logarithms of an op without the common shift, or of the total, with the planted changes."""
    block = min(BLOCK, len(fleet.totals) // 2)
    starts = random.integers(0, len(fleet.totals) - block + 1, length // block + 1)
    captures = np.concatenate([np.arange(start, start + block) for start in starts])[:length]
    if op is None:
        values = np.log(np.quantile(fleet.totals, QUANTILE, axis=1))[captures]
    else:
        precise = [at for at, step in enumerate(fleet.resolutions) if step == 1]
        times = np.quantile(fleet.ops, QUANTILE, axis=2)
        kept = [at for at in precise if (times[:, at] > 0).all()]
        ops = np.log(np.maximum(times, 1))
        factor = np.median(ops[:, kept] - np.median(ops[:, kept], axis=0), axis=1) if len(kept) >= 3 else 0
        values = (ops[:, op] - factor)[captures]
    return np.asarray(values if shape is None else values + shape)


def step_of(size: float, at: int, until: int | None = None, length: int = LENGTH) -> Floats:
    """A step, lasting or until a place."""
    shape = np.zeros(length)
    shape[at:until] = np.log1p(size)
    return shape


def creep_of(size: float, length: int = LENGTH) -> Floats:
    return np.asarray(np.linspace(0, np.log1p(size), length))


def changes_of(made: Sequence[Floats]) -> tuple[list[list[int]], list[bool]]:
    """For each series the places of its steps, from 0, and whether it creeps."""
    places: list[list[int]] = [[] for _ in made]
    creeps = [False] * len(made)
    for number, (changes, _) in enumerate(changes_of_series(made, [Least(math.log(1.03))] * len(made))):
        # Of changes that were reverted, both places; not those of states, nor what the next builds decide.
        kept = [change for change in changes if change.stage in (KEPT, REVERTED, RETURNED)]
        places[number] = [change.place for change in kept if not change.is_creep]
        creeps[number] = any(change.is_creep for change in kept)
    return places, creeps


def others_of(python: str, made: dict[str, list[Floats]], *methods: str) -> dict[str, dict[str, list[list[int]]]]:
    """The places of changes by method and name of the series, found by a Python that has Otava and ruptures."""
    given = json.dumps({name: [each.tolist() for each in series] for name, series in made.items()})
    script = str(Path(__file__).with_name("others_of_series.py"))
    done = subprocess.run([python, script, *methods], input=given, stdout=subprocess.PIPE, text=True, check=True)
    answer: dict[str, dict[str, list[list[int]]]] = json.loads(done.stdout)
    return answer


def series_rates(fleet: Fleet, count: int, python: str | None = None) -> dict[str, float]:
    """Rates of findings in series without a change, with steps, bumps and creep, of ops and of the total; also those of
    Otava and PELT, with a Python that has them.
    """
    random = np.random.default_rng(22)
    large = fleet.large()
    rates: dict[str, float] = {}

    def share(held: Sequence[bool]) -> float:
        return 100 * float(np.mean(held))

    for of_total in (False, True):
        ops = [None if of_total else large[k % len(large)] for k in range(count)]
        of = "total" if of_total else "op"
        series = {"unchanged": [made_series(fleet, op, None, random) for op in ops]}
        for length in LENGTHS:
            places, creeps = changes_of([made_series(fleet, op, None, random, length) for op in ops])
            rates[f"series of {length}, {of}, unchanged: step"] = share([bool(each) for each in places])
            rates[f"series of {length}, {of}, unchanged: creep"] = share(creeps)
        for size in (0.05, 0.1, 0.3):
            ats = random.integers(15, LENGTH - 15, count)
            made = [made_series(fleet, op, step_of(size, at), random) for op, at in zip(ops, ats, strict=True)]
            found = changes_of(made)[0]
            near = [any(abs(each - at) <= 2 for each in steps) for steps, at in zip(found, ats, strict=True)]
            rates[f"series of 200, {of}, step +{100 * size:.0f} %: found within 2"] = share(near)
        ats = random.integers(15, LENGTH - 35, count)
        made = [made_series(fleet, op, step_of(0.1, at, at + 20), random) for op, at in zip(ops, ats, strict=True)]
        series["bump of 20 +10 %"] = made
        found = changes_of(made)[0]
        both = [
            all(any(abs(each - edge) <= 2 for each in steps) for edge in (at, at + 20))
            for steps, at in zip(found, ats, strict=True)
        ]
        rates[f"series of 200, {of}, bump of 20 +10 %: reported"] = share([bool(each) for each in found])
        rates[f"series of 200, {of}, bump of 20 +10 %: both ends within 2"] = share(both)
        for size in (0.1, 0.3):
            creeping = [made_series(fleet, op, creep_of(size), random) for op in ops]
            series[f"creep of +{100 * size:.0f} %"] = creeping
            steps, creeps = changes_of(creeping)
            rates[f"series of 200, {of}, creep of +{100 * size:.0f} %: reported as creep"] = share(creeps)
            either = [bool(a) or b for a, b in zip(steps, creeps, strict=True)]
            rates[f"series of 200, {of}, creep of +{100 * size:.0f} %: reported at all"] = share(either)
        for method, named in others_of(python, series, "Otava", "PELT").items() if python else ():
            for name, each in named.items():
                rates[f"series of 200, {of}, {name}: reported by {method}"] = share([bool(steps) for steps in each])
        rates |= rescanned_rates([made_series(fleet, op, None, random) for op in ops[: max(10, count // 4)]], of_total)
        for size in (0.05, 0.1, 0.3):
            made = [made_series(fleet, op, step_of(size, 100), random) for op in ops[: max(10, count // 4)]]
            rates[f"series, {of}, step +{100 * size:.0f} %: captures until it is reported"] = delay(made, 100)
    return rates


def prefixes(made: Sequence[Floats], least: int, most: int) -> list[list[tuple[list[int], bool]]]:
    """For each series the steps and whether it creeps, as scanned at each length from `least` to `most`."""
    lengths = range(least, most + 1)
    steps, creeps = changes_of([each[:length] for each in made for length in lengths])
    scanned = list(zip(steps, creeps, strict=True))
    return [scanned[at : at + len(lengths)] for at in range(0, len(scanned), len(lengths))]


def rescanned_rates(made: Sequence[Floats], of_total: bool) -> dict[str, float]:
    """Rates of series without a change that are scanned at each new capture, from the 30th to the last."""
    scanned = prefixes(made, 30, LENGTH)
    reports = 0
    for scans in scanned:
        seen: list[int] = []
        for steps, _ in scans:
            new = [step for step in steps if all(abs(step - old) > 2 for old in seen)]
            seen += new
            reports += len(new)
        reports += any(creeps for _, creeps in scans)
    of = f"series up to 200, {'total' if of_total else 'op'}, unchanged, scanned at each capture"
    return {
        f"{of}: ever reported": 100
        * float(np.mean([any(steps or creeps for steps, creeps in each) for each in scanned])),
        f"{of}: findings per 365 captures (not percent)": reports / len(made) / (LENGTH - 29) * 365,
    }


def delay(made: Sequence[Floats], at: int) -> float:
    """The median number of captures until a step at `at` is found within 2; 41 if it isn't found after 40."""
    scanned = prefixes(made, at + 1, at + 40)
    first = [
        next((k + 1 for k, (steps, _) in enumerate(each) if any(abs(step - at) <= 2 for step in steps)), 41)
        for each in scanned
    ]
    return float(np.median(first))
