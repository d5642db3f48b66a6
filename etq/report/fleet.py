"""The report of a fleet: each value of a label, such as a device, against all others, and the ops that differ."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from etq import catalog
from etq.analysis.outliers import sentence
from etq.report.columns import table
from etq.report.kit import Grid, Section, grid, shown_of
from etq.report.page import Report

if TYPE_CHECKING:
    from etq.warehouse.warehouse import Warehouse

OPTIONS: Final = ("by", "quantile", "phase", "alpha", "min_effect", "allow_mismatch")
_VIEW: Final = "outliers"
# The most rows of ops, those that differ most.
_MOST: Final = 500


def fleet_of(warehouse: Warehouse, selector: str | None, options: dict[str, Any], unit: str | None = None) -> Report:
    """Return the report of the captures that a selector chooses; None: all.

    options  of `outliers`: by, quantile, phase, alpha, min_effect, allow_mismatch

    Raises `QueryError` for an unknown selector, label or option's value, and for captures of several models.
    """
    given = {"selector": selector, "unit": unit, **options}
    given = {name: value for name, value in given.items() if value is not None}
    by = options.get("by") or "device"
    names, rows = warehouse.rows(f"FROM {_VIEW}({catalog.arguments(given)})", **given)
    said = sentence([dict(zip(names, row, strict=True)) for row in rows], by)
    grids = [_grid(warehouse, given, "total", f"Each {by} against all others", f"{said}.")]
    grids.append(_grid(warehouse, given, "op", "Ops", f"The ops of each {by}, all instances together."))
    return Report("fleet", selector or "all captures", [Section("fleet", "Fleet", grids=grids)])


def _grid(warehouse: Warehouse, given: dict[str, Any], what: str, title: str, text: str) -> Grid:
    """The rows of totals or ops, those that differ first."""
    call = catalog.arguments({**given, "what": what})
    query = f"SELECT {shown_of(_VIEW)} FROM {_VIEW}({call}) LIMIT {_MOST}"
    names, rows = warehouse.rows(query, **given, what=what)
    text = text if len(rows) < _MOST else f"{text} The page has the first {_MOST} rows."
    return replace(grid(_VIEW, table(names, rows), title, name=f"{_VIEW}_{what}"), text=text)
