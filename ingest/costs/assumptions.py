"""Sizes that a trace lacks and people give, such as the number of experts of each token."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from etq.errors import ArgumentError, ArgumentTypeError

NAMES: Final = ("top_k", "experts", "expert_width", "matrices", "weight_bytes", "used_experts", "seen_keys")
_PAIR: Final = re.compile(r" *(\w+) *= *(\d{1,12}(?:\.\d{1,6})?) *", re.ASCII)


def assumptions(text: str | None) -> Mapping[str, str]:
    """Return the numbers in a text such as `top_k=4,experts=128` by name, as they are written.

    The result is empty for None and for an empty text.

    Raises `ArgumentError` for unknown names, repeated names, and anything but numbers above 0 of at most 12
    digits before the point and 6 after it; `ArgumentTypeError` for anything but a text.
    """
    if text is not None and not isinstance(text, str):
        raise ArgumentTypeError(f"assume is a text such as 'top_k=4,experts=128', not {text!r}")
    found: dict[str, str] = {}
    for pair in text.split(",") if text else ():
        match = _PAIR.fullmatch(pair)
        if match is None or not float(match[2]) > 0:
            raise ArgumentError(
                f"assume: {text!r} is not a list of name=number with numbers above 0, of at most 12 digits before the "
                f"point and 6 after it; write it as in 'top_k=4,experts=128', with the names {', '.join(NAMES)}"
            )
        name, number = match.groups()
        if name not in NAMES:
            raise ArgumentError(f"assume: nothing is called {name}; the names are {', '.join(NAMES)}")
        if name in found:
            raise ArgumentError(f"assume: {text!r} has a name twice; give each once")
        found[name] = number
    return found


def used(assumed: Mapping[str, str], names: Iterable[str]) -> str | None:
    """Return the sizes of these names that are assumed, such as top_k=4 matrices=3; None if there are none."""
    return " ".join(f"{name}={assumed[name]}" for name in names if name in assumed) or None
