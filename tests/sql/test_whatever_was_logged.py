"""Invariants of every view of times for any file: parts add up, and shares are between 0 and 100."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from etq.warehouse.warehouse import Warehouse
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
from tests.records import Maps, node, record, tensor
from tests.sampling import examples
from tests.warehouses import empty_warehouse

TOP = 2**32
FAR = 2**40

# Times near each other, so that all events overlap: on the host's clock, near the zero of a 32-bit counter,
# and on clocks that are far away.
BASES = st.sampled_from([0, 0, 0, 1000, TOP - 40, FAR])


@st.composite
def events(draw: st.DrawFn, base: int) -> ProfileEvent:
    start, length = draw(st.integers(0, 60)), draw(st.integers(-5, 60))
    offset = base + draw(st.sampled_from([0, 0, 0, 0, 0, 0, 500, -base]))
    start, end = offset + start, offset + start + length
    if draw(st.booleans()):
        start, end = start % TOP if start < 2 * TOP else start, end % TOP if 0 <= end < 2 * TOP else end
    end = max(end, 0)
    instruction = draw(st.integers(0, 2))
    kind = draw(st.integers(0, 9))
    if kind == 0:
        return kernel(draw(st.sampled_from(["add", "mul"])), start, end, instruction)
    if kind == 1:
        return operator_call(start, end, instruction)
    if kind in (2, 3):
        return delegate_call(start, end, instruction)
    if kind in (4, 5, 6):
        label = draw(st.sampled_from(["conv", "Transpose", "Copy", "total (cycles)", "7"]))
        return delegated(7 if label == "7" else label, 0 if draw(st.integers(0, 9)) == 0 else start, end, instruction)
    if kind == 7:
        return framework(draw(st.sampled_from(["scope", "Method::init", "Program::load_method"])), start, end)
    return execute(start, end)


@st.composite
def runs(draw: st.DrawFn) -> Run:
    base = draw(BASES)
    inner = draw(st.lists(events(base), max_size=9))
    last = [execute(base, base + draw(st.integers(1, 120)))] if draw(st.booleans()) else []
    return run(draw(st.sampled_from(["forward", "decode"])), *inner, *last)


RECORD = record(
    node("aten.convolution.default", tensor("c", 2, 3), handle=1, self=tensor("x", 2, 3)),
    node("aten.add.Tensor", tensor("d", 2, 3), handle=2, self=tensor("c", 2, 3)),
    node("aten.mul.Tensor", tensor("y", 2, 3), handle=3, self=tensor("d", 2, 3)),
    maps=Maps(handles={0: [1], 1: [2], 2: [3]}, delegates={0: {"conv": [1], "7": [1]}}),
)
# Views with shares of the executes, and which of their columns are shares.
SHARES = {
    "op_totals('test')": "share_percent", "op_totals('test', \"by\" := 'instance')": "share_percent",
    "execute_breakdown('test')": "share_percent", "delegate_totals('test')": "share_percent",
    "time_tree('test', \"by\" := 'event')": "share_percent", "time_tree('test', \"by\" := 'module')": "share_percent",
    "framework_tax('test')": "tax_percent", "load_breakdown('test')": "share_percent",
    "module_ops('test')": "share_percent", "module_totals('test')": "share_percent",
    "source_totals('test')": "share_percent", "node_totals('test')": "share_percent",
    "delegate_coverage('test')": "share_percent", "roofline('test')": "share_percent",
}  # fmt: skip
# Views whose rows add up to the executes, except rows without a share.
PARTS = {
    "op_totals('test')": "total_ticks",
    "execute_breakdown('test')": "total_ticks",
    "module_ops('test')": "self_ticks",
    "source_totals('test')": "total_ticks",
}


def numbers(warehouse: Warehouse, query: str) -> list[Any]:
    return [value for (value,) in warehouse.rows(query)[1] if value is not None]


def nodes_of(warehouse: Warehouse, capture: str, **given: Any) -> list[dict[str, Any]]:
    arguments = "".join(f', "{name}" := ${name}' for name in given)
    columns, rows = warehouse.rows(f"FROM time_tree($capture{arguments})", capture=capture, **given)
    return [dict(zip(columns, row, strict=True)) for row in rows]


def check_it_adds_up(nodes: list[dict[str, Any]]) -> None:
    """Check a tree: nodes are numbered from the outside in; each total is the self time plus the children's totals."""
    assert [each["node_index"] for each in nodes] == list(range(len(nodes)))
    within: dict[int, int] = defaultdict(int)
    for each in nodes[1:]:
        parent = nodes[each["parent_index"]]
        assert parent["node_index"] < each["node_index"]
        assert each["depth"] == parent["depth"] + 1 == len(each["path"])
        assert each["path"] == [*parent["path"], each["name"]]
        within[each["parent_index"]] += each["total_ticks"]
    for each in nodes:
        assert each["total_ticks"] == each["self_ticks"] + within[each["node_index"]], each["path"]
        assert each["total_ticks"] >= 0 and each["self_ticks"] >= 0
    for before, each in pairwise(nodes):
        # The children of a node follow it directly.
        assert each["depth"] <= before["depth"] + 1
    siblings = defaultdict(list)
    for each in nodes:
        siblings[each["parent_index"]].append((each["kind"] == "rest", -each["total_ticks"]))
    assert all(order == sorted(order) for order in siblings.values())


