"""Positions of events: on runs small enough to draw by hand, and, for all real captures, relative to their parents."""

from __future__ import annotations

from typing import Any

import pytest

from etq.warehouse.warehouse import Warehouse
from tests.asserts import DELEGATED, TWO_OPERATORS, assert_error, assert_query
from tests.batches import ingest_all
from tests.builders import delegate_call, delegated, dump, execute, framework, kernel, run
from tests.conftest import CAPTURES
from tests.trace_builders import event, trace, two_steps
from tests.warehouses import empty_warehouse

PLACES = "event_name, track, depth, run_start, start, duration, is_estimated, logged, logged_unit"


def test_host_events_keep_their_logged_times() -> None:
    assert_query(
        "SELECT run_index, event_index, event_name, track, depth, parent_index, run_start, start, duration, unit "
        "FROM timeline('test', unit := 'ns')",
        """
        run_index,event_index,event_name,track,depth,parent_index,run_start,start,duration,unit
        0,3,Method::execute,host,0,,0.0,0.0,60.0,ns
        0,1,OPERATOR_CALL,host,1,3,0.0,8.0,25.0,ns
        0,0,native_call_add.out,host,2,1,0.0,10.0,20.0,ns
        0,2,OPERATOR_CALL,host,1,3,0.0,40.0,10.0,ns
        1,0,Method::execute,host,0,,200.0,0.0,50.0,ns
        """,
        TWO_OPERATORS,
        run("Execute", execute(start=200, end=250)),
    )


def test_a_delegates_events_on_the_hosts_clock_are_no_estimate() -> None:
    assert_query(
        "SELECT event_name, track, depth, start, duration, is_estimated FROM timeline('test', unit := 'ns') "
        "WHERE kind LIKE 'delegate%'",
        """
        event_name,track,depth,start,duration,is_estimated
        DELEGATE_CALL,host,1,10.0,40.0,False
        "Convolution (NHWC, F32) IGEMM #1",delegate,2,15.0,20.0,False
        "Transpose (ND, X32) #1",delegate,2,35.0,5.0,False
        """,
        DELEGATED,
    )


CONV, RELU = "conv (cycles)", "relu (cycles)"
# Events of a call from 110 to 150 of an execute from 100 on: label, start and end as logged; track, start, duration, value
# and unit as placed.
ESTIMATED: dict[str, list[tuple[str, int, int, tuple[Any, ...]]]] = {
    # From 7000 to 7025: 25 ticks, which the call of 40 has room for.
    "own clock": [
        ("conv", 7000, 7005, ("delegate, own clock", 10, 5, 5, "ns")),
        ("relu", 7015, 7025, ("delegate, own clock", 25, 10, 10, "ns")),
    ],
    # 80 ticks of another clock in a call of 40: half of everything.
    "longer than the call": [
        ("conv", 7000, 7020, ("delegate, own clock", 10, 10, 20, "ns")),
        ("relu", 7040, 7080, ("delegate, own clock", 30, 20, 40, "ns")),
    ],
    # 300 and 100 cycles fill the call of 40; 2 us are more than it has, unknown ones fill it; bytes take no time.
    "bare values": [
        (CONV, 0, 300, ("delegate, cycles", 10, 30, 300, "cycles")),
        (RELU, 0, 100, ("delegate, cycles", 40, 10, 100, "cycles")),
        ("Execute (us)", 0, 2, ("delegate, us", 10, 40, 2, "us")),
        ("Mystery", 0, 3, ("delegate, unknown", 10, 40, 3, "unknown")),
        ("Read (bytes)", 0, 4096, ("delegate, bytes", 10, None, 4096, "bytes")),
    ],
}


@pytest.mark.long
def test_events_of_other_clocks_are_placed_in_their_call(warehouse: Warehouse) -> None:
    query = f"SELECT {PLACES} FROM timeline($name, unit := 'ns') WHERE kind = 'delegate' ORDER BY event_index"
    contents = {}
    for name, events in ESTIMATED.items():
        logged = [delegated(label, start=start, end=end) for label, start, end, _ in events]
        around = (delegate_call(start=110, end=150), execute(start=100, end=160))
        contents[name] = dump(run("Execute", *logged, *around))
    ingest_all(warehouse, contents.items())
    for name, events in ESTIMATED.items():
        assert warehouse.rows(query, name=name)[1] == [
            (label, track, 2, 0, start, duration, True, value, unit)
            for label, _, _, (track, start, duration, value, unit) in events
        ]


def test_each_call_has_its_own_place_and_times_are_converted() -> None:
    # Ticks are milliseconds: 4 and 6 us are fractions of one.
    with empty_warehouse() as warehouse:
        data = dump(
            run(
                "Execute", delegated("a (us)", start=0, end=4, instruction=1),
                delegate_call(start=110, end=150, instruction=1), delegated("a (us)", start=0, end=6, instruction=1),
                delegate_call(start=160, end=170, instruction=1), execute(start=100, end=180),
            )
        )  # fmt: skip
        warehouse.ingest(data, name="test", time_scale="ms")
        query = "SELECT event_index, start, duration FROM timeline('test', unit := 'us') WHERE is_estimated ORDER BY 1"
        assert warehouse.rows(query)[1] == [(0, 10_000.0, 4.0), (2, 60_000.0, 6.0)]


