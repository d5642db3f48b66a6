"""Numbers and lists of sizes that may be unknown: an unknown number is NaN, an unknown list None.

Any arithmetic with NaN gives NaN, and no comparison with NaN is true. So a formula gives NaN if a value that it needs
is unknown. Sizes are floats because in hostile files their products may have any magnitude.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final

UNKNOWN: Final = math.nan
# Numbers above this one are not stored.
_MOST: Final = 2.0**63
# A call computes fewer operations than this. A larger number is an error, caused by impossible sizes.
MOST_OPERATIONS: Final = 9e18
Sizes = Sequence[float] | None


def known(value: float) -> bool:
    """Whether a number is known."""
    return not math.isnan(value)


def first_known(*values: float) -> float:
    """Return the first number that is known; NaN if there is none."""
    return next((value for value in values if known(value)), UNKNOWN)


def size(sizes: Sizes, place: int) -> float:
    """Return the size at a place, which counts from 1, or backwards from -1; NaN if there is none."""
    if sizes is None or not place or abs(place) > len(sizes):
        return UNKNOWN
    return sizes[place - 1 if place > 0 else place]


def rank(sizes: Sizes) -> float:
    """Return the number of dimensions; NaN if they are unknown."""
    return UNKNOWN if sizes is None else len(sizes)


def product(sizes: Sizes) -> float:
    """Return the number of elements of these sizes; NaN if one is unknown or below 0."""
    if sizes is None:
        return UNKNOWN
    found = 1.0
    for each in sizes:
        found *= each if each >= 0 else UNKNOWN
    return found


def ratio(number: float, by: float) -> float:
    """Return a quotient; NaN for a division by 0."""
    return number / by if by else UNKNOWN


def quotient(number: float, by: float) -> float:
    """Return a quotient without its fraction; NaN for a division by 0."""
    found = ratio(number, by)
    return float(math.trunc(found)) if math.isfinite(found) else UNKNOWN


def whole(value: float) -> int | None:
    """Return a number in a type that can be stored; None if it is unknown, below 0 or too large."""
    return round(value) if 0 <= value < _MOST else None


def counted(value: float) -> float:
    """Return a number of operations or bytes; NaN if it is below 0, which odd values of arguments may cause."""
    return value if value >= 0 else UNKNOWN


def joined(*parts: Sizes) -> Sizes:
    """Return lists one after the other; None if one is unknown."""
    found: list[float] = []
    for part in parts:
        if part is None:
            return None
        found += part
    return found


def number_in(text: str | None) -> float:
    """Return the number in a text; NaN for other texts."""
    try:
        return UNKNOWN if text is None else float(text)
    except ValueError:
        return UNKNOWN


def whole_in(text: str | None) -> float:
    """Return the number in a text, rounded to a whole number; NaN for other texts."""
    value = number_in(text)
    return math.copysign(math.floor(abs(value) + 0.5), value) if abs(value) < _MOST else UNKNOWN


def wholes_in(text: str | None) -> Sizes:
    """Return the numbers in a text: one number, or a list of numbers in brackets; None for other texts."""
    if text is None:
        return None
    if known(one := whole_in(text)):
        return [one]
    parts = list_in(text)
    found = None if parts is None else [whole_in(part) for part in parts]
    return found if found is not None and all(map(known, found)) else None


def list_in(text: str | None) -> list[str] | None:
    """Return the parts of a text that is a list in brackets; None for other texts."""
    written = "" if text is None else text.strip()
    if not (written.startswith("[") and written.endswith("]")):
        return None
    inner = written[1:-1].strip()
    return [part.strip() for part in inner.split(",")] if inner else []


def truth_in(text: str | None) -> bool | None:
    """Return the truth value of the text True or False; None for other texts."""
    return {"true": True, "false": False, "1": True, "0": False}.get((text or "").strip().lower())


def total(values: Iterable[float]) -> float:
    """Return a sum; NaN if one number is unknown."""
    found = 0.0
    for value in values:
        found += value
    return found
