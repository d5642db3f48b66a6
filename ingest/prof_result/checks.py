"""Checks that the iterations of a block are equal. Differences become findings, not errors.

Each iteration is compared with the previous one of the same name: it should have entries of the same names in the same
order, and allocations of the same sizes from the same allocators.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from etq.ingest.events.keys import Indexes
from etq.ingest.prof_result.blocks import Block

Allocations = npt.NDArray[Any]


class Checks:
    """Findings about a file's blocks, which are checked one by one in order.

    A rule's finding describes the first case in a block, and gives the number of cases.
    """

    def __init__(self, name_of: Callable[[int], str | None]) -> None:
        """`name_of` returns the name of an entry by its code."""
        self._name_of = name_of
        self._before: dict[str, tuple[Indexes, Allocations]] = {}
        self._found: dict[tuple[str, str], tuple[str, int]] = {}

    def compare(self, block: Block, codes: Indexes, allocations: Allocations) -> None:
        """Compare a block's entries (by their codes) and allocations with those of the previous iteration."""
        before = self._before.get(block.name)
        self._before[block.name] = codes, allocations
        if before is not None:
            self._compare_entries(block, before[0], codes)
            self._compare_allocations(block, before[1], allocations)

    def note(self, rule: str, block: Block, what: str) -> None:
        """Record one case of a rule."""
        first, cases = self._found.get((rule, block.name), (f"{block}: {what}", 0))
        self._found[rule, block.name] = first, cases + 1

    def findings(self) -> list[tuple[str, str]]:
        """Return the findings: (rule, detail)."""
        return [
            (rule, first if cases == 1 else f"{first} ({cases} such cases in this block)")
            for (rule, _), (first, cases) in self._found.items()
        ]

    def _compare_entries(self, block: Block, before: Indexes, codes: Indexes) -> None:
        if len(before) != len(codes):
            self.note(
                "iterations of other lengths",
                block,
                f"{len(codes)} entries, {len(before)} in the iteration before; "
                f"entry {min(len(codes), len(before))} is in one of them only",
            )
            return
        for entry in np.flatnonzero(before != codes).tolist():
            name, other = self._name_of(int(codes[entry])), self._name_of(int(before[entry]))
            if name != other:
                self.note(
                    "iterations of other entries",
                    block,
                    f"entry {entry} is {name!r}, in the iteration before {other!r}",
                )
                return

    def _compare_allocations(self, block: Block, before: Allocations, allocations: Allocations) -> None:
        if len(before) != len(allocations):
            self.note(
                "iterations of other allocations",
                block,
                f"{len(allocations)} allocations, {len(before)} in the iteration before; "
                f"allocation {min(len(allocations), len(before))} is in one of them only",
            )
            return
        for field, rule, what in (
            ("allocator_id", "iterations of other allocators", "from allocator"),
            ("size_bytes", "iterations of other allocation sizes", "of size"),
        ):
            differing = np.flatnonzero(before[field] != allocations[field])
            if len(differing):
                entry = int(differing[0])
                found, other = int(allocations[field][entry]), int(before[field][entry])
                self.note(rule, block, f"allocation {entry} is {what} {found}, in the iteration before {other}")
