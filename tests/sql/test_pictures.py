"""The views from which pictures are drawn, on dumps small enough to check by eye."""

from __future__ import annotations

import statistics

import numpy as np
import pytest

from etq.warehouse.warehouse import Warehouse
from tests.asserts import assert_error, assert_query
from tests.builders import Run, execute, framework, kernel, run
from tests.conftest import CAPTURES
from tests.typical import are_typical
from tests.warehouses import empty_warehouse


def long_run(length: int) -> Run:
    return run("Execute", kernel("add", start=1, end=length - 1), execute(start=0, end=length))


LOADING = run("Default", framework("Method::init", 3, 40), framework("Program::load_method", 0, 50))


def test_run_times() -> None:
    """The quartiles after the first run are 10 and 12: a run of up to 12 * 1.2 ** 3 = 20.7 is typical."""
    lengths = [80, 10, 12, 11, 10, 100]
    assert_query(
        "SELECT run_index, name, method, execute, is_warm_up, is_outlier, block_median, unit FROM run_times('test', unit := 'ns')",
        """
        run_index,name,method,execute,is_warm_up,is_outlier,block_median,unit
        1,Execute,Execute,80.0,True,False,10.5,ns
        2,Execute,Execute,10.0,False,False,10.5,ns
        3,Execute,Execute,12.0,False,False,10.5,ns
        4,Execute,Execute,11.0,False,False,10.5,ns
        5,Execute,Execute,10.0,False,False,10.5,ns
        6,Execute,Execute,100.0,False,True,10.5,ns
        """,
        LOADING,
        *(long_run(length) for length in lengths),
    )


def test_run_times_of_few_runs_are_not_judged() -> None:
    query = "SELECT is_warm_up, is_outlier FROM run_times('test')"
    assert_query(query, "is_warm_up,is_outlier\nFalse,False\nFalse,False\n", long_run(90), long_run(10))


def test_many_long_runs_are_not_outliers() -> None:
    query = "SELECT count(*) AS n FROM run_times('test') AS r WHERE r.is_outlier"
    runs = [long_run(length) for length in (10, 10, 10, 10, 10, 50, 50)]
    assert_query(query, "n\n0\n", *runs)
    assert_query(query, "n\n1\n", *runs[:-1])


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


def test_headline_leaves_out_what_is_unknown() -> None:
    """A file with only loading, and one with only the times of methods."""
    assert_query("SELECT number FROM headline('test')", "number\nload\n", LOADING)
    assert_query(
        "SELECT number, value FROM headline('test', unit := 'ns')",
        "number,value\nexecute,10.0\n",
        run("Execute", execute(start=0, end=10)),
    )
    assert_error("FROM headline('test', unit := 'hours')", "unit")


@pytest.mark.long
def test_module_ops_add_up() -> None:
    """The ticks add up to the total of the executes, and by module to those of `module_totals`."""
    with empty_warehouse() as warehouse:
        for model in ("transformer", "convnet_xnn", "multimethod"):
            folder = CAPTURES / model
            capture = warehouse.ingest(folder / f"{model}_100runs.etdp")
            warehouse.link(capture, warehouse.ingest_record(folder / f"{model}.etrecord"))
            [(whole,)] = warehouse.rows("SELECT sum(self_ticks) FROM module_ops($c, runs := 'all')", c=capture)[1]
            query = "SELECT sum(duration_ticks) FROM events WHERE capture_id = $c AND name = 'Method::execute'"
            assert warehouse.rows(query, c=capture.capture_id)[1] == [(whole,)]
            by_module = "SELECT (method, module_path), sum(self_ticks)::BIGINT FROM module_ops($c) GROUP BY ALL"
            of_modules = "SELECT (method, module_path), self_ticks FROM module_totals($c) WHERE self_ticks > 0"
            assert (
                dict(warehouse.rows(of_modules, c=capture)[1]).items()
                <= dict(warehouse.rows(by_module, c=capture)[1]).items()
            )
            assert warehouse.rows("SELECT sum(share_percent) FROM module_ops($c)", c=capture)[1][0][0] == (
                pytest.approx(100)
            )


def test_module_ops_need_a_record() -> None:
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


@pytest.mark.long
def test_event_histogram_of_real_runs_is_numpys(all_captures: Warehouse) -> None:
    """Each event of the transformer: the bars equal numpy.histogram's, except for values on an edge."""
    times: dict[tuple[int, ...], list[float]] = {}
    query = "SELECT block_index, slot, occurrence, duration_ticks FROM events WHERE capture_id = $c"
    capture = all_captures.capture("transformer_100runs")
    for *key, ticks in all_captures.rows(query, c=capture.capture_id)[1]:
        times.setdefault(tuple(key), []).append(ticks)
    bars: dict[tuple[int, ...], dict[int, int]] = {}
    shown = all_captures.rows("FROM event_histogram($c, bins := 10, unit := 'ns')", c=capture)[1]
    for block, _, slot, occurrence, number, _, _, runs, *_ in shown:
        bars.setdefault((block, slot, occurrence), {})[number] = runs
    assert bars.keys() == times.keys()
    for place, values in times.items():
        first, third = np.quantile(values, [0.25, 0.75])
        inside = [value for value in values if value <= third + 3 * (third - first)]
        counts, edges = np.histogram(inside, 10, (min(inside), max(inside)))
        found = [bars[place].get(number, 0) for number in range(10)]
        on_edges = sum(bool(np.any(np.abs(edges[1:-1] - value) < 1e-6)) for value in inside)
        if min(inside) < max(inside):
            assert sum(abs(one - other) for one, other in zip(found, counts, strict=True)) <= 2 * on_edges
        assert sum(found) == len(inside) and bars[place].get(10, 0) == len(values) - len(inside)


def test_headline_of_real_runs_is_the_medians(all_captures: Warehouse) -> None:
    """By Python's own statistics, of the events themselves."""
    for stem in ("convnet_100runs", "mlp_method_only"):
        capture = all_captures.capture(stem)
        query = (
            "SELECT run_index, duration_ticks FROM events WHERE capture_id = $c AND name = 'Method::execute' ORDER BY 1"
        )
        ticks = [row[1] for row in all_captures.rows(query, c=capture.capture_id)[1]]
        numbers = {row[0]: row[2] for row in all_captures.rows("FROM headline($c, unit := 'ns')", c=stem)[1]}
        # Of these captures, 1 and 3 of the runs lie beyond the fences.
        typical = [each for each, is_typical in zip(ticks, are_typical(ticks), strict=True) if is_typical]
        assert len(ticks) - len(typical) == {"convnet_100runs": 1, "mlp_method_only": 3}[stem]
        assert numbers["execute"] == statistics.median(typical)
        assert numbers["first run excess"] == ticks[0] - statistics.median(ticks[1:])
        assert ("framework tax" in numbers) == (stem == "convnet_100runs")
