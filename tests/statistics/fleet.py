"""The fleet, run by run, and comparisons of it with planted changes: many at once, judged by etq's verdicts."""

from __future__ import annotations

import atexit
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

import etq
from etq.verdicts.comparison import compare
from etq.verdicts.samples import Samples, tables
from tests.conftest import CAPTURES

Floats = np.ndarray[Any, np.dtype[np.float64]]
Plant = Callable[[Floats, Floats], tuple[Floats, Floats]]
QUANTILE, SLOW = 0.25, 0.9
CHANGED: Final = ("slower", "faster")


@dataclass(frozen=True)
class Fleet:
    """The captures of one model in time order: times in ns of `ops` (captures, ops, runs) and of the total."""

    items: list[str]
    ops: Floats
    totals: Floats
    resolutions: list[float]  # of the clock of each op

    @property
    def shares(self) -> Floats:
        """Each op's share of the total in the median capture."""
        typical = np.median(np.quantile(self.ops, QUANTILE, axis=2), axis=0)
        return np.asarray(typical / np.median(np.quantile(self.totals, QUANTILE, axis=1)))

    def large(self) -> list[int]:
        """The ops of at least 3 % of the total."""
        return [at for at, share in enumerate(self.shares) if share >= 0.03]

    def neighbours(self) -> list[tuple[int, int]]:
        """The captures in pairs of neighbours in time."""
        return [(at, at + 1) for at in range(0, len(self.totals) - 1, 2)]


@dataclass(frozen=True)
class Draw:
    """One comparison: captures with their sides, each measured at its place. A change is planted in new's captures,
    or in those at `places`; before that, `accepted` is planted in captures of any side at `accepted_at`.
    """

    captures: Sequence[tuple[int, str]]
    plant: Plant | None = None
    places: frozenset[int] | None = None
    accepted: Plant | None = None
    accepted_at: frozenset[int] = frozenset()


@cache
def warehouse() -> etq.Warehouse:
    """One warehouse for all draws: opening one takes as long as judging forty comparisons."""
    opened = etq.open()
    atexit.register(opened.close)
    return opened


@cache
def fleet_of(model: str) -> Fleet:
    """The fleet of a model in the repository."""
    return fleet_in(CAPTURES / "fleet" / model)


@cache
def fleet_in(folder: Path) -> Fleet:
    """The fleet of a folder's captures, read by etq: the runs of each op by its events."""
    with etq.open() as opened:
        opened.ingest_many(sorted(folder.glob("*.etdp")))
        query = """
            SELECT o.place, o.run, o.item, o.number, sum(o.ticks)::DOUBLE AS ticks
            FROM (
                SELECT
                    dense_rank() OVER (ORDER BY e.capture_id) - 1 AS place,
                    dense_rank() OVER (PARTITION BY e.capture_id ORDER BY e.run_index) - 1 AS run,
                    e.label || '@' || e.instruction_id AS item,
                    CASE WHEN e.kind <> 'framework'
                        THEN dense_rank() OVER (ORDER BY e.kind <> 'framework', e.label || '@' || e.instruction_id)
                    END AS number,
                    e.duration_ticks AS ticks
                FROM events AS e
                WHERE e.kind IN ('kernel', 'delegate', 'delegate_call') OR e.name = 'Method::execute'
            ) AS o
            GROUP BY ALL
            ORDER BY o.number NULLS FIRST
        """
        found = opened.sql(query).fetchnumpy()
    is_op = ~np.ma.getmaskarray(found["number"])
    items = list(dict.fromkeys(found["item"][is_op]))
    numbers = {item: number for number, item in enumerate(items)}
    captures, runs = int(found["place"].max()) + 1, int(found["run"].max()) + 1
    ops, totals = np.zeros((captures, len(items), runs)), np.zeros((captures, runs))
    totals[found["place"][~is_op], found["run"][~is_op]] = found["ticks"][~is_op]
    of_items = np.array([numbers[item] for item in found["item"][is_op]])
    ops[found["place"][is_op], of_items, found["run"][is_op]] = found["ticks"][is_op]
    return Fleet(items, ops, totals, [_resolution(ops[:, at]) for at in range(len(items))])


def _resolution(ticks: Floats) -> float:
    known = ticks[ticks > 0]
    return next((power for power in (10**6, 10**3) if len(known) and np.mean(known % power == 0) >= 0.5), 1)


def slower_ops(chosen: Sequence[int], factor: float) -> Plant:
    """Every run of some ops takes `factor` times as long; the total grows accordingly."""

    def plant(ops: Floats, totals: Floats) -> tuple[Floats, Floats]:
        planted = ops.copy()
        planted[list(chosen)] *= factor
        return planted, totals + (factor - 1) * ops[list(chosen)].sum(axis=0)

    return plant


def slower_op(at: int, factor: float) -> Plant:
    """Every run of one op takes `factor` times as long; the total grows accordingly."""
    return slower_ops([at], factor)


def slower_in_all(factor: float) -> Plant:
    """Everything takes `factor` times as long."""
    return lambda ops, totals: (ops * factor, totals * factor)


