"""Limits of a device for each op, next to measured times."""

from __future__ import annotations

from typing import Any

import pytest

from etq.errors import QueryError
from etq.warehouse.warehouse import Warehouse
from tests.asserts import assert_csv
from tests.builders import Run, delegate_call, delegated, dump, execute, kernel, operator_call, run
from tests.records import Maps, node, record, tensor
from tests.warehouses import empty_warehouse

# One program: a product, an addition that reads it, two ops of a delegate that hand on a value.
LINKED = record(
    node("aten.mm.default", tensor("a", 10, 10), 1, self=tensor("x", 10, 10), mat2=tensor("w", 10, 10)),
    node("aten.add.Tensor", tensor("b", 10, 10), 2, self=tensor("a", 10, 10), other=tensor("a", 10, 10)),
    node("aten.relu.default", tensor("c", 10, 10), 3, self=tensor("b", 10, 10)),
    node("aten.tanh.default", tensor("d", 10, 10), 4, self=tensor("c", 10, 10)),
    maps=Maps(handles={0: [1], 1: [2], 2: [3, 4]}, delegates={2: None}),
)
RUN = run(
    "Execute", kernel("mm", start=0, end=400, instruction=0), operator_call(start=0, end=400, instruction=0),
    kernel("add", start=400, end=500, instruction=1), operator_call(start=400, end=500, instruction=1),
    delegate_call(start=500, end=1000, instruction=2), execute(start=0, end=1000),
)  # fmt: skip


def of_delegate(**delegates: list[int]) -> bytes:
    """A delegate's relu and tanh, of handles 3 and 4; its events by their number, with the handles that they ran."""
    numbered = {number.removeprefix("event"): handles for number, handles in delegates.items()}
    return record(
        node("aten.relu.default", tensor("c", 10, 10), 3, self=tensor("b", 10, 10)),
        node("aten.tanh.default", tensor("d", 10, 10), 4, self=tensor("c", 10, 10)),
        maps=Maps(handles={0: [3, 4]}, delegates={0: numbered}),
    )


def linked(warehouse: Warehouse, content: bytes, *runs: Run, **output: Any) -> None:
    capture = warehouse.ingest(dump(*runs), name="test", **output)
    warehouse.link(capture, warehouse.ingest_record(content))


@pytest.mark.long
def test_roofline_by_eye(warehouse: Warehouse) -> None:
    """2 * 10 * 10 * 10 operations in 400 ns are 5 of 10 GFLOP/s; 800 bytes in 100 ns are 8 of 16 GB/s."""
    linked(warehouse, LINKED, RUN, RUN)
    query = """
        SELECT r.op, r.kind, r.backend, r.instruction_id, r.calls, r.total, r.share_percent, r.flops, r.bytes,
            r.intensity, r.flops_per_second / 1e9 AS gflops, r.bytes_per_second / 1e9 AS gbs,
            r.attainable_flops_per_second / 1e9 AS top, r.roof_percent, r.bound, r.above_roof, r.above_roof_percent
        FROM roofline('test', 10e9, 16e9, unit := 'ns') AS r
    """
    assert_csv(
        warehouse,
        query,
        """
        op,kind,backend,instruction_id,calls,total,share_percent,flops,bytes,intensity,gflops,gbs,top,roof_percent,bound,above_roof,above_roof_percent
        SomeBackend,delegate_call,SomeBackend,2,2,1000.0,50.0,200,800,0.25,0.4,1.6,4.0,10.0,memory,900.0,45.0
        aten.mm.default,kernel,,0,2,800.0,40.0,2000,1200,1.6666666666666667,5.0,3.0,10.0,50.0,compute,400.0,20.0
        aten.add.Tensor,kernel,,1,2,200.0,10.0,100,800,0.125,1.0,8.0,2.0,50.0,memory,100.0,5.0
        """,
    )
    # Peaks can be metrics, in any unit (FLOP/s, GB/s). Without peaks there are only rates.
    short = "SELECT r.flops_per_second, r.roof_percent, r.bound, r.above_roof FROM roofline('test', unit := 'ns') AS r"
    assert warehouse.rows(f"{short} LIMIT 1 OFFSET 1")[1] == [(5e9, None, None, None)]
    warehouse.metric("test", "peak_flops", 10e9)
    # With one peak, the share of it is known, but not which of the two limits is nearer.
    assert warehouse.rows(f"{short} LIMIT 1 OFFSET 1")[1] == [(5e9, 50.0, None, 400.0)]
    warehouse.metric("test", "peak_bandwidth", 16, "GB/s")
    assert warehouse.rows(f"{short} LIMIT 1 OFFSET 1")[1] == [(5e9, 50.0, "compute", 400.0)]
    # Peaks that are given as arguments take precedence.
    given_one = short.replace("'test'", "'test', peak_flops := 5e9")
    assert warehouse.rows(f"{given_one} LIMIT 1 OFFSET 1")[1] == [(5e9, 100.0, "compute", 0.0)]


