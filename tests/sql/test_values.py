"""Logged values and numeric gaps, on arrays made for the purpose; expected values by hand or by numpy."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

from etq import EtqError
from etq.errors import QueryError
from etq.warehouse.warehouse import Capture, Warehouse
from tests.builders import DebugEvent, Tensor, dump, execute, kernel, run
from tests.conftest import CAPTURES
from tests.records import Maps, node, record, tensor

MLP = CAPTURES / "mlp"
METRICS = ("mse", "l1", "snr", "cosine", "max_abs", "max_rel")
NAN, INF = math.nan, math.inf
unique = itertools.count()


def compared(warehouse: Warehouse, base: Any, new: Any) -> tuple[Capture, Capture]:
    """Two references that differ in the outputs of one op."""
    record = warehouse.ingest_record(MLP / "mlp.etrecord")
    first, second = (
        warehouse.ingest_reference(record, {"linear": [value], "marker": [next(unique)]}, name=f"made-{next(unique)}")
        for value in (base, new)
    )
    return first, second


def gap_of(warehouse: Warehouse, base: Any, new: Any, metric: str) -> tuple[float | None, str | None]:
    first, second = compared(warehouse, base, new)
    query = "SELECT gap, problem FROM numeric_gap($base, $new, metric := $metric)"
    [(gap, problem)] = warehouse.rows(query, base=first, new=second, metric=metric)[1]
    return gap, problem


def gaps(warehouse: Warehouse, base: Any, new: Any) -> dict[str, float | None]:
    first, second = compared(warehouse, np.array(base), np.array(new))
    query = " UNION ALL ".join(
        f"SELECT metric, gap FROM numeric_gap($base, $new, metric := '{metric}')" for metric in METRICS
    )
    return dict(warehouse.rows(query, base=first, new=second)[1])


@pytest.mark.long
def test_metrics_by_hand(warehouse: Warehouse) -> None:
    found = gaps(warehouse, [1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 3.5, 3.0])
    assert (found["mse"], found["l1"], found["max_abs"], found["max_rel"]) == (0.3125, 1.5, 1.0, 0.25)
    assert math.isclose(found["snr"] or 0, 10 * math.log10(7.5 / 0.3125), rel_tol=1e-15)
    assert math.isclose(found["cosine"] or 0, 27.5 / math.sqrt(30 * 26.25), rel_tol=1e-15)
    # Equal values, zeros on one side, and NaN on one side, which is the worst gap.
    equal = gaps(warehouse, [NAN, INF, -INF, 1.0], [NAN, INF, -INF, 1.0])
    assert equal == {"mse": 0, "l1": 0, "max_abs": 0, "max_rel": 0, "snr": INF, "cosine": 1}
    zeros = gaps(warehouse, [0.0, 0.0], [1.0, 2.0])
    assert zeros == {"mse": 2.5, "l1": 3, "max_abs": 2, "max_rel": INF, "snr": -INF, "cosine": 0}
    gap, problem = gap_of(warehouse, np.array([1.0, 2.0, NAN]), np.array([1.0, NAN, NAN]), "mse")
    assert gap is not None and math.isnan(gap)
    assert problem == "1 elements are NaN on one side only"
    gap, _ = gap_of(warehouse, np.array([0.0, 0.0]), np.array([NAN, 1.0]), "cosine")
    assert gap is not None and math.isnan(gap)
    # NaN and infinities that are equal on both sides change no other gap; infinities that differ have no direction.
    kept = gaps(warehouse, [NAN, INF, 3.0, 4.0], [NAN, INF, 4.0, 3.0])
    assert kept == {"mse": 0.5, "l1": 2, "max_abs": 1, "max_rel": 1 / 3, "snr": 10 * math.log10(25), "cosine": 24 / 25}
    infinite = gaps(warehouse, [INF, 1.0], [5.0, 1.0])
    assert infinite == {
        "mse": INF,
        "l1": INF,
        "max_abs": INF,
        "max_rel": INF,
        "snr": -INF,
        "cosine": pytest.approx(NAN, nan_ok=True),
    }
    _, problem = gap_of(warehouse, np.array([INF, 1.0]), np.array([5.0, 1.0]), "cosine")
    assert problem == "not defined: elements are not finite, too large or too small"
    # Their squares are 0 in double precision.
    tiny = gaps(warehouse, [1e-300, 0.0], [0.0, 0.0])
    assert tiny == {
        "mse": 0,
        "l1": 1e-300,
        "max_abs": 1e-300,
        "max_rel": 1,
        "snr": pytest.approx(NAN, nan_ok=True),
        "cosine": 0,
    }
    with pytest.raises(EtqError, match="unknown metric nope; known are mse, l1, snr, cosine, max_abs, max_rel"):
        gap_of(warehouse, 1.0, 2.0, "nope")


@pytest.mark.long
def test_comparable_values(warehouse: Warehouse) -> None:
    for base, new, problem in (
        (np.zeros((2, 3)), np.zeros((3, 2)), "sizes differ"), (np.zeros(6), np.zeros((3, 2)), "sizes differ"),
        (np.zeros((1, 3)), np.zeros((3, 1)), None), (np.zeros(0), np.zeros(3), "sizes differ"),
        (np.zeros((2, 0)), np.zeros((2, 0)), "no elements"), (np.zeros(1), 0.0, None), (7, 7, None),
        (None, 7, "unknown in base: not in a debug buffer"),
    ):  # fmt: skip
        gap = None if problem else 0
        assert gap_of(warehouse, base, new, "l1") == (gap, problem)


@pytest.mark.long
@pytest.mark.parametrize(
    ("logged", "sizes", "is_possible"),
    [
        ((1, 2, 3), (None, None), True), ((2, 3), (2, None, 3), True), ((2, 3), (None, 1, None, None), True),
        ((1, 1), (None,), True), ((), (None, 1), True), ((2, 3, 4), (None, None), False), ((2, 3), (3, None), False),
        ((2,), (None, 3), False), ((12, 3), (1, 23), False),
    ],
)  # fmt: skip
def test_tensors_whose_nodes_have_symbolic_sizes(
    warehouse: Warehouse, logged: tuple[int, ...], sizes: tuple[int | None, ...], is_possible: bool
) -> None:
    """Dimensions of 1 may be missing or more; symbolic sizes may be 1."""
    value = DebugEvent(Tensor(6, logged, (), 0), 0, 0)
    capture = warehouse.ingest(
        dump(run("Execute", value, kernel("relu", 2, 5), execute(0, 9))), debug_buffer=bytes(96), keep_values=True
    )
    made = node("aten.relu.default", tensor("y", *sizes), handle=1, self=tensor("x", *sizes))
    warehouse.link(capture, warehouse.ingest_record(record(made, maps=Maps({0: [1]}))))
    [(gap, problem)] = warehouse.rows("SELECT gap, problem FROM numeric_gap($capture, $capture)", capture=capture)[1]
    assert (gap == 0) == is_possible, problem
    assert (problem is None) == is_possible


@pytest.mark.long
def test_values_are_kept_if_asked_for(warehouse: Warehouse) -> None:
    with pytest.raises(EtqError, match="keep_values needs debug_buffer"):
        warehouse.ingest(MLP / "mlp_debug.etdp", keep_values=True)
    capture = warehouse.ingest(MLP / "mlp_debug.etdp", debug_buffer=MLP / "mlp_debug.bin")
    with pytest.raises(QueryError, match=r"mlp_debug is not linked to an ETRecord, whose debug handles"):
        warehouse.numeric_gap("mlp_debug", "mlp_debug").fetchall()
    warehouse.link(capture, warehouse.ingest_record(MLP / "mlp.etrecord"))
    problems = "SELECT DISTINCT gap, problem FROM numeric_gap($capture, $capture)"
    missing = "not kept in base: ingest it with keep_values (--values)"
    assert warehouse.rows(problems, capture=capture)[1] == [(None, missing)]
    # A later ingest of the same file with its debug buffer stores the values.
    warehouse.ingest(MLP / "mlp_debug.etdp", debug_buffer=MLP / "mlp_debug.bin", keep_values=True)
    assert warehouse.rows(problems, capture=capture)[1] == [(0, None)]
    values = "FROM logged_values($capture)"
    columns, before = warehouse.rows(values, capture=capture)
    warehouse.ingest(MLP / "mlp_debug.etdp", clock_bits=32)
    assert warehouse.rows(values, capture=capture)[1] == before
    assert before[0][columns.index("sha256")]


def test_a_reference_is_one_capture_by_its_content(warehouse: Warehouse) -> None:
    record = warehouse.ingest_record(MLP / "mlp.etrecord")
    first = warehouse.ingest_reference(record, {"linear": [np.ones(3)]})
    assert (first.name, first.format, first.is_new) == ("mlp-reference", "reference", True)
    again = warehouse.ingest_reference(record, {"linear": [np.ones(3)]}, name="renamed")
    assert (again.capture_id, again.name, again.is_new) == (first.capture_id, "renamed", False)
    other = warehouse.ingest_reference(record, {"linear": [np.zeros(3)]})
    assert other.is_new
    with pytest.raises(EtqError, match="the record mlp has no nope"):
        warehouse.ingest_reference(record, {}, graph="nope")


@pytest.mark.long
def test_roles_of_a_delegates_values(warehouse: Warehouse) -> None:
    """The call's arguments are logged, inputs first; the record contains the number of outputs."""
    folder = CAPTURES / "mlp_xnn"
    capture = warehouse.ingest(folder / "mlp_xnn_debug.etdp")
    roles = "SELECT instruction_id, role, position FROM logged_values($capture)"
    before = [("argument", 0), ("argument", 1), ("output", 0), ("output", 1), ("output", 2), ("argument", 0)]
    assert [row[1:] for row in warehouse.rows(roles, capture=capture)[1]][:6] == before
    warehouse.link(capture, warehouse.ingest_record(folder / "mlp_xnn.etrecord"))
    assert warehouse.rows(roles, capture=capture)[1] == [
        *[(0, "input", 0), (0, "output", 0), (1, "output", 0), (1, "output", 1), (1, "output", 2)],
        *[(2, "input", 0), (2, "output", 0), (0, "program output", 0)],
    ]


def test_numbers_logged_after_the_execute_are_outputs(warehouse: Warehouse) -> None:
    """The runtime marks only tensors. Numbers are logged after the execute, without an instruction."""
    capture = warehouse.ingest(CAPTURES / "scalars" / "scalars_debug.etdp")
    rows = warehouse.rows(
        "SELECT kind, number, position FROM logged_values($capture) WHERE role = 'program output'", capture=capture
    )[1]
    assert rows == [("tensor", None, 0), ("int", 7, 1), ("double", 2.5, 2), ("bool", 1, 3)]
