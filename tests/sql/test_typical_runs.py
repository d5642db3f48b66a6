"""Which runs are typical, and how leaving out the others changes the views that aggregate runs."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

import etq
from etq.analysis import runs
from etq.warehouse.warehouse import Warehouse
from tests.asserts import assert_query
from tests.builders import Run, dump, execute, kernel, run
from tests.sampling import examples
from tests.typical import are_typical, fences
from tests.warehouses import empty_warehouse


def timed(ticks: int, share: float = 0.5) -> Run:
    """A run of two kernels; the first takes this share of the execute."""
    middle = round(ticks * share)
    return run(
        "Execute",
        kernel("addmm", 0, middle, instruction=0),
        kernel("relu", middle, ticks, instruction=1),
        execute(0, ticks),
    )


@pytest.mark.long
@examples(25)
@given(st.lists(st.one_of(st.integers(90, 110), st.integers(1, 2000), st.just(0)), min_size=1, max_size=40))
def test_runs_within_the_fences_are_typical(ticks: list[int]) -> None:
    with empty_warehouse() as warehouse:
        warehouse.ingest(dump(*map(timed, ticks)), name="test")
        found = [each for (each,) in warehouse.rows("SELECT r.is_typical FROM runs AS r ORDER BY r.run_index")[1]]
    low, high = fences(ticks)
    for each, is_typical, expected in zip(ticks, found, are_typical(ticks), strict=True):
        # Exactly on the fence, the last digit of a logarithm decides.
        is_on_fence = min(abs(math.log(max(each, 1)) - fence) for fence in (low, high)) < 1e-12
        assert is_typical == expected or is_on_fence


@pytest.mark.long
def test_blocks_and_phases_are_judged_apart() -> None:
    with empty_warehouse() as warehouse:
        slow = [run("Execute", kernel("bmm", 0, 900), execute(0, 1000)) for _ in range(5)]
        others = [timed(100) for _ in range(8)]
        warehouse.ingest(dump(*others, *slow), name="blocks")
        assert warehouse.rows("SELECT bool_and(r.is_typical) FROM runs AS r")[1] == [(True,)]
        warehouse.ingest(dump(*[timed(100 if at % 8 else 300) for at in range(32)]), name="phases")
        query = "SELECT count(*) FILTER (WHERE NOT r.is_typical) FROM runs AS r JOIN captures AS c USING (capture_id) WHERE c.name = 'phases'"
        assert warehouse.rows(query)[1] == [(4,)]
        warehouse.phase("phases", "prefill", runs=[0, 8, 16, 24])
        warehouse.phase("phases", "decode", runs=[at for at in range(32) if at % 8])
        assert warehouse.rows(query)[1] == [(0,)]


# 80 runs of 100 ticks, and 19 of 700 in which the first kernel takes 650 instead of 50.
SLOW = [timed(100)] + [timed(700, 650 / 700) if at % 5 == 4 and at < 95 else timed(100) for at in range(98)]


def test_the_share_of_other_runs_is_that_of_all_blocks_together() -> None:
    """Also with executes of a few ticks in one block and of many in another."""
    with empty_warehouse() as warehouse:
        long = [run("Execute", kernel("bmm", 0, 900), execute(0, 1000 if at else 4000)) for at in range(12)]
        short = [timed(10 if at else 90) for at in range(12)]
        warehouse.ingest(dump(timed(10), *short[1:], short[0], *long[1:], long[0]), name="blocks")
        query = "FROM _typical_runs(_capture_id('blocks'), 'ns', NULL, NULL, NULL) AS t SELECT t.all_runs, t.typical, t.other_percent"
        *blocks, (number, typical, share) = warehouse.rows(f"{query} ORDER BY t.block_index NULLS LAST")[1]
        assert [each[:2] for each in blocks] == [(13, 12), (12, 11)]
        assert (number, typical) == (25, 23)
        assert share == 100 * (90 + 4000) / (12 * 10 + 90 + 11 * 1000 + 4000)
        left = runs.left_out(warehouse, warehouse.capture("blocks"), {"unit": "ns"})
        assert left is not None and left.text == (
            "2 of 25 runs are not typical and left out (26.9 % of the time of all runs)"
        )


@pytest.fixture(scope="module")
def slow() -> Warehouse:
    warehouse = etq.open()
    warehouse.ingest(dump(*SLOW), name="test")
    return warehouse


def test_left_out_entries_are_reported(slow: Warehouse) -> None:
    query = """
        SELECT t.method, t.all_runs, t.typical, t.slower, t.faster, t.typical_execute, t.all_execute, t.other_percent
        FROM typical_runs('test', unit := 'ns') AS t
    """
    # (80 * 100 + 19 * 700) / 99, and 19 * 700 of it
    assert slow.rows(query)[1] == [
        ("Execute", 99, 80, 19, 0, 100.0, pytest.approx(21300 / 99), pytest.approx(100 * 13300 / 21300))
    ]


def test_slow_runs_name_the_op_that_grew(slow: Warehouse) -> None:
    query = """
        SELECT s.op, s.instruction_id, s.typical, s.slow, s.excess, s.excess_percent, s.ratio, s.typical_runs, s.slow_runs
        FROM slow_runs('test', unit := 'ns') AS s WHERE s.kind = 'kernel' ORDER BY s.instruction_id
    """
    assert slow.rows(query)[1] == [
        ("native_call_addmm.out", 0, 50.0, 650.0, 600.0, 100.0, 13.0, 80, 19),
        ("native_call_relu.out", 1, 50.0, 50.0, 0.0, 0.0, 1.0, 80, 19),
    ]


def test_warm_ups_and_outliers_are_not_typical_runs() -> None:
    """Runs of one length may still vary by 10 %."""
    assert_query(
        "SELECT run_index, execute, is_warm_up, is_typical, is_outlier, block_median FROM run_times('test', unit := 'ns')",
        """
        run_index,execute,is_warm_up,is_typical,is_outlier,block_median
        0,400.0,True,False,False,100.0
        1,100.0,False,True,False,100.0
        2,100.0,False,True,False,100.0
        3,100.0,False,True,False,100.0
        4,100.0,False,True,False,100.0
        5,112.0,False,False,True,100.0
        """,
        *[timed(each) for each in (400, 100, 100, 100, 100, 112)],
    )
    # Of three runs, none is judged.
    query = "SELECT count(*) AS n FROM runs WHERE is_typical"
    assert_query(query, "n\n3\n", *[timed(each) for each in (9000, 100, 101)])