def test_calls_of_runs_that_differ_are_added(warehouse: Warehouse) -> None:
    """Two runs of both ops and one of the first alone are two blocks: three calls of 400 ns, and two of 100 ns."""
    short = run("Execute", kernel("mm", 0, 400, 0), operator_call(0, 400, 0), execute(0, 1000))
    linked(warehouse, LINKED, RUN, RUN, short)
    rows = warehouse.rows("SELECT r.op, r.calls, r.total, r.per_call FROM roofline('test', unit := 'ns') AS r")[1]
    assert {op: numbers for op, *numbers in rows} == {
        "SomeBackend": [2, 1000.0, 500.0], "aten.mm.default": [3, 1200.0, 400.0], "aten.add.Tensor": [2, 200.0, 100.0],
    }  # fmt: skip


@pytest.mark.long
def test_events_of_a_delegate_have_the_costs_of_their_nodes(warehouse: Warehouse) -> None:
    """Two events of one node are one op; the relu is another event. The rest of the call has no costs."""
    content = of_delegate(event0=[3], event1=[4], event2=[4])
    events = [delegated(number, start=100 * number + 100, end=100 * number + 200) for number in (0, 1, 2)]
    linked(warehouse, content, run("Execute", *events, delegate_call(start=100, end=500), execute(start=100, end=500)))
    query = """
        SELECT r.op, r.kind, r.calls, r.total, r.flops, r.bytes, r.reason
        FROM roofline('test', unit := 'ns', "by" := '{}') AS r
    """
    for by in ("op", "op_type"):
        assert_csv(
            warehouse,
            query.format(by),
            """
            op,kind,calls,total,flops,bytes,reason
            aten.tanh.default,delegate,1,200.0,100,800,
            (delegate unaccounted),delegate_call,1,100.0,,,time outside of the delegate's events
            aten.relu.default,delegate,1,100.0,100,800,
            """,
        )
    assert warehouse.rows(query.format("instruction"))[1] == [
        ("SomeBackend", "delegate_call", 1, 400.0, 200, 800, None)
    ]


@pytest.mark.long
def test_events_on_another_clock_leave_the_call_its_costs(warehouse: Warehouse) -> None:
    """A start of 0 is no time on the host's clock: the call is rated as a whole, its events have costs and no rates."""
    content = of_delegate(event0=[3], event1=[4])
    events = [delegated(number, start=0, end=70 + number) for number in (0, 1)]
    linked(warehouse, content, run("Execute", *events, delegate_call(start=100, end=300), execute(start=100, end=300)))
    query = """
        SELECT r.op, r.kind, r.total, r.share_percent, r.flops, r.bytes, r.flops_per_second, r.reason
        FROM roofline('test', unit := 'ns') AS r
    """
    reason = "its time is on another clock, or not a time"
    assert warehouse.rows(query)[1] == [
        ("SomeBackend", "delegate_call", 200.0, 100.0, 200, 800, 1e9, None),
        ("aten.tanh.default", "delegate", 71.0, None, 100, 800, None, reason),
        ("aten.relu.default", "delegate", 70.0, None, 100, 800, None, reason),
    ]


@pytest.mark.long
def test_nodes_shared_by_events_belong_to_none(warehouse: Warehouse) -> None:
    content = of_delegate(event0=[3, 4], event1=[4])
    events = [delegated(number, start=100 * number + 100, end=100 * number + 200) for number in (0, 1)]
    linked(warehouse, content, run("Execute", *events, delegate_call(start=100, end=300), execute(start=100, end=300)))
    found = warehouse.rows(
        "SELECT r.op, r.flops, r.reason FROM roofline('test') AS r WHERE r.kind = 'delegate' ORDER BY 1"
    )[1]
    assert found == [
        ("aten.relu.default aten.tanh.default", None, "other events run the same nodes"),
        ("aten.tanh.default", None, "other events run the same nodes"),
    ]


