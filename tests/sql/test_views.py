"""Each view on a dump small enough to check by eye: events in, a query, the answer as CSV."""

from __future__ import annotations

import textwrap

import duckdb
import pytest

import etq
from etq.errors import QueryError
from etq.output import _csv as as_csv
from etq.warehouse import Warehouse
from tests.builders import (
    AllocationEvent,
    DebugEvent,
    ProfileEvent,
    Run,
    delegate_call,
    delegated,
    dump,
    execute,
    framework,
    kernel,
    operator_call,
    run,
)

# Two operators, of which the second has no kernel event, and what the framework takes around them.
TWO_OPERATORS = run(
    "Execute",
    kernel("add", start=10, end=30, instruction=0),
    operator_call(start=8, end=33, instruction=0),
    operator_call(start=40, end=50, instruction=1),
    execute(start=0, end=60),
)

# A delegate with two events on the host's clock (one of them a layout change), and one operator.
DELEGATED = run(
    "Execute",
    delegated("Convolution (NHWC, F32) IGEMM #1", start=105, end=125),
    delegated("Transpose (ND, X32) #1", start=125, end=130),
    delegate_call(start=100, end=140),
    kernel("mul", start=150, end=160, instruction=1),
    operator_call(start=148, end=164, instruction=1),
    execute(start=90, end=170),
)


def assert_query(query: str, expected: str, *runs: Run, **others: bytes) -> None:
    """The query's answer on a capture `test` of these runs (and on others, by name) is this CSV."""
    with etq.open() as warehouse:
        warehouse.ingest(dump(*runs), name="test")
        for name, data in others.items():
            warehouse.ingest(data, name=name)
        relation = warehouse.sql(query)
        assert as_csv(relation.columns, relation.fetchall(), False) == textwrap.dedent(expected).lstrip()


def assert_error(query: str, message: str, *runs: Run) -> None:
    with etq.open() as warehouse:
        warehouse.ingest(dump(*(runs or (TWO_OPERATORS,))), name="test")
        with pytest.raises((duckdb.Error, etq.QueryError), match=message):
            warehouse.sql(query).fetchall()


def test_events() -> None:
    assert_query(
        """SELECT event_index, kind, name, family, instruction_id, parent_index, execute_index, start_ticks, end_ticks,
           duration_ticks, value_unit, clock FROM events""",
        """
        event_index,kind,name,family,instruction_id,parent_index,execute_index,start_ticks,end_ticks,duration_ticks,value_unit,clock
        0,kernel,native_call_add.out,add,0,1,3,10,30,20,ticks,host
        1,operator_call,OPERATOR_CALL,OPERATOR_CALL,0,3,3,8,33,25,ticks,host
        2,operator_call,OPERATOR_CALL,OPERATOR_CALL,1,3,3,40,50,10,ticks,host
        3,framework,Method::execute,Method::execute,0,,3,0,60,60,ticks,host
        """,
        TWO_OPERATORS,
    )


def test_events_of_delegates_have_units_and_clocks() -> None:
    assert_query(
        """SELECT label, family, kind, parent_index, duration_ticks, value_unit, clock FROM events ORDER BY event_index""",
        """
        label,family,kind,parent_index,duration_ticks,value_unit,clock
        Accelerator time (cycles),Accelerator time,delegate,4,700,cycles,synthetic
        Bytes read (bytes),Bytes read,delegate,4,4096,bytes,synthetic
        Mystery,Mystery,delegate,4,3,unknown,synthetic
        7,7,delegate,4,5,ticks,delegate
        DELEGATE_CALL,DELEGATE_CALL,delegate_call,5,40,ticks,host
        Method::execute,Method::execute,framework,,60,ticks,host
        """,
        run(
            "Execute",
            delegated("Accelerator time (cycles)", start=0, end=700),
            delegated("Bytes read (bytes)", start=0, end=4096),
            delegated("Mystery", start=0, end=3),
            delegated(7, start=900, end=905),
            delegate_call(start=110, end=150),
            execute(start=100, end=160),
        ),
    )