def slow_runs(at: int, factor: float, part: float, seed: int) -> Plant:
    """A part of the runs of one op takes `factor` times as long."""

    def plant(ops: Floats, totals: Floats) -> tuple[Floats, Floats]:
        chosen = np.random.default_rng(seed).permutation(len(totals)) < part * len(totals)
        planted = ops.copy()
        planted[at, chosen] *= factor
        return planted, totals + planted[at] - ops[at]

    return plant


class Judged(NamedTuple):
    """The verdict on one item: its change, with the ends of its interval, as a part of base; NULL is None."""

    verdict: str
    change: float
    low: float | None
    high: float | None
    note: str | None
    base_ticks: float
    new_ticks: float


def samples_of(fleet: Fleet, draws: Sequence[Draw]) -> dict[str, Any]:
    """The samples of all draws by column, as `compared` takes them; each draw is a comparison."""
    count = len(fleet.items) + 2
    resolutions = np.array([*fleet.resolutions, 1.0, 1.0])

    def times_of(ops: Floats, totals: Floats) -> Floats:
        """Of ops, the total, and what the ops leave of it (events of a delegate are counted twice)."""
        rows = np.vstack([ops, totals, totals - ops.sum(axis=0)])
        return np.asarray(np.quantile(rows, (QUANTILE, SLOW), axis=-1))

    def planted(draw: Draw, place: int, capture: int, side: str) -> Floats:
        plants = [draw.accepted] if place in draw.accepted_at else []
        if side == "new" and (draw.places is None or place in draw.places):
            plants.append(draw.plant)
        ops, totals = fleet.ops[capture], fleet.totals[capture]
        applied = [plant for plant in plants if plant is not None]
        for plant in applied:
            ops, totals = plant(ops, totals)
        return times_of(ops, totals) if applied else plain[capture]

    plain = [times_of(ops, totals) for ops, totals in zip(fleet.ops, fleet.totals, strict=True)]
    drawn = [
        (number, place, capture, side)
        for number, draw in enumerate(draws)
        for place, (capture, side) in enumerate(draw.captures)
    ]
    ticks = [planted(draws[number], place, capture, side) for number, place, capture, side in drawn]
    (times, slow), steps = np.concatenate(ticks, axis=1), np.tile(resolutions, len(drawn))
    # A capture that is drawn twice counts twice.
    places = [place for _, place, _, _ in drawn]
    positions = [place if side != "history" else capture - 1000.0 for _, place, capture, side in drawn]

    def texts(each: Sequence[str]) -> Any:
        return np.array(each, np.object_)

    return {
        "comparison": np.repeat([number for number, *_ in drawn], count),
        "capture_id": np.repeat(places, count), "step": np.zeros(len(times), np.int64),
        "side": np.repeat(texts([side for *_, side in drawn]), count), "position": np.repeat(positions, count),
        "level": np.tile(texts([*["op"] * len(fleet.items), "total", "outside ops"]), len(drawn)),
        "scope": np.tile(texts([""] * count), len(drawn)), "item": np.tile(texts([*fleet.items, "", ""]), len(drawn)),
        "op": np.tile(texts([*fleet.items, "", ""]), len(drawn)), "ticks": times, "slow_ticks": slow,
        "resolution": steps, "calls": np.full(len(times), np.nan),
        "matched": np.full(len(times), "event", np.object_), "is_trace": np.zeros(len(times), np.bool_),
    }  # fmt: skip


def comparisons(columns: Mapping[str, Any]) -> Iterator[Samples]:
    """The comparisons of samples, none of which are calls of a delegate."""
    return (table.samples(np.zeros(len(table.rows), np.bool_)) for table in tables(columns))


NO_SHAPES: Final = {name: np.empty(0, np.object_) for name in ("item", "base_shapes", "new_shapes")}
NO_CONDITIONS: Final = {name: np.empty(0, np.object_) for name in ("name", "unit", "text", "captures", "values")}
NO_LABELS: Final = {name: np.empty(0, np.object_) for name in ("name", "detail")}
NO_CAPTURES: Final = {"capture_id": np.empty(0, np.int64), "is_new": np.empty(0, np.bool_)}


def judged(fleet: Fleet, draws: Sequence[Draw], alpha: float = 0.05) -> list[dict[str, Judged]]:
    """For each draw, the verdict on each item; the total is called `total`, the common shift `common shift`.

    Slow runs that are slower, or of totals faster, are called `slow total`, and `slow ` and the op.
    """
    answer = compare(comparisons(samples_of(fleet, draws)), NO_SHAPES, False, True, alpha, None, False, ())
    columns = ("comparison", "level", "item", "verdict", "change", "change_low", "change_high", "note")
    found: list[dict[str, Judged]] = [{} for _ in draws]
    for number, level, item, *rest in zip(
        *(answer[name] for name in (*columns, "base_ticks", "new_ticks")), strict=True
    ):
        if level not in ("capture", "finding"):
            name = {"op": item, "slow op": f"slow {item}"}.get(level, level)
            found[number][name] = Judged(*rest)
    return found


def blamed(verdicts: dict[str, Judged]) -> set[str]:
    """The ops that are judged slower or faster."""
    changed = {item for item, judgement in verdicts.items() if judgement.verdict in CHANGED}
    return {item for item in changed if not item.startswith("slow ")} - {"total", "common shift"}
