"""Series of captures: the labels that separate and order them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from etq.errors import EtqError
from etq.warehouse.nearest import unknown_key

if TYPE_CHECKING:
    from etq.warehouse.warehouse import Warehouse


def check_keys(warehouse: Warehouse, options: Mapping[str, Any]) -> None:
    """Raise `EtqError` for a key of the options `over` and `by` that no label has."""
    keys = [each for (each,) in warehouse.rows("SELECT DISTINCT l.key FROM labels AS l ORDER BY 1")[1]]
    given = [*([options["over"]] if options.get("over") not in (None, "captured_at") else [])]
    given += [key.strip() for key in (options.get("by") or "").split(",") if key.strip()]
    for key in given:
        if key not in keys:
            raise EtqError(unknown_key(key, keys))


def order_of(warehouse: Warehouse, selector: str | None, over: str | None) -> str:
    """Return what trends order captures by: the key of a label, or captured_at; `over` unless it is None.

    Raises `QueryError` if captures have nothing to order by, or none matches the selector.
    """
    if over is not None:
        return over
    query = "SELECT any_value(s.ordered_by) FROM _series_captures($selector, NULL, '') AS s"
    return warehouse.rows(query, selector=selector)[1][0][0] or "captured_at"