@pytest.mark.long
@examples(10, few=1, suppress_health_check=list(HealthCheck))
@given(st.lists(runs(), min_size=1, max_size=4))
def test_parts_add_up_and_shares_lie_between_0_and_100(logged: list[Run]) -> None:
    with empty_warehouse() as warehouse:
        warehouse.ingest(dump(*logged), name="test")
        warehouse.link("test", warehouse.ingest_record(RECORD, name="record"))
        [total] = numbers(
            warehouse,
            """SELECT coalesce(sum(e.duration_ticks), 0)::BIGINT FROM events AS e
               WHERE e.event_index = e.execute_index""",
        )
        for view, column in SHARES.items():
            shares = numbers(warehouse, f"SELECT {column} FROM {view}")
            assert all(0 <= share <= 100 * (1 + 1e-12) for share in shares), view
        for view, column in PARTS.items():
            ticks = numbers(warehouse, f"SELECT {column} FROM {view} WHERE share_percent IS NOT NULL")
            assert sum(ticks) == total and all(tick >= 0 for tick in ticks), view
        for by in ("event", "module"):
            tree = nodes_of(warehouse, "test", by=by)
            check_it_adds_up(tree)
            assert (tree[0]["total_ticks"] if tree else 0) == total
        for execute, kernels, delegates, operators, tax, note in warehouse.rows(
            "SELECT execute, kernels, delegates, operators, tax, note FROM framework_tax('test', unit := 'ns')"
        )[1]:
            if execute is None:
                assert (kernels, delegates, operators, tax) == (None,) * 4
            elif note == "no operators traced":
                assert (kernels, delegates, operators, tax) == (0, 0, 0, None)
            else:
                assert execute == kernels + delegates + operators + tax
                assert min(kernels, delegates, operators, tax) >= 0
        for row in warehouse.rows(
            "SELECT total, ops, copies, layout, unaccounted FROM delegate_totals('test', unit := 'ns')"
        )[1]:
            assert row[0] is None or min(row) >= 0
        assert all(own >= 0 for own in numbers(warehouse, "SELECT self_time FROM event_times('test')"))
        own = "SELECT total_ticks FROM module_times UNION ALL SELECT total_ticks FROM op_times"
        assert all(ticks >= 0 for ticks in numbers(warehouse, own))


@examples(4, few=1, suppress_health_check=list(HealthCheck))
@given(st.lists(runs(), min_size=4, max_size=8))
def test_shares_of_advice_lie_between_0_and_100(logged: list[Run]) -> None:
    with empty_warehouse() as warehouse:
        warehouse.ingest(dump(*logged), name="test")
        shares = numbers(warehouse, "SELECT share_percent FROM advice('test')")
        assert all(0 <= share <= 100 * (1 + 1e-12) for share in shares)