def test_values_outside_of_calls_are_in_no_row() -> None:
    assert_query(
        "SELECT event_name, start, duration, logged FROM timeline('test', unit := 'ns')",
        """
        event_name,start,duration,logged
        Method::execute,0.0,60.0,60
        conv (us),,,5
        """,
        run("Execute", delegated("conv (us)", start=0, end=5, instruction=3), execute(start=100, end=160)),
    )


def test_a_counter_that_wraps_is_not_reversed() -> None:
    # Three runs of a 32-bit clock: 100 before zero, from 10 before zero to 20 after it, and 50 after it.
    zero = 2**32
    assert_query(
        "SELECT run_index, event_name, run_start, start, duration FROM timeline('test', unit := 'ns')",
        """
        run_index,event_name,run_start,start,duration
        0,Method::execute,0.0,0.0,60.0
        1,Method::execute,90.0,0.0,30.0
        1,native_call_add.out,90.0,12.0,3.0
        2,Method::execute,150.0,0.0,5.0
        """,
        run("Execute", execute(start=zero - 100, end=zero - 40)),
        run("Execute", kernel("add", start=2, end=5), execute(start=zero - 10, end=20)),
        run("Execute", execute(start=50, end=55)),
    )


def test_dumps_of_one_file_start_separately() -> None:
    first = dump(run("Execute", execute(start=500, end=560)), run("Execute", execute(start=600, end=650)))
    second = dump(run("Execute", execute(start=20, end=50)), run("Execute", execute(start=70, end=90)))
    with empty_warehouse() as warehouse:
        warehouse.ingest(first + second, name="test")
        query = "SELECT run_index, run_start, start FROM timeline('test', unit := 'ns')"
        assert warehouse.rows(query)[1] == [(0, 0.0, 0.0), (1, 100.0, 0.0), (2, 0.0, 0.0), (3, 50.0, 0.0)]


def test_impossible_times_and_huge_ones() -> None:
    assert_query(
        "SELECT event_name, start, duration, logged FROM timeline('test', unit := 'ns')",
        f"""
        event_name,start,duration,logged
        Method::execute,0.0,,
        last,{float(2**62 - 2**40)},10.0,10
        """,
        run("Execute", execute(start=2**40, end=0), framework("last", start=2**62, end=2**62 + 10)),
    )


@pytest.mark.long
def test_one_run_and_chosen_runs() -> None:
    runs = [run("Execute", execute(start=100 * at, end=100 * at + 10 + at)) for at in range(3)]
    for arguments, found in {
        "runs := [1]": "1,0.0,11.0",
        "steps := 'skip_first=2'": "2,0.0,12.0",
        "runs := [7]": "",
    }.items():
        assert_query(
            f"SELECT run_index, run_start, duration FROM timeline('test', unit := 'ns', {arguments})",
            f"run_index,run_start,duration\n{found}\n".replace("\n\n", "\n"),
            *runs,
        )
    assert_error("FROM timeline('test', unit := 'hours')", "unknown unit hours")


def test_a_trace_has_a_track_for_each_thread(warehouse: Warehouse) -> None:
    names = [
        {"ph": "M", "name": "process_name", "pid": 100, "args": {"name": "python"}},
        {"ph": "M", "name": "thread_name", "pid": 100, "tid": 1, "args": {"name": "main"}},
    ]
    warehouse.ingest(trace(*names, *two_steps()), name="test")
    query = """SELECT run_index, run_start, event_name, track, depth, parent_run_index, start, duration
        FROM timeline('test') WHERE event_name IN ('aten::addmm', 'relu_kernel', 'ProfilerStep#5')"""
    assert warehouse.rows(query)[1] == [
        (0, 0.0, "aten::addmm", "python 100, main", 2, 0, 15.0, 20.0),
        (1, 100.0, "ProfilerStep#5", "python 100, main", 0, None, 0.0, 100.0),
        (1, 100.0, "relu_kernel", "0, 7", 0, None, 80.0, 40.0),
    ]


def test_threads_without_names_are_not_two_numbers(warehouse: Warehouse) -> None:
    name = {"ph": "M", "name": "process_name", "pid": 100, "args": {"name": "python"}}
    ops = [event("cpu_op", "aten::add", 0, 5, thread) for thread in (100, 101)]
    warehouse.ingest(trace(name, *ops), name="test")
    query = "SELECT t.track FROM timeline('test') AS t ORDER BY t.event_index"
    assert warehouse.rows(query)[1] == [("python 100, main thread",), ("python 100, thread 101",)]


@pytest.mark.long
def test_a_linked_record_has_the_backend() -> None:
    with empty_warehouse() as warehouse:
        capture = warehouse.ingest(CAPTURES / "mlp_xnn/mlp_xnn.etdp", name="test")
        record = warehouse.ingest_record(CAPTURES / "mlp_xnn/mlp_xnn.etrecord")
        query = "SELECT DISTINCT kind, track FROM timeline('test') WHERE kind LIKE 'delegate%' ORDER BY kind"
        assert warehouse.rows(query)[1] == [("delegate", "delegate"), ("delegate_call", "host")]
        warehouse.link(capture, record)
        assert warehouse.rows(query)[1] == [("delegate", "XnnpackBackend"), ("delegate_call", "host")]
