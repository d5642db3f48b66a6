"""Views with a macro for each format: the answer is the view's, and a capture's format decides what is planned."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from etq.database.handles import Capture
from etq.ingest.registry import FORMATS
from etq.warehouse.formats import BY_FORMAT, narrowed
from etq.warehouse.warehouse import Warehouse
from tests.builders import dump
from tests.sql.test_advice import WORK, runs_of
from tests.trace_builders import two_steps
from tests.traces import Traces


def test_each_format_has_a_macro() -> None:
    for of_formats in BY_FORMAT.values():
        assert of_formats.keys() == {*FORMATS, "reference"}


def test_the_method_plans_what_the_format_needs(warehouse: Warehouse, tmp_path: Path) -> None:
    """Rules of traces were planned for each dump, and took most of the time."""
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


@pytest.mark.parametrize("given", ["x", Capture(1, "x", "0" * 64, "torch_trace")], ids=["name", "capture"])
def test_errors_are_those_of_the_view(warehouse: Warehouse, given: str | Capture) -> None:
    with pytest.raises(Exception, match="no capture matches"):
        warehouse.advice(given).fetchall()


def test_planning_leaves_out_what_takes_the_square_of_a_views_length(warehouse: Warehouse) -> None:
    """Half of the time of advice was one step of planning, which changes no answer."""
    left_out = "projection_pullup" if duckdb.__version__.startswith("2.0.") else ""
    assert warehouse.rows("SELECT current_setting('disabled_optimizers')")[1] == [(left_out,)]
