"""Conditions of measurement that differ between two sides."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np

from etq.verdicts.arithmetic import median

# Values of one distribution may be apart by chance, so their medians must be apart by this part.
_APART: Final = 0.05


def differing(conditions: Mapping[str, Any], base: Any, new: Any) -> Iterator[tuple[str, str, str]]:
    """Yield the name of each condition that differs, and its values on both sides as text. Numbers differ if their
    ranges don't overlap and their medians are apart; labels, if the sides don't have the same values. Numbers of
    different units are not compared.

    conditions  name, unit, text (the value of a label, None for a number); and, with an array for each, captures and
                values (of these captures, which may have several). Numbers of one name and unit are one condition
    base, new   the captures of the sides
    """
    numbers: dict[str, list[int]] = {}
    labels: dict[str, list[int]] = {}
    for row, (name, text) in enumerate(zip(conditions["name"], conditions["text"], strict=True)):
        (numbers if text is None else labels).setdefault(name, []).append(row)
    for name in sorted({*numbers, *labels}):
        if name in numbers:
            for row in sorted(numbers[name], key=lambda row: conditions["unit"][row] or ""):
                captures, values = conditions["captures"][row], conditions["values"][row]
                yield from _numbers(name, conditions["unit"][row], captures, values, base, new)
        if name in labels:
            rows = [(conditions["text"][row], conditions["captures"][row]) for row in labels[name]]
            old, now = (sorted(text for text, at in rows if np.isin(at, side).any()) for side in (base, new))
            if old and now and old != now:
                yield name, ", ".join(old), ", ".join(now)


def _numbers(
    name: str, unit: str | None, captures: Any, values: Any, base: Any, new: Any
) -> Iterator[tuple[str, str, str]]:
    old, now = (values[np.isin(captures, side)] for side in (base, new))
    if not len(old) or not len(now) or not (old.min() > now.max() or old.max() < now.min()):
        return
    if abs(median(now) - median(old)) >= _APART * abs(median(old)):
        after = "" if unit is None else f" {unit}"
        yield name, f"{old.min():g} to {old.max():g}{after}", f"{now.min():g} to {now.max():g}{after}"
