"""Cases that are hard to get right: nested executes, clocks that wrap, huge sums, times that no event shows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest

from etq.errors import QueryError
from etq.warehouse.warehouse import Warehouse
from tests.asserts import TWO_OPERATORS, assert_csv, assert_query
from tests.batches import ingest_all
from tests.builders import ProfileEvent, delegate_call, delegated, dump, execute, framework, kernel, operator_call, run
from tests.conftest import CAPTURES
from tests.records import Maps, node, record, tensor
from tests.warehouses import empty_warehouse


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
    # If a run has an execute, its steps are not totals, whether they lie around the execute or next to it.
    steps = (framework("Method::step", 0, 100), framework("Method::step", 60, 70))
    assert_query(
        "SELECT execute, kernels, tax FROM framework_tax('test', unit := 'ns')",
        "execute,kernels,tax\n40.0,10.0,30.0\n40.0,10.0,30.0\n",
        *(run("Execute", kernel("add", 20, 30), execute(10, 50), step) for step in steps),
    )


@pytest.mark.long
def test_a_delegates_clock_is_recognized_across_a_wraparound() -> None:
    top = 2**32
    assert_query(
        "SELECT op, total, share_percent FROM op_totals('test', unit := 'ns') WHERE kind = 'delegate'",
        "op,total,share_percent\nop,20.0,18.181818181818183\n",
        run("Execute", delegated("op", 20, 30), delegate_call(10, 40), execute(0, 50)),
        run("Execute", delegated("op", top - 5, 5), delegate_call(top - 10, 20), execute(top - 20, 40)),
    )
    # A delegate's separate 64-bit clock does not determine the width of the host's clock.
    assert_query(
        "SELECT execute FROM framework_tax('test', unit := 'ns')",
        "execute\n60.0\n",
        run("Execute", delegated("op", 2**40, 2**40 + 5), delegate_call(top - 10, 20), execute(top - 20, 40)),
    )


def test_starts_across_a_wraparound() -> None:
    top = 2**32
    assert_query(
        "SELECT event_name, start, total FROM event_times('test', unit := 'ns')",
        """
        event_name,start,total
        native_call_a.out,5.0,3.0
        native_call_b.out,25.0,4.0
        Method::execute,0.0,60.0
        """,
        run("Execute", kernel("a", top - 15, top - 12), kernel("b", 5, 9, 1), execute(top - 20, 40)),
    )


def test_a_counter_that_wraps_in_a_run_longer_than_half_its_range() -> None:
    """In units of 2**28 ticks, of which the counter holds 16: an execute from 5 to 17, after zero to 1, with kernels
    from 6 to 7 and from 14 to 16.5, after zero to 0.5.
    """
    unit = 2**28
    assert_query(
        f"SELECT op, total_ticks / {unit} AS units FROM op_totals('test')",
        "op,units\n(unattributed),8.5\nb,2.5\na,1.0\n",
        run(
            "Execute", kernel("a", 6 * unit, 7 * unit), kernel("b", 14 * unit, unit // 2, 1),
            execute(5 * unit, unit),
        ),
    )  # fmt: skip


def test_the_place_of_runs_of_a_counter_that_wraps_between_them() -> None:
    """In units of 2**28 ticks, of which the counter holds 16: runs from 3 to 15, from 17 to 29 and from 33 to 34."""
    unit = 2**28
    assert_query(
        f"SELECT run_start / {unit} AS run, start / {unit} AS start FROM timeline('test', unit := 'ns')",
        "run,start\n0.0,0.0\n0.0,1.0\n14.0,0.0\n14.0,10.0\n30.0,0.0\n",
        run("Execute", kernel("a", 4 * unit, 5 * unit), execute(3 * unit, 15 * unit)),
        run("Execute", kernel("a", 11 * unit, 12 * unit), execute(1 * unit, 13 * unit)),
        run("Execute", execute(1 * unit, 2 * unit)),
    )


def test_a_counter_that_wraps_between_events() -> None:
    """What ends before zero is not within what begins after it."""
    top = 2**32
    assert_query(
        "SELECT label, parent_index, is_detached, self_ticks FROM events",
        """
        label,parent_index,is_detached,self_ticks
        before,,False,90
        Method::execute,,False,25
        """,
        run("Execute", framework("before", top - 100, top - 10), execute(5, 30)),
    )


def test_delegate_events_logged_after_the_call_are_within_it() -> None:
    assert_query(
        "SELECT op, total FROM op_totals('test', unit := 'ns')",
        "op,total\nop,60.0\n(delegate unaccounted),20.0\n(unattributed),20.0\n",
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
        "total,ops,unaccounted\n80.0,10.0,70.0\n",
        within,
    )


def test_a_delegate_call_with_impossible_times_has_no_time() -> None:
    with empty_warehouse() as warehouse:
        content = dump(run("Execute", delegate_call(50, 40), delegate_call(60, 75, 1), execute(0, 100)))
        warehouse.ingest(content, name="test", clock_bits=64)
        query = (
            "SELECT instruction_id, calls, total, per_execute, unaccounted FROM delegate_totals('test', unit := 'ns')"
        )
        assert warehouse.rows(query)[1] == [(1, 1, 15, 15, 15), (0, 1, None, None, None)]


def test_calls_of_different_chains_are_different() -> None:
    def call(chain: int, start: int, end: int) -> ProfileEvent:
        return ProfileEvent("DELEGATE_CALL", chain, 0, start_time=start, end_time=end)

    assert_query(
        "SELECT chain_index, calls, total FROM delegate_totals('test', unit := 'ns')",
        "chain_index,calls,total\n1,1,20.0\n0,1,10.0\n",
        run("Execute", call(0, 10, 20), call(1, 30, 50), execute(0, 60)),
    )


def test_an_impossible_execute_has_no_time() -> None:
    with empty_warehouse() as warehouse:
        warehouse.ingest(dump(run("Execute", execute(100, 50))), name="test", clock_bits=64)
        assert warehouse.rows("SELECT execute, tax FROM framework_tax('test')")[1] == [(None, None)]


@pytest.mark.long
def test_sums_beyond_64_bits_are_null_not_errors() -> None:
    long = [run("Execute", execute(0, 2**62 + 2**61)) for _ in range(3)]
    assert_query("SELECT calls, total_ticks FROM op_totals('test')", "calls,total_ticks\n3,\n", *long)
    with empty_warehouse() as warehouse:
        warehouse.ingest(dump(*long), name="test")
        for view in ("execute_breakdown", "delegate_totals", "framework_tax", "load_breakdown", "event_times"):
            warehouse.rows(f"FROM {view}('test')")


def test_a_baseline_on_another_kind_of_clock_is_refused(warehouse: Warehouse) -> None:
    warehouse.ingest(dump(TWO_OPERATORS), name="test")
    warehouse.ingest(dump(run("Execute", execute(0, 81))), name="cycles", time_scale="cycles")
    with pytest.raises(QueryError, match="the baseline cycles counts cycles, which cannot be converted to ns"):
        warehouse.sql("FROM framework_tax('test', baseline := 'cycles', unit := 'ns')").fetchall()


@pytest.mark.long
def test_arguments_that_mean_nothing_are_errors(warehouse: Warehouse) -> None:
    warehouse.ingest(dump(TWO_OPERATORS), name="test")
    for query, message in (
        ("FROM op_totals(NULL)", "no capture matches NULL"),
        ("SELECT count(*) FROM event_times('test', unit := 'x')", "unknown unit x"),
        ("FROM op_totals('test', \"by\" := NULL)", "not NULL"),
        ("FROM inspector_events('test', repeats := NULL)", "not NULL"),
        ("FROM percentiles('test', quantiles := [-0.5])", "quantiles must be a list of numbers between 0 and 1, not"),
        ("FROM percentiles('test', quantiles := [])", "quantiles must be a list of numbers between 0 and 1, not"),
    ):
        with pytest.raises(QueryError, match=re.escape(message)):
            warehouse.rows(query)


# A call runs three nodes, a kernel one, nothing the last.
NODES = (
    node("aten.linear.default", tensor("a", 2), handle=1),
    node("aten.relu.default", tensor("b", 2), handle=2),
    node("aten.linear.default", tensor("c", 2), handle=3),
    node("aten.tanh.default", tensor("d", 2), handle=4),
    node("aten.alias_copy.default", tensor("e", 2), handle=5),
)
MODULES = ("up", "act", "down", "out.act", "idle")
HANDLES = Maps(handles={0: [1, 2, 3], 1: [4]}, delegates={0: None})


def ingested(warehouse: Warehouse, folder: Path, *events: object, modules: Sequence[str] = MODULES) -> None:
    """A capture of one run, linked to the record of these nodes in these modules."""
    (folder / "net.etrecord").write_bytes(record(*NODES, maps=HANDLES))
    (folder / "run.etdp").write_bytes(dump(run("Execute", *events)))  # type: ignore[arg-type]
    linked = warehouse.ingest_record(folder / "net.etrecord")
    for index, module in enumerate(modules):
        warehouse.connection.execute("UPDATE op_nodes SET module_path = ? WHERE node_index = ?", [module, index])
        for depth, path in enumerate(["", *accumulate(module.split("."), "{}.{}".format)]):
            warehouse.connection.execute(
                "INSERT INTO node_modules BY NAME SELECT record_id, graph_id, node_index, $depth AS depth, "
                "$path AS module_path, $path AS module_key, 'Module' AS module_class, 0 AS call_number FROM op_nodes WHERE node_index = $at",
                {"depth": depth, "path": path, "at": index},
            )
    warehouse.ingest_many([folder / "run.etdp"], link_to=[linked])


CALLED = (delegate_call(start=0, end=100), kernel("tanh", start=100, end=110, instruction=1), execute(0, 110))


@pytest.mark.long
def test_times_that_a_call_without_events_hides(warehouse: Warehouse, tmp_path: Path) -> None:
    """The call is of the model as a whole. A module that only contains others has no time of its own, which is known."""
    ingested(warehouse, tmp_path, *CALLED)
    for rows in (
        "module_totals('run', unit := 'ns')",
        "(SELECT * REPLACE (self_time * 1000 AS self_time, total * 1000 AS total) FROM all_module_totals ORDER BY place)",
    ):
        assert_csv(
            warehouse,
            f"""
            SELECT module_path, calls, self_time, total, share_percent, mapping FROM {rows}
            WHERE depth IS NOT NULL
            """,
            """
            module_path,calls,self_time,total,share_percent,mapping
            ,1,100.0,110.0,100.0,exact
            act,,,,,
            down,,,,,
            idle,0,0.0,0.0,0.0,
            out,0,0.0,10.0,9.090909090909092,
            out.act,1,10.0,10.0,9.090909090909092,exact
            up,,,,,
            """,
        )
    assert_csv(
        warehouse,
        "SELECT op_type, calls, self_time, share_percent FROM node_totals('run', unit := 'ns')",
        """
        op_type,calls,self_time,share_percent
        aten.linear.default,,,
        aten.relu.default,,,
        aten.linear.default,,,
        aten.tanh.default,1,10.0,9.090909090909092
        aten.alias_copy.default,0,0.0,0.0
        """,
    )
    query = "SELECT total, events FROM find_total_for_module('run', $module, unit := 'ns')"
    for module, expected in (
        ("up", (None, None)), ("idle", (0, 0)), ("out", (10, 1)), ("", (110, 2)), ("none", (0, 0)),
    ):  # fmt: skip
        assert warehouse.rows(query, module=module)[1] == [expected], module


@pytest.mark.long
def test_modules_whose_names_begin_alike(warehouse: Warehouse, tmp_path: Path) -> None:
    """`act.in` is within `act`, and not within `act.i`; `act2` is within neither. The call is of one module."""
    ingested(warehouse, tmp_path, *CALLED, modules=("up", "up", "act.i", "act.in", "act2"))
    for rows in ("module_totals('run', unit := 'ns')", "(FROM all_module_totals ORDER BY place)"):
        query = f"SELECT module_path, calls, self_ticks, share_percent FROM {rows} WHERE module_path <> '(framework)'"
        assert warehouse.rows(query)[1] == [
            ("", 1, 100, 100.0), ("act", 0, 0, 1000 / 110), ("act.i", None, None, None),
            ("act.in", 1, 10, 1000 / 110), ("act2", 0, 0, 0.0), ("up", None, None, None),
            ("(unattributed)", 1, 0, 0.0),
        ], rows  # fmt: skip


def test_ops_of_a_delegate_without_an_event(warehouse: Warehouse) -> None:
    """The clamps of a quantized net, which were fused."""
    stem = CAPTURES / "delegation" / "mobile_quantized" / "mobile_quantized"
    warehouse.ingest(stem.with_suffix(".etdp"), name="run", pte=stem.with_suffix(".pte"))
    query = "SELECT DISTINCT calls, self_time, share_percent FROM delegate_graph('run') WHERE op = 'Clamp'"
    assert warehouse.rows(query)[1] == [(None, None, None)]


def test_an_op_whose_times_are_impossible(warehouse: Warehouse) -> None:
    """The execute or an op ends before it starts: its time is unknown, and is not zero, as of an execute that events
    cover.
    """
    add, covered, impossible = kernel("add", start=0, end=100), execute(0, 100), execute(2**40, 10)
    late = (kernel("add", start=2**40, end=100), kernel("mul", start=100, end=150), execute(0, 200))
    cases: tuple[tuple[str, tuple[Any, ...], list[tuple[str, int | None]]], ...] = (
        ("covered", (add, covered), [("add", 100), ("(unattributed)", 0)]),
        ("impossible", (add, impossible), [("(unattributed)", None)]),
        ("unended", (add, execute(2**40, 0)), []),
        ("late", late, [("(unattributed)", 150), ("mul", 50), ("add", None)]),
    )
    ingest_all(warehouse, ((name, dump(run("Execute", *events))) for name, events, _ in cases))
    for name, _, expected in cases:
        assert warehouse.rows("SELECT op, total FROM op_totals($name, unit := 'ns')", name=name)[1] == expected, name
