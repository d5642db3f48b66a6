"""Each view on a dump small enough to check by eye: events, a query, and the answer as CSV."""

from __future__ import annotations

import pytest

import etq
from etq.warehouse.warehouse import Warehouse
from tests.asserts import DELEGATED, TWO_OPERATORS, assert_error, assert_query
from tests.builders import (
    AllocationEvent,
    ProfileEvent,
    delegate_call,
    delegated,
    dump,
    execute,
    framework,
    kernel,
    operator_call,
    run,
)
from tests.warehouses import empty_warehouse


def test_op_totals() -> None:
    assert_query(
        """SELECT op, kind, calls, total, avg, share_percent, unit, total_ticks
           FROM op_totals('test', unit := 'ns')""",
        """
        op,kind,calls,total,avg,share_percent,unit,total_ticks
        (unattributed),framework,1,25.0,25.0,41.666666666666664,ns,25
        add,kernel,1,20.0,20.0,33.333333333333336,ns,20
        OPERATOR_CALL,operator_call,1,10.0,10.0,16.666666666666668,ns,10
        (framework),framework,1,5.0,5.0,8.333333333333334,ns,5
        """,
        TWO_OPERATORS,
    )


def test_op_totals_leave_other_clocks_out_of_the_sum() -> None:
    # The delegate's cycles and bytes have rows without a share; the call's 40 ticks stay its self time.
    assert_query(
        """SELECT op, kind, total, share_percent, unit FROM op_totals('test', unit := 'ns')""",
        """
        op,kind,total,share_percent,unit
        DELEGATE_CALL,delegate_call,40.0,66.66666666666667,ns
        (unattributed),framework,20.0,33.333333333333336,ns
        Bytes read,delegate,4096.0,,bytes
        Accelerator time,delegate,700.0,,cycles
        """,
        run(
            "Execute",
            delegated("Accelerator time (cycles)", start=0, end=700),
            delegated("Bytes read (bytes)", start=0, end=4096),
            delegate_call(start=110, end=150),
            execute(start=100, end=160),
        ),
    )


def test_op_totals_by_instance() -> None:
    assert_query(
        """SELECT op, instruction_id, total FROM op_totals('test', "by" := 'instance', unit := 'ns')
           WHERE kind = 'kernel'""",
        """
        op,instruction_id,total
        native_call_add.out,2,5.0
        native_call_add.out,1,1.0
        """,
        run("Execute", kernel("add", 1, 2, instruction=1), kernel("add", 3, 8, instruction=2), execute(0, 9)),
    )
    assert_error("FROM op_totals('test', \"by\" := 'size')", "by must be 'family', .* not size")


def test_op_totals_of_steps_where_nothing_executes() -> None:
    step = ProfileEvent("Method::step", 0, 0, start_time=5, end_time=40)
    assert_query(
        "SELECT op, total, share_percent FROM op_totals('test', unit := 'ns')",
        """
        op,total,share_percent
        add,20.0,57.142857142857146
        (unattributed),10.0,28.571428571428573
        (framework),5.0,14.285714285714286
        """,
        run("Step", kernel("add", 10, 30), operator_call(8, 33), step),
    )


def test_execute_breakdown() -> None:
    # 80 = 10 kernel + 6 around it + (20 op + 5 layout + 15 unexplained of the delegate's 40) + 24 around all.
    assert_query(
        """SELECT component, instruction_id, calls, total, share_percent
           FROM execute_breakdown('test', unit := 'ns')""",
        """
        component,instruction_id,calls,total,share_percent
        kernels,,1,10.0,12.5
        operator-call overhead,,1,6.0,7.5
        rest,,1,24.0,30.0
        delegate ops,0,1,20.0,25.0
        delegate layout,0,1,5.0,6.25
        delegate unaccounted,0,1,15.0,18.75
        """,
        DELEGATED,
    )
    assert_error("FROM execute_breakdown('test', steps := 'active=0')", "a schedule needs .* active of at least 1")


def test_execute_breakdown_of_user_events_and_control() -> None:
    assert_query(
        "SELECT component, calls, total FROM execute_breakdown('test', unit := 'ns')",
        """
        component,calls,total
        kernels,1,4.0
        control,1,2.0
        user events,1,6.0
        rest,1,8.0
        """,
        run(
            "Execute",
            ProfileEvent("JF_CALL", 0, 0, start_time=1, end_time=3),
            kernel("add", 6, 10, instruction=1),
            framework("Mine::block", 5, 15),
            execute(0, 20),
        ),
    )


def test_framework_tax_of_two_kernels() -> None:
    assert_query(
        """SELECT run_index, execute, kernels, delegates, operators, tracing, tax, tax_percent, note
           FROM framework_tax('test', unit := 'ns')""",
        """
        run_index,execute,kernels,delegates,operators,tracing,tax,tax_percent,note
        0,60.0,20.0,0.0,10.0,,30.0,50.0,includes tracing
        1,80.0,10.0,40.0,0.0,,30.0,37.5,includes tracing
        """,
        TWO_OPERATORS,
        DELEGATED,
    )


@pytest.mark.long
def test_framework_tax_against_a_run_without_tracing() -> None:
    # Untraced, a run takes 40, 50 or 60; 50 - 30 of work leaves 20 of tax, and 10 of the 60 are the tracing's.
    untraced = dump(*(run("Execute", execute(0, ticks)) for ticks in (40, 60, 50)))
    query = "SELECT execute, tracing, tax, tax_percent, note FROM framework_tax('{}', baseline := '{}', unit := 'ns')"
    assert_query(
        query.format("test", "untraced"),
        """
        execute,tracing,tax,tax_percent,note
        60.0,10.0,20.0,40.0,without tracing
        """,
        TWO_OPERATORS,
        untraced=untraced,
    )
    assert_query(
        query.format("test", "fast"),
        """
        execute,tracing,tax,tax_percent,note
        60.0,40.0,,,work is slower when traced
        """,
        TWO_OPERATORS,
        fast=dump(run("Execute", execute(0, 20))),
    )
    assert_query(
        "SELECT execute, kernels, tax, note FROM framework_tax('untraced', unit := 'ns', steps := 'skip_first=2')",
        """
        execute,kernels,tax,note
        50.0,0.0,,no operators traced
        """,
        TWO_OPERATORS,
        untraced=untraced,
    )
    assert_error(query.format("test", "test"), "the baseline test is of level all; it must be of level method_only")


