"""The statistics of comparisons: against scipy, exact distributions, and numbers by hand; ops of two programs as a diff."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from scipy import special, stats
from scipy.optimize import brentq

from etq.verdicts import words
from etq.verdicts.alignment import align
from etq.verdicts.arithmetic import differences, p_of, quantile
from etq.verdicts.comparison import compare
from etq.verdicts.effects import MOST_PRIOR, shrunk
from etq.verdicts.items import compared
from etq.verdicts.outliers import sentence
from etq.verdicts.values import value_changes
from tests.sql.method import bounded, drift_of
from tests.statistics.fleet import (
    NO_CAPTURES,
    NO_CONDITIONS,
    NO_LABELS,
    NO_SHAPES,
    Draw,
    Fleet,
    Floats,
    comparisons,
    samples_of,
)


def test_p_of_student_is_that_of_scipy() -> None:
    statistics = np.array([0.0, 1e-9, 0.01, 0.3, 1.0, 1.96, 2.5, -3.7, 6.0, 12.0, 50.0, -700.0])
    for freedom in range(1, 201):
        p = np.array([p_of(t, freedom) for t in statistics])
        expected = 2 * stats.t.sf(np.abs(statistics), freedom)
        if freedom == 1:  # Cauchy's distribution: at small t, scipy is less exact than its closed form
            expected = 1 - 2 * np.arctan(np.abs(statistics)) / math.pi
        assert np.max(np.abs(p - expected)) < 1e-12
        assert p.min() >= 0 and p.max() == 1


def test_quantiles_of_student_are_those_of_scipy() -> None:
    for freedom in (1, 2, 4, 7, 30, 200):
        for p in (1e-5, 0.001, 0.025, 0.2):
            assert quantile(p, freedom) == pytest.approx(stats.t.isf(p, freedom), rel=1e-6)


def test_p_of_student_at_the_edges() -> None:
    assert [p_of(0, 7), p_of(1e9, 31), p_of(1e9, 30), p_of(math.inf, 3)] == [1, 0, 0, 0]


def asked(sides: Sequence[str], ops: Floats, totals: Floats) -> list[dict[str, Any]]:
    """The verdicts on captures in time order, with a side, ops (captures, ops) and a total each: a row an item."""
    fleet = Fleet([*map(str, range(ops.shape[1]))], ops[:, :, None], totals[:, None], [1] * ops.shape[1])
    columns = samples_of(fleet, [Draw([*enumerate(sides)])])
    answer = compare(comparisons(columns), NO_SHAPES, False, True, 0.05, None, False, ())
    found = [dict(zip(answer, row, strict=True)) for row in zip(*answer.values(), strict=True)]
    return [row for row in found if row["level"] in ("op", "total")]


@pytest.mark.parametrize(("base", "new"), [(3, 3), (5, 5), (3, 10), (20, 7)])
def test_changes_and_their_intervals_are_those_of_a_t_test(base: int, new: int) -> None:
    """Of logarithms, without a common shift; an op's values are those that are left of ones far off. What a clock of 1 ns
    rounds of 100 s adds nothing.
    """
    ops = np.exp(np.random.default_rng(1).normal(0, 0.005, (base + new, 1))) * 1e11
    turns = ["base", "new"] * min(base, new) + ["base"] * (base - new) + ["new"] * (new - base)
    is_new, logs = np.array(turns) == "new", np.log(ops[:, 0])
    clipped = bounded(logs, logs, ~is_new, is_new)
    for row in asked(turns, ops, ops[:, 0]):
        values = logs if row["level"] == "total" else clipped
        expected = stats.ttest_ind(values[is_new], values[~is_new])
        interval = expected.confidence_interval(0.95)
        assert row["p"] == pytest.approx(expected.pvalue)
        middle = math.log1p(row["change"])
        assert middle == pytest.approx((interval.low + interval.high) / 2)
        assert math.log1p(row["change_low"]) == pytest.approx(interval.low)
        assert math.log1p(row["change_high"]) == pytest.approx(interval.high)


@pytest.mark.parametrize("drift", [0, 0.01, 0.03])
def test_sides_that_were_measured_apart_differ_by_more_than_their_halves(drift: float) -> None:
    """Ten captures of base, then ten of new that take 4 % longer; each side is slower by `drift` in its second half."""
    noise = np.random.default_rng(2).normal(0, 0.002, 20)
    moved = np.tile(np.repeat([0, drift], 5), 2) + np.repeat([0, 0.04], 10)
    ops = np.exp(noise + moved)[:, None] * 1e5
    rows = asked(["base"] * 10 + ["new"] * 10, ops, ops[:, 0])
    [row] = [row for row in rows if row["level"] == "total"]
    logs = np.log(ops[:, 0]).reshape(4, 5)
    halves = logs.mean(axis=1)
    own = np.log(ops[:, 0]).reshape(2, 10).var(axis=1, ddof=1).mean() / 5
    error = math.sqrt(own + ((halves[1] - halves[0]) ** 2 + (halves[3] - halves[2]) ** 2) / 2)
    difference = (halves[2] + halves[3] - halves[0] - halves[1]) / 2
    assert row["p"] == pytest.approx(2 * stats.t.sf(difference / error, 18))
    assert row["verdict"] == ("not decided" if drift == 0.03 else "slower")
    assert (row["note"] or "").startswith("measured apart") == (drift == 0.03)


@pytest.mark.parametrize("freedom", [3, 8, 18])
@pytest.mark.parametrize("prior", [1, 3, 30])
def test_variances_shrink_by_how_alike_they_are(freedom: int, prior: int) -> None:
    """By the equation of Smyth, solved by scipy: trigamma of the prior's half is what their logarithms vary by more."""
    random = np.random.default_rng(9)
    true = 1e-4 * prior / random.chisquare(prior, 40)
    variances, own = true * random.chisquare(freedom, 40) / freedom, np.full(40, float(freedom))
    excess = np.log(variances).var(ddof=1) - special.polygamma(1, freedom / 2)
    found = 2 * brentq(lambda half: special.polygamma(1, half) - excess, 1e-3, 1e6) if excess > 0 else MOST_PRIOR
    values, free = shrunk(variances, own, np.ones(40, np.bool_))
    # A whole number, by an approximation of trigamma.
    [counted] = {*(free - own)}
    assert abs(counted - min(MOST_PRIOR, max(1, found))) < 0.65
    typical = (values * free - variances * freedom) / counted
    assert typical == pytest.approx(np.median(variances) * freedom / stats.chi2.median(freedom), rel=0.01)


