"""The statistics of comparisons: against scipy, and against the method in numpy (`tests.sql.method`)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from scipy import stats

from etq.warehouse.warehouse import Warehouse
from tests.conftest import CAPTURES
from tests.sampling import examples, thinned
from tests.sql.method import Sides, common_of, several, single
from tests.warehouses import empty_warehouse

MODELS = ("mlp", "convnet", "convnet_xnn")
PATIENT = examples(12, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def empty() -> Iterator[Warehouse]:
    """A warehouse whose macros are called on given values."""
    with empty_warehouse() as opened:
        yield opened


def test_p_of_student_is_that_of_scipy(empty: Warehouse) -> None:
    statistics = [0.0, 1e-9, 0.01, 0.3, 1.0, 1.96, 2.5, -3.7, 6.0, 12.0, 50.0, -700.0]
    query = "SELECT t, f, _student_p(t, f) FROM (SELECT unnest($t) AS t), (SELECT unnest(range(1, 201)) AS f)"
    rows = empty.rows(query, t=statistics)[1]
    assert len(rows) == 200 * len(statistics)
    t, freedom, p = np.array(rows, dtype=float).T
    expected = 2 * stats.t.sf(np.abs(t), freedom)
    # With one degree of freedom this is the Cauchy distribution. At small t, scipy is less exact than its closed form.
    expected[freedom == 1] = 1 - 2 * np.arctan(np.abs(t[freedom == 1])) / math.pi
    assert np.max(np.abs(p - expected)) < 1e-12
    assert p.min() >= 0 and p.max() == 1


def test_p_of_student_at_the_edges(empty: Warehouse) -> None:
    query = (
        "SELECT _student_p(2.0, 0), _student_p(NULL, 5), _student_p(0.0, 7), _student_p(1e9, 31), _student_p(1e9, 30)"
    )
    assert empty.rows(query)[1] == [(None, None, 1, 0, 0)]


def rows_of(comparisons: Sequence[Sides]) -> pa.Table:
    """Samples in the form that the SQL takes."""
    rows: list[dict[str, Any]] = []
    for number, each in enumerate(comparisons):
        resolution = [each.resolution if coarse else 1 for coarse in each.coarse]
        for place, side in enumerate(each.sides):
            common = {"comparison": number, "capture_id": place, "side": side, "scope": "forward"}
            position = place if side != "history" else place - len(each.sides)
            common["position"] = position
            for at, ticks in enumerate(each.ops[place]):
                op = {"level": "op", "item": str(at), "ticks": ticks, "resolution": resolution[at]}
                op_type = each.op_types[at] if each.op_types else None
                rows.append({**common, **op, "op": op_type, "is_coarse": bool(each.coarse[at])})
            total = {"level": "total", "item": "total", "op": None, "ticks": each.totals[place], "resolution": 1}
            rows.append({**common, **total, "is_coarse": False})
    return pa.Table.from_pylist(rows)


def asked(warehouse: Warehouse, comparisons: Sequence[Sides], query: str) -> list[dict[str, Any]]:
    warehouse.connection.register("samples", rows_of(comparisons))
    columns, rows = warehouse.rows(query)
    return [dict(zip(columns, row, strict=True)) for row in rows]


ADJUSTED = "_normalized_samples((SELECT list(s) FROM samples AS s))"


def check_common(warehouse: Warehouse, comparisons: Sequence[Sides]) -> None:
    rows = asked(
        warehouse,
        comparisons,
        f"SELECT DISTINCT comparison, capture_id, factor, has_factor, is_disturbed FROM {ADJUSTED}",
    )
    found = {(row["comparison"], row["capture_id"]): row for row in rows}
    assert len(found) == len(rows)
    for number, each in enumerate(comparisons):
        common = common_of(each)
        for place in range(len(each.sides)):
            row = found[number, place]
            assert (row["has_factor"], row["is_disturbed"]) == (common.has_factor, common.disturbed[place])
            assert row["factor"] == pytest.approx(common.factors[place], abs=1e-11)


def check(warehouse: Warehouse, comparisons: Sequence[Sides]) -> list[str]:
    """Check that the SQL's answers equal the method's; return all verdicts."""
    check_common(warehouse, comparisons)
    rows_read = asked(
        warehouse,
        comparisons,
        "FROM _verdicts((SELECT list(s) FROM samples AS s), 0.05, NULL) WHERE level <> 'common shift'",
    )
    by_item: dict[int, dict[Any, Any]] = {number: {} for number in range(len(comparisons))}
    for row in rows_read:
        by_item[row["comparison"]][row["item"] if row["level"] == "total" else int(row["item"])] = row
    for number, each in enumerate(comparisons):
        expected = single(each) if each.is_single else several(each)
        for item, want in expected.items():
            row = by_item[number][item]
            assert row["verdict"] == want.verdict, (item, row, want)
            assert row["share"] == pytest.approx(want.share, rel=1e-9)
            assert row["change"] == pytest.approx(want.change, abs=1e-10)
            if each.is_single:
                assert row["score"] == pytest.approx(want.score, rel=1e-6)
                continue
            assert (row["change_low"], row["change_high"]) == (
                want.low if want.low is None else pytest.approx(want.low, abs=1e-10),
                want.high if want.high is None else pytest.approx(want.high, abs=1e-10),
            )
            if want.p is not None:
                assert row["p"] == pytest.approx(want.p, abs=1e-9)
            if item != "total":
                assert row["q"] == (None if want.q is None else pytest.approx(want.q, abs=1e-9))
    return [row["verdict"] for row in rows_read]


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


@st.composite
def batches(draw: st.DrawFn) -> list[Sides]:
    """Several comparisons: the SQL judges any number at once."""
    chosen = []
    for _ in range(draw(st.integers(1, 8))):
        sides = ["base"] * draw(st.integers(2, 8)) + ["new"] * draw(st.integers(2, 8))
        random = np.random.default_rng(draw(st.integers(0, 2**32)))
        if draw(st.booleans()):
            random.shuffle(sides)
        count = draw(st.integers(1, 16))
        noise = draw(st.sampled_from([0.001, 0.01, 0.05]))
        chosen.append(made(random, sides, count, draw(st.integers(0, count)), noise))
    return chosen


@PATIENT
@given(comparisons=batches())
def test_several_captures_a_side(empty: Warehouse, comparisons: list[Sides]) -> None:
    check(empty, comparisons)


def test_the_made_comparisons_have_all_verdicts(empty: Warehouse) -> None:
    random = np.random.default_rng(7)
    sides = ["base", "new", "new", "base"] * 3
    verdicts = check(empty, [made(random, sides, 12, 3, 0.01) for _ in range(10)])
    assert set(verdicts) == {"slower", "faster", "~", "not decided", "can't judge"}
    assert set(check(empty, [made(random, sides[:4], 12, 3, 0.01)])) == {"too few"}


def test_ops_without_a_ratio_in_common(empty: Warehouse) -> None:
    """A quarter of the ops grew by one ratio, most ops less and by different ratios: that isn't a common shift."""
    sides, grown = ["base", "new", "new", "base"] * 3, np.array([1, 1.1, 1.2, 1.35, 1.5, 1.7, 1.95, 2.2] + [2.65] * 4)
    ops = np.exp(np.random.default_rng(5).normal(10, 0.003, (12, 12)))
    both = (grown, np.where(np.arange(12) < 5, grown, 2.65))  # if most ops grew as much, it is a common shift
    timed = [np.where((np.array(sides) == "new")[:, None], ops * by, ops) for by in both]
    each = [Sides(sides, one, one.sum(axis=1), np.zeros(12, bool)) for one in timed]
    assert [common_of(one).has_factor for one in each] == [False, True]
    check(empty, each)
    rows = asked(empty, each, f"SELECT DISTINCT comparison FROM {ADJUSTED} WHERE is_scattered")
    assert rows == [{"comparison": 0}]


