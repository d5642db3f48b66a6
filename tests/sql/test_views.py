"""Each view on a dump small enough to check by eye: events, a query, and the answer as CSV."""

from __future__ import annotations

from typing import Any

import pytest

import etq
from etq.warehouse.warehouse import Warehouse
from tests.asserts import DELEGATED, TWO_OPERATORS, assert_error, assert_query
from tests.builders import AllocationEvent, delegated, dump, execute, framework, kernel, run
from tests.warehouses import empty_warehouse


def test_op_totals() -> None:
    assert_query(
        """SELECT op, kind, calls, total, per_call, share_percent, unit, total_ticks
           FROM op_totals('test', unit := 'ns')""",
        """
        op,kind,calls,total,per_call,share_percent,unit,total_ticks
        (unattributed),framework,1,25.0,25.0,41.666666666666664,ns,25
        add,kernel,1,20.0,20.0,33.333333333333336,ns,20
        OPERATOR_CALL,operator_call,1,10.0,10.0,16.666666666666668,ns,10
        (framework),framework,1,5.0,5.0,8.333333333333334,ns,5
        """,
        TWO_OPERATORS,
    )


@pytest.mark.long
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
def test_framework_tax_against_a_run_without_tracing(warehouse: Warehouse) -> None:
    """Untraced, a run takes 40, 50 or 60; 50 - 30 of work leaves 20 of tax, and 10 of the 60 are the tracing's.

    A run that tracing slows down takes longer than the baseline, unless that is of another program.
    """
    warehouse.ingest(dump(TWO_OPERATORS), name="test")
    for name, times in (("untraced", (40, 60, 50)), ("fast", (20,)), ("slow", (300,))):
        warehouse.ingest(dump(*(run("Execute", execute(0, ticks)) for ticks in times)), name=name)
    columns = "SELECT execute, tracing, tax, tax_percent, note FROM framework_tax"

    def asked(capture: str, **given: str) -> list[tuple[Any, ...]]:
        options = "".join(f", {name} := '{value}'" for name, value in given.items())
        return warehouse.rows(f"{columns}('{capture}', unit := 'ns'{options})")[1]

    assert asked("test", baseline="untraced") == [(60, 10, 20, 40, "without tracing")]
    assert asked("test", baseline="fast") == [(60, 40, None, None, "work is slower when traced")]
    assert asked("test", baseline="slow")[0][2:] == (None, None, "the baseline is slower")
    assert asked("untraced", steps="skip_first=2") == [(50, None, None, None, "no operators traced")]
    with pytest.raises(etq.QueryError, match="the baseline test is of level all; it must be of level method_only"):
        asked("test", baseline="test")


@pytest.mark.long
def test_load_breakdown() -> None:
    # The first execute takes 100, the others 40 and 60: 50 more than their median.
    assert_query(
        """SELECT run_index, component, events, total, self_time, share_percent
           FROM load_breakdown('test', unit := 'ns')""",
        """
        run_index,component,events,total,self_time,share_percent
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
            "Run", AllocationEvent(1, 400), AllocationEvent(1, 200), AllocationEvent(9, 8),
            allocators=["planned", "temp"],
        ),
        run("Run", AllocationEvent(1, 100), allocators=["planned"]),
    )  # fmt: skip
    assert_error("FROM memory_totals('@last')", "@last is not a selector")


@pytest.mark.long
def test_delegate_totals() -> None:
    assert_query(
        "SELECT * EXCLUDE (block_index, chain_index) FROM delegate_totals('test', unit := 'ns')",
        """
        method,instruction_id,calls,total,ops,copies,layout,unaccounted,microkernels,per_call,share_percent,unit,events,other_events,executes,per_execute
        Execute,0,2,80.0,40.0,0.0,10.0,30.0,,40.0,50.0,ns,4,0,2,40.0
        """,
        DELEGATED,
        DELEGATED,
    )
    assert_query("SELECT calls FROM delegate_totals('test')", "calls\n", TWO_OPERATORS)
    assert_error("FROM delegate_totals('test', unit := 'hours')", "unknown unit hours")


@pytest.mark.long
def test_a_number_is_the_key_of_a_capture(warehouse: Warehouse) -> None:
    """And a text is a name, also of digits: the capture 1 has one event, and the capture named 1 has key 2."""
    first = warehouse.ingest(dump(run("Execute", kernel("mul", 0, 1), execute(0, 2))), name="first")
    second = warehouse.ingest(dump(TWO_OPERATORS), name="1")
    assert [first.capture_id, second.capture_id] == [1, 2]
    query = "SELECT string_agg(o.op, ' ' ORDER BY o.op) FROM {} AS o WHERE o.kind = 'kernel'"
    of_both = [("mul",), ("add",)]
    for argument, expected in (
        ("1", of_both[0]), ("1::BIGINT", of_both[0]), ("'1'", of_both[1]), ("2", of_both[1]), ("2::UTINYINT", of_both[1])
    ):  # fmt: skip
        assert warehouse.rows(query.format(f"op_totals({argument})"))[1] == [expected]
    for column in ("capture_id", "name"):
        lateral = f"LATERAL ({query.format(f'op_totals(c.{column})')}) AS t(ops)"
        assert warehouse.rows(f"SELECT t.ops FROM captures AS c, {lateral} ORDER BY c.capture_id")[1] == of_both
    for given, expected in ((1, of_both[0]), ("1", of_both[1]), (first, of_both[0]), (second, of_both[1])):
        assert warehouse.rows(query.format("op_totals($capture)"), capture=given)[1] == [expected]
    with pytest.raises(etq.QueryError, match="the baseline first is of level all"):
        warehouse.rows("FROM framework_tax(2, baseline := 'first')")


@pytest.mark.long
def test_a_handle_is_what_it_was_made_for(warehouse: Warehouse) -> None:
    """A key is given again once its capture is removed, and each warehouse has its own."""
    removed = warehouse.ingest(dump(TWO_OPERATORS), name="removed")
    warehouse.remove(removed)
    kept = warehouse.ingest(dump(DELEGATED), name="kept")
    assert kept.capture_id == removed.capture_id
    with pytest.raises(etq.QueryError, match=f"^no capture matches {removed.sha256}"):
        warehouse.rows("FROM op_totals($capture)", capture=removed)
    with empty_warehouse() as other:
        other.ingest(dump(TWO_OPERATORS), name="before")
        copy = other.ingest(dump(DELEGATED), name="copy")
        assert other.run_times(kept).fetchall() == other.run_times(copy).fetchall() != []


@pytest.mark.long
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
        ("frist", "^no capture matches frist; the nearest is first$"),
        (second.sha256[:3], "^no capture matches"),
    ):
        with pytest.raises(etq.QueryError, match=message):
            warehouse.capture(selector)
    with (
        empty_warehouse() as empty,
        pytest.raises(etq.QueryError, match="^no capture matches x; the warehouse has no captures$"),
    ):
        empty.capture("x")
