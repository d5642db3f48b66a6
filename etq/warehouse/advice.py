"""The rows of `advice` as a query: those of the table, or computed for other arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from etq import catalog

if TYPE_CHECKING:
    from etq.database.handles import Capture
    from etq.warehouse.warehouse import Warehouse

VIEW: Final = "advice"
_UNIT: Final = """
    SELECT c.unit = _default_unit(c.time_scale), _checked_phase($phase), c.unit
    FROM _capture($capture, $unit) AS c
"""


def advised(warehouse: Warehouse, capture: Capture, given: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return a query with the rows of `advice` about a capture, and its parameters; `given` are the other arguments.

    Raises `QueryError` for an unknown unit, phase or method.
    """
    # Imported here, as other views need none of it.
    from etq.advice.collecting import Given

    arguments = Given(**{name: value for name, value in given.items() if value is not None})
    [(is_default, _, unit)] = warehouse.rows(_UNIT, capture=capture, unit=arguments.unit, phase=arguments.phase)[1]
    if is_default and arguments._replace(unit=None) == Given():
        columns = ", ".join(f"t.{column.name}" for column in catalog.named(VIEW).columns)
        stored = f"SELECT {columns} FROM all_advice AS t WHERE t.capture_id = $capture ORDER BY t.place"
        return stored, {"capture": capture.capture_id}
    return _computed(warehouse, capture, arguments._replace(unit=unit))


def _computed(warehouse: Warehouse, capture: Capture, arguments: Any) -> tuple[str, dict[str, Any]]:
    from etq.advice.collecting import rows_of
    from etq.advice.filling import as_query

    with warehouse.locked() as connection:
        return as_query(rows_of(connection, capture.capture_id, arguments))
