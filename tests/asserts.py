"""Assertions that many tests make: the answer of a query is this CSV, or this error; and runs to ask it of."""

from __future__ import annotations

import csv
import io
import textwrap
from collections.abc import Mapping
from contextlib import ExitStack

import pytest

from etq.errors import QueryError
from etq.render.delimited import delimited
from etq.warehouse.warehouse import Warehouse
from tests.builders import Run, delegate_call, delegated, dump, execute, kernel, operator_call, run
from tests.warehouses import empty_warehouse

# Two operators, of which the second has no kernel event, and what the framework takes around them.
TWO_OPERATORS = run(
    "Execute", kernel("add", start=10, end=30, instruction=0), operator_call(start=8, end=33, instruction=0),
    operator_call(start=40, end=50, instruction=1), execute(start=0, end=60),
)  # fmt: skip

# A delegate with two events on the host's clock (one of them a layout change), and one operator.
DELEGATED = run(
    "Execute", delegated("Convolution (NHWC, F32) IGEMM #1", start=105, end=125),
    delegated("Transpose (ND, X32) #1", start=125, end=130), delegate_call(start=100, end=140),
    kernel("mul", start=150, end=160, instruction=1), operator_call(start=148, end=164, instruction=1),
    execute(start=90, end=170),
)  # fmt: skip


def assert_csv(warehouse: Warehouse, query: str, expected: str) -> None:
    """The query's answer is this CSV, which may be indented."""
    columns, rows = warehouse.rows(query)  # which plans a query once, and a relation plans it twice
    assert delimited(columns, rows, ",") == textwrap.dedent(expected).lstrip()


def assert_query(query: str, expected: str, *runs: Run, **others: bytes) -> None:
    """Check that a query on a capture `test` of these runs (and on others, by name) returns this CSV.

    `test` may also be a file instead of runs.
    """
    assert_csv(_warehouse_of({"test": dump(*runs), **others}), query, expected)


def assert_error(query: str, message: str, *runs: Run) -> None:
    """The query on a capture `test` of these runs, or of two operators, fails with this message."""
    warehouse = _warehouse_of({"test": dump(*(runs or (TWO_OPERATORS,)))})
    with pytest.raises(QueryError, match=message):
        warehouse.sql(query).fetchall()


_holding = ExitStack()
_held: list[tuple[Mapping[str, bytes], Warehouse]] = []


def _warehouse_of(files: Mapping[str, bytes]) -> Warehouse:
    """A warehouse of these files: that of the last assertion if it had the same, as ingesting takes longer than asking."""
    if not _held or _held[0][0] != files:
        _held.clear()
        _holding.close()
        warehouse = _holding.enter_context(empty_warehouse())
        for name, data in files.items():
            warehouse.ingest(data, name=name)
        _held.append((files, warehouse))
    return _held[0][1]


def csv_rows(text: str) -> list[dict[str, str]]:
    """The rows of a CSV with a head, by column."""
    return list(csv.DictReader(io.StringIO(text)))