def test_ops_follow_shifts_of_the_machine_alone() -> None:
    """An op that takes the same time while others take 5 % more or less, and twice as long in new: not by the machine."""
    random = np.random.default_rng(3)
    is_new = np.arange(20) % 2 == 1
    state = np.tile(np.repeat([-0.05, 0.05], 2), 5)
    noise = random.normal(0, 0.001, 20)
    for program, expected in ((0.0, 0.0), (0.7, -0.7)):
        found = differences((noise - noise.mean())[None], state + program * is_new, is_new)
        assert found.difference[0] == pytest.approx(expected, abs=0.001)


@pytest.mark.parametrize("is_apart", [False, True])
def test_values_of_sides_apart_have_the_drift_of_their_halves(is_apart: bool) -> None:
    random = np.random.default_rng(8)
    is_new = np.arange(10) >= 5 if is_apart else np.arange(10) % 2 == 1
    logs = 0.02 * random.normal(size=10).cumsum()
    texts = {
        name: np.full(10, value, np.object_) for name, value in (("name", "load"), ("unit", "ns"), ("better", "lower"))
    }
    values = {**texts, "is_new": is_new, "position": np.arange(10.0), "value": np.exp(logs)}
    found = value_changes(values, NO_CAPTURES, NO_CONDITIONS, "time", 0.05, None, False)
    squared = (logs[is_new].var(ddof=1) + logs[~is_new].var(ddof=1)) / 2 * 2 / 5
    squared += drift_of(logs, ~is_new, is_new) if is_apart else 0
    moved = logs[is_new].mean() - logs[~is_new].mean()
    assert found["p"] == [pytest.approx(2 * stats.t.sf(abs(moved) / math.sqrt(squared), 8))]