def test_events_of_a_32_bit_clock() -> None:
    # 2**32 - 10 to 5 is 15 ticks; the pair makes the width evident.
    assert_query(
        """SELECT e.duration_ticks, c.clock_bits, f.rule, f.detail
           FROM events AS e JOIN captures AS c USING (capture_id) JOIN findings AS f USING (capture_id)
           ORDER BY e.event_index""",
        """
        duration_ticks,clock_bits,rule,detail
        4,32,wrapped clock,1 events end after the 32-bit counter passed zero
        15,32,wrapped clock,1 events end after the 32-bit counter passed zero
        """,
        run("Execute", kernel("add", start=2**32 - 9, end=2**32 - 5), execute(start=2**32 - 10, end=5)),
    )


def test_impossible_times_are_null_and_told() -> None:
    # A 64-bit clock (a time of 2**40) does not run backward.
    assert_query(
        """SELECT e.name, e.duration_ticks, e.start_ticks, e.end_ticks, f.detail
           FROM events AS e JOIN findings AS f USING (capture_id) ORDER BY e.event_index""",
        """
        name,duration_ticks,start_ticks,end_ticks,detail
        native_call_add.out,,50,40,1 events end before they start; their duration is null
        Method::execute,60,1099511627776,1099511627836,1 events end before they start; their duration is null
        """,
        run("Execute", kernel("add", start=50, end=40), execute(start=2**40, end=2**40 + 60)),
    )


def test_event_blocks_tell_control_flow_apart() -> None:
    # The second run takes another branch; the third is like the first.
    then = run("Execute", kernel("add", 1, 2, instruction=3), execute(0, 3))
    otherwise = run("Execute", kernel("sub", 1, 2, instruction=4), execute(0, 3))
    assert_query(
        "FROM event_blocks('test')",
        """
        block_index,name,runs,first_run,last_run,events,bundled_input_index
        0,Default,1,0,0,1,
        1,Execute,2,1,3,2,
        2,Execute,1,2,2,2,
        3,Execute,1,4,4,2,1
        """,
        run("Default", framework("Program::load_method", 0, 9)),
        then,
        otherwise,
        then,
        Run("Execute", then.events, (), 1),
    )


def test_inspector_events_over_two_runs() -> None:
    # 20 and 40 ns: p10 is 20 + 0.1 * 20, p90 is 20 + 0.9 * 20.
    assert_query(
        """SELECT event_block_name, slot, occurrence, event_name, raw, p10, p50, p90, avg, min, max, unit
           FROM inspector_events('test', unit := 'ns')""",
        """
        event_block_name,slot,occurrence,event_name,raw,p10,p50,p90,avg,min,max,unit
        Execute,0,0,native_call_add.out,"[20.0, 40.0]",22.0,30.0,38.0,30.0,20.0,40.0,ns
        Execute,1,0,Method::execute,"[60.0, 80.0]",62.0,70.0,78.0,70.0,60.0,80.0,ns
        """,
        run("Execute", kernel("add", 10, 30), execute(0, 60)),
        run("Execute", kernel("add", 110, 150), execute(100, 180)),
    )


def test_inspector_events_keep_every_iteration_of_a_loop() -> None:
    loop = run("Execute", kernel("add", 1, 3, 5), kernel("add", 4, 9, 5), kernel("add", 10, 11, 5), execute(0, 12))
    query = "SELECT occurrence, event_name, raw FROM inspector_events('test', unit := 'ns', repeats := '{}')"
    assert_query(
        query.format("all"),
        """
        occurrence,event_name,raw
        0,native_call_add.out,[2.0]
        1,native_call_add.out,[5.0]
        2,native_call_add.out,[1.0]
        0,Method::execute,[12.0]
        """,
        loop,
    )
    assert_query(
        query.format("last"),
        """
        occurrence,event_name,raw
        0,native_call_add.out,[1.0]
        0,Method::execute,[12.0]
        """,
        loop,
    )
    assert_error(query.format("first"), "repeats is 'all' or 'last', not first")


