"""Series drawn from worlds whose changes are known, and how often they are found: `python -m
tests.statistics.worlds_of_series [DRAWS] [PYTHON]` prints the rates as a table of Markdown; of whole series also those of other
methods, with a Python that has them (`others_of_series`).

A row of `ROWS` asks all methods the same draws: of the whole series, or after each build.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np

from etq.verdicts.changes import KEPT, OPEN, RETURNED, REVERTED, Least, changes_of, levels_of
from tests.statistics.fleet import Floats, fleet_of
from tests.statistics.rates_of_series import made_series, others_of

Random = np.random.Generator
LEAST: Final = Least(math.log(1.03))
# The first length at which a series is asked.
FIRST: Final = 8


class Mark(NamedTuple):
    """A change that a method tells: where, whether it is sure, and whether it is slow growth."""

    place: int
    is_kept: bool = True
    is_creep: bool = False
    is_reverted: bool = False


Found = list[Mark]


class Drawn(NamedTuple):
    """A series, and the builds of its captures; None if each has its own."""

    values: Floats
    builds: Floats | None = None


def noise(random: Random, n: int, kind: str, sd: float) -> Floats:
    white, at = random.normal(0, sd, n), np.arange(n)
    if kind == "slow":
        for place in range(1, n):
            white[place] = 0.9 * white[place - 1] + math.sqrt(1 - 0.81) * white[place]
    elif kind == "bimodal":
        white += 0.4 * (random.random(n) < 0.3)
    elif kind == "two lasting states":
        white += 0.08 * (np.cumsum(random.random(n) < 1 / 20) % 2)
    elif kind == "load of period 7":
        white += 0.06 * ((at + random.integers(7)) % 7 < 2)
    elif kind == "outliers":
        white += (random.random(n) < 0.08) * random.uniform(0.1, 0.6, n)
    return 12 + white


def steps(n: int, *changes: tuple[int, float]) -> Floats:
    return np.asarray(sum(math.log1p(size) * (np.arange(n) >= place) for place, size in changes))


def world(n: int, kind: str, sd: float, *changes: tuple[int, float]) -> Callable[[Random], Drawn]:
    return lambda random: Drawn(noise(random, n, kind, sd) + (steps(n, *changes) if changes else 0))


def disturbed_week(random: Random) -> Drawn:
    values = noise(random, 60, "white", 0.005)
    values[35:42] += random.uniform(0, 0.2, 7)
    return Drawn(values)


def growing(slope: float) -> Callable[[Random], Drawn]:
    return lambda random: Drawn(noise(random, 40, "white", 0.005) + slope * np.arange(40))


def several(each: int, sd: float, size: float) -> Callable[[Random], Drawn]:
    """Captures of 30 builds, so many of each, that are slower from the 16th build on."""
    builds = np.repeat(np.arange(30.0), each)
    return lambda random: Drawn(random.normal(12, sd, len(builds)) + math.log1p(size) * (builds >= 15), builds)


def of_fleets(size: float, is_total: bool) -> Callable[[Random], Drawn]:
    """Captures of the repository's fleets in their order, as blocks, with a step in the middle."""

    def drawn(random: Random) -> Drawn:
        fleet = fleet_of(str(random.choice(["mlp", "convnet", "convnet_xnn"])))
        op = None if is_total else int(random.choice(fleet.large()))
        return Drawn(made_series(fleet, op, steps(60, (30, size)) if size else None, random, 60))

    return drawn


def by_etq(all_drawn: Sequence[Drawn]) -> list[Found]:
    levels = [(each.values, None) if each.builds is None else levels_of(each.values, each.builds) for each in all_drawn]
    found = changes_of([level for level, _ in levels], [LEAST] * len(levels), None, [error for _, error in levels])
    return [
        [
            Mark(each.place, each.stage != OPEN, each.is_creep, each.stage in (REVERTED, RETURNED))
            for each in changes
            if each.stage in (KEPT, OPEN, REVERTED, RETURNED)
        ]
        for changes, _ in found
    ]


def by_others(python: str, method: str) -> Callable[[Sequence[Drawn]], list[Found]]:
    """Other methods know no builds: a place is a capture's, as a build if it begins one."""

    def asked(all_drawn: Sequence[Drawn]) -> list[Found]:
        places = others_of(python, {"series": [each.values for each in all_drawn]}, method)[method]["series"]
        return [[Mark(_build(each, place)) for place in of_one] for each, of_one in zip(all_drawn, places, strict=True)]

    return asked


def _build(drawn: Drawn, place: int) -> int:
    if drawn.builds is None:
        return place
    return int(drawn.builds[place]) if drawn.builds[place] != drawn.builds[place - 1] else -1


Method = Callable[[Sequence[Drawn]], list[Found]]


def placed(*places: int, near: int = 1) -> Callable[[Method, Sequence[Drawn]], str]:
    """In how many series all places are found, and in how many others."""

    def rate(method: Method, drawn: Sequence[Drawn]) -> str:
        found = method(drawn)
        held = [all(any(abs(each.place - at) <= near for each in marks) for at in places) for marks in found]
        return _percent(held)

    return rate


def is_false(marks: Found) -> bool:
    """Whether a step is sure, and not reverted."""
    return any(each.is_kept and not each.is_creep and not each.is_reverted for each in marks)


def false(method: Method, drawn: Sequence[Drawn]) -> str:
    return _percent([is_false(marks) for marks in method(drawn)])


def reverted(*places: int) -> Callable[[Method, Sequence[Drawn]], str]:
    def rate(method: Method, drawn: Sequence[Drawn]) -> str:
        return _percent(
            [
                all(any(abs(each.place - at) <= 1 and each.is_reverted for each in marks) for at in places)
                for marks in method(drawn)
            ]
        )

    return rate


