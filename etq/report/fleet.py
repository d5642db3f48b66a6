"""The report of a fleet: each value of a label, such as a device, against all others, and the ops that differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from etq import catalog
from etq.report.columns import Table, table
from etq.report.kit import Grid, Section, grid
from etq.report.page import Report
from etq.verdicts.outliers import sentence

if TYPE_CHECKING:
    from etq.database.handles import Answers

_VIEW: Final = "outliers"
# The most rows of ops. The ops that differ most are shown.
_MOST: Final = 500
# The most ops that are columns of the drawing.
_MOST_COLUMNS: Final = 5


def fleet_of(warehouse: Answers, selector: str | None = None, *, unit: str | None = None, **options: Any) -> Report:
    """Return the report of the captures that a selector chooses; None: all.

    options  of `outliers`: by, quantile, phase, alpha, min_effect, allow_mismatch

    Raises `QueryError` for an unknown selector, label or option's value, and for captures of several models.
    """
    given = {"selector": selector, "unit": unit, **options}
    given = {name: value for name, value in given.items() if value is not None}
    by = options.get("by") or "device"
    # All captures are compared once, for totals and ops.
    names, rows = warehouse.rows(f"FROM {_VIEW}({catalog.arguments({**given, 'what': None})})", **given, what=None)
    of_ops = names.index("instances")
    totals, ops = ([row for row in rows if (row[of_ops] is None) == is_total] for is_total in (True, False))
    said = sentence([dict(zip(names, row, strict=True)) for row in totals], by)
    cut = "" if len(ops) <= _MOST else f" The page has the first {_MOST} of {len(ops):,} rows."
    grids = [
        _grid("total", names, totals, f"Each {by} against all others", None),
        _grid("op", names, ops[:_MOST], "Ops", f"The ops of each {by}, all instances together.{cut}"),
    ]
    cells, columns = _cells(names, ops)
    facts = {
        "sentence": f"{said}.",
        "by": by,
        "selector": selector,
        "options": {**options, "unit": unit},
        "ops": columns,
    }
    section = Section("fleet", "Fleet", {"cells": cells}, facts, grids=grids)
    return Report("fleet", selector or "All captures", [section])


def _cells(names: Sequence[str], ops: Sequence[Sequence[Any]]) -> tuple[Table, list[str]]:
    """Return the rows of the ops that have the largest times in `others`, and the names of these ops."""
    rows = [dict(zip(names, row, strict=True)) for row in ops]
    times: dict[str, float] = {}
    for row in rows:
        times[row["op"]] = max(times.get(row["op"], 0), row["base"] or 0)
    columns = sorted(times, key=lambda op: (-times[op], op))[:_MOST_COLUMNS]
    return table(names, [each for row, each in zip(rows, ops, strict=True) if row["op"] in columns]), columns


def _grid(what: str, names: Sequence[str], rows: Sequence[Sequence[Any]], title: str, text: str | None) -> Grid:
    return replace(grid(_VIEW, table(names, rows), title, name=f"{_VIEW}_{what}"), text=text)