def test_small_ops_take_little_of_alpha() -> None:
    """Three ops of 30 % and 40 of 0.01 % of the total: the least p counts (3 * 1 % + 40 * 0.05 %) / 1 % times."""
    random = np.random.default_rng(6)
    ops = np.array([3e5] * 3 + [100.0] * 40) * np.exp(random.normal(0, 0.002, (10, 43)))
    ops[1::2, 0] *= 1.03
    ops[1::2, 42] *= 3
    rows = asked(["base", "new"] * 5, ops, np.full(10, 1e6))
    by_item = {row["item"]: row for row in rows if row["level"] == "op"}
    tiny, large = by_item["42"], by_item["0"]
    assert tiny["p"] < large["p"] / 1000
    # The tiny op comes first, though it counts a twentieth.
    assert tiny["q"] == pytest.approx(tiny["p"] * (3 * 0.01 + 40 * 0.0005) / 0.0005)
    assert large["q"] == pytest.approx(large["p"] * (3 * 0.01 + 39 * 0.0005) / 0.01)
    assert large["verdict"] == "slower"


Ops = list[tuple[str, float]]


def aligned(*programs: Ops) -> list[list[str]]:
    """The keys of the ops of programs, each made of names and times."""
    ops = [
        (program, place, str(program), name, False, ticks)
        for program, each in enumerate(programs, 1)
        for place, (name, ticks) in enumerate(each, 1)
    ]
    names = ("capture_id", "op_index", "program", "name", "is_by_module", "ticks")
    kinds = ("int64", "int64", "object", "object", "bool", "float64")
    columns = zip(names, kinds, zip(*ops, strict=True), strict=True)
    keys = iter(align({name: np.array(values, kind) for name, kind, values in columns}))
    return [[next(keys) for _ in program] for program in programs]


def test_ops_are_aligned_as_lines_are() -> None:
    layer = [("view", 1.0), ("permute", 9.0), ("mm", 5.0), ("permute", 3.0), ("mm", 7.0)]
    # The second permute of each of 12 layers is gone.
    first, other = aligned(layer * 12, [op for op in layer * 12 if op != ("permute", 3.0)])
    assert other == [item for place, item in enumerate(first) if place % 5 != 3]
    # One op is added, and another has a different name at the same place.
    first, other = aligned(layer * 3, [*layer, ("mm", 5.0), *layer, *layer[:3], ("copy", 3.0), layer[4]])
    assert [item for item in other if item not in first] == [other[5], other[14]]
    assert [item for item in first if item not in other] == [first[13]]
    # A program that has no op in common with the other.
    first, other = aligned(layer, [("add", 1.0)] * 3)
    assert len({*first, *other}) == len(first) + len(other)


@pytest.mark.parametrize("gone", range(4))
@pytest.mark.parametrize("scale", [1, 2.5])
def test_among_like_ops_the_one_with_another_time_is_removed(gone: int, scale: float) -> None:
    """Neighbours with one name, and pairs of them. The program may have become slower as a whole."""
    for names in (["expand"] * 4, ["view", "expand"] * 4):
        ops = [
            ("mm", 4.0),
            *zip(names, [1.0, 5.0, 20.0, 2.0, 7.0, 3.0, 11.0, 0.5][: len(names)], strict=True),
            ("mm", 4.0),
        ]
        step = len(names) // 4
        places = range(1 + gone * step, 1 + gone * step + step)
        others = [(name, scale * ticks) for place, (name, ticks) in enumerate(ops) if place not in places]
        for programs in ((ops, others), (others, ops)):
            found = aligned(*programs)
            longer, shorter = sorted(found, key=len, reverse=True)
            assert shorter == [item for place, item in enumerate(longer) if place not in places]


