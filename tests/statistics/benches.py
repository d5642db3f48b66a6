"""Benchmarks that end by their rule, simulated: python -m tests.statistics.benches [--benches N] [--only WORLD...]

Prints how often programs that are equal get a verdict at any look, how often an op that takes 5 % longer is found, and
after how many rounds benchmarks end. Each capture's times are drawn; what is judged, and when it is enough, is etq's.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from etq.verdicts.comparison import compare
from etq.verdicts.sequential import MATTERS, Judged, Standing, alpha_of, looks, standing
from tests.statistics.fleet import CHANGED, NO_SHAPES, QUANTILE, SLOW, Floats, comparisons, fleet_of

Random = np.random.Generator


@dataclass(frozen=True)
class Times:
    """The times of a benchmark's captures in their order: of ops (captures, ops) and of the total; slow ones, too."""

    ops: Floats
    total: Floats
    slow_ops: Floats
    slow_total: Floats
    is_new: np.ndarray[Any, np.dtype[np.bool_]]
    is_other_program: bool = False  # new has no op of base

    def slower(self, factors: Floats) -> Times:
        """The same with each op of new `factors` times as long, and the total accordingly."""
        by = np.where(self.is_new[:, None], factors, 1.0)
        ops, slow_ops = self.ops * by, self.slow_ops * by
        total = self.total + (ops - self.ops).sum(axis=1)
        return replace(self, ops=ops, total=total, slow_ops=slow_ops, slow_total=self.slow_total * total / self.total)

    @property
    def shares(self) -> Floats:
        return np.asarray(np.median(self.ops[~self.is_new] / self.total[~self.is_new, None], axis=0))


World = Callable[[int, Random], Times]
# The most rounds of a benchmark.
MOST: Final = 20