def test_inspector_events_have_rows_for_what_only_logged_values() -> None:
    assert_query(
        "SELECT slot, event_name, kind, p50, instruction_id FROM inspector_events('test', unit := 'ns')",
        """
        slot,event_name,kind,p50,instruction_id
        0,native_call_add.out,kernel,20.0,0
        1,Method::execute,framework,60.0,0
        2,,debug,,
        """,
        run(
            "Execute",
            DebugEvent(1.5, instruction_id=0),
            kernel("add", 10, 30),
            execute(0, 60),
            DebugEvent(7, chain_index=2**64 - 1),
        ),
    )


def test_units_are_asked_for_or_fit_the_capture() -> None:
    query = "SELECT p50, unit FROM inspector_events('test'{}) WHERE event_name = 'Method::execute'"
    assert_query(query.format(""), "p50,unit\n0.06,us\n", TWO_OPERATORS)
    assert_query(query.format(", unit := 's'"), "p50,unit\n6e-08,s\n", TWO_OPERATORS)
    assert_error(query.format(", unit := 'sec'"), "no unit sec; known are ns, us, ms, s, cycles")
    assert_error(query.format(", unit := 'cycles'"), "test counts ns, which can't be told in cycles")


def test_units_of_a_capture_in_cycles(warehouse: Warehouse) -> None:
    warehouse.ingest(dump(TWO_OPERATORS), name="test", time_scale="cycles")
    assert warehouse.sql("SELECT max, unit FROM inspector_events('test')").fetchall()[-1] == (60.0, "cycles")
    with pytest.raises(duckdb.Error, match="test counts cycles, which can't be told in us"):
        warehouse.sql("FROM op_totals('test', unit := 'us')").fetchall()


def test_percentiles() -> None:
    runs = [run("Execute", execute(0, ticks)) for ticks in (10, 20, 30, 40, 50)]
    # Linear interpolation between the five: 0.99 lies at 3.96 of 4 steps.
    assert_query(
        """SELECT event_name, runs, quantile, value, unit
           FROM percentiles('test', quantiles := [0.99, 0.5, 0], unit := 'ns')""",
        """
        event_name,runs,quantile,value,unit
        Method::execute,5,0.0,10.0,ns
        Method::execute,5,0.5,30.0,ns
        Method::execute,5,0.99,49.6,ns
        """,
        *runs,
    )
    assert_error("FROM percentiles('test', quantiles := [2.0])", "(?i)quantile")


def test_event_times() -> None:
    assert_query(
        """SELECT event_index, event_name, parent_index, start, inclusive, exclusive, unit
           FROM event_times('test', unit := 'ns')""",
        """
        event_index,event_name,parent_index,start,inclusive,exclusive,unit
        0,native_call_add.out,1,10.0,20.0,20.0,ns
        1,OPERATOR_CALL,3,8.0,25.0,5.0,ns
        2,OPERATOR_CALL,3,40.0,10.0,10.0,ns
        3,Method::execute,,0.0,60.0,25.0,ns
        """,
        TWO_OPERATORS,
    )
    assert_error("FROM event_times('tset')", "no capture matches tset; the nearest are test")


def test_event_times_of_impossible_times_are_null() -> None:
    assert_query(
        "SELECT event_name, inclusive, exclusive FROM event_times('test', unit := 'ns')",
        """
        event_name,inclusive,exclusive
        native_call_add.out,,
        Method::execute,60.0,60.0
        """,
        run("Execute", kernel("add", start=50, end=40), execute(start=2**40, end=2**40 + 60)),
    )


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
    # The delegate's cycles and bytes are shown, with no share: the call's 40 ticks stay its own.
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
    assert_error("FROM op_totals('test', \"by\" := 'size')", "by is 'family', .* not size")


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
    assert_error("FROM execute_breakdown('test', active := 0)", "a schedule needs .* active of at least 1")


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
        "SELECT execute, kernels, tax, note FROM framework_tax('untraced', unit := 'ns', skip_first := 2)",
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
    assert_error("FROM memory_totals('@last')", "@last is no selector")


