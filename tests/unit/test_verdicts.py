"""The statistics of comparisons: against scipy, exact distributions, and numbers worked out by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from scipy import stats

from etq.verdicts.comparison import compare
from etq.verdicts.student import p_of
from tests.statistics.fleet import NO_CONDITIONS, NO_SHAPES, Floats


@dataclass(frozen=True)
class Sides:
    """Captures of ops: the side of each, ops (captures, ops), totals, and which ops a clock of 1 us counts."""

    sides: list[str]
    ops: Floats
    totals: Floats
    coarse: np.ndarray[Any, np.dtype[np.bool_]]
    op_types: Sequence[str | None] | None = None


def test_p_of_student_is_that_of_scipy() -> None:
    statistics = np.array([0.0, 1e-9, 0.01, 0.3, 1.0, 1.96, 2.5, -3.7, 6.0, 12.0, 50.0, -700.0])
    for freedom in range(1, 201):
        p = np.array([p_of(t, freedom) for t in statistics])
        expected = 2 * stats.t.sf(np.abs(statistics), freedom)
        if freedom == 1:  # Cauchy's distribution: at small t, scipy is less exact than its closed form
            expected = 1 - 2 * np.arctan(np.abs(statistics)) / math.pi
        assert np.max(np.abs(p - expected)) < 1e-12
        assert p.min() >= 0 and p.max() == 1


def test_p_of_student_at_the_edges() -> None:
    assert [p_of(0, 7), p_of(1e9, 31), p_of(1e9, 30), p_of(math.inf, 3)] == [1, 0, 0, 0]


def asked(*comparisons: Sides) -> list[dict[str, Any]]:
    """The verdicts on comparisons, a row each; without the states of captures and common shifts."""
    return decided(samples(*comparisons))


def samples(*comparisons: Sides) -> list[dict[str, Any]]:
    """The samples of comparisons."""
    rows: list[dict[str, Any]] = []
    for number, each in enumerate(comparisons):
        for place, side in enumerate(each.sides):
            common = {"comparison": number, "capture_id": place, "side": side, "position": float(place)}
            for at, ticks in enumerate(each.ops[place]):
                op = {"level": "op", "item": str(at), "ticks": ticks, "is_coarse": bool(each.coarse[at])}
                op["resolution"] = 1000.0 if each.coarse[at] else 1.0
                rows.append({**common, **op, "op": each.op_types[at] if each.op_types else None})
            total = {"level": "total", "item": "total", "op": None, "ticks": each.totals[place], "resolution": 1.0}
            rows.append({**common, **total, "is_coarse": False})
    return rows


def decided(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The verdicts on samples."""
    columns = {name: np.array([row[name] for row in rows]) for name in ("comparison", "capture_id", "position")}
    columns |= {name: np.array([row[name] for row in rows], float) for name in ("ticks", "resolution")}
    columns |= {name: np.array([row[name] for row in rows], object) for name in ("side", "level", "item", "op")}
    columns |= {"is_coarse": np.array([row["is_coarse"] for row in rows]), "step": np.zeros(len(rows), int)}
    columns |= {
        "scope": np.full(len(rows), "forward", object),
        "calls": np.full(len(rows), np.nan),
        "slow_ticks": np.full(len(rows), np.nan),
        "matched": np.full(len(rows), "event", object),
        "is_trace": np.zeros(len(rows), bool),
    }
    answer = compare(columns, NO_SHAPES, NO_CONDITIONS, True, 0.05, None, None, False)
    found = [dict(zip(answer, row, strict=True)) for row in zip(*answer.values(), strict=True)]
    return [row for row in found if row["level"] in ("op", "total")]


def made(random: np.random.Generator, sides: list[str], count: int, coarse: int, noise: float) -> Sides:
    """Captures of ops: some ops change, a capture may be disturbed, and all ops of a capture share a shift."""
    ops = np.exp(random.normal(10, 1, count)) * np.exp(random.normal(0, noise, (len(sides), count)))
    is_new = np.array([side == "new" for side in sides])
    changes = random.choice([1, 1, 1, 0.7, 0.97, 1.05, 1.3], count)
    ops[is_new] *= changes
    ops *= np.exp(random.normal(0, noise, len(sides)))[:, None]
    ops[is_new] *= random.choice([1, 1, 1.04])
    disturbed = random.random(len(sides)) < 0.1
    ops[disturbed] *= 1.4
    is_coarse = np.arange(count) < coarse
    # Ops of 1 to 40 us, as a clock of 1 us counts them.
    ops[:, is_coarse] = np.maximum(
        1000, np.round(ops[:, is_coarse] / ops[0, is_coarse] * random.integers(1, 40, coarse)) * 1000
    )
    totals = ops.sum(axis=1) * np.exp(random.normal(0.05, noise / 3, len(sides)))
    op_types = [("add", "mul", "mm", None)[at] for at in random.integers(0, 4, count)]
    return Sides(sides, ops, totals, is_coarse, op_types=op_types)