def in_turns(rounds: int, random: Random) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Which captures are of new: rounds of A B B A or B A A B."""
    first = random.random(rounds) < 0.5
    return np.array([each ^ is_first for is_first in first.tolist() for each in (False, True, True, False)])


@dataclass(frozen=True)
class Noise:
    """How the logarithms of times vary between captures: standard deviations, unless said otherwise."""

    ops: int
    of_ops: tuple[float, float] = (0.003, 0.025)  # each op's own: the least, and the most
    state: float = 0.01  # of the machine, which slows some ops more than others
    drift: float = 0.0  # a walk of the state from capture to capture
    op_drift: float = 0.0  # the same of each op
    disturbed: float = 0.0  # the part of captures in which all takes 6 to 60 % longer
    off: float = 0.0  # the part of captures in which an op takes 3 to 12 % longer
    tails: float = np.inf  # degrees of freedom of Student's t that an op's own noise is of

    def __call__(self, rounds: int, random: Random) -> Times:
        captures = 4 * rounds
        sizes = np.exp(random.normal(0, 1.2, self.ops)) * 1e5
        least, most = np.log(self.of_ops)
        deviations = np.exp(random.uniform(least, most, self.ops))
        shape = (captures, self.ops)
        own = random.normal(size=shape)
        if np.isfinite(self.tails):
            own /= np.sqrt(random.chisquare(self.tails, shape) / self.tails)
        walk = self.drift * np.cumsum(random.normal(size=captures))
        state = self.state * random.normal(size=captures) + walk
        is_disturbed = random.random(captures) < self.disturbed
        state += np.where(is_disturbed, np.exp(random.uniform(np.log(0.06), np.log(0.5), captures)), 0)
        logs = own * deviations + state[:, None] * np.clip(random.normal(1, 0.3, self.ops), 0.2, None)
        logs += self.op_drift * np.cumsum(random.normal(size=shape), axis=0)
        logs += np.where(random.random(shape) < self.off, random.uniform(0.03, 0.12, shape), 0)
        ops = sizes * np.exp(logs)
        outside = 0.03 * ops.sum(axis=1) * np.exp(random.normal(0, 0.05, captures))
        slow = np.exp(0.05 + 0.02 * np.abs(random.normal(size=(captures, self.ops + 1))) + 0.5 * np.abs(state)[:, None])
        total = ops.sum(axis=1) + outside
        return Times(ops, total, ops * slow[:, 1:], total * slow[:, 0], in_turns(rounds, random))


def of_fleet(model: str) -> World:
    """Rounds of four captures of a model that follow each other in time, each time from another place."""
    fleet = fleet_of(model)
    ops, slow_ops = np.quantile(fleet.ops, (QUANTILE, SLOW), axis=2)
    total, slow_total = np.quantile(fleet.totals, (QUANTILE, SLOW), axis=1)

    def drawn(rounds: int, random: Random) -> Times:
        starts = random.integers(0, len(total) - 3, rounds)
        at = (starts[:, None] + np.arange(4)).ravel()
        return Times(ops[at], total[at], slow_ops[at], slow_total[at], in_turns(rounds, random))

    return drawn


WORLDS: Final[dict[str, World]] = {
    "quiet, 1 op": Noise(1),
    "quiet, 40 ops": Noise(40),
    "drift, 1 op": Noise(1, drift=0.01),
    "drift, 40 ops": Noise(40, drift=0.01, op_drift=0.002),
    "heavy tails, 1 op": Noise(1, tails=3, off=0.05, disturbed=0.05),
    "heavy tails, 40 ops": Noise(40, tails=3, off=0.05, disturbed=0.05),
    "busy, 1 op": Noise(1, state=0.08, drift=0.02, disturbed=0.1),
    "busy, 40 ops": Noise(40, state=0.08, drift=0.02, disturbed=0.1, off=0.03),
}
FLEETS: Final = {"the fleet's mlp": "mlp", "the fleet's convnet": "convnet"}


def verdicts_of(benches: Sequence[Times], measured: int, alpha: float) -> list[list[Judged]]:
    """The verdicts on each benchmark after so many rounds."""
    rows: dict[str, list[Any]] = {name: [] for name in ("comparison", "capture_id", "side", "position")}
    items: dict[str, list[Any]] = {name: [] for name in ("level", "item", "ticks", "slow_ticks")}
    for number, each in enumerate(benches):
        count = each.ops.shape[1]
        for at in range(4 * measured):
            side = "new" if each.is_new[at] else "base"
            common = number, at, side, float(at)
            for name, value in zip(rows, common, strict=True):
                rows[name] += [value] * (count + 1)
            mark = "n" if each.is_other_program and each.is_new[at] else ""
            items["level"] += ["op"] * count + ["total"]
            items["item"] += [f"{mark}{place}" for place in range(count)] + [""]
            items["ticks"] += [*each.ops[at].tolist(), float(each.total[at])]
            items["slow_ticks"] += [*each.slow_ops[at].tolist(), float(each.slow_total[at])]
    texts = ("side", "level", "item")
    columns = {name: np.array(each, np.object_ if name in texts else None) for name, each in (rows | items).items()}
    size = len(rows["side"])
    columns |= {"step": np.zeros(size, np.int64), "scope": np.full(size, "", np.object_)}
    columns |= {"resolution": np.ones(size), "calls": np.full(size, np.nan), "is_trace": np.zeros(size, np.bool_)}
    columns["op"] = columns["item"]
    answer = compare(comparisons(columns), NO_SHAPES, False, True, alpha, None, False, ())
    names = ("comparison", "level", "item", "verdict", "change", "change_low", "change_high", "share")
    found: list[list[Judged]] = [[] for _ in benches]
    columns_found = (answer[name] for name in (*names, "base_captures", "new_captures"))
    for number, level, *rest, bases, news in zip(*columns_found, strict=True):
        if level in ("total", "op", "slow total", "slow op"):
            item, verdict, change, low, high, part = rest
            found[number].append(Judged(level, item, verdict, change, low, high, part, bases + news))
    return found


@dataclass
class Ended:
    """How a benchmark ended: after how many rounds, with which verdicts, and what had one that changed at any look."""

    rounds: int
    verdicts: list[Judged]
    ever: set[tuple[str, str]]  # levels and items
    standings: dict[int, Standing]  # by look

    @property
    def is_decided(self) -> bool:
        return self.standings[self.rounds].is_decided

    @property
    def changed(self) -> set[tuple[str, str]]:
        """The levels and items that are slower or faster at its end."""
        return {(each.level, each.item) for each in self.verdicts if each.verdict in CHANGED}


def ended(benches: Sequence[Times], rounds: int = MOST, alpha: float = 0.05, batch: int = 10) -> Iterator[Ended]:
    """Yield how each benchmark of at most `rounds` rounds ends, by its rule."""
    for start in range(0, len(benches), batch):
        chosen = benches[start : start + batch]
        found = [Ended(0, [], set(), {}) for _ in chosen]
        going = list(range(len(chosen)))
        for look in looks(rounds):
            level = alpha_of(look, alpha, rounds)
            assert level is not None
            for at, rows in zip(going, verdicts_of([chosen[at] for at in going], look, level), strict=True):
                each = found[at]
                each.rounds, each.verdicts = look, rows
                each.ever |= {(row.level, row.item) for row in rows if row.verdict in CHANGED}
                each.standings[look] = standing(rows, look)
            going = [at for at in going if not found[at].is_decided]
            if not going:
                break
        yield from found


def equal(world: World, count: int, seed: int) -> list[Ended]:
    """Benchmarks of two programs that are equal."""
    random = np.random.default_rng(seed)
    return [*ended([world(MOST, random) for _ in range(count)])]


def one_slower(world: World, count: int, seed: int, factor: float = 1.05) -> list[tuple[Ended, tuple[str, str]]]:
    """Benchmarks with one op slower that has 3 % of the total or more, and that op's level and item."""
    random = np.random.default_rng(seed)
    benches, chosen = [], []
    for _ in range(count):
        times = world(MOST, random)
        op = int(random.choice(np.flatnonzero(times.shares >= MATTERS)))
        benches.append(times.slower(np.where(np.arange(times.ops.shape[1]) == op, factor, 1)))
        chosen.append(("op", str(op)))
    return list(zip(ended(benches), chosen, strict=True))


