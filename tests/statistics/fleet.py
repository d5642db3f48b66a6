"""The fleet, run by run, and comparisons of it with what is planted there: many at once, judged by the SQL."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

import etq
from tests.conftest import CAPTURES

Floats = np.ndarray[Any, np.dtype[np.float64]]
Plant = Callable[[Floats, Floats], tuple[Floats, Floats]]
QUANTILE = 0.25


@dataclass(frozen=True)
class Fleet:
    """The captures of one model in the order of time: times in ns of `ops` (captures, ops, runs) and in all."""

    items: list[str]
    ops: Floats
    totals: Floats
    resolutions: list[int]

    @property
    def shares(self) -> Floats:
        """Each op's part of the total, in the median capture."""
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
    """One comparison: captures with their side, each measured at the place that it stands at, and what is planted."""

    captures: Sequence[tuple[int, str]]
    plant: Plant | None = None


@cache
def fleet_of(model: str) -> Fleet:
    """The fleet of a model, read by etq; the runs of each op as events have them."""
    with etq.open() as warehouse:
        for path in sorted((CAPTURES / "fleet" / model).glob("*.etdp")):
            warehouse.ingest(path)
        query = """
            SELECT e.capture_id, e.run_index, e.label || '@' || e.instruction_id AS item,
                e.kind = 'framework' AS is_total, sum(e.duration_ticks)::BIGINT AS ticks
            FROM events AS e
            WHERE e.kind IN ('kernel', 'delegate', 'delegate_call') OR e.name = 'Method::execute'
            GROUP BY ALL
        """
        rows = warehouse.rows(query)[1]
    captures = sorted({row[0] for row in rows})
    items = sorted({row[2] for row in rows if not row[3]})
    runs = {capture: sorted({row[1] for row in rows if row[0] == capture}) for capture in captures}
    shape = (len(captures), len(items), len(runs[captures[0]]))
    ops, totals = np.zeros(shape), np.zeros((shape[0], shape[2]))
    for capture, run, item, is_total, ticks in rows:
        at, place = captures.index(capture), runs[capture].index(run)
        if is_total:
            totals[at, place] = ticks
        else:
            ops[at, items.index(item), place] = ticks
    return Fleet(items, ops, totals, [_resolution(ops[:, at]) for at in range(len(items))])


def _resolution(ticks: Floats) -> int:
    told = ticks[ticks > 0]
    return next((power for power in (10**6, 10**3) if len(told) and np.mean(told % power == 0) >= 0.5), 1)


def slower_op(at: int, factor: float) -> Plant:
    """Every run of one op takes `factor` times as long, and the total what comes of that."""

    def plant(ops: Floats, totals: Floats) -> tuple[Floats, Floats]:
        planted = ops.copy()
        planted[at] *= factor
        return planted, totals + (factor - 1) * ops[at]

    return plant


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


def judged(fleet: Fleet, draws: Sequence[Draw], quantile: float = QUANTILE) -> list[dict[str, tuple[str, float]]]:
    """For each draw, the verdict on each item and its change; the total is called `total`, the common shift `common shift`."""
    names = (
        "comparison",
        "capture_id",
        "side",
        "position",
        "level",
        "scope",
        "item",
        "ticks",
        "resolution",
        "is_coarse",
    )
    columns: dict[str, list[Any]] = {name: [] for name in names}
    count = len(fleet.items)
    for number, draw in enumerate(draws):
        for place, (capture, side) in enumerate(draw.captures):
            ops, totals = fleet.ops[capture], fleet.totals[capture]
            if draw.plant is not None and side == "new":
                ops, totals = draw.plant(ops, totals)
            times = np.quantile(ops, quantile, axis=1)
            coarse = [step >= 1000 and time < 500 * step for step, time in zip(fleet.resolutions, times, strict=True)]
            columns["comparison"] += [number] * (count + 1)
            # A capture that is drawn twice counts as two.
            columns["capture_id"] += [place] * (count + 1)
            columns["side"] += [side] * (count + 1)
            columns["position"] += [place if side != "history" else capture - 1000] * (count + 1)
            columns["level"] += ["op"] * count + ["total"]
            columns["scope"] += [""] * (count + 1)
            columns["item"] += [*fleet.items, ""]
            columns["ticks"] += [*times, float(np.quantile(totals, quantile))]
            columns["resolution"] += [*fleet.resolutions, 1]
            columns["is_coarse"] += [*coarse, False]
    with etq.open() as warehouse:
        warehouse.connection.register("samples", pa.table(columns))
        query = """
            SELECT c.comparison, c.level, c.item, c.verdict, c.change
            FROM _verdicts((SELECT list(s) FROM samples AS s), 0.05, NULL) AS c
        """
        found: list[dict[str, tuple[str, float]]] = [{} for _ in draws]
        for number, level, item, verdict, change in warehouse.rows(query)[1]:
            found[number][item if level == "op" else level] = (verdict, change)
    return found


def blamed(verdicts: dict[str, tuple[str, float]]) -> set[str]:
    """The ops that are told slower or faster."""
    told = {item for item, (verdict, _) in verdicts.items() if verdict in ("slower", "faster")}
    return told - {"total", "common shift"}
