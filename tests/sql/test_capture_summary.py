"""The execute time in the list of captures: by hand."""

from __future__ import annotations

from etq.warehouse.warehouse import Warehouse
from tests.batches import ingest_all
from tests.builders import dump, execute, run


def test_the_execute_and_its_spread(warehouse: Warehouse) -> None:
    runs = [run("Execute", execute(0, 1_000 * time)) for time in (9, 1, 2, 3, 4, 5)]
    ingest_all(warehouse, [("timed", dump(*runs)), ("empty", dump(run("Execute")))])
    query = "SELECT s.name, s.execute, s.low, s.high, s.unit FROM capture_summary AS s"
    # Of 1, 2, 3, 4, 5 and 9 us: quantiles lie between the third and fourth, the second and third, the fifth and sixth.
    assert warehouse.rows(query)[1] == [("timed", 3.5, 2.25, 7.0, "us"), ("empty", None, None, None, None)]