def test_delegate_totals() -> None:
    assert_query(
        "SELECT * EXCLUDE (block_index, chain_index) FROM delegate_totals('test', unit := 'ns')",
        """
        instruction_id,calls,total,ops,copies,layout,unaccounted,avg,share_percent,unit,events,other_events
        0,2,80.0,40.0,0.0,10.0,30.0,40.0,50.0,ns,4,0
        """,
        DELEGATED,
        DELEGATED,
    )
    assert_query("SELECT calls FROM delegate_totals('test')", "calls\n", TWO_OPERATORS)
    assert_error("FROM delegate_totals('test', unit := 'hours')", "no unit hours")


def test_schedules_choose_runs() -> None:
    # Of each name: skip 1, then cycles of 1 wait, 1 warm-up and 2 active: steps 3, 4, 7, 8, …
    runs = [run("Execute", execute(0, ticks)) for ticks in range(1, 11)]
    assert_query(
        """SELECT raw FROM inspector_events('test', unit := 'ns', skip_first := 1, wait := 1, warmup := 1, active := 2)""",
        'raw\n"[4.0, 5.0, 8.0, 9.0]"\n',
        *runs,
    )
    assert_query(
        """SELECT raw FROM inspector_events('test', unit := 'ns', wait := 1, active := 2, repeat := 2,
           skip_first_wait := 1)""",
        'raw\n"[1.0, 2.0, 4.0]"\n',
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
        ("device=c", "^no capture matches device=c; the nearest are second, first$"),
        ("frist", "^no capture matches frist; the nearest are first, second$"),
        (second.sha256[:3], "^no capture matches"),
    ):
        with pytest.raises(etq.QueryError, match=message):
            warehouse.capture(selector)
    with etq.open() as empty, pytest.raises(etq.QueryError, match="^no capture matches x; the warehouse is empty$"):
        empty.capture("x")


def test_capture_summary() -> None:
    with etq.open() as warehouse:
        warehouse.ingest(dump(TWO_OPERATORS, DELEGATED), name="test", labels={"device": "a", "build": "7"})
        relation = warehouse.sql(
            "SELECT name, format, runs, events, profiling_level, time_scale, labels, findings FROM capture_summary"
        )
        assert relation.fetchall() == [("test", "etdump", 2, 10, "all", "ns", "build=7, device=a", 0)]


# --- parts that are hard to get right -------------------------------------------------------------------------------------


def test_executes_within_executes_count_once() -> None:
    nested = run("Execute", kernel("add", 20, 30), execute(10, 50), execute(0, 100))
    assert_query(
        "SELECT op, total, share_percent FROM op_totals('test', unit := 'ns')",
        """
        op,total,share_percent
        (unattributed),90.0,90.0
        add,10.0,10.0
        """,
        nested,
    )
    # Where there is an execute, steps are no total of their own, whether around it or beside it.
    for step in (framework("Method::step", 0, 100), framework("Method::step", 60, 70)):
        assert_query(
            "SELECT execute, kernels, tax FROM framework_tax('test', unit := 'ns')",
            "execute,kernels,tax\n40.0,10.0,30.0\n",
            run("Execute", kernel("add", 20, 30), execute(10, 50), step),
        )


def test_a_delegates_clock_is_told_across_the_counters_zero() -> None:
    top = 2**32
    assert_query(
        "SELECT op, total, share_percent FROM op_totals('test', unit := 'ns') WHERE kind = 'delegate'",
        "op,total,share_percent\nop,20.0,18.181818181818183\n",
        run("Execute", delegated("op", 20, 30), delegate_call(10, 40), execute(0, 50)),
        run("Execute", delegated("op", top - 5, 5), delegate_call(top - 10, 20), execute(top - 20, 40)),
    )
    # A delegate's own 64-bit clock says nothing of the host's.
    assert_query(
        "SELECT execute FROM framework_tax('test', unit := 'ns')",
        "execute\n60.0\n",
        run("Execute", delegated("op", 2**40, 2**40 + 5), delegate_call(top - 10, 20), execute(top - 20, 40)),
    )


