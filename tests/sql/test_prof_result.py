"""The views of a prof_result on blobs small enough to check by eye, and their rounding against Python's own."""

from __future__ import annotations

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

import etq
from tests.asserts import assert_query
from tests.builders import dump
from tests.builders import run as dumped_run
from tests.prof_result_builders import Entry, block, execute, kernel
from tests.sampling import examples
from tests.warehouses import empty_warehouse

# Two iterations of a block, another block between them.
TWO_ITERATIONS = (
    block(
        "run", execute(1_000, 101_050), kernel("add", 2_000, 42_150, 0),
        Entry("delegate_execute", 0, 1, 50_000, 90_000), allocators=[(0, "method"), (1, "planned")],
        allocations=[(1, 64), (0, 8), (1, 32)],
    )
    + block("load", Entry("Method::init", start=200_000, end=207_000), allocations=[(0, 5)])
    + block(
        "run", execute(301_000, 401_000), kernel("add", 302_000, 342_000, 0),
        Entry("delegate_execute", 0, 1, 350_000, 390_000), allocators=[(0, "method"), (1, "planned")],
        allocations=[(1, 64), (0, 8), (1, 32)],
    )
)  # fmt: skip


def test_iterations() -> None:
    assert_query(
        """SELECT block_index, block, method, event_index, event_name, kind, instruction_id, iteration, run_index,
               total AS duration, unit
           FROM event_times('test') ORDER BY block_index, event_index, run_index""",
        """
        block_index,block,method,event_index,event_name,kind,instruction_id,iteration,run_index,duration,unit
        0,run,run,0,Method::execute,framework,,0,0,100.05,us
        0,run,run,0,Method::execute,framework,,1,2,100.0,us
        0,run,run,1,native_call_add.out,kernel,0,0,0,40.15,us
        0,run,run,1,native_call_add.out,kernel,0,1,2,40.0,us
        0,run,run,2,delegate_execute,delegate_call,1,0,0,40.0,us
        0,run,run,2,delegate_execute,delegate_call,1,1,2,40.0,us
        1,load,load,0,Method::init,framework,,0,1,7.0,us
        """,
        test=TWO_ITERATIONS,
    )


@pytest.mark.parametrize(
    ("scale", "first"),
    [
        ("NULL", "0.1001,0.0801,19.98,ms"), ("'ns'", "0.1001,0.0801,19.98,ms"), ("'us'", "100.05,80.15,19.89,ms"),
        ("'ms'", "100050.0,80150.0,19.89,ms"), ("'cycles'", "100050.0,80150.0,19.89,cycles"),
    ],
)  # fmt: skip
def test_prof_result_tax(scale: str, first: str) -> None:
    """If times were rounded first, the tax would differ. `load` has no execute."""
    assert_query(
        f"""SELECT block, iteration, run_index, execute, work, round(tax_percent, 9) AS tax_percent, unit
            FROM prof_result_tax('test', time_scale := {scale}) LIMIT 1""",
        f"""
        block,iteration,run_index,execute,work,tax_percent,unit
        run,0,0,{first}
        """,
        test=TWO_ITERATIONS,
    )


def test_the_time_scale_is_the_captures_own_unless_given() -> None:
    with empty_warehouse() as warehouse:
        warehouse.ingest(TWO_ITERATIONS, name="test", time_scale="cycles")
        rows = warehouse.rows("SELECT block, iteration, execute, unit FROM prof_result_tax('test')")[1]
        assert rows == [("run", 0, 100050.0, "cycles"), ("run", 1, 100000.0, "cycles")]


def test_prof_result_memory() -> None:
    """Rows are in the order of the first allocations. `load` uses an allocator that `run` names."""
    assert_query(
        "FROM prof_result_memory('test')",
        """
        block,allocator_id,allocator,total_bytes
        run,1,planned,96
        run,0,method,8
        load,0,method,5
        """,
        test=TWO_ITERATIONS,
    )
    assert_query(
        "SELECT allocator, runs, allocations, total_bytes FROM memory_totals('test')",
        """
        allocator,runs,allocations,total_bytes
        planned,2,4,192
        method,3,3,21
        """,
        test=TWO_ITERATIONS,
    )


def test_other_formats_are_not_the_old_parsers() -> None:
    """Also after rows of a prof_result were removed, when a join without rows is not executed."""
    message = "test is of format etdump; this view is for captures of format prof_result"
    with etq.open() as warehouse:
        warehouse.ingest(TWO_ITERATIONS, name="old")
        warehouse.ingest(dump(dumped_run("Execute")), name="test")
        for is_removed in (False, True):
            if is_removed:
                warehouse.remove("old")
                warehouse.connection.execute("CHECKPOINT")
            for view in ("prof_result_profile", "prof_result_tax", "prof_result_memory"):
                with pytest.raises(etq.QueryError, match=message):
                    warehouse.rows(f"FROM {view}('test')")


@pytest.mark.parametrize("scale", ["s", "minutes"])
def test_a_time_scale_that_the_old_parser_lacks(scale: str) -> None:
    with empty_warehouse() as warehouse:
        warehouse.ingest(TWO_ITERATIONS, name="test")
        with pytest.raises(
            (duckdb.Error, etq.QueryError), match=f"has no time scale {scale}; it knows ns, us, ms, cycles"
        ):
            warehouse.prof_result_tax("test", time_scale=scale).fetchall()


# Durations near half of the last digit kept; DuckDB's round rounds every other one in the other direction.
TICKS = st.integers(0, 2**40) | st.integers(0, 2**32).map(lambda n: 100 * n + 50)


@pytest.mark.long
@examples(12)
@given(
    st.lists(st.tuples(TICKS, TICKS, TICKS, TICKS), min_size=1, max_size=30),
    st.sampled_from([("ns", 10**6), ("us", 10**3), ("ms", 1), ("cycles", 1)]),
)
def test_rounding_is_pythons(made: list[tuple[int, int, int, int]], scale: tuple[str, int]) -> None:
    name, divisor = scale

    def shown(ticks: int) -> float:
        return round(ticks / divisor, 4)

    data = b"".join(
        block("b", execute(start, start + a + 1), kernel("x", start, start + b), kernel("y", start, start + c))
        for start, a, b, c in made
    )
    with empty_warehouse() as warehouse:
        warehouse.ingest(data, name="test")
        profile = warehouse.prof_result_profile("test", time_scale=name).fetchall()
        tax = warehouse.prof_result_tax("test", time_scale=name).fetchall()
    assert [row[7:9] for row in profile] == [
        (shown(start), shown(duration))
        for lengths in (
            [(s, a + 1) for s, a, _, _ in made],
            [(s, b) for s, _, b, _ in made],
            [(s, c) for s, _, _, c in made],
        )
        for start, duration in lengths
    ]
    expected = [(shown(a + 1), shown(b) + shown(c)) for _, a, b, c in made]
    assert [row[3:6] for row in tax] == [
        (whole, work, round((whole - work) / whole, 4) * 100 if whole else None) for whole, work in expected
    ]
