"""Whether the answers of two engines agree: whole numbers and texts exactly, other numbers to 1e-12."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any


def differences(expected: Sequence[Sequence[Any]], found: Sequence[Sequence[Any]]) -> list[str]:
    """The differences in words, row by row; empty if there are none."""
    if len(expected) != len(found):
        return [f"{len(expected)} rows expected, {len(found)} found"]
    return [
        f"row {number}: {wanted!r} expected, {given!r} found"
        for number, (row, other) in enumerate(zip(expected, found, strict=True))
        for wanted, given in zip(row, other, strict=True)
        if not is_alike(plain(wanted), plain(given))
    ]


def plain(value: Any) -> Any:
    """A value without its engine's types."""
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return bytes(value) if isinstance(value, bytearray) else value


def is_alike(one: Any, other: Any) -> bool:
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(is_alike(a, b) for a, b in zip(one, other, strict=True))
    if isinstance(one, float) and isinstance(other, float | int):
        return math.isclose(one, other, rel_tol=1e-12, abs_tol=1e-12) or (math.isnan(one) and math.isnan(other))
    return bool(one == other)
