"""Views of single events, and of equal events over runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from etq import Inspector
from etq.errors import QueryError
from etq.warehouse.warehouse import Warehouse
from tests.asserts import TWO_OPERATORS, assert_error, assert_query
from tests.builders import DebugEvent, Run, delegate_call, delegated, dump, execute, framework, kernel, run
from tests.conftest import CAPTURES


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
            "Execute", delegated("Accelerator time (cycles)", start=0, end=700),
            delegated("Bytes read (bytes)", start=0, end=4096), delegated("Mystery", start=0, end=3),
            delegated(7, start=900, end=905), delegate_call(start=110, end=150), execute(start=100, end=160),
        ),
    )  # fmt: skip


def test_events_of_a_32_bit_clock() -> None:
    # From 2**32 - 10 to 5 there are 15 ticks; these two times show the width of the counter.
    assert_query(
        """SELECT e.duration_ticks, c.clock_bits, f.rule, f.detail
           FROM events AS e JOIN captures AS c USING (capture_id) JOIN findings AS f USING (capture_id)
           ORDER BY e.event_index""",
        """
        duration_ticks,clock_bits,rule,detail
        4,32,wrapped clock,1 event ends after the 32-bit counter passed zero
        15,32,wrapped clock,1 event ends after the 32-bit counter passed zero
        """,
        run("Execute", kernel("add", start=2**32 - 9, end=2**32 - 5), execute(start=2**32 - 10, end=5)),
    )


def test_impossible_times_are_null_and_reported() -> None:
    # A 64-bit clock (a time of 2**40) does not run backward.
    assert_query(
        """SELECT e.name, e.duration_ticks, e.start_ticks, e.end_ticks, t.total, t.self_time, f.detail
           FROM events AS e JOIN findings AS f USING (capture_id)
           JOIN event_times('test', unit := 'ns') AS t ON t.event_index = e.event_index ORDER BY e.event_index""",
        """
        name,duration_ticks,start_ticks,end_ticks,total,self_time,detail
        native_call_add.out,,50,40,,,1 event ends before the start: the duration is null
        Method::execute,60,1099511627776,1099511627836,60.0,60.0,1 event ends before the start: the duration is null
        """,
        run("Execute", kernel("add", start=50, end=40), execute(start=2**40, end=2**40 + 60)),
    )


def test_event_blocks_distinguish_control_flow() -> None:
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
        run("Default", framework("Program::load_method", 0, 9)), then, otherwise, then,
        Run("Execute", then.events, (), 1),
    )  # fmt: skip


def test_inspector_events_over_two_runs() -> None:
    # 20 and 40 ns: p10 is 20 + 0.1 * 20, p90 is 20 + 0.9 * 20.
    assert_query(
        """SELECT event_block_name, slot, occurrence, event_name, raw, p10, p50, p90, avg, min, max, unit
           FROM inspector_events('test', unit := 'ns')""",
        """
        event_block_name,slot,occurrence,event_name,raw,p10,p50,p90,avg,min,max,unit
        Execute,0,0,native_call_add.out,"[20.0,40.0]",22.0,30.0,38.0,30.0,20.0,40.0,ns
        Execute,1,0,Method::execute,"[60.0,80.0]",62.0,70.0,78.0,70.0,60.0,80.0,ns
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
    assert_error(query.format("first"), "repeats must be 'all' or 'last', not first")


