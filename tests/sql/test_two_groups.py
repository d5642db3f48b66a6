"""If ops moved apart, a comparison has no common shift, and a finding."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import etq
from etq.warehouse.warehouse import Warehouse
from tests.batches import Labelled, ingest_all
from tests.builders import delegate_call, delegated, dump, execute, kernel, run

pytestmark = pytest.mark.long


def two_groups(first: float, second: float) -> Iterator[Labelled]:
    """Five captures per side of ten ops; in new the first five take `first` times as long, the others `second` times."""
    random = np.random.default_rng(round(1e6 * first + 1e3 * second))
    for number in range(10):
        side = "new" if number % 2 else "base"
        runs = []
        for _ in range(5):
            ends = [0]
            for op in range(10):
                factor = 1.0 if side == "base" else first if op < 5 else second
                ends.append(ends[-1] + round(20_000 * factor * random.normal(1, 0.003)))
            events = [kernel(f"op{op}", ends[op], ends[op + 1], op) for op in range(10)]
            runs.append(run("Execute", *events, execute(0, ends[-1])))
        yield Labelled(f"{first}-{second}-{number}", dump(*runs), {"side": f"{side}-{first}-{second}"})


def test_two_groups_of_ops_that_moved_apart() -> None:
    """It cannot be determined which one the program changed: with the shift included, those that moved are slower."""
    cases = [(1.0, 1.1), (1.04, 1.144), (1.04, 1.04), (0.97, 1.05)]
    with etq.open() as warehouse:
        ingest_all(warehouse, [capture for case in cases for capture in two_groups(*case)])
        query = """
            SELECT (SELECT count(*) FROM compare_findings($base, $new) WHERE rule = 'no common shift'),
                count(*) FILTER (WHERE verdict = 'slower'), count(*) FILTER (WHERE verdict = 'faster')
            FROM compare_ops($base, $new)
        """
        found = [warehouse.rows(query, base=f"side=base-{a}-{b}", new=f"side=new-{a}-{b}")[1] for a, b in cases]
    assert found == [[(1, 5, 0)], [(1, 10, 0)], [(0, 0, 0)], [(1, 5, 5)]]


def rules(warehouse: Warehouse) -> set[str]:
    return {rule for (rule,) in warehouse.rows("SELECT rule FROM compare_findings('a', 'b')")[1]}


@pytest.mark.parametrize(
    ("base", "new", "is_common"),
    [
        ((40_001, 30_003, 30_007), (34_001, 18_003, 34_207), False),  # -15, -40 and +14 %: only 40 % of the time agrees
        ((70_001, 15_003, 15_007), (59_501, 9_003, 17_107), True),
        ((40_001, 30_003, 30_007), (34_001, 25_203, 25_807), True),
        ((40_001, 30_003, 30_007), (80_001, 54_003, 66_007), True),  # twice, give or take a tenth
    ],
)
def test_of_single_captures_most_of_the_time_has_a_common_shift(
    warehouse: Warehouse, base: tuple[int, ...], new: tuple[int, ...], is_common: bool
) -> None:
    for name, times in (("a", base), ("b", new)):
        ends = [sum(times[: at + 1]) + 7 * at for at in range(len(times))]
        events = [kernel(f"op{at}", end - times[at] - at, end, at) for at, end in enumerate(ends)]
        warehouse.ingest(dump(*[run("Execute", *events, execute(0, ends[-1]))] * 3), name=name)
    assert rules(warehouse) & {"common shift", "no common shift"} == {
        "common shift" if is_common else "no common shift"
    }


@pytest.mark.parametrize("graph", [("conv", "relu"), ("linear", "add"), ()])
def test_a_delegate_that_runs_another_graph_is_no_common_op(warehouse: Warehouse, graph: tuple[str, ...]) -> None:
    """Two ops and the call of a delegate, of which all take 15 % less: without the call there are too few."""
    for name, factor, parts in (("a", 1.0, ("conv", "relu")), ("b", 0.85, graph)):
        at = [round(factor * time) for time in (1, 20_012, 40_025, 100_039)]
        events = [kernel("mul", at[0], at[1], 1), kernel("add", at[1], at[2], 2), delegate_call(at[2], at[3], 3)]
        events += [delegated(part, at[2] + 10 * place, at[2] + 10 * place + 5, 3) for place, part in enumerate(parts)]
        others = [] if name == "a" else [kernel("view", at[3], at[3] + 5, 4)]
        warehouse.ingest(dump(*[run("Execute", *events, *others, execute(0, at[3] + 10))] * 3), name=name)
    assert ("common shift" in rules(warehouse)) == (graph == ("conv", "relu"))
