"""The views from which pictures are drawn, on dumps small enough to check by eye."""

from __future__ import annotations

import pytest

from tests.asserts import assert_error, assert_query
from tests.builders import Run, execute, framework, kernel, run


def long_run(length: int) -> Run:
    return run("Execute", kernel("add", start=1, end=length - 1), execute(start=0, end=length))


LOADING = run("Default", framework("Method::init", 3, 40), framework("Program::load_method", 0, 50))


def test_headline() -> None:
    """Runs of 20, 10, 12, 14, all typical, and a load of 50 ns: their median, and 8 more for the first."""
    assert_query(
        """SELECT number, part, round(value, 2) AS value, round(low, 2) AS low, round(high, 2) AS high, runs, unit, note
           FROM headline('test', unit := 'ns')""",
        """
        number,part,value,low,high,runs,unit,note
        execute,Execute,13.0,10.6,18.2,4,ns,
        load,Default,50.0,,,1,ns,
        first run excess,Execute,8.0,,,1,ns,
        framework tax,Execute,15.48,11.29,19.0,4,percent,includes tracing
        delegated time,Execute,0.0,0.0,0.0,4,percent,
        """,
        LOADING,
        *(long_run(length) for length in (20, 10, 12, 14)),
    )


def test_a_first_run_that_is_not_longer_has_no_excess() -> None:
    """Of 10 and of 9, where the others take 10: not a cost of 0 or -1."""
    for first in (10, 9):
        query = "SELECT count(*) AS n FROM headline('test') WHERE number = 'first run excess'"
        assert_query(query, "n\n0\n", *(long_run(length) for length in (first, 10, 10, 10)))


@pytest.mark.long
def test_headline_leaves_out_what_is_unknown() -> None:
    """A file with only loading, and one with only the times of methods."""
    assert_query("SELECT number FROM headline('test')", "number\nload\n", LOADING)
    assert_query(
        "SELECT number, value FROM headline('test', unit := 'ns')",
        "number,value\nexecute,10.0\n",
        run("Execute", execute(start=0, end=10)),
    )
    assert_error("FROM headline('test', unit := 'hours')", "unit")
    assert_error("FROM module_ops('test')", "has no record")


def test_event_histogram() -> None:
    """Durations of 10, 11, 12, 19 and 20 in two bars; 900 lies beyond three times the quartiles' distance."""
    lengths = [10, 11, 12, 19, 20, 900]
    assert_query(
        """SELECT bin, low, high, runs, is_beyond, unit FROM event_histogram('test', bins := 2, unit := 'ns') AS h
           JOIN signatures AS s ON s.block_index = h.block_index AND s.slot = h.slot AND s.kind = 'framework'""",
        """
        bin,low,high,runs,is_beyond,unit
        0,10.0,15.0,3,False,ns
        1,15.0,20.0,2,False,ns
        2,900.0,900.0,1,True,ns
        """,
        *(run("Execute", execute(start=0, end=length)) for length in lengths),
    )


def test_event_histogram_of_one_value() -> None:
    query = "SELECT bin, low, high, runs, is_beyond FROM event_histogram('test', unit := 'ns')"
    runs = [run("Execute", execute(start=0, end=7))] * 3
    assert_query(query, "bin,low,high,runs,is_beyond\n0,7.0,7.0,3,False\n", *runs)
    assert_error("FROM event_histogram('test', bins := 0)", "bins must be a number from 1 to 1000, not 0")
