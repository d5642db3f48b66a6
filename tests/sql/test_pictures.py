"""What pictures are drawn from, on dumps small enough to check by eye."""

from __future__ import annotations

import statistics

import numpy as np
import pytest

import etq
from etq.warehouse import Warehouse
from tests.builders import Run, delegate_call, delegated, execute, framework, kernel, run
from tests.conftest import CAPTURES
from tests.sql.test_views import DELEGATED, TWO_OPERATORS, assert_error, assert_query
from tests.trace_builders import event, trace


def long_run(length: int) -> Run:
    return run("Execute", kernel("add", start=1, end=length - 1), execute(start=0, end=length))


LOADING = run("Default", framework("Method::init", 3, 40), framework("Program::load_method", 0, 50))


def test_run_times() -> None:
    """The first run warms up; one run in ten beyond three times the median is an outlier."""
    lengths = [80, 10, 12, 11, 10, 100]
    assert_query(
        "SELECT run_index, name, method, execute, is_warm_up, is_outlier, block_median, unit FROM run_times('test', unit := 'ns')",
        """
        run_index,name,method,execute,is_warm_up,is_outlier,block_median,unit
        1,Execute,,80.0,True,False,11.0,ns
        2,Execute,,10.0,False,False,11.0,ns
        3,Execute,,12.0,False,False,11.0,ns
        4,Execute,,11.0,False,False,11.0,ns
        5,Execute,,10.0,False,False,11.0,ns
        6,Execute,,100.0,False,True,11.0,ns
        """,
        LOADING,
        *(long_run(length) for length in lengths),
    )


def test_run_times_of_few_runs_are_not_judged() -> None:
    query = "SELECT is_warm_up, is_outlier FROM run_times('test')"
    assert_query(query, "is_warm_up,is_outlier\nFalse,False\nFalse,False\n", long_run(90), long_run(10))


def test_many_long_runs_are_no_outliers() -> None:
    query = "SELECT count(*) AS n FROM run_times('test') AS r WHERE r.is_outlier"
    runs = [long_run(length) for length in (10, 10, 10, 10, 10, 50, 50)]
    assert_query(query, "n\n0\n", *runs)
    assert_query(query, "n\n1\n", *runs[:-1])


def test_headline() -> None:
    """Runs of 20, 10, 12, 14 and a load of 50 ns: the median of the later ones, and 8 more for the first."""
    assert_query(
        """SELECT number, part, round(value, 2) AS value, round(low, 2) AS low, round(high, 2) AS high, runs, unit, note
           FROM headline('test', unit := 'ns')""",
        """
        number,part,value,low,high,runs,unit,note
        execute,Execute,12.0,10.4,13.6,3,ns,
        load,Default,50.0,,,1,ns,
        first run excess,Execute,8.0,,,1,ns,
        framework tax,Execute,16.67,14.76,19.33,3,percent,includes tracing
        delegated time,Execute,0.0,0.0,0.0,3,percent,
        """,
        LOADING,
        *(long_run(length) for length in (20, 10, 12, 14)),
    )


def test_headline_leaves_out_what_is_unknown() -> None:
    """A file that only loads, and one that says when methods ran and no more."""
    assert_query("SELECT number FROM headline('test')", "number\nload\n", LOADING)
    assert_query(
        "SELECT number, value FROM headline('test', unit := 'ns')",
        "number,value\nexecute,10.0\n",
        run("Execute", execute(start=0, end=10)),
    )
    assert_error("FROM headline('test', unit := 'hours')", "unit")


def test_timeline() -> None:
    """In the order of starts; a delegate's events and a kernel lie within their calls."""
    assert_query(
        """SELECT event_index, lane, depth, parent_index, kind, event_name, start, duration, exclusive, is_estimated, value,
           value_unit FROM timeline('test', unit := 'ns')""",
        """
        event_index,lane,depth,parent_index,kind,event_name,start,duration,exclusive,is_estimated,value,value_unit
        5,host,0,,framework,Method::execute,0.0,80.0,24.0,False,80.0,ns
        2,host,1,5,delegate_call,DELEGATE_CALL,10.0,40.0,15.0,False,40.0,ns
        0,host,2,2,delegate,"Convolution (NHWC, F32) IGEMM #1",15.0,20.0,20.0,False,20.0,ns
        1,host,2,2,delegate,"Transpose (ND, X32) #1",35.0,5.0,5.0,False,5.0,ns
        4,host,1,5,operator_call,OPERATOR_CALL,58.0,16.0,6.0,False,16.0,ns
        3,host,2,4,kernel,native_call_mul.out,60.0,10.0,10.0,False,10.0,ns
        """,
        DELEGATED,
    )


def test_timeline_of_some_runs() -> None:
    query = "SELECT DISTINCT t.run_index FROM timeline('test', runs := [1, 2, 9]) AS t ORDER BY t.run_index"
    assert_query(query, "run_index\n1\n2\n", *[TWO_OPERATORS] * 4)