@PATIENT
@given(
    seed=st.integers(0, 2**32),
    captures=st.integers(10, 25),
    coarse=st.integers(0, 3),
    noise=st.sampled_from([0.002, 0.01]),
)
def test_one_capture_a_side(empty: Warehouse, seed: int, captures: int, coarse: int, noise: float) -> None:
    random = np.random.default_rng(seed)
    comparisons = []
    for _ in range(4):
        each = made(random, ["history"] * captures + ["base", "new"], 10, coarse, noise)
        if (~common_of(each).disturbed[:-2]).sum() >= 10:
            comparisons.append(each)
    if comparisons:
        check(empty, comparisons)


def test_one_capture_a_side_has_verdicts(empty: Warehouse) -> None:
    random = np.random.default_rng(11)
    each = [made(random, ["history"] * 20 + ["base", "new"], 10, 2, 0.002) for _ in range(60)]
    assert set(check(empty, each)) >= {"slower", "faster", "~", "not decided", "can't judge"}


@cache
def fleet(model: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The first quartile of each op's runs per capture in time order; the same of the total; which ops are coarse."""
    with empty_warehouse() as warehouse:
        for path in sorted((CAPTURES / "fleet" / model).glob("*.etdp")):
            warehouse.ingest(path)
        rows = warehouse.rows(
            """SELECT e.capture_id, e.label, e.instruction_id, e.kind, list(e.duration_ticks) FROM events AS e
               WHERE e.kind IN ('kernel', 'delegate', 'delegate_call') OR e.name = 'Method::execute' GROUP BY ALL"""
        )[1]
    items = sorted({(row[1], row[2] or 0) for row in rows if row[3] != "framework"})
    ops, totals, coarse = np.zeros((20, len(items))), np.zeros(20), np.zeros(len(items), bool)
    for capture, label, instruction, kind, ticks in rows:
        if kind == "framework":
            totals[capture - 1] = np.quantile(ticks, 0.25)
            continue
        at = items.index((label, instruction or 0))
        ops[capture - 1, at] = np.quantile(ticks, 0.25)
        coarse[at] |= bool(np.mean(np.array(ticks) % 1000 == 0) >= 0.5)
    is_measured = (ops > 0).all(axis=0)
    return ops[:, is_measured], totals, coarse[is_measured]


@pytest.mark.parametrize("model", thinned(MODELS, ["mlp"]))
def test_several_captures_of_the_fleet(empty: Warehouse, model: str) -> None:
    ops, totals, coarse = fleet(model)
    random = np.random.default_rng(3)
    comparisons = []
    for captures in (3, 5, 10):
        for change in (1, 1.05, 1.5):
            chosen = np.sort(random.permutation(20)[: 2 * captures])
            sides = [("base", "new")[(at + at // 2) % 2] for at in range(2 * captures)]
            changed, in_all = ops[chosen].copy(), totals[chosen].copy()
            is_new = np.array(sides) == "new"
            at = int(np.argmax(ops[0]))
            in_all[is_new] += (change - 1) * changed[is_new, at]
            changed[is_new, at] *= change
            comparisons.append(Sides(sides, changed, in_all, coarse))
    verdicts = check(empty, comparisons)
    assert "slower" in verdicts


@pytest.mark.parametrize("model", thinned(MODELS, ["mlp"]))
def test_single_captures_of_the_fleet(empty: Warehouse, model: str) -> None:
    ops, totals, coarse = fleet(model)
    comparisons = []
    # With three ops that change at once, they are possibly slower only, unless by a factor of 2.
    changes = ((18, 19, 1.0, 1), (18, 19, 1.5, 1), (4, 9, 1.0, 1), (9, 4, 0.5, 1), (18, 19, 1.5, 3), (18, 19, 2.5, 3))
    for base, new, change, count in changes:
        order = [at for at in range(20) if at not in (base, new)] + [base, new]
        sides = ["history"] * 18 + ["base", "new"]
        changed, in_all = ops[order].copy(), totals[order].copy()
        at = np.argsort(ops[0])[-count:]
        in_all[-1] += (change - 1) * changed[-1, at].sum()
        changed[-1, at] *= change
        comparisons.append(Sides(sides, changed, in_all, coarse))
    check(empty, comparisons)


@pytest.mark.parametrize(("base", "new"), [(4, 4), (5, 5), (3, 10), (10, 10), (20, 7)])
def test_intervals_cover_at_the_stated_rate(empty: Warehouse, base: int, new: int) -> None:
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
    row = asked(
        empty, [each], "SELECT * FROM _verdicts((SELECT list(s) FROM samples AS s), 0.05, NULL) WHERE level = 'op'"
    )[0]
    ratios = np.sort((ops[base:, 0][:, None] / ops[:base, 0][None, :]).ravel()) - 1
    place = int(np.argmin(np.abs(ratios - row["change_low"])))
    assert row["change_low"] == pytest.approx(ratios[place]) and row["change_high"] == pytest.approx(ratios[-1 - place])
    assert 1 - 2 * chances[place] >= 0.945
    assert place + 2 >= base * new / 2 or 1 - 2 * chances[place + 2] < 0.95


def _added(first: np.ndarray[Any, Any], second: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    length = max(len(first), len(second))
    padded = [np.pad(each, (0, length - len(each))) for each in (first, second)]
    return np.asarray(padded[0] + padded[1])


def test_one_round_number_makes_no_coarse_clock(empty: Warehouse) -> None:
    """If one of eight captures has multiples of 1000, it is by chance; if five have, the clock is coarse."""
    random = np.random.default_rng(5)
    each = made(random, ["base", "new"] * 4, 4, 0, 0.001)
    for rounds, verdict in ((1, "slower"), (5, "can't judge")):
        ops = np.array([1.5] * 4) * 1000 * np.exp(random.normal(0, 0.001, (8, 4)))
        ops[1::2, 0] *= 1.3
        table = rows_of([Sides(each.sides, ops, ops.sum(axis=1), each.coarse)]).to_pylist()
        for row in table:
            if row["item"] == "0" and row["capture_id"] < rounds:
                row.update(is_coarse=True, resolution=1000)
        empty.connection.register("samples", pa.Table.from_pylist(table))
        query = "SELECT verdict FROM _verdicts((SELECT list(s) FROM samples AS s), 0.05, NULL) WHERE item = '0'"
        assert empty.rows(query)[1] == [(verdict,)]


def test_an_op_is_judged_by_the_noise_of_its_type(empty: Warehouse) -> None:
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
        query = "SELECT * FROM _verdicts((SELECT list(s) FROM samples AS s), 0.05, NULL) WHERE level = 'op'"
        rows = asked(empty, comparisons, query)
        found[is_known] = float(np.mean([row["verdict"] == "slower" for row in rows if row["item"] == "0"]))
        blamed = {row["comparison"] for row in rows if row["item"] != "0" and row["verdict"] in ("slower", "faster")}
        assert len(blamed) <= 8
    assert found[True] >= 0.95
    assert found[False] <= 0.7


def test_small_ops_take_little_of_alpha(empty: Warehouse) -> None:
    """Three ops of 30 % and 40 of 0.01 % of the total: the least p counts (3 * 1 % + 40 * 0.05 %) / 1 % times."""
    random = np.random.default_rng(6)
    ops = np.array([3e5] * 3 + [100.0] * 40) * np.exp(random.normal(0, 0.002, (10, 43)))
    ops[1::2, 0] *= 1.05
    ops[1::2, 42] *= 3
    each = Sides(["base", "new"] * 5, ops, np.full(10, 1e6), np.zeros(43, bool))
    rows = asked(empty, [each], "FROM _verdicts((SELECT list(s) FROM samples AS s), 0.05, NULL) WHERE level = 'op'")
    by_item = {row["item"]: row for row in rows}
    tiny, large = by_item["42"], by_item["0"]
    assert tiny["p"] < large["p"] / 1000
    # The tiny op comes first, though it counts a twentieth.
    assert tiny["q"] == pytest.approx(tiny["p"] * (3 * 0.01 + 40 * 0.0005) / 0.0005)
    assert large["q"] == pytest.approx(large["p"] * (3 * 0.01 + 39 * 0.0005) / 0.01)
    assert large["verdict"] == "slower"


def test_without_variance_there_is_no_advice(empty: Warehouse) -> None:
    """Four constant ops: fewer than five ops share no spread, so p is 1 however far one moved."""
    sides = ["base", "new"] * 4
    ops = np.tile([50_000.0, 60_000.0, 70_000.0, 80_000.0], (8, 1))
    ops[1::2, 3] = 160_000
    each = Sides(sides, ops, ops.sum(axis=1), np.zeros(4, bool))
    query = "FROM _verdicts((SELECT list(s) FROM samples AS s), 0.05, NULL) WHERE level <> 'common shift' ORDER BY item"
    rows = asked(empty, [each], query)
    verdicts = [(row["item"], row["verdict"], row["p"]) for row in rows]
    unmoved = [(item, "~", 1) for item in ("0", "1", "2")]
    assert verdicts == [*unmoved, ("3", "can't judge", 1), ("total", "can't judge", 1)]
    assert rows[3]["change"] == 1.0
    assert rows[3]["note"] == "the same in all captures of a side: its variation is unknown"
