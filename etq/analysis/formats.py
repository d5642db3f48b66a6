"""Finds which views are for captures of a format, and which views have stored rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from etq import catalog

if TYPE_CHECKING:
    from etq.database.handles import Answers

TRACE: Final = "torch_trace"


def instead(view: catalog.SqlObject, format: str | None) -> str:
    """If a view is not for captures of a format, return a text on which method answers for them; otherwise ''."""
    if format is None or view.otherwise is None or (format == TRACE) == (view.needs[0] == TRACE):
        return ""
    name, _, by = view.otherwise.partition(" by ")
    kinds = ("ETDumps", "PyTorch traces") if format == TRACE else ("PyTorch traces", "ETDumps")
    return f"{view.name} is for {kinds[0]}; for {kinds[1]} there is {name}({f'by={by!r}' if by else ''})"


def stored_rows(warehouse: Answers, view: str, given: Mapping[str, Any], *, is_with_advice: bool = False) -> str | None:
    """Return a subquery with the stored rows of a view, in the view's order, of the capture `$capture`; for a file in
    memory, this is a key.

    None if there is no such table, or an argument is not the default. Also None for a file in memory, where reading
    answers computes all of them and the advice, unless the caller shows the advice as well (`is_with_advice`).
    """
    from etq.database.rollups import ANSWERS

    table = f"all_{view}"
    if table not in ANSWERS or (warehouse.path is None and not is_with_advice):
        return None
    target = catalog.named(view)
    defaults = {parameter.name: parameter.default for parameter in target.parameters}
    others = {name: value for name, value in given.items() if name != "capture" and value is not None}
    if any(catalog.quoted(str(value)) != defaults.get(name) for name, value in others.items()):
        return None
    names = {column.name for column in catalog.named(table).columns}
    # The default is rows without an instruction.
    columns = ", ".join(
        f"t.{each.name}" if each.name in names else f"NULL::INTEGER AS {each.name}" for each in target.columns
    )
    # In memory, no events are pruned and `$capture` is a key: planning a search would take as long as reading the rows.
    key = "$capture" if warehouse.path is None else "_capture_id($capture)"
    return f"(SELECT {columns} FROM {table} AS t WHERE t.capture_id = {key} ORDER BY t.place)"
