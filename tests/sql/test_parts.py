"""`compare_parts` and `op_trends`: parts add up, delegates are distinguished, and neighbours are put together."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import etq
from etq.warehouse.warehouse import Warehouse
from tests.batches import Labelled, ingest_all
from tests.builders import delegate_call, delegated, dump, execute, kernel, run
from tests.sql.test_trends import history
from tests.warehouses import empty_warehouse


def made(side: str, number: int, *events: object) -> Labelled:
    content = dump(*[run("Execute", *events) for _ in range(3 + number)])  # type: ignore[arg-type]
    return Labelled(f"{side}{number}", content, {"side": side})


@pytest.fixture(scope="module")
def builds() -> Iterator[Warehouse]:
    """Thirty builds; one op is slower from the 18th on. Tests must not write to it."""
    with empty_warehouse() as warehouse:
        history(warehouse, 30, 18, {"addmm": 1.2})
        yield warehouse


PARTS = """
    SELECT op, kind, base, new, base_self, new_self FROM compare_parts('side=base', 'side=new', unit := 'ns')
    ORDER BY kind, op
"""


def test_parts_of_a_delegates_call(warehouse: Warehouse) -> None:
    """A kernel of 20, a call of 60 in which conv takes 40 (in new 50), and 10 (in new 5) outside of them."""
    captures = [
        made(
            side, number,
            kernel("add", 0, 20, 0),
            delegate_call(20, 80, 1),
            delegated("conv", 21, 21 + conv, 1),
            execute(0, 80 + rest),
        )
        for side, conv, rest in (("base", 40, 10), ("new", 50, 5))
        for number in range(2)
    ]  # fmt: skip
    ingest_all(warehouse, captures)
    assert warehouse.rows(PARTS)[1] == [
        ("conv", "delegate", 40, 50, 40, 50),
        ("DELEGATE_CALL", "delegate_call", 60, 60, 20, 10),
        ("add", "kernel", 20, 20, 20, 20),
        ("(outside ops)", "rest", 10, 5, 10, 5),
    ]


def test_an_op_on_one_side_alone(warehouse: Warehouse) -> None:
    captures = []
    for number in range(2):
        captures.append(made("base", number, kernel("add", 0, 20, 0), kernel("mul", 20, 50, 1), execute(0, 50)))
        captures.append(made("new", number, kernel("add", 0, 20, 0), kernel("sub", 20, 60, 1), execute(0, 60)))
    ingest_all(warehouse, captures)
    rows = warehouse.rows(PARTS)[1]
    assert ("mul", "kernel", 30, None, 30, None) in rows
    assert ("sub", "kernel", None, 40, None, 40) in rows


def test_an_op_that_one_of_two_captures_has_is_half_a_part(warehouse: Warehouse) -> None:
    captures = [
        made("base", 0, kernel("add", 0, 20, 0), kernel("mul", 20, 60, 1), execute(0, 60)),
        made("base", 1, kernel("add", 0, 20, 0), execute(0, 20)),
        made("new", 0, kernel("add", 0, 20, 0), execute(0, 20)),
    ]
    ingest_all(warehouse, captures)
    assert ("mul", "kernel", 40, None, 20, None) in warehouse.rows(PARTS)[1]
    of_ops = "SELECT base, new FROM compare_captures('side=base', 'side=new', unit := 'ns') WHERE what = 'ops'"
    assert warehouse.rows(of_ops)[1] == [(20 + 40 / 2, 20)]


def test_an_op_has_no_interval_if_an_instance_has_none(warehouse: Warehouse) -> None:
    """One instance of two takes 100 in all captures, the other 1 to 10^9."""
    captures = [
        Labelled(
            f"{device}{number}",
            dump(
                *[run("Execute", kernel("add", 0, 100, 0), kernel("add", 100, 100 + ticks, 1), execute(0, 10**10))] * 3
            ),
            {"device": device},
        )
        for device in "ab"
        for number, ticks in enumerate((1, 10**9, 10**4) if device == "a" else (2, 10**8, 10**5))
    ]
    ingest_all(warehouse, captures)
    query = "SELECT DISTINCT instances, low_percent, high_percent FROM outliers(what := 'op')"
    assert warehouse.rows(query)[1] == [(2, None, None)]


@pytest.mark.parametrize("alpha", [0.05, 1e-9, 1e-300])
def test_noise_of_many_powers_of_ten_has_no_interval(warehouse: Warehouse, alpha: float) -> None:
    times = {"base": [1, 10**17, 10**8], "new": [5, 10**16, 10**4]}
    captures = [
        made(side, number, kernel("add", 0, ticks, 0), execute(0, ticks))
        for side, of_side in times.items()
        for number, ticks in enumerate(of_side)
    ]
    ingest_all(warehouse, captures)
    query = f"""
        SELECT verdict, low_percent, high_percent
        FROM compare_captures('side=base', 'side=new', alpha := {alpha}) WHERE what = 'total'
    """
    assert warehouse.rows(query)[1] == [("not decided", None, None)]


@pytest.mark.long
def test_series_in_parts(builds: Warehouse) -> None:
    """Each part covers neighbouring captures, in nearly equal numbers, and contains their median and range."""
    warehouse = builds
    points = warehouse.rows("SELECT position, normalized FROM trend('op', 'addmm', unit := 'ns')")[1]
    query = """
        SELECT position, captures, first_label, last_label, normalized, low, high FROM op_trends(bins := 7, unit := 'ns')
        WHERE op = 'addmm' ORDER BY position
    """
    parts = warehouse.rows(query)[1]
    assert len(parts) == 7 and sum(part[1] for part in parts) == 30 and {part[1] for part in parts} == {4, 5}
    for position, captures, first, last, own, low, high in parts:
        mine = sorted(value for at, value in points if position <= at < position + captures)
        assert (first, last) == (str(position), str(position + captures - 1))
        middle = (mine[(captures - 1) // 2] + mine[captures // 2]) / 2
        assert (own, low, high) == (pytest.approx(middle), pytest.approx(mine[0]), pytest.approx(mine[-1]))
    all_points = warehouse.rows(
        "SELECT position, normalized FROM op_trends(unit := 'ns') WHERE op = 'addmm' ORDER BY ALL"
    )[1]
    assert all_points == [(at, pytest.approx(own)) for at, own in points]
    assert warehouse.rows("SELECT position, first_bad FROM regressions() WHERE op = 'addmm'")[1] == [(18, "18")]


def test_parts_of_an_empty_warehouse_are_an_error() -> None:
    with empty_warehouse() as warehouse, pytest.raises(etq.QueryError):
        warehouse.rows("FROM compare_parts('side=base', 'side=new')")


@pytest.mark.long
def test_units_that_do_not_fit_the_clock(builds: Warehouse) -> None:
    """Nanoseconds are never called hours or cycles."""
    for call, unit in (("trend('op', 'addmm', ", "hours"), ("regressions(", "cycles"), ("op_trends(", "hours")):
        with pytest.raises(etq.QueryError, match=f"unknown unit of time {unit}"):
            builds.rows(f"FROM {call}unit := '{unit}')")
