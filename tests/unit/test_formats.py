"""Views with a macro for each format: they return the view's answer, and only the capture's format is planned."""

from __future__ import annotations

from pathlib import Path

import pytest

from etq.warehouse.formats import narrowed
from etq.warehouse.warehouse import Warehouse
from tests.builders import dump
from tests.sql.test_advice import WORK, runs_of
from tests.trace_builders import two_steps
from tests.traces import Traces


@pytest.mark.long
def test_the_method_plans_what_the_format_needs(warehouse: Warehouse, tmp_path: Path) -> None:
    """Earlier, rows of traces were planned for each dump, which took most of the time."""
    traces = Traces(warehouse, tmp_path)
    traces.take(*two_steps())
    warehouse.ingest(dump(*runs_of(("addmm", 3001), *WORK, number=5)), name="dump")
    for name, format in warehouse.rows("SELECT c.name, c.format FROM captures AS c")[1]:
        assert narrowed("advice", format, {"capture": name})[0].name != "advice"
        whole = warehouse.rows("FROM advice($capture, unit := 'us')", capture=name)
        relation = warehouse.advice(name, unit="us", runs="typical")
        assert (relation.columns, relation.fetchall()) == whole


def test_an_argument_that_only_the_view_checks_is_given_to_it() -> None:
    of_trace = narrowed("advice", "torch_trace", {"capture": "x", "unit": "us", "runs": "all"})
    assert (of_trace[0].name, of_trace[1]) == ("_advice_of_trace", {"capture": "x", "unit": "us"})
    assert narrowed("advice", "torch_trace", {"capture": "x", "phase": "y"})[0].name == "advice"
