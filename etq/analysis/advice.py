"""The rows of `advice` as a query: stored rows, or rows computed for other arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from etq import catalog
from etq.analysis.formats import TRACE

if TYPE_CHECKING:
    from etq.database.handles import Answers, Capture

VIEW: Final = "advice"
# Counts the selected runs; wrong arguments are an error.
_CHOSEN: Final = """
    SELECT count(*)
    FROM _capture_with_method($capture, NULL, $method) AS c, LATERAL (
        FROM _selected_runs(c.capture_id, $steps, $phase, $method, $runs)
    ) AS r
"""
_CHECKED: Final = """
    SELECT c.unit, c.unit = _default_unit(c.time_scale), _checked_phase($phase) FROM _capture($capture, $unit) AS c
"""


def advised(
    warehouse: Answers, capture: Capture, given: Mapping[str, Any], *, is_alone: bool = False
) -> tuple[str, dict[str, Any]]:
    """Return a query with the rows of `advice` about a capture, and its parameters; `given` are the other arguments.

    For a trace, arguments about runs have no effect, and texts have the default unit. If a dump was read only for this
    query (`is_alone`), its advice is computed without the other answers, which take as long. Raises `QueryError` for an
    unknown unit, phase, method, or choice of runs, and for a capture whose events were pruned.
    """
    others = {name: value for name, value in given.items() if value is not None}
    unit, is_default = others.pop("unit", None), True
    if not is_alone or unit is not None or "phase" in others:
        checked = {"unit": unit, "phase": others.get("phase")}
        [(unit, is_default, _)] = warehouse.rows(_CHECKED, capture=capture, **checked)[1]
    if others.get("runs") == "typical":
        del others["runs"]
    if capture.format == TRACE or (is_default and not others and not is_alone):
        return _stored(capture, None if is_default else unit)
    if others:
        chosen = {name: others.get(name) for name in ("steps", "phase", "method")}
        warehouse.rows(_CHOSEN, capture=capture, runs=others.get("runs", "typical"), **chosen)
    # Imported here, as only this view needs it.
    from etq.advice.dump_rows import Given, rows_of_dump
    from etq.advice.filling import as_query

    with warehouse.locked() as connection:
        return as_query(rows_of_dump(connection, capture.capture_id, Given(unit, **others)))


def _stored(capture: Capture, unit: str | None) -> tuple[str, dict[str, Any]]:
    """The stored rows, with times in a unit; None: the stored unit."""
    columns, parameters = (
        [f"t.{column.name}" for column in catalog.named(VIEW).columns],
        {"capture": capture.capture_id},
    )
    replaced: dict[str, str] = {}
    if unit is not None:
        replaced = {
            "t.time_at_stake": "_in_unit(t.time_at_stake, _scale(t.unit, $unit)) AS time_at_stake",
            "t.unit": "_display_unit(t.unit, $unit) AS unit",
        }
    selected = ", ".join(replaced.get(column, column) for column in columns)
    query = f"SELECT {selected} FROM all_advice AS t WHERE t.capture_id = $capture ORDER BY t.place"
    return query, parameters if unit is None else {**parameters, "unit": unit}
