"""The order in which two sides are measured: in turns, so that a drift of the machine affects both alike."""

from __future__ import annotations

import os
import random
import re
from dataclasses import dataclass
from typing import Literal

from etq.errors import EtqError


def order(captures: int, seed: int = 0) -> list[Literal["base", "new"]]:
    """Return the order in which to measure the sides, for `captures` captures of each.

    Each pair of neighbours has one base and one new, and every second pair mirrors the pair before it: base new new
    base, or new base base new. The seed decides at random which of the two, so that no periodic disturbance always hits
    the same side; the mirroring cancels a steady drift of the machine within each four. A shorter order is the
    beginning of a longer one with the same seed.
    """
    if captures < 1:
        raise EtqError(f"{captures} captures of each side: at least 1 is needed")
    chosen = random.Random(seed)
    sides: list[Literal["base", "new"]] = []
    while len(sides) < 2 * captures:
        sides += ["base", "new", "new", "base"] if chosen.random() >= 0.5 else ["new", "base", "base", "new"]
    return sides[: 2 * captures]


@dataclass(frozen=True)
class Step:
    """One capture to take: its number, from 1 on, its side, and the file to write."""

    number: int
    side: str
    path: str


@dataclass(frozen=True)
class Plan:
    """What to measure: two sides with equally many captures, in an order that the seed determines.

    name       name of the plan, which distinguishes its captures from those of others
    base, new  the sides' names in labels and in the command
    captures   number of captures of each side
    folder     where files are written; by default plan-NAME
    suffix     ending of the files' names

    Raises `EtqError` for names that a selector can't contain.
    """

    name: str
    base: str = "A"
    new: str = "B"
    captures: int = 10
    seed: int = 0
    folder: str | None = None
    suffix: str = ".etdp"

    def __post_init__(self) -> None:
        for what, name in (("plan", self.name), ("side", self.base), ("side", self.new)):
            if not name.strip() or "," in name:
                raise EtqError(f"the name {name!r} of a {what}: expected a text without commas")
        if self.base == self.new:
            raise EtqError(f"base and new are both {self.base!r}; they need names of their own")

    @property
    def steps(self) -> list[Step]:
        """Return the captures to take, in order."""
        folder = f"plan-{in_a_path(self.name)}" if self.folder is None else self.folder
        width = max(2, len(str(2 * self.captures)))
        steps = []
        for number, which in enumerate(order(self.captures, self.seed), 1):
            side = self.base if which == "base" else self.new
            file = f"{in_a_path(self.name)}-{number:0{width}}-{in_a_path(side)}{self.suffix}"
            steps.append(Step(number, side, os.path.join(folder, file)))
        return steps


def in_a_path(name: str) -> str:
    """Return a name as a part of a path: letters, digits and harmless characters."""
    return re.sub(r"[^\w.+-]+", "_", name)
