"""The step of a clock, as the durations that it measured show it."""

from __future__ import annotations

from random import Random
from statistics import median_low

import pytest

import etq
from tests.asserts import assert_query
from tests.builders import delegate_call, delegated, dump, execute, kernel, run


def read_by(step: float, at: float) -> int:
    """What a clock of that step shows, in whole nanoseconds."""
    return int(at // step * step)


def timed(step: float, length: float, count: int = 100) -> bytes:
    """A dump of kernels of about that length, at random moments, by a clock of a step."""
    random, runs, at = Random(f"{step}"), [], 0.0
    for _ in range(count):
        events, start = [], at
        for instruction, name in enumerate(("addmm", "relu", "mul")):
            begin, at = at, at + length * random.uniform(0.2, 2)
            events.append(kernel(name, read_by(step, begin), read_by(step, at), instruction))
            at += random.uniform(0, length)
        runs.append(run("Execute", *events, execute(read_by(step, start), read_by(step, at))))
    return dump(*runs)


@pytest.mark.parametrize("step", [20, 1000 / 24, 625 / 12, 1000, 1e9 / 32768, 31250, 50000, 1e6, 15625000])
@pytest.mark.parametrize("steps", [2, 12])
def test_any_step_is_found(step: float, steps: int) -> None:
    with etq.read(timed(step, steps * step)) as warehouse:
        [(clock, found, events)] = warehouse.rows("SELECT clock, step, events FROM clock_steps(1, unit := 'ns')")[1]
    assert (clock, events) == ("host", 400)
    assert found == pytest.approx(step, rel=1e-3)


@pytest.mark.parametrize(("length", "count"), [(50, 40), (3000, 2), (3000, 100), (1e6, 400)])
def test_a_fine_clock_shows_none(length: float, count: int) -> None:
    with etq.read(timed(1, length, count)) as warehouse:
        assert warehouse.rows("SELECT step FROM clock_steps(1)")[1] == [(None,)]


@pytest.mark.long
def test_one_duration_shows_none() -> None:
    """However round it is, and however often it is measured."""
    for lengths in ([5000], [5000] * 50, [7_000_000] * 50):
        with etq.read(dump(*(run("Execute", kernel("op", 10, 10 + length, 0)) for length in lengths))) as warehouse:
            assert warehouse.rows("SELECT step FROM clock_steps(1)")[1] == [(None,)]
            assert not [each for each in warehouse.rows("SELECT a.rule FROM all_advice AS a")[1] if "clock" in each[0]]


def test_times_beside_few_multiples_show_none() -> None:
    """Kernels of 49 to 51 and 99 to 101 ticks, in runs of 199 to 201."""
    runs = [
        run("Execute", kernel("a", 0, 49 + at % 3, 0), kernel("b", 0, 99 + at % 3, 1), execute(0, 199 + at % 3))
        for at in range(20)
    ]
    with etq.read(dump(*runs)) as warehouse:
        assert warehouse.rows("SELECT step FROM clock_steps(1)")[1] == [(None,)]


def test_each_clock_has_its_step() -> None:
    # The host's durations have nothing in common; the delegate's are whole microseconds, but for one in 13.
    runs = []
    for at in range(12):
        host = 7919 + 101 * at * at
        inner = [delegated("a", 10, 10), delegated("b", 10, 10 + 1000 * (1 + at % 3))]
        runs.append(run("Execute", *inner, delegate_call(0, host), execute(0, host + 997 + at)))
    last = run("Execute", delegated("b", 10, 1513), delegate_call(0, 9000), execute(0, 9001))
    hosts = [7919 + 101 * at * at + more for at in range(12) for more in (0, 997 + at)]
    middle = median_low([*hosts, 9000, 9001])
    assert_query(
        "SELECT clock, step, events, zeros, median, unit FROM clock_steps('test', unit := 'ns')",
        f"""
        clock,step,events,zeros,median,unit
        delegate,1000.0,25,12,1000.0,ns
        host,,26,0,{middle:.1f},ns
        """,
        *runs,
        last,
    )