def test_the_inspector_puts_chains_that_take_turns_one_after_another(tmp_path: Path) -> None:
    """ExecuTorch 1.5.1's Inspector answers 2 ns: it collects the events of chain 0, whose instruction began first, then
    those of chain 1. In the second run, chain 1 began first.
    """
    runs = [
        run("E", kernel("x", 0, 1), *(replace(kernel("add", 0, ticks), chain_index=of) for of, ticks in adds))
        for adds in (((0, 1), (1, 2), (0, 4)), ((1, 8), (0, 16), (1, 32)))
    ]
    runs[1] = replace(runs[1], events=runs[1].events[1:] + runs[1].events[:1])
    query = (
        "SELECT event_name, raw FROM inspector_events('test', unit := 'ns', repeats := 'last') WHERE block_index = {}"
    )
    assert_query(query.format(0), "event_name,raw\nnative_call_x.out,[1.0]\nnative_call_add.out,[2.0]\n", *runs)
    assert_query(query.format(1), "event_name,raw\nnative_call_add.out,[16.0]\nnative_call_x.out,[1.0]\n", *runs)
    (path := tmp_path / "turns.etdp").write_bytes(dump(*runs))
    blocks = Inspector(path, source_time_scale="ns", target_time_scale="ns", compat=True).event_blocks
    assert [[event.perf_data.raw for event in block.events if event.perf_data] for block in blocks] == [
        [[1.0], [2.0]], [[16.0], [1.0]],
    ]  # fmt: skip


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
            "Execute", DebugEvent(1.5, instruction_id=0), kernel("add", 10, 30), execute(0, 60),
            DebugEvent(7, chain_index=2**64 - 1),
        ),
    )  # fmt: skip


def test_units_are_asked_for_or_fit_the_capture() -> None:
    query = "SELECT p50, unit FROM inspector_events('test'{}) WHERE event_name = 'Method::execute'"
    assert_query(query.format(""), "p50,unit\n0.06,us\n", TWO_OPERATORS)
    assert_query(query.format(", unit := 's'"), "p50,unit\n6e-08,s\n", TWO_OPERATORS)
    assert_error(query.format(", unit := 'sec'"), "unknown unit sec; known are ns, us, ms, s, cycles")
    assert_error(query.format(", unit := 'cycles'"), "test counts ns, which cannot be converted to cycles")


def test_units_of_a_capture_in_cycles(warehouse: Warehouse) -> None:
    warehouse.ingest(dump(TWO_OPERATORS), name="test", time_scale="cycles")
    assert warehouse.rows("SELECT max, unit FROM inspector_events('test')")[1][-1] == (60.0, "cycles")
    with pytest.raises(QueryError, match="test counts cycles, which cannot be converted to us"):
        warehouse.sql("FROM op_totals('test', unit := 'us')").fetchall()


def test_event_times() -> None:
    assert_query(
        """SELECT event_index, event_name, parent_index, start, total, self_time, unit
           FROM event_times('test', unit := 'ns')""",
        """
        event_index,event_name,parent_index,start,total,self_time,unit
        0,native_call_add.out,1,10.0,20.0,20.0,ns
        1,OPERATOR_CALL,3,8.0,25.0,5.0,ns
        2,OPERATOR_CALL,3,40.0,10.0,10.0,ns
        3,Method::execute,,0.0,60.0,25.0,ns
        """,
        TWO_OPERATORS,
    )
    assert_error("FROM event_times('tset')", "no capture matches tset; the nearest is test")
    assert_error("FROM percentiles('test', quantiles := [2.0])", "(?i)quantile")


def test_event_times_join_the_nodes_of_events(warehouse: Warehouse) -> None:
    """Each kernel of the mlp runs one node, whose op its name contains: native_call_addmm.out, aten.addmm.default."""
    warehouse.ingest(CAPTURES / "mlp/mlp.etdp", name="mlp", etrecord=CAPTURES / "mlp/mlp.etrecord")
    query = """
        SELECT t.run_index, t.event_index, t.event_name, n.op_type
        FROM event_times('mlp') AS t
        LEFT JOIN event_nodes('mlp') AS n ON n.signature_index = t.signature_index AND n.is_own
        WHERE t.kind = 'kernel'"""
    rows = warehouse.rows(query)[1]
    assert len(rows) == len({row[:2] for row in rows}) > 40
    assert all(node.split(".")[1] in name for *_, name, node in rows)