@pytest.mark.long
def test_kernels_of_one_handle_have_its_nodes_in_order(warehouse: Warehouse) -> None:
    """Two products share one handle, as when an op was decomposed. With a third kernel, the nodes are ambiguous."""
    nodes = [
        node("aten.mul.Tensor", tensor("a", 10), 1, self=tensor("x", 10), other=tensor("y", 10)),
        node("aten.mul.Tensor", tensor("b", 20), 1, self=tensor("v", 20), other=tensor("w", 20)),
    ]
    query = "SELECT r.instruction_id, r.flops, r.reason FROM roofline('test') AS r ORDER BY ALL"
    for kernels, expected in (
        (2, [(0, 10, None), (1, 20, None)]),
        (3, [(number, None, "unknown which of several nodes it runs") for number in range(3)]),
    ):
        content = record(*nodes, maps=Maps(handles={number: [1] for number in range(kernels)}))
        events = [kernel("mul", 10 * number, 10 * number + 10, instruction=number) for number in range(kernels)]
        with empty_warehouse() as fresh:
            linked(fresh, content, run("Execute", *events, execute(start=0, end=90)))
            assert fresh.rows(query)[1] == expected


@pytest.mark.long
def test_without_a_record_or_seconds_there_are_no_rates(warehouse: Warehouse) -> None:
    warehouse.ingest(dump(RUN), name="bare")
    query = "SELECT DISTINCT r.flops, r.flops_per_second, r.roof_percent, r.reason FROM roofline('{}', 1e9, 1e9) AS r"
    assert warehouse.rows(query.format("bare"))[1] == [(None, None, None, "no record is linked")]
    with empty_warehouse() as other:
        linked(other, LINKED, RUN, time_scale="cycles")
        rows = other.rows(query.format("test"))[1]
        assert {row[0] for row in rows} == {2000, 100, 200}
        assert {row[1:] for row in rows} == {(None, None, "its time is in cycles")}


@pytest.mark.long
def test_invalid_peaks_are_refused(warehouse: Warehouse) -> None:
    linked(warehouse, LINKED, RUN)
    for arguments, message in (
        ("peak_flops := 0", "peak_flops must be a number above 0, in FLOP/s"),
        ("peak_bandwidth := -1", "peak_bandwidth must be a number above 0, in B/s"),
        ("peak_bandwidth := 'inf'::DOUBLE", "peak_bandwidth must be a number above 0, in B/s"),
        ("peak_flops := 'nan'::DOUBLE", "peak_flops must be a number above 0, in FLOP/s"),
        ("\"by\" := 'module'", "by must be 'op', 'instruction' or 'op_type', not module"),
        ('"by" := NULL', "by must be 'op', 'instruction' or 'op_type', not NULL"),
    ):
        with pytest.raises(QueryError, match=message):
            warehouse.sql(f"FROM roofline('test', {arguments})").fetchall()


@pytest.mark.long
def test_ops_without_a_peak_of_their_kind_have_no_roof(warehouse: Warehouse) -> None:
    """An op that copies does no operations, so the peak of operations gives no lower limit for its time."""
    copied = record(
        node("aten.mm.default", tensor("a", 10, 10), 1, self=tensor("x", 10, 10), mat2=tensor("w", 10, 10)),
        node("aten.permute_copy.default", tensor("b", 10, 10), 2, self=tensor("a", 10, 10)),
        maps=Maps(handles={0: [1], 1: [2]}),
    )
    linked(
        warehouse, copied, run("Execute", kernel("mm", 0, 400, 0), kernel("permute_copy", 400, 500, 1), execute(0, 500))
    )
    query = "SELECT roof_percent, above_roof, reason FROM roofline('test', {}, unit := 'ns') WHERE op LIKE '%permute%'"
    assert warehouse.rows(query.format("peak_flops := 10e9"))[1] == [(None, None, "its roof needs peak_bandwidth")]
    assert warehouse.rows(query.format("peak_bandwidth := 16e9"))[1] == [(50, 50, None)]
    assert warehouse.rows(query.format("10e9, 16e9"))[1] == [(50, 50, None)]
