"""Series of captures: the labels that separate and order them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from etq.errors import EtqError
from etq.warehouse.nearest import unknown_key

if TYPE_CHECKING:
    from etq.warehouse.warehouse import Warehouse

# The default of `by` of views over series.
BY: Final = "model,device,backend"


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


def left_out(warehouse: Warehouse, selector: str | None, over: str) -> str | None:
    """Return how many captures are in no series, as they have nothing to be ordered by; None if all are in one."""
    query = """
        SELECT count(*), count(*) FILTER (WHERE c.capture_id NOT IN (
            SELECT s.capture_id FROM _series_captures($selector, $over, '') AS s
        ))
        FROM captures AS c
        WHERE $selector IS NULL OR c.capture_id IN (SELECT m.capture_id FROM _several_captures($selector) AS m)
    """
    captures, missing = warehouse.rows(query, selector=selector, over=over)[1][0]
    what = over if over == "captured_at" else f"label {over}"
    verb = "has" if missing == 1 else "have"
    return f"{missing:,} of {captures:,} captures {verb} no {what}: left out" if missing else None


def too_short(warehouse: Warehouse, selector: str | None, over: str, by: str | None) -> str | None:
    """Return that no series has enough captures for a change to be found; None if one has."""
    from etq.verdicts.changes import LEAST

    query = """
        SELECT coalesce(max(n.captures), 0) FROM (
            SELECT count(*) AS captures FROM _series_captures($selector, $over, $by) AS s GROUP BY s.series
        ) AS n
    """
    longest = warehouse.rows(query, selector=selector, over=over, by=BY if by is None else by)[1][0][0]
    if longest >= 2 * LEAST:
        return None
    return f"too few captures to find a change: the longest series has {longest}, and {2 * LEAST} are needed"
