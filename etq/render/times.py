"""The unit of times for people: one for a whole table or line, by the size of its numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Final

from etq.render.table import Rows, number_texts

# A unit with times from this number on becomes the next larger one.
_LARGE: Final = 10_000
_LARGER: Final = {"ns": "us", "us": "ms", "ms": "s"}
# Columns of times; the first that a table has chooses the unit.
COLUMNS: Final = (
    *("per_execute", "per_step", "self_device_per_step", "self_cpu_per_step", "total", "self_time", "self_device_time"),
    *("self_cpu_time", "self_per_execute", "cpu_per_step", "device_per_step", "cpu_time_total", "device_time_total"),
    *("cpu_time_avg", "device_time_avg", "per_call", "avg", "mean", "min", "max"),
    *("p10", "p50", "p90"),
    *("ops", "copies", "layout", "unaccounted", "above_roof_per_execute"),
    *("outside_steps", "cpu_outside_steps", "device_outside_steps"),
)


def unit_for(largest: float, unit: str) -> tuple[float, str]:
    """Return the divisor and the unit that make times easy to read if this is the largest."""
    divisor = 1.0
    while unit in _LARGER and largest / divisor >= _LARGE:
        divisor, unit = divisor * 1000, _LARGER[unit]
    return divisor, unit


def quantities(values: Sequence[float], unit: str) -> list[str]:
    """Return numbers as texts with their unit: that which suits the largest, if they are times."""
    divisor, unit = unit_for(max(values), unit)
    shown = "%" if unit == "percent" else unit
    return [f"{text} {shown}" for text in number_texts([value / divisor for value in values], unit)]


def in_one_unit(columns: Sequence[str], parts: Iterable[Rows]) -> Iterator[Rows]:
    """Yield rows with times in a unit that suits the largest of the first part; rows of other units keep theirs."""
    remaining = iter(parts)
    first = next(remaining, [])
    sizes = next((columns.index(name) for name in COLUMNS if name in columns), None)
    at = columns.index("unit")
    units = {row[at] for row in first} & {*_LARGER}
    if sizes is None or len(units) != 1:
        yield from chain([first], remaining)
        return
    [unit] = units
    divisor, larger = unit_for(max((row[sizes] or 0.0 for row in first if row[at] == unit), default=0.0), unit)
    times = [position for position, name in enumerate(columns) if name in COLUMNS]
    for rows in chain([first], remaining):
        yield rows if divisor == 1 else [_scaled(row, times, divisor, at, unit, larger) for row in rows]


def _scaled(
    row: Sequence[object], times: Sequence[int], divisor: float, at: int, unit: str, larger: str
) -> list[object]:
    scaled = list(row)
    if row[at] == unit:
        scaled[at] = larger
        for position in times:
            value = row[position]
            scaled[position] = value / divisor if isinstance(value, int | float) else value
    return scaled