def test_programs_of_too_many_differences_are_aligned_at_both_ends() -> None:
    ends = [("view", 1.0), ("mm", 2.0), ("view", 3.0)]
    first, other = aligned([*ends, *[("add", 1.0)] * 150, *ends], [*ends, *[("mul", 1.0)] * 150, *ends])
    assert [item for item in first if item in other] == [*first[:3], *first[-3:]]


def test_ops_with_unique_names_match_at_any_position() -> None:
    first, other = aligned([("mm", 1.0), ("add", 2.0), ("mul", 3.0)], [("mul", 9.0), ("add", 2.0), ("mm", 1.0)])
    assert first == other[::-1]


def test_items_are_described_as_their_last_captures_know_them() -> None:
    """One op that is aligned, in two captures a side: the kind is that of each side, the module that of new."""
    known = {
        1: ("base", None, "kernel", 3.0, True, "ns"),
        2: ("base", "m.old", "delegate", np.nan, False, "ns"),
        3: ("new", "m.new", "kernel", 8.0, False, "cycles"),
        4: ("new", None, "kernel", 9.0, False, "cycles"),
    }
    rows = [
        {
            **{"comparison": 0, "capture_id": key, "step": 0, "side": side, "position": float(key), "level": "op"},
            **{"scope": "forward", "item": None, "op": "mm", "ticks": 10.0, "slow_ticks": np.nan, "resolution": 1.0},
            **{"calls": np.nan, "matched": "name", "is_trace": False, "module_path": module},
            **{"kind": kind, "instruction_id": number, "place": 1.0, "is_additive": adds, "counted": counted},
        }
        for key in (2, 4, 1, 3)
        for side, module, kind, number, adds, counted in [known[key]]
    ]
    types = {str: np.object_, type(None): np.object_, float: np.float64, int: np.int64, bool: np.bool_}
    given: dict[str, Any] = {
        name: np.array([row[name] for row in rows], types[type(rows[0][name])]) for name in rows[0]
    }
    ops = {
        "capture_id": np.array([1, 2, 3, 4]), "op_index": np.ones(4, np.int64),
        "program": np.array(["p", "p", "q", "q"], np.object_), "name": np.array(["mm"] * 4, np.object_),
        "is_by_module": np.zeros(4, np.bool_), "ticks": np.full(4, 10.0),
    }  # fmt: skip
    shapes = {name: np.array([], np.object_) for name in ("op", "base_shapes", "new_shapes")}
    found = compared(given, ops, shapes, NO_CONDITIONS, NO_LABELS, False, 0.05, None, None, False)
    at = found["level"].index("op")
    described = {name: values[at] for name, values in found.items()}
    assert described["item"] == "mm|1"
    expected = {
        **{"op": "mm", "matched": "name", "module_path": "m.new", "base_kind": "delegate", "new_kind": "kernel"},
        **{"base_instruction_id": 3.0, "new_instruction_id": 9.0, "base_place": 1.0, "new_place": 1.0},
        **{"is_in_base": True, "is_in_new": False, "counted": "cycles ns"},
    }
    assert {name: described[name] for name in expected} == expected
    assert {values[found["level"].index("capture")] for name, values in found.items() if name in ("op", "counted")} == {
        None
    }


def test_the_sentence_about_a_fleet_counts_each_device() -> None:
    """b's total isn't slower, but one of its ops is; d's first total is the one that counts."""
    rows = [
        {"value": value, "verdict": verdict, "in_ops": in_ops}
        for value, verdict, in_ops in (
            ("a", "slower", "addmm"), ("b", "~", "mm"), ("c", "~", None), ("d", "faster", "all ops"), ("d", "~", None),
            ("e", words.TOO_FEW, None),
        )
    ]  # fmt: skip
    told = "1 of 5 phones is slower: a (addmm); 1 faster; 1 with ops that differ; 1 with too few captures to tell"
    assert sentence(rows, "phone") == told


def test_a_note_counts_missing_captures() -> None:
    assert "or 9 more captures of base's program" in words.too_few(1, 1, 1)
    assert "or 1 more capture of base's program" in words.too_few(1, 1, 9)