def other_program(world: World, count: int, seed: int, factor: float = 2) -> list[Ended]:
    """Benchmarks of two programs without a common op, of which new takes `factor` times as long."""
    random = np.random.default_rng(seed)
    drawn = [world(MOST, random) for _ in range(count)]
    return [*ended([replace(each.slower(np.full(each.ops.shape[1], factor)), is_other_program=True) for each in drawn])]


def share(held: Sequence[bool]) -> str:
    return f"{100 * float(np.mean(held)):.1f} %" if held else "-"


def rates(world: World, count: int) -> dict[str, str]:
    """The rates of a world, by what they are of, from `count` benchmarks of equal programs and half as many others."""
    same, slower = equal(world, count, 1), one_slower(world, count // 2, 2)
    twice = other_program(world, count // 2, 3)
    found = [op in each.changed for each, op in slower]
    return {
        "equal: a verdict at the end": share([bool(each.changed) for each in same]),
        "of the total": share([any(level == "total" for level, _ in each.changed) for each in same]),
        "at any look": share([bool(each.ever) for each in same]),
        "decided": share([each.is_decided for each in same]),
        "rounds": rounds_of(same),
        "an op +5 %: found": share(found),
        "others blamed": share([any(item[0] == "op" for item in each.changed - {op}) for each, op in slower]),
        "its rounds": rounds_of([each for each, _ in slower]),
        "twice: decided after 2 rounds": share([each.rounds == 2 and ("total", "") in each.changed for each in twice]),
    }


def rounds_of(found: Sequence[Ended]) -> str:
    """The median of rounds, and what nine of ten have at most."""
    middle, most = np.quantile([each.rounds for each in found], (0.5, 0.9))
    return f"{middle:.0f}; {most:.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--benches", type=int, default=200, help="benchmarks of equal programs for each kind of noise")
    parser.add_argument("--only", nargs="*", choices=[*WORLDS, *FLEETS], help="only these kinds of noise")
    arguments = parser.parse_args()
    for name in arguments.only or [*WORLDS, *FLEETS]:
        world = WORLDS[name] if name in WORLDS else of_fleet(FLEETS[name])
        found = rates(world, arguments.benches)
        print(f"{name}\n" + "".join(f"    {what}: {rate}\n" for what, rate in found.items()), flush=True)


if __name__ == "__main__":
    main()