@pytest.mark.parametrize(("base", "new"), [(4, 4), (5, 5), (3, 10), (10, 10), (20, 7)])
def test_intervals_cover_at_the_stated_rate(base: int, new: int) -> None:
    """Against the exact distribution of Mann and Whitney: the interval covers 95 % and is as short as possible."""
    counts = np.zeros((base + 1, new + 1), dtype=object)
    for m in range(base + 1):
        for n in range(new + 1):
            counts[m, n] = (
                np.ones(1) if 0 in (m, n) else _added(np.append(np.zeros(n), counts[m - 1, n]), counts[m, n - 1])
            )
    chances = np.cumsum(counts[base, new]) / counts[base, new].sum()
    random = np.random.default_rng(1)
    ops = np.exp(random.normal(0, 0.005, (base + new, 1))) * 1e5
    each = Sides(["base"] * base + ["new"] * new, ops, ops[:, 0], np.zeros(1, bool))
    row = asked(each)[0]
    assert row["level"] == "op"
    ratios = np.sort((ops[base:, 0][:, None] / ops[:base, 0][None, :]).ravel()) - 1
    place = int(np.argmin(np.abs(ratios - row["change_low"])))
    assert row["change_low"] == pytest.approx(ratios[place]) and row["change_high"] == pytest.approx(ratios[-1 - place])
    assert 1 - 2 * chances[place] >= 0.945
    assert place + 2 >= base * new / 2 or 1 - 2 * chances[place + 2] < 0.95


def _added(first: np.ndarray[Any, Any], second: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    length = max(len(first), len(second))
    padded = [np.pad(each, (0, length - len(each))) for each in (first, second)]
    return np.asarray(padded[0] + padded[1])


def test_one_round_number_makes_no_coarse_clock() -> None:
    """If one of eight captures has multiples of 1000, it is by chance; if five have, the clock is coarse."""
    random = np.random.default_rng(5)
    each = made(random, ["base", "new"] * 4, 4, 0, 0.001)
    for rounds, verdict in ((1, "slower"), (5, "can't judge")):
        ops = np.array([1.5] * 4) * 1000 * np.exp(random.normal(0, 0.001, (8, 4)))
        ops[1::2, 0] *= 1.3
        rows = samples(Sides(each.sides, ops, ops.sum(axis=1), each.coarse))
        for row in rows:
            if row["item"] == "0" and row["capture_id"] < rounds:
                row.update(is_coarse=True, resolution=1000.0)
        assert [row["verdict"] for row in decided(rows) if row["item"] == "0"] == [verdict]


def test_an_op_is_judged_by_the_noise_of_its_type() -> None:
    """Half of the ops vary by 0.3 %, the others by 4 %: 3 % more is found in one of the first, but only if types are known."""
    random = np.random.default_rng(4)
    noise = np.repeat([0.003, 0.04], 6)
    sides = ["base", "new"] * 5
    found: dict[bool, float] = {}
    for is_known in (True, False):
        comparisons = []
        for _ in range(100):
            ops = 1e5 * np.exp(random.normal(0, 1, (10, 12)) * noise)
            ops[1::2, 0] *= 1.03
            op_types = ["mm"] * 6 + ["pool"] * 6
            made = Sides(sides, ops, ops.sum(axis=1), np.zeros(12, bool), op_types=op_types if is_known else None)
            comparisons.append(made)
        rows = [row for row in asked(*comparisons) if row["level"] == "op"]
        found[is_known] = float(np.mean([row["verdict"] == "slower" for row in rows if row["item"] == "0"]))
        blamed = {row["comparison"] for row in rows if row["item"] != "0" and row["verdict"] in ("slower", "faster")}
        assert len(blamed) <= 8
    assert found[True] >= 0.95
    assert found[False] <= 0.7


def test_small_ops_take_little_of_alpha() -> None:
    """Three ops of 30 % and 40 of 0.01 % of the total: the least p counts (3 * 1 % + 40 * 0.05 %) / 1 % times."""
    random = np.random.default_rng(6)
    ops = np.array([3e5] * 3 + [100.0] * 40) * np.exp(random.normal(0, 0.002, (10, 43)))
    ops[1::2, 0] *= 1.05
    ops[1::2, 42] *= 3
    each = Sides(["base", "new"] * 5, ops, np.full(10, 1e6), np.zeros(43, bool))
    rows = [row for row in asked(each) if row["level"] == "op"]
    by_item = {row["item"]: row for row in rows}
    tiny, large = by_item["42"], by_item["0"]
    assert tiny["p"] < large["p"] / 1000
    # The tiny op comes first, though it counts a twentieth.
    assert tiny["q"] == pytest.approx(tiny["p"] * (3 * 0.01 + 40 * 0.0005) / 0.0005)
    assert large["q"] == pytest.approx(large["p"] * (3 * 0.01 + 39 * 0.0005) / 0.01)
    assert large["verdict"] == "slower"


def test_without_variance_there_is_no_advice() -> None:
    """Four constant ops: fewer than five ops share no spread, so p is 1 however far one moved."""
    sides = ["base", "new"] * 4
    ops = np.tile([50_000.0, 60_000.0, 70_000.0, 80_000.0], (8, 1))
    ops[1::2, 3] = 160_000
    each = Sides(sides, ops, ops.sum(axis=1), np.zeros(4, bool))
    rows = sorted(asked(each), key=lambda row: row["item"])
    verdicts = [(row["item"], row["verdict"], row["p"]) for row in rows]
    unmoved = [(item, "~", 1) for item in ("0", "1", "2")]
    assert verdicts == [*unmoved, ("3", "can't judge", 1), ("total", "can't judge", 1)]
    assert rows[3]["change"] == 1.0
    assert rows[3]["note"] == "the same in all captures of a side: its variation is unknown"
