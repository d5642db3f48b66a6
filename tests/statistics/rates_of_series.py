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


def step_of(size: float, at: int, until: int = LENGTH) -> Floats:
    shape = np.zeros(LENGTH)
    shape[at:until] = np.log1p(size)
    return shape


def creep_of(size: float) -> Floats:
    return np.asarray(np.linspace(0, np.log1p(size), LENGTH))


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