def test_load_breakdown() -> None:
    # The first execute takes 100, the others 40 and 60: 50 more than their median.
    assert_query(
        """SELECT run_index, component, events, total, exclusive, share_percent
           FROM load_breakdown('test', unit := 'ns')""",
        """
        run_index,component,events,total,exclusive,share_percent
        0,Program::load_method,1,100.0,20.0,100.0
        0,Method::init,1,80.0,50.0,80.0
        0,delegate init,1,30.0,30.0,30.0
        1,first run excess,1,50.0,,
        """,
        run(
            "Default",
            delegated("init", start=20, end=50, instruction=-1),
            framework("Method::init", 15, 95),
            framework("Program::load_method", 0, 100),
        ),
        *(run("Execute", execute(0, ticks)) for ticks in (100, 40, 60)),
    )
    assert_query(
        "SELECT component, total FROM load_breakdown('test', unit := 'ns')",
        "component,total\nfirst run excess,\n",
        run("Execute", execute(0, 5)),
    )
    assert_error("FROM load_breakdown('nothing')", "no capture matches nothing")


def test_memory_totals() -> None:
    # Ids count from 1; 9 is no allocator of the run.
    assert_query(
        "FROM memory_totals('test')",
        """
        allocator,runs,allocations,total_bytes,largest_bytes,largest_run_bytes
        planned,2,3,700,400,600
        ,1,1,8,8,8
        temp,1,0,0,,
        """,
        run(
            "Run",
            AllocationEvent(1, 400),
            AllocationEvent(1, 200),
            AllocationEvent(9, 8),
            allocators=["planned", "temp"],
        ),
        run("Run", AllocationEvent(1, 100), allocators=["planned"]),
    )
    assert_error("FROM memory_totals('@last')", "@last is not a selector")


def test_delegate_totals() -> None:
    assert_query(
        "SELECT * EXCLUDE (block_index, chain_index) FROM delegate_totals('test', unit := 'ns')",
        """
        method,instruction_id,calls,total,ops,copies,layout,unaccounted,avg,share_percent,unit,events,other_events,executes,per_execute
        Execute,0,2,80.0,40.0,0.0,10.0,30.0,40.0,50.0,ns,4,0,2,40.0
        """,
        DELEGATED,
        DELEGATED,
    )
    assert_query("SELECT calls FROM delegate_totals('test')", "calls\n", TWO_OPERATORS)
    assert_error("FROM delegate_totals('test', unit := 'hours')", "unknown unit hours")


def test_schedules_choose_runs() -> None:
    # Of each name: skip 1, then cycles of 1 wait, 1 warm-up and 2 active: steps 3, 4, 7, 8, …
    runs = [run("Execute", execute(0, ticks)) for ticks in range(1, 11)]
    assert_query(
        """SELECT raw FROM inspector_events('test', unit := 'ns', steps := 'skip_first=1,wait=1,warmup=1,active=2')""",
        'raw\n"[4.0,5.0,8.0,9.0]"\n',
        *runs,
    )
    assert_query(
        """SELECT raw FROM inspector_events('test', unit := 'ns',
           steps := 'wait=1,active=2,repeat=2,skip_first_wait=1')""",
        'raw\n"[1.0,2.0,4.0]"\n',
        *runs[:4],
    )


def test_captures_are_found_by_name_hash_label_and_time(warehouse: Warehouse) -> None:
    first = warehouse.ingest(dump(TWO_OPERATORS), name="first", labels={"model": "mlp", "device": "a"})
    second = warehouse.ingest(dump(DELEGATED), name="second", labels={"model": "mlp", "device": "b"})
    assert warehouse.capture("first").capture_id == 1
    assert warehouse.capture(second.sha256[:8]).name == "second"
    assert warehouse.capture("device=b").name == "second"
    assert warehouse.capture("device=a,model=mlp").name == "first"
    assert warehouse.capture("@latest").name == "second"
    assert warehouse.capture(first.sha256).name == "first"
    for selector, message in (
        ("model=mlp", r"^model=mlp matches 2 captures \(first, second\); name one$"),
        ("device=c", "^no capture matches device=c: none has device=c; values are a, b$"),
        ("frist", "^no capture matches frist; the nearest are first, second$"),
        (second.sha256[:3], "^no capture matches"),
    ):
        with pytest.raises(etq.QueryError, match=message):
            warehouse.capture(selector)
    with (
        empty_warehouse() as empty,
        pytest.raises(etq.QueryError, match="^no capture matches x; the warehouse is empty$"),
    ):
        empty.capture("x")


def test_capture_summary() -> None:
    with empty_warehouse() as warehouse:
        warehouse.ingest(dump(TWO_OPERATORS, DELEGATED), name="test", labels={"device": "a", "build": "7"})
        relation = warehouse.sql(
            "SELECT name, format, runs, events, profiling_level, time_scale, labels, findings FROM capture_summary"
        )
        assert relation.fetchall() == [("test", "etdump", 2, 10, "all", "ns", "build=7, device=a", 0)]


# --- parts that are hard to get right -------------------------------------------------------------------------------------
