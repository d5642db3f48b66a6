"""Events that don't fit into the event that contains them: asynchronous and parallel delegates, other clocks."""

from __future__ import annotations

from typing import Literal

import pytest

from etq.warehouse.warehouse import Warehouse
from tests.asserts import DELEGATED, assert_query
from tests.batches import ingest_all
from tests.builders import (
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
from tests.conftest import shared_file

FAR = 2**40
TOP = 2**32


def around(*events: ProfileEvent, start: int = 10, end: int = 50) -> Run:
    """A run of 100 ticks with one call of a delegate, after the events that it logged, and one operator."""
    return run(
        "Execute", *events, delegate_call(start=start, end=end), kernel("add", start=62, end=70, instruction=1),
        operator_call(start=60, end=72, instruction=1), execute(start=0, end=100),
    )  # fmt: skip


# A call of 955 ticks; the delegate logs an event when it ends.
VGF = run(
    "Execute", delegated("fill", 20, 120), delegated("submit", 130, 830), delegated("drain", 840, 940),
    delegated("whole", 10, 950), delegate_call(5, 960), execute(0, 1000),
)  # fmt: skip
SHADER = '{{"kernel_name": "{}", "dispatch_id": 0}}'


def calls_of(*events: ProfileEvent) -> Run:
    return run("Execute", *events, execute(0, 100))


def vgf_and(*shaders: ProfileEvent) -> Run:
    *before, call, last = VGF.events
    return run("Execute", *before, *shaders, call, last)


# Runs, and in ticks: calls, total, ops, unaccounted, other_events of delegate_totals.
FITTING, LATE = around(delegated("a", 12, 32)), around(delegated("a", 12, 70))
CALLS: dict[str, tuple[list[Run], tuple[int, ...]]] = {
    "within": ([around(delegated("a", 12, 20), delegated("b", 20, 50))], (1, 40, 38, 2, 0)),
    "ends late": ([around(delegated("a", 12, 20), delegated("b", 40, 51))], (1, 40, 0, 40, 2)),
    "starts early": ([around(delegated("a", 9, 20), delegated("b", 20, 50))], (1, 40, 0, 40, 2)),
    "parallel, 41 of 40 ticks": ([around(delegated("a", 10, 31), delegated("b", 30, 50))], (1, 40, 0, 40, 2)),
    "parallel, 40 of 40 ticks": ([around(delegated("a", 10, 30), delegated("b", 20, 40))], (1, 40, 40, 0, 0)),
    "another clock": ([around(delegated("a", 900, 920), delegated("b", 920, 990))], (1, 40, 0, 40, 2)),
    "counts no ticks": ([around(delegated("a (cycles)", 900, 9000), delegated("b", 20, 50))], (1, 40, 30, 10, 1)),
    "bare values": ([around(delegated("a", 0, 9000), delegated("b", 20, 50))], (1, 40, 30, 10, 1)),
    "only the call in question has none": ([FITTING, LATE, FITTING], (3, 120, 40, 80, 1)),
    "across a wraparound": (
        [
            run(
                "Execute", delegated("a", TOP - 18, TOP - 3), delegated("b", 5, 15),
                delegate_call(start=TOP - 20, end=20), execute(start=TOP - 30, end=60),
            )
        ],
        (1, 40, 25, 15, 0),
    ),
    # Logged after the only call of its instruction, and begun before it: 70 of 10 ticks.
    "outside of calls": ([calls_of(delegate_call(85, 95), delegated("a", 10, 80))], (1, 10, 0, 10, 1)),
    # A delegate runs a separate program, whose instructions have the same numbers.
    "within a call of its own instruction": (
        [calls_of(delegated("a", 30, 50), delegate_call(20, 80), execute(10, 85), delegate_call(5, 95))],
        (1, 90, 20, 70, 0),
    ),
    "events that enclose each other": ([VGF], (1, 955, 940, 15, 0)),
    # The GPU's clock is far from the host's, or so near that one of its times lies within the call.
    "a far clock beside": (
        [vgf_and(delegated("shader", FAR, FAR + 500), delegated("shader", FAR + 500, FAR + 600))],
        (1, 955, 940, 15, 2),
    ),
    "a near clock beside": (
        [vgf_and(delegated(SHADER.format("a"), 1, 101), delegated(SHADER.format("b"), 101, 201))],
        (1, 955, 940, 15, 2),
    ),
    # The host's clock: a thread's event is within another's.
    "a thread beside": (
        [vgf_and(delegated(SHADER.format("a"), 140, 240), delegated(SHADER.format("b"), 240, 340))],
        (1, 955, 940, 15, 0),
    ),
}  # fmt: skip


@pytest.mark.long
def test_a_call_that_its_events_do_not_fit_into_has_no_breakdown(warehouse: Warehouse) -> None:
    ingest_all(warehouse, ((name, dump(*runs, run(name))) for name, (runs, _) in CALLS.items()))
    columns = "calls, total, ops, unaccounted, other_events"
    query = f"SELECT {columns} FROM delegate_totals($name, unit := 'ns')"
    assert {name: warehouse.rows(query, name=name)[1] for name in CALLS} == {
        name: [expected] for name, (_, expected) in CALLS.items()
    }
    parts = "SELECT component, sum(total_ticks) FROM execute_breakdown('ends late') GROUP BY ALL"
    others = {"kernels": 8, "operator-call overhead": 4, "rest": 48}
    assert dict(warehouse.rows(parts)[1]) == {"delegate unaccounted": 40, **others}
    parts = parts.replace("ends late", "within")
    assert dict(warehouse.rows(parts)[1]) == {"delegate ops": 38, "delegate unaccounted": 2, **others}
    ops = "FROM op_totals('only the call in question has none') SELECT calls, total, share_percent WHERE op = 'a'"
    assert warehouse.rows(ops)[1] == [(2, 0.04, pytest.approx(40 / 3)), (1, 0.058, None)]
    without = (
        "SELECT DISTINCT c.name FROM findings AS f JOIN captures AS c USING (capture_id) WHERE rule LIKE 'detached%'"
    )
    found = {name for (name,) in warehouse.rows(without)[1]}
    assert found == {
        "ends late", "starts early", "parallel, 41 of 40 ticks", "another clock", "only the call in question has none",
    }  # fmt: skip


@pytest.mark.long
def test_detached_events_are_listed_and_in_no_total() -> None:
    """The event of 180 ticks was logged before the execute of 100 ticks ended, so it must have another clock."""
    late = around(delegated("slow", 20, 90), delegated("Transpose", 30, 40))
    assert_query(
        "SELECT op, kind, total, share_percent FROM op_totals('test', unit := 'ns')",
        """
        op,kind,total,share_percent
        (unattributed),framework,48.0,48.0
        DELEGATE_CALL,delegate_call,40.0,40.0
        add,kernel,8.0,8.0
        (framework),framework,4.0,4.0
        slow,delegate,70.0,
        Transpose,delegate,10.0,
        """,
        late,
    )
    assert_query(
        """SELECT calls, total, ops, copies, layout, unaccounted, share_percent, events, other_events
           FROM delegate_totals('test', unit := 'ns')""",
        """
        calls,total,ops,copies,layout,unaccounted,share_percent,events,other_events
        1,40.0,0.0,0.0,0.0,40.0,40.0,2,2
        """,
        late,
    )
    assert_query(
        "SELECT kernels, delegates, operators, tax FROM framework_tax('test', unit := 'ns')",
        "kernels,delegates,operators,tax\n8.0,40.0,0.0,52.0\n",
        late,
    )
    # An asynchronous event is in the timeline where it was.
    assert_query(
        "SELECT event_name, start, duration, is_estimated FROM timeline('test', unit := 'ns') WHERE event_name = 'a'",
        "event_name,start,duration,is_estimated\na,20.0,70.0,False\n",
        around(delegated("a", 20, 90)),
    )
    assert_query(
        "SELECT label, is_detached FROM events ORDER BY event_index",
        """
        label,is_detached
        slow,True
        Transpose,True
        DELEGATE_CALL,False
        native_call_add.out,False
        OPERATOR_CALL,False
        Method::execute,False
        """,
        late,
    )


def test_the_clock_of_calls_that_do_not_fit(warehouse: Warehouse) -> None:
    cases = [
        (delegated("a", 20, 50), False, "host"),
        (delegated("a", 20, 51), False, "host"),  # An asynchronous backend; the timeline has the event at its time.
        (delegated("a", 20, 101), False, "delegate"),  # Logged before the execute ended, at 100.
        (delegated("a", 55, 60), False, "delegate"),  # Logged before its call ended, at 50.
        (delegated("a", 55, 60), True, "host"),
        (delegated("a", 9, 20), False, "delegate"),
    ]
    call = delegate_call(start=10, end=50)
    orders = [(call, event) if is_behind else (event, call) for event, is_behind, _ in cases]
    warehouse.ingest_many([dump(run("Execute", *order, execute(0, 100))) for order in orders])
    found = warehouse.rows("SELECT clock FROM signatures WHERE kind = 'delegate' ORDER BY capture_id")[1]
    assert [clock for (clock,) in found] == [clock for *_, clock in cases]


def test_findings_name_calls_and_reasons() -> None:
    late, other = delegated("a", 20, 90), delegated("a", 900, 990)
    both = (delegated("a", 10, 40), delegated("b", 20, 50))
    within = delegated("a", 20, 30)
    assert_query(
        "SELECT rule, detail FROM findings",
        """
        rule,detail
        detached delegate events,"4 of 5 calls of delegates have no breakdown and count as a whole, because their events \
don't fit into them: 1 on another clock than the host's, 2 whose events end after the call, as of a backend that runs \
asynchronously, 1 whose events together take longer than the call, as of parallel work; instruction 0 of Execute (4 of 5)"
        """.replace("\\\n", ""),
        around(late), around(late), around(other), around(*both), around(within),
    )  # fmt: skip
    assert_query("SELECT count(*) AS n FROM findings", "n\n0\n", DELEGATED)


def test_calls_shorter_than_their_events_count_as_a_whole() -> None:
    """Kernels of 20 and 15 ticks in a call of 30, run by another thread; their children are also within that call."""
    events = run(
        "Execute", framework("my scope", 12, 18), kernel("add", 10, 30), kernel("mul", 15, 30), operator_call(5, 35),
        execute(0, 100),
    )  # fmt: skip
    assert_query(
        "SELECT op, kind, total, share_percent FROM op_totals('test', unit := 'ns')",
        """
        op,kind,total,share_percent
        (unattributed),framework,70.0,70.0
        OPERATOR_CALL,operator_call,30.0,30.0
        add,kernel,20.0,
        mul,kernel,15.0,
        my scope,user,6.0,
        """,
        events,
    )
    assert_query(
        "SELECT rule, detail FROM findings",
        """
        rule,detail
        detached events,"1 event takes less time than the children, so the children are in no total: instruction 0 of Execute (1)"
        """,
        events,
    )


def test_the_tax_of_work_that_does_not_fit_is_unknown(warehouse: Warehouse) -> None:
    """Ops of 110 and 110 ticks run at once in an execute of 200, or in a user's event of 167 of it; then one runs after
    the other. Then two kernels are in one op of 115 ticks, which counts as a whole. The last kernel ends before it
    starts, on a clock of 64 bits.
    """
    at_once = (kernel("mm", 10, 110), operator_call(5, 115), kernel("add", 60, 160, 1), operator_call(55, 165, 1))
    runs = [
        run("Execute", *at_once, execute(0, 200)),
        run("Execute", *at_once, framework("my scope", 3, 170), execute(0, 250)),
        run("Execute", *at_once[:2], kernel("add", 120, 160, 1), operator_call(117, 165, 1), execute(0, 200)),
        run("Execute", kernel("mm", 10, 110), kernel("mm", 20, 60), operator_call(5, 120), execute(0, 200)),
        run("Execute", kernel("mm", 110, 10), execute(0, 200)),
    ]
    warehouse.ingest(dump(*runs), name="test", clock_bits=64)
    query = "SELECT execute, kernels, operators, tax, note FROM framework_tax('test', unit := 'ns')"
    unknown = (None, None, None, "times of its work are unknown")
    assert warehouse.rows(query)[1] == [
        (200, *unknown), (250, *unknown), (200, 140, 0, 60, "includes tracing"), (200, 0, 115, 85, "includes tracing"),
        (200, *unknown),
    ]  # fmt: skip
    stored = "SELECT run_index, execute_ticks, kernel_ticks, delegate_ticks, operator_ticks FROM {} ORDER BY run_index"
    assert warehouse.rows(stored.format("_find_run_times(1, 1)"))[1] == warehouse.rows(stored.format("runs"))[1]
    warehouse.ingest(dump(*runs[:1] * 9), name="parallel")
    assert warehouse.rows("SELECT rule FROM advice('parallel')")[1] == [("detached events",), ("few runs",)]


def test_an_execute_counts_whatever_it_is_within_but_if_it_is_impossible() -> None:
    """The user's scope of 10 ticks around an execute of 100 is wrong; the execute is kept nevertheless."""
    assert_query(
        "SELECT op, total, share_percent FROM op_totals('test', unit := 'ns')",
        "op,total,share_percent\nadd,60.0,60.0\n(unattributed),40.0,40.0\n",
        run("Execute", kernel("add", 20, 80), execute(0, 100), framework("benchmark", 0, 10)),
    )
    fine = run("Execute", kernel("add", 20, 80), execute(0, 100))
    broken = run("Execute", kernel("add", FAR + 20, FAR + 80), execute(FAR + 10, FAR))
    assert_query(
        "SELECT op, total, share_percent FROM op_totals('test', unit := 'ns')",
        "op,total,share_percent\nadd,60.0,60.0\n(unattributed),40.0,40.0\nadd,60.0,\n",
        fine,
        broken,
    )
    assert_query(
        "SELECT execute, kernels, tax FROM framework_tax('test', unit := 'ns')",
        "execute,kernels,tax\n100.0,60.0,40.0\n,,\n",
        fine,
        broken,
    )


def test_nested_initialization_is_part_of_the_delegate_s() -> None:
    """Outside of loading, it has no share of that."""
    assert_query(
        "SELECT run_index, component, events, total, self_time, share_percent FROM load_breakdown('test', unit := 'ns')",
        """
        run_index,component,events,total,self_time,share_percent
        0,Program::load_method,1,100.0,20.0,100.0
        0,Method::init,1,80.0,30.0,80.0
        0,delegate init,1,50.0,50.0,50.0
        1,Program::load_method,1,10.0,1.0,100.0
        1,Method::init,2,59.0,6.0,90.0
        1,delegate init,2,53.0,53.0,30.0
        """,
        run(
            "Default", delegated("compile", 30, 60), delegated("init", 20, 70), framework("Method::init", 10, 90),
            framework("Program::load_method", 0, 100),
        ),
        run(
            "Default", delegated("a", 2, 5), framework("Method::init", 1, 10), framework("Program::load_method", 0, 10),
            delegated("b", 20, 70), framework("Method::init", 20, 70),
        ),
    )  # fmt: skip


def test_one_event_without_an_end_is_named_in_the_singular(warehouse: Warehouse) -> None:
    warehouse.ingest(dump(run("Execute", kernel("add", 20, 0), execute(10, 110))), name="test")
    text = "1 event has no end: the measured work was interrupted, and its time is unknown"
    assert warehouse.rows("SELECT detail FROM findings")[1] == [(text,)]


def test_published_reports_of_nested_events(warehouse: Warehouse) -> None:
    """5 calls of 955 us each, of which their events leave 15 us."""
    vgf = {"VGF_SUBMIT_AND_WAIT": 700, "VGF_COPY_INPUTS": 100, "VGF_COPY_OUTPUTS": 100, "VGF_EXECUTE": 40}
    vulkan = {
        "ETVK_COMPUTE_GRAPH_EXECUTE": 750, "ETVK_COPY_OUTPUTS": 100, "ETVK_COPY_INPUTS": 50, "ETVK_EXECUTE": 40,
    }  # fmt: skip
    both = {"50_vgf": vgf, "51b_vulkan_no_shaders": vulkan}
    ingest_all(warehouse, ((name, shared_file(f"captures/reports/{name}.etdp")) for name in both))
    for name, expected in both.items():
        query = "SELECT op, per_call FROM op_totals($name, unit := 'us') WHERE kind LIKE 'delegate%'"
        assert dict(warehouse.rows(query, name=name)[1]) == {**expected, "(delegate unaccounted)": 15}


# The events of a delegate in a call from 1,010 to 1,050, and the units of the events at 0 and of the others.
COUNTED = {
    "relative to the first": ([("a", 0, 400), ("b", 400, 900), ("c", 910, 960)], "ticks", "ticks"),
    "in any order": ([("c", 910, 960), ("b", 400, 900), ("a", 0, 400)], "ticks", "ticks"),
    "within another": ([("a", 0, 960), ("b", 0, 400), ("c", 400, 900)], "ticks", "ticks"),
    "two at a time": ([("a", 0, 400), ("b", 0, 300), ("c", 300, 700)], "ticks", "ticks"),
    "bare values": ([("a", 0, 400), ("b", 0, 900)], "unknown", "ticks"),
    "a bare value beside the host's clock": ([("a", 0, 400), ("b", 1020, 1040)], "unknown", "ticks"),
    "a bare value beside another clock": ([("a", 0, 400), ("b", FAR, FAR + 500)], "unknown", "ticks"),
    "a named unit": ([("a (us)", 0, 400), ("b (us)", 400, 900)], "us", "us"),
}


@pytest.mark.parametrize("name", COUNTED)
def test_the_unit_is_decided_for_a_delegate(warehouse: Warehouse, name: str) -> None:
    events, at_0, later = COUNTED[name]
    made = [
        run("Execute", *(delegated(*each) for each in events), delegate_call(start + 10, start + 50), execute(start, start + 100))
        for start in (1000, 1000)
    ]  # fmt: skip
    warehouse.ingest(dump(*made), name="test")
    rows = warehouse.rows("SELECT start_ticks = 0, duration_ticks, value_unit FROM events WHERE kind = 'delegate'")[1]
    assert sorted(rows) == sorted([(at == 0, end - at, later if at else at_0) for _, at, end in events] * 2)


@pytest.mark.parametrize("bits", [None, 32])
def test_a_run_without_an_end_has_no_time(warehouse: Warehouse, bits: Literal[32] | None) -> None:
    """Beside a clock that wraps, too."""
    fine = run("Execute", kernel("add", 20, 40), execute(10, 110))
    wraps = [run("Execute", kernel("add", TOP - 5, 15), execute(TOP - 10, 90))] if bits else []
    unended = run("Execute", kernel("add", 1010, 1800), kernel("add", 2000, 0), execute(1000, 0))
    warehouse.ingest(dump(fine, *wraps, unended), name="test", clock_bits=bits)
    rows = warehouse.rows("SELECT duration_ticks FROM events WHERE label = 'Method::execute' ORDER BY run_index")[1]
    assert rows == [(100,), *[(100,)] * len(wraps), (None,)]
    mean = "SELECT calls, per_execute FROM op_totals('test', unit := 'ns', runs := 'all') WHERE op = 'add'"
    assert warehouse.rows(mean)[1] == [(1 + len(wraps), 20)]
    found = dict(warehouse.rows("SELECT rule, left(detail, 20) FROM findings")[1])
    of_all = "1 of 3 runs did not " if bits else "1 of 2 runs did not "
    assert found == {"unended events": "2 events have no end", "failed runs": of_all} | (
        {"wrapped clock": "2 events end after t"} if bits else {}
    )
