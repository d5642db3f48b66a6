"""Tables as text with ruled lines, like the format fancy_grid of the package tabulate."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

_INTEGER: Final = re.compile(r"[+-]?\d+")
# Spaces on either side of a header, in addition to the padding of every cell.
_AROUND_HEADER: Final = 2


def fancy_grid(headers: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Return rows under their headers. Numbers are aligned at their decimal points, with six digits; other cells at the
    left.

    A cell that is None is empty; a text that spells a number is shown as a number.
    """
    columns = [_aligned(header, [row[at] for row in rows]) for at, header in enumerate(headers)]
    widths = [len(cells[0]) for cells in columns]
    lines = ["│" + "│".join(f" {cells[at]} " for cells in columns) + "│" for at in range(len(rows) + 1)]
    between = [_line(widths, "╞", "═", "╪", "╡"), *[_line(widths, "├", "─", "┼", "┤")] * max(len(rows) - 1, 0)]
    body = [part for pair in zip(between, lines[1:], strict=False) for part in pair]
    top, bottom = _line(widths, "╒", "═", "╤", "╕"), _line(widths, "╘", "═", "╧", "╛")
    return "\n".join([top, lines[0], *(body or between), bottom])


def _line(widths: list[int], left: str, fill: str, cross: str, right: str) -> str:
    return left + cross.join(fill * (width + 2) for width in widths) + right


def _aligned(header: str, values: list[Any]) -> list[str]:
    """Return the cells of a column, header first, all of one width."""
    kinds = [_kind(value) for value in values if value is not None and value != ""]
    is_real, is_number = "real" in kinds, bool(kinds) and "text" not in kinds and set(kinds) != {"bool"}
    cells = [_text(value, is_real and is_number) for value in values]
    width = max([len(header) + _AROUND_HEADER, *map(len, cells)])
    if is_number:
        decimals = [_decimals(cell) for cell in cells]
        cells = [cell + " " * (max(decimals) - after) for cell, after in zip(cells, decimals, strict=True)]
        width = max([width, *map(len, cells)])
        return [each.rjust(width) for each in (header, *cells)]
    return [each.ljust(width) for each in (header, *cells)]


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int) or (isinstance(value, str) and _INTEGER.fullmatch(value)):
        return "whole"
    if isinstance(value, list | tuple | dict):
        return "text"
    try:
        float(value)
    except (TypeError, ValueError):
        return "text"
    return "real"


def _text(value: Any, is_real: bool) -> str:
    if value is None:
        return ""
    return format(float(value), "g") if is_real else str(value).strip()


def _decimals(cell: str) -> int:
    """Return the number of characters from the decimal point or exponent on; 0 for a whole number."""
    if _INTEGER.fullmatch(cell) or _kind(cell) == "text":
        return 0
    place = cell.rfind(".")
    place = cell.lower().rfind("e") if place < 0 else place
    return len(cell) - place if place >= 0 else 0
