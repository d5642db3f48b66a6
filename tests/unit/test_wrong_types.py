"""Arguments of wrong types: an error at the call, of etq's and of Python's kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import etq
from tests.conftest import CAPTURES

MLP = str(CAPTURES / "mlp" / "mlp.etdp")
OF_WAREHOUSE: dict[str, Callable[[Any], Any]] = {
    "sql": lambda w: w.sql(3),
    "rows": lambda w: w.rows(None),
    "relation": lambda w: w.relation(b"SELECT 1"),
    "safe_sql": lambda w: w.safe_sql(3),
    "capture": lambda w: w.capture(3),
    "view": lambda w: w.op_totals(3.5),
    "ingest": lambda w: w.ingest(3),
    "name": lambda w: w.ingest(MLP, name=3),
    "labels": lambda w: w.ingest(MLP, labels=3),
    "record's name": lambda w: w.ingest_record(MLP.replace(".etdp", ".etrecord"), name=3),
    "report": lambda w: w.report(3, "out.html"),
    "report's path": lambda w: w.report("run", 3),
    "remove": lambda w: w.remove(3),
    "export": lambda w: w.export(3, "chrome", "out.json"),
    "export's path": lambda w: w.export("run", "chrome", 3),
    "link": lambda w: w.link("run", 3),
    "linked": lambda w: w.link(3, "run"),
    "metadata": lambda w: w.decoded_metadata(3, print),
    "show": lambda w: w.op_totals("run").show("x"),
    "selector": lambda w: w.trend("model=m"),
}


@pytest.mark.long
@pytest.mark.parametrize("name", OF_WAREHOUSE)
def test_of_a_warehouse(name: str) -> None:
    with etq.open() as warehouse:
        warehouse.ingest(MLP, name="run")
        with pytest.raises(TypeError) as raised:
            OF_WAREHOUSE[name](warehouse)
        assert isinstance(raised.value, etq.EtqError)
        assert warehouse.rows("SELECT count(*) FROM captures") == (["count_star()"], [(1,)])


def test_a_selector_in_the_wrong_place_is_named() -> None:
    with etq.open() as warehouse, pytest.raises(etq.EtqError, match="selector='model=m'"):
        warehouse.trend("model=m")


@pytest.mark.parametrize("sources", [(), ([],), (None,), (3,), ([None],), ({MLP},)])
def test_of_read(sources: Any) -> None:
    with pytest.raises((TypeError, ValueError)) as raised:
        etq.read(*sources)
    assert isinstance(raised.value, etq.EtqError)


@pytest.mark.parametrize(
    "options",
    [{"etdump_path": 3}, {"etdump_path": MLP, "etrecord": 3}, {"etdump_path": MLP, "debug_buffer_path": 3}, {}],
)
def test_of_the_inspector(options: Any) -> None:
    with pytest.raises(TypeError) as raised:
        etq.Inspector(**options)
    assert isinstance(raised.value, etq.EtqError)


def test_of_the_inspectors_calls() -> None:
    inspector = etq.Inspector(MLP)
    for call in (lambda: inspector.get_op_list("nothing"), lambda: inspector.calculate_numeric_gap("MSE")):
        with pytest.raises(ValueError, match="no event block|needs the program's ETRecord") as raised:
            call()
        assert isinstance(raised.value, etq.EtqError)