def test_timeline_lays_what_is_on_another_clock_into_its_call() -> None:
    """40 ns of a delegate's clock, of which the call's 30 are three quarters; and bare values one after the other."""
    assert_query(
        """SELECT event_name, depth, start, duration, is_estimated, value, value_unit
           FROM timeline('test', unit := 'ns') WHERE event_name <> 'Method::execute'""",
        """
        event_name,depth,start,duration,is_estimated,value,value_unit
        DELEGATE_CALL,1,10.0,30.0,False,30.0,ns
        one,2,10.0,15.0,True,20.0,ns
        two,2,32.5,7.5,True,10.0,ns
        """,
        run(
            "Execute",
            delegated("one", start=5000, end=5020),
            delegated("two", start=5030, end=5040),
            delegate_call(start=10, end=40),
            execute(start=0, end=50),
        ),
    )
    assert_query(
        """SELECT event_name, start, duration, is_estimated, value, value_unit
           FROM timeline('test', unit := 'ns') WHERE kind = 'delegate'""",
        """
        event_name,start,duration,is_estimated,value,value_unit
        first (cycles),10.0,10.0,True,300.0,cycles
        second (cycles),20.0,20.0,True,600.0,cycles
        """,
        run(
            "Execute",
            delegated("first (cycles)", start=0, end=300),
            delegated("second (cycles)", start=0, end=600),
            delegate_call(start=10, end=40),
            execute(start=0, end=50),
        ),
    )


def test_timeline_of_a_trace_has_a_lane_a_thread(warehouse: Warehouse) -> None:
    """Steps, an op within one, a call on another thread, and a kernel on a stream of a device."""
    events = [
        event("user_annotation", "ProfilerStep#1", 0, 100),
        event("cpu_op", "aten::add", 10, 40),
        event("cpu_op", "aten::mul", 20, 30, thread=2),
        event("kernel", "add_kernel", 50, 60, thread=7, device=0, stream=7),
    ]
    warehouse.ingest(trace(*events), name="traced")
    rows = warehouse.sql("SELECT event_name, lane, depth, start, duration FROM timeline('traced')").fetchall()
    assert rows == [
        ("ProfilerStep#1", "thread 1", 0, 0.0, 100.0),
        ("aten::add", "thread 1", 1, 10.0, 30.0),
        ("aten::mul", "thread 2", 0, 20.0, 10.0),
        ("add_kernel", "device 0 stream 7", 0, 50.0, 10.0),
    ]


@pytest.mark.parametrize("stem", ["transformer_100runs", "convnet_xnn_100runs", "cond_mixed", "maploop", "mlp_wrap32"])
def test_timeline_of_real_captures_has_every_event_once(all_captures: Warehouse, stem: str) -> None:
    """Where it is in time as the file says, and within what contains it."""
    assert all_captures.sql(
        "SELECT run_index, event_index, start, duration FROM timeline($c) ORDER BY ALL", c=stem
    ).fetchall() == (
        all_captures.sql(
            "SELECT run_index, event_index, start, inclusive FROM event_times($c) ORDER BY ALL", c=stem
        ).fetchall()
    )
    outside = """
        SELECT count(*) FROM timeline($c) AS t JOIN timeline($c) AS p
            ON p.run_index = t.run_index AND p.event_index = t.parent_index
        WHERE t.depth <> p.depth + 1
    """
    assert all_captures.sql(outside, c=stem).fetchall() == [(0,)]


def test_module_ops_add_up() -> None:
    """To the total of the executes, in ticks; and by module to what `module_totals` says."""
    with etq.open() as warehouse:
        for model in ("transformer", "convnet_xnn", "multimethod"):
            folder = CAPTURES / model
            capture = warehouse.ingest(folder / f"{model}_100runs.etdp")
            warehouse.link(capture, warehouse.ingest_record(folder / f"{model}.etrecord"))
            [(whole,)] = warehouse.sql("SELECT sum(own_ticks) FROM module_ops($c)", c=capture).fetchall()
            query = "SELECT sum(duration_ticks) FROM events WHERE capture_id = $c AND name = 'Method::execute'"
            assert warehouse.sql(query, c=capture.capture_id).fetchall() == [(whole,)]
            by_module = "SELECT module_path, sum(own_ticks)::BIGINT FROM module_ops($c) GROUP BY ALL"
            of_modules = "SELECT module_path, own_ticks FROM module_totals($c) WHERE own_ticks > 0"
            assert (
                dict(warehouse.sql(of_modules, c=capture).fetchall()).items()
                <= dict(warehouse.sql(by_module, c=capture).fetchall()).items()
            )
            assert warehouse.sql("SELECT sum(share_percent) FROM module_ops($c)", c=capture).fetchall()[0][0] == (
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
    assert_error("FROM event_histogram('test', bins := 0)", "bins is a number from 1 to 1000, not 0")


def test_event_histogram_of_real_runs_is_numpys(all_captures: Warehouse) -> None:
    """Each event of the transformer: the same bars as numpy.histogram, but for values on an edge."""
    times: dict[tuple[int, ...], list[float]] = {}
    query = "SELECT block_index, slot, occurrence, duration_ticks FROM events WHERE capture_id = $c"
    capture = all_captures.capture("transformer_100runs")
    for *key, ticks in all_captures.sql(query, c=capture.capture_id).fetchall():
        times.setdefault(tuple(key), []).append(ticks)
    bars: dict[tuple[int, ...], dict[int, int]] = {}
    shown = all_captures.sql("FROM event_histogram($c, bins := 10, unit := 'ns')", c=capture).fetchall()
    for block, slot, occurrence, number, _, _, runs, *_ in shown:
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
        ticks = [row[1] for row in all_captures.sql(query, c=capture.capture_id).fetchall()]
        numbers = {row[0]: row[2] for row in all_captures.sql("FROM headline($c, unit := 'ns')", c=stem).fetchall()}
        assert numbers["execute"] == statistics.median(ticks[1:])
        assert numbers["first run excess"] == ticks[0] - statistics.median(ticks[1:])
        assert ("framework tax" in numbers) == (stem == "convnet_100runs")
