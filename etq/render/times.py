"""Units of times for people. A whole table or line has one unit, which depends on the size of its numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Final

from etq.render.table import Rows, number_texts
from etq.verdicts.words import number_text

# Numbers of at least this are written in the next larger unit.
_LARGE: Final = 10_000
_LARGER: Final = {"ns": "us", "us": "ms", "ms": "s"}


def unit_for(largest: float, unit: str) -> tuple[float, str]:
    """Return the divisor and the unit that make times easy to read if `largest` is the largest."""
    divisor = 1.0
    while unit in _LARGER and largest / divisor >= _LARGE:
        divisor, unit = divisor * 1000, _LARGER[unit]
    return divisor, unit


def quantities(values: Sequence[float], unit: str) -> list[str]:
    """Return numbers as texts with their unit. Times get the unit that suits the largest."""
    divisor, unit = unit_for(max(values), unit)
    shown = "%" if unit == "percent" else unit
    return [f"{text} {shown}" for text in number_texts([value / divisor for value in values], unit)]


def range_text(values: Sequence[float], unit: str) -> str:
    """Return times as a text of the form `first to last`, in the unit that suits the largest."""
    divisor, unit = unit_for(max(values), unit)
    return f"{' to '.join(number_text(value / divisor) for value in values)} {unit}"


def in_one_unit(columns: Sequence[str], parts: Iterable[Rows], times: Sequence[str]) -> Iterator[Rows]:
    """Yield rows with these columns converted to one unit. It suits the largest time of the first column in the first
    part. Rows with other units keep these.
    """
    remaining = iter(parts)
    first = next(remaining, [])
    places = [columns.index(name) for name in times if name in columns]
    at = columns.index("unit")
    units = {row[at] for row in first} & {*_LARGER}
    if not places or len(units) != 1:
        yield from chain([first], remaining)
        return
    [unit] = units
    divisor, larger = unit_for(max((row[places[0]] or 0.0 for row in first if row[at] == unit), default=0.0), unit)
    for rows in chain([first], remaining):
        yield rows if divisor == 1 else [_scaled(row, places, divisor, at, unit, larger) for row in rows]


def _scaled(
    row: Sequence[object], times: Sequence[int], divisor: float, at: int, unit: str, larger: str
) -> list[object]:
    scaled = list(row)
    if row[at] == unit:
        scaled[at] = larger
        for position in times:
            value = row[position]
            if isinstance(value, list):
                scaled[position] = [each if each is None else each / divisor for each in value]
            elif isinstance(value, int | float):
                scaled[position] = value / divisor
    return scaled
