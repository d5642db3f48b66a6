"""The order in which two sides are measured. They are measured in turns, so that a drift of the machine affects both
alike.
"""

from __future__ import annotations

import random
import re
from typing import Literal

from etq.errors import EtqError


def order(captures: int, seed: int = 0) -> list[Literal["base", "new"]]:
    """Return the order in which to measure the sides, for `captures` captures of each.

    Each pair of neighbours has one base and one new, and every second pair mirrors the pair before it: base new new
    base, or new base base new. The seed chooses between these two at random, so that a periodic disturbance doesn't
    always hit the same side. Mirroring cancels a steady drift of the machine within each group of four. With the same
    seed, a shorter order is the beginning of a longer order.
    """
    if captures < 1:
        raise EtqError(f"{captures} captures of each side: at least 1 is needed")
    chosen = random.Random(seed)
    sides: list[Literal["base", "new"]] = []
    while len(sides) < 2 * captures:
        sides += ["base", "new", "new", "base"] if chosen.random() >= 0.5 else ["new", "base", "base", "new"]
    return sides[: 2 * captures]


def in_a_path(name: str) -> str:
    """Return a name as a part of a path: letters, digits and harmless characters."""
    return re.sub(r"[^\w.+-]+", "_", name)
