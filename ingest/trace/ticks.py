"""Times of a trace as ticks, which are nanoseconds.

They are read from the digits of the file's microseconds, because floats of microseconds since 1970 are a quarter of a
microsecond apart.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import ROUND_HALF_UP, Decimal
from typing import Final

import numpy as np
import numpy.typing as npt

Whole = npt.NDArray[np.int64]

# Times of this many ticks or more are too large, because differences must fit 64-bit integers.
BEYOND: Final = 4_600_000_000_000_000_000
# Stands for a time that is missing or not a number.
NO_TIME: Final = -(2**63)
# The number of digits after the decimal point of a time in microseconds that fit into ticks.
_DIGITS: Final = 3
_TICK: Final = Decimal("0.001")
# More digits don't fit 64-bit integers.
_MOST_DIGITS: Final = 18
# A number in JSON, or a text with a number: some tools write times as texts.
_NUMBER: Final = re.compile(rb'"?\s*([+-]?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)\s*"?')
_COMMA, _POINT = b",."
_POWERS: Final = 10 ** np.arange(_MOST_DIGITS, dtype=np.int64)


def ticks_of(written: Sequence[bytes]) -> Whole:
    """Return microseconds, as JSON has them [n], in ticks: exactly, or rounded if there are more than three digits
    after the point. Times that are too large become BEYOND or more; anything but a number becomes NO_TIME.
    """
    joined = b",".join((*written, b""))
    text = np.frombuffer(joined, np.uint8)
    if text.max(initial=0) > ord("9") or b"-" in joined or b'"' in joined:
        return np.array([*map(tick_of, written)], np.int64)
    ends = np.flatnonzero(text < ord("0"))
    # Kineto writes three digits after each point.
    if len(ends) == 2 * len(written) and (ends[1::2] - ends[::2] == _DIGITS + 1).all():
        return _integers(joined.translate(None, b"."))
    found = _of_decimals(joined, text, ends, len(written))
    return np.array([*map(tick_of, written)], np.int64) if found is None else found


def _integers(joined: bytes) -> Whole:
    """Return integers that are followed by commas. Integers that don't fit become the largest integer."""
    return np.fromstring(joined[:-1], np.int64, sep=",") if joined else np.zeros(0, np.int64)


def _of_decimals(joined: bytes, text: npt.NDArray[np.uint8], ends: Whole, count: int) -> Whole | None:
    """Return the ticks of decimals that are followed by commas, with any digits; None if there are too many."""
    after_point = np.flatnonzero(text[ends] == _POINT) + 1
    places = after_point - np.arange(1, len(after_point) + 1)
    digits = np.zeros(count, np.int64)
    digits[places] = np.diff(ends)[after_point - 1] - 1
    if digits.max() >= _MOST_DIGITS:
        return None
    numbers = _integers(joined.replace(b".", b","))
    part = np.zeros(count, np.int64)
    part[places] = numbers[after_point]
    whole = np.delete(numbers, after_point)
    divisor = _POWERS[np.maximum(digits - _DIGITS, 0)]
    part = (part + divisor // 2) // divisor * _POWERS[np.maximum(_DIGITS - digits, 0)]
    ticks: Whole = np.minimum(whole, BEYOND // 1000) * 1000 + part
    return ticks


def tick_of(written: bytes) -> int:
    """Convert a time in microseconds, as JSON has it, to ticks by the rules of `ticks_of`."""
    number = _NUMBER.fullmatch(written)
    if number is None:
        return NO_TIME
    try:
        microseconds = Decimal(bytes(number[1]).decode())
    except ArithmeticError:  # an exponent too large for decimals
        return 0 if b"e-" in number[1].lower() else BEYOND
    if microseconds and microseconds.adjusted() >= _MOST_DIGITS:
        return BEYOND
    ticks = int(microseconds.quantize(_TICK, ROUND_HALF_UP).scaleb(_DIGITS))
    return ticks if abs(ticks) < BEYOND else BEYOND