def test_starts_across_the_counters_zero() -> None:
    top = 2**32
    assert_query(
        "SELECT event_name, start, inclusive FROM event_times('test', unit := 'ns')",
        """
        event_name,start,inclusive
        native_call_a.out,5.0,3.0
        native_call_b.out,25.0,4.0
        Method::execute,0.0,60.0
        """,
        run("Execute", kernel("a", top - 15, top - 12), kernel("b", 5, 9, 1), execute(top - 20, 40)),
    )


def test_a_delegates_events_behind_its_call_are_within_it() -> None:
    assert_query(
        "SELECT op, total FROM op_totals('test', unit := 'ns')",
        "op,total\nop,60.0\n(unattributed),20.0\nDELEGATE_CALL,20.0\n",
        run("Execute", delegate_call(10, 90), delegated("op", 20, 80), execute(0, 100)),
    )


def test_a_scope_of_the_users_within_a_kernel_is_taken_off_it() -> None:
    assert_query(
        "SELECT op, total FROM op_totals('test', unit := 'ns')",
        "op,total\nmy scope,90.0\nadd,7.0\n(framework),2.0\n(unattributed),1.0\n",
        run("Execute", framework("my scope", 5, 95), kernel("add", 1, 98), operator_call(0, 99), execute(0, 100)),
    )


def test_a_kernel_within_a_delegate_counts_once() -> None:
    within = run("Execute", kernel("add", 20, 30), delegate_call(10, 90), execute(0, 100))
    assert_query(
        "SELECT kernels, delegates, tax FROM framework_tax('test', unit := 'ns')",
        "kernels,delegates,tax\n10.0,70.0,20.0\n",
        within,
    )
    assert_query(
        "SELECT total, ops, unaccounted FROM delegate_totals('test', unit := 'ns')",
        "total,ops,unaccounted\n80.0,0.0,80.0\n",
        within,
    )


def test_calls_of_different_chains_are_different() -> None:
    def call(chain: int, start: int, end: int) -> ProfileEvent:
        return ProfileEvent("DELEGATE_CALL", chain, 0, start_time=start, end_time=end)

    assert_query(
        "SELECT chain_index, calls, total FROM delegate_totals('test', unit := 'ns')",
        "chain_index,calls,total\n1,1,20.0\n0,1,10.0\n",
        run("Execute", call(0, 10, 20), call(1, 30, 50), execute(0, 60)),
    )


def test_an_impossible_execute_has_no_time() -> None:
    with etq.open() as warehouse:
        warehouse.ingest(dump(run("Execute", execute(100, 50))), name="test", clock_bits=64)
        assert warehouse.sql("SELECT execute, tax FROM framework_tax('test')").fetchall() == [(None, None)]


def test_sums_beyond_64_bits_are_null_not_errors() -> None:
    long = [run("Execute", execute(0, 2**62 + 2**61)) for _ in range(3)]
    assert_query("SELECT calls, total_ticks FROM op_totals('test')", "calls,total_ticks\n3,\n", *long)
    for view in ("execute_breakdown", "delegate_totals", "framework_tax", "load_breakdown", "event_times"):
        with etq.open() as warehouse:
            warehouse.ingest(dump(*long), name="test")
            warehouse.sql(f"FROM {view}('test')").fetchall()


def test_a_baseline_on_another_kind_of_clock_is_refused(warehouse: Warehouse) -> None:
    warehouse.ingest(dump(TWO_OPERATORS), name="test")
    warehouse.ingest(dump(run("Execute", execute(0, 81))), name="cycles", time_scale="cycles")
    with pytest.raises(duckdb.Error, match="the baseline cycles counts cycles, which can't be taken from ns"):
        warehouse.sql("FROM framework_tax('test', baseline := 'cycles', unit := 'ns')").fetchall()


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("FROM op_totals(NULL)", "no capture matches NULL"),
        ("SELECT count(*) FROM event_times('test', unit := 'x')", "no unit x"),
        ("FROM op_totals('test', \"by\" := NULL)", "not NULL"),
        ("FROM inspector_events('test', repeats := NULL)", "not NULL"),
        ("FROM percentiles('test', quantiles := [-0.5])", "quantiles is a list of numbers between 0 and 1, not"),
        ("FROM percentiles('test', quantiles := [])", "quantiles is a list of numbers between 0 and 1, not"),
    ],
)
def test_arguments_that_mean_nothing_are_errors(query: str, message: str) -> None:
    assert_error(query, message)