def after_each(method: Method, drawn: Sequence[Drawn], lengths: range) -> list[list[Found]]:
    """What is found in each series, asked at each length."""
    found = method([Drawn(each.values[:end]) for each in drawn for end in lengths])
    return [found[at : at + len(lengths)] for at in range(0, len(found), len(lengths))]


def ever_kept(method: Method, drawn: Sequence[Drawn]) -> str:
    """In how many series a step is ever sure, asked after each build."""
    asked = after_each(method, drawn, range(FIRST, len(drawn[0].values) + 1))
    return _percent([any(is_false(marks) for marks in of_one) for of_one in asked])


def latency(at: int) -> Callable[[Method, Sequence[Drawn]], str]:
    """The median builds until a step is seen, and until it is kept."""

    def rate(method: Method, drawn: Sequence[Drawn]) -> str:
        asked = after_each(method, drawn, range(at + 1, at + 31))
        near = [[[each for each in marks if abs(each.place - at) <= 2] for marks in of_one] for of_one in asked]
        seen = [_first([bool(marks) for marks in of_one]) for of_one in near]
        kept = [_first([any(each.is_kept for each in marks) for marks in of_one]) for of_one in near]
        return f"{np.median(seen):.0f}; {np.median(kept):.0f}"

    return rate


def told_growth(method: Method, drawn: Sequence[Drawn]) -> str:
    """The median length at which growth is told, and in how many series a step is ever sure."""
    asked = after_each(method, drawn, range(FIRST, len(drawn[0].values) + 1))
    told = np.median([_first([any(each.is_creep for each in marks) for marks in of_one]) for of_one in asked])
    stepped = [any(each.is_kept and not each.is_creep for marks in of_one for each in marks) for of_one in asked]
    return f"{'never' if told > len(asked[0]) else f'{told + FIRST - 1:.0f}'}; {_percent(stepped)}"


def _first(held: Sequence[bool]) -> int:
    """The place of the first that holds, from 1; 99 if none does."""
    return next((place for place, each in enumerate(held, 1) if each), 99)


def _percent(held: Sequence[bool]) -> str:
    return f"{100 * float(np.mean(held)):.1f}".removesuffix(".0")


class Row(NamedTuple):
    what: str
    draw: Callable[[Random], Drawn]
    rate: Callable[[Method, Sequence[Drawn]], str]


ROWS: Final = (
    Row("two steps of 5 %, 12 builds apart", world(90, "white", 0.005, (26, 0.05), (38, 0.05)), placed(26, 38)),
    *(
        Row(f"builds until a step of {100 * size:.0f} % is seen; kept", world(70, "white", 0.005, (40, size)), latency(40))
        for size in (0.04, 0.05, 0.1, 0.2)
    ),
    Row("a disturbed week, queried after each build: kept", disturbed_week, ever_kept),
    *(
        Row(f"a step of {100 * size:.0f} % under a load of period 7", world(60, "load of period 7", 0.01, (30, size)), placed(30))
        for size in (0.1, 0.05)
    ),
    *(
        Row(f"unchanged: {kind}, {100 * sd:.0f} %", world(60, kind, sd), false)
        for kind, sd in (
            ("white", 0.01), ("white", 0.02), ("slow", 0.01), ("slow", 0.02), ("bimodal", 0.01), ("outliers", 0.01),
            ("two lasting states", 0.01),
        )
    ),
    *(
        Row(f"growth of {100 * slope:.1f} % a build: builds until it is reported; a step is kept", growing(slope), told_growth)
        for slope in (0.002, 0.005, 0.01)
    ),
    Row("3 captures a build with 3 % noise, a step of 8 %: the right build is found", several(3, 0.03, 0.08), placed(15, near=0)),
    Row("the same: a change inside a build is found", several(3, 0.03, 0.08), placed(-1, near=0)),
    Row("5 % more from build 20, back at 40: both are found", world(60, "white", 0.005, (20, 0.05), (40, -0.05 / 1.05)), placed(20, 40)),
    Row("the same: reported as reverted", world(60, "white", 0.005, (20, 0.05), (40, -0.05 / 1.05)), reverted(20, 40)),
    *(
        Row(f"{'totals' if is_total else 'ops'} of fleets, {what}", of_fleets(size, is_total), rate)
        for is_total in (True, False)
        for size, what, rate in ((0, "unchanged", false), (0.05, "a step of 5 %", placed(30, near=2)), (0.1, "a step of 10 %", placed(30, near=2)))
    ),
)  # fmt: skip


def rate_of(what: str, draws: int, method: Method = by_etq, seed: int = 5) -> str:
    """The rate of a row."""
    [row] = [row for row in ROWS if row.what == what]
    random = np.random.default_rng(seed)
    return row.rate(method, [row.draw(random) for _ in range(draws)])


def main(draws: int, python: str | None) -> None:
    others = ("PELT", "Otava", "Mann-Whitney") if python else ()
    methods = [("etq", by_etq), *((name, by_others(python or "", name)) for name in others)]
    print(f"| | {' | '.join(name for name, _ in methods)} |\n|{'---|' * (1 + len(methods))}")
    for row in ROWS:
        # Others take minutes for each build that they are asked after.
        asked = methods if row.rate not in (ever_kept, told_growth) and "until" not in row.what else methods[:1]
        rates = [rate_of(row.what, draws, method) for _, method in asked]
        print(f"| {row.what} | {' | '.join(rates)} |", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200, sys.argv[2] if len(sys.argv) > 2 else None)
