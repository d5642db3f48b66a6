"""Numbers as text for sentences."""

from __future__ import annotations

import math


def digits(value: float) -> str:
    """Return a number with two or three significant digits."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}" if abs(value) >= 0.1 else f"{value:.2g}"


def time(value: float, unit: str) -> str:
    """Return a time in the unit that suits it: 12.3 us, 45.6 ms."""
    if unit != "us" or value < 1e4:
        return f"{digits(value)} {unit}"
    if value >= 1e7:
        return f"{value / 1e6:,.0f} s" if value >= 1e8 else f"{value / 1e6:.1f} s"
    return f"{value / 1e3:,.0f} ms" if value >= 1e5 else f"{value / 1e3:.1f} ms"


def percent(share: float) -> str:
    """Return a share as text, such as 12 % or 3.4 %. The text is 100 % only for all, and 50 % or more only for at least
    half, because sentences depend on these limits.
    """
    if 49.5 <= share < 50:
        return f"{math.floor(10 * share) / 10} %"
    return "over 99 %" if 99.5 <= share < 100 else f"{share:.0f} %" if share >= 9.95 else f"{share:.1f} %"


def counted(number: float, noun: str) -> str:
    """Return a count, or a mean of counts, with its noun: 1 run, 2 runs, 2.50 runs, 3 launches."""
    plural = f"{noun}es" if noun.endswith(("ch", "s", "x")) else f"{noun}s"
    if number == round(number):
        return f"{number:,.0f} {noun if number == 1 else plural}"
    return f"{digits(number)} {plural}"


def shortened(text: str, length: int) -> str:
    """Return a text, cut to at most `length` characters; a text that was cut ends in `…`."""
    return text if len(text) <= length else f"{text[: length - 1]}…"