def test_delegate_metadata() -> None:
    """As the backends' documentation has it (no real captures of these): Core ML's JSON, VGF's base64, Neutron's byte,
    QNN's units, Vulkan's names; the last one is of no known form."""
    import base64
    from dataclasses import replace

    vgf = base64.b64encode(b'{"layer": "conv", "cycles": 70}')

    def event(name: str, metadata: bytes | None) -> ProfileEvent:
        return replace(delegated(name, 10, 20), delegate_debug_metadata=metadata)

    assert_query(
        "SELECT event_name, source, field, value, runs FROM delegate_metadata('test')",
        """
        event_name,source,field,value,runs
        coreml,metadata,estimatedCost,0.25,2
        coreml,metadata,preferredComputeUnit,NE,2
        vgf,metadata,cycles,70,2
        vgf,metadata,layer,conv,2
        neutron,metadata,function_code,200,2
        Graph time (us),name,unit,us,2
        "{""kernel_name"": ""conv2d"", ""dispatch_id"": 7}",name,dispatch_id,7,2
        "{""kernel_name"": ""conv2d"", ""dispatch_id"": 7}",name,kernel_name,conv2d,2
        plain,metadata,,hello,2
        other,metadata,,00ff10,2
        """,
        *[
            run(
                "Execute",
                event("coreml", b'{"estimatedCost": 0.25, "preferredComputeUnit": "NE"}'),
                event("vgf", vgf),
                event("neutron", bytes([200])),
                event("Graph time (us)", None),
                event('{"kernel_name": "conv2d", "dispatch_id": 7}', None),
                event("plain", b"hello"),
                event("other", b"\x00\xff\x10"),
                delegate_call(5, 30),
                execute(0, 40),
            )
        ]
        * 2,
    )
    assert_query(
        "SELECT * FROM delegate_metadata('test')",
        "block_index,slot,event_name,source,field,value,runs\n",
        TWO_OPERATORS,
    )


def test_metadata_by_a_decoder_of_ones_own(warehouse: Warehouse) -> None:
    from dataclasses import replace

    def decoder(name: str, logged: bytes) -> dict[str, object] | None:
        if name == "bad":
            raise ValueError("no such layer")
        return {"layer": logged[0], "tile": [logged[1], 2]} if name == "conv" else None

    def ran(*names: str) -> bytes:
        events = [replace(delegated(name, 10, 20), delegate_debug_metadata=b"\x07\x01") for name in names]
        return dump(*[run("Execute", *events, delegate_call(5, 30), execute(0, 40))] * 2)

    capture = warehouse.ingest(ran("conv", "other"), name="good")
    assert warehouse.decoded_metadata(capture, decoder).fetchall() == [
        (0, 0, "conv", "layer", "7", 2),
        (0, 0, "conv", "tile", "[1, 2]", 2),
        (0, 1, "other", None, "0701", 2),
    ]
    assert warehouse.decoded_metadata(warehouse.ingest(dump(TWO_OPERATORS), name="none"), decoder).fetchall() == []
    warehouse.ingest(ran("bad"), name="bad")
    with pytest.raises(QueryError, match=r"the decoder raised ValueError at b'.*' of bad: no such layer"):
        warehouse.decoded_metadata("bad", decoder)
    with pytest.raises(QueryError, match="the decoder gave 3 for conv; expected a mapping"):
        warehouse.decoded_metadata("good", lambda name, logged: 3)  # type: ignore[arg-type, return-value]
