"""Finds the line of the user's code that caused each event of a trace: the innermost user line of its stack."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from etq.ingest.arrow import encoded
from etq.ingest.trace.classes import rules
from etq.ingest.trace.launches import Whole, nearest
from etq.ingest.trace.scanner import NONE

if TYPE_CHECKING:
    from etq.ingest.trace.slices import Slices

# A function of a file, as the profiler writes it: `train.py(12): step`.
_PLACE: Final = re.compile(r"[^;]+\(\d+\): ")
# The value for a stack without a line of the user's code.
NO_LINE: Final = ""


class Sources:
    """The innermost line of the user's code of each slice, such as `train.py(12): step`; empty if its stack has none,
    NULL without a stack. A stack is the Python functions around a slice, or the lines of Python that the trace has for
    an op.
    """

    def __init__(self, slices: Slices, stacks: Mapping[int, int], written: Sequence[str | None]) -> None:
        """`stacks` has, by a slice's position in the file, the number of its stack in `written`."""
        self._texts: list[str | None] = [None, NO_LINE]
        self._numbers: dict[str | None, int] = {text: number for number, text in enumerate(self._texts)}
        own = np.array([self._of_kind(slices, place) for place in range(len(slices.kinds))], np.int64)
        self._codes = None if not own.any() and not stacks else self._around(slices, own[slices.kind], stacks, written)

    def of(self, rows: Whole) -> pa.Array:
        """Return the lines of these slices."""
        if self._codes is None:
            return pa.nulls(len(rows), pa.string())
        return encoded(self._texts, self._codes[rows])

    def _of_kind(self, slices: Slices, place: int) -> int:
        """Return the number of the line of a kind of slices; 0 for kinds other than Python functions and modules."""
        activity = slices.classes[place].activity
        if activity != "python_function":
            return int(activity == "module")
        name = slices.kinds[place][1]
        is_own = slices.classes[place].purpose is None and _PLACE.match(name) is not None
        return self._number(name) if is_own else 1

    def _number(self, text: str) -> int:
        number = self._numbers.setdefault(text, len(self._texts))
        if number == len(self._texts):
            self._texts.append(text)
        return number

    def _around(self, slices: Slices, codes: Whole, stacks: Mapping[int, int], written: Sequence[str | None]) -> Whole:
        """Return the number of each slice's line. `codes` has the numbers of Python's functions, and is changed in
        place.
        """
        if stacks:
            known = rules()
            of_stacks = {
                stack: next(
                    (self._number(place) for place in _places(written[stack]) if not known.is_library(place)), 1
                )
                for stack in {*stacks.values()}
            }
            places = {at: row for row, at in enumerate(slices.at.tolist()) if at in stacks}
            for at, row in places.items():
                codes[row] = of_stacks[stacks[at]]
        # The line is that of the nearest enclosing slice with a line. If there is none, the slice may still have a
        # stack.
        for least in (2, 1):
            outer = nearest(slices.parent, codes >= least)
            codes = np.where((codes < least) & (outer != NONE), codes[outer], codes)
        # Work of devices has the line of its call, or, without a call, of its owner.
        work = np.flatnonzero(slices.is_device)
        call = slices.call[work]
        launched = np.where(call == NONE, slices.owners.owner[work], call)
        codes[work] = np.where(launched == NONE, 0, codes[launched])
        return codes


def _places(stack: str | None) -> list[str]:
    """Return the functions of a stack, the innermost first."""
    return [place for place in (stack or "").split(";") if _PLACE.match(place)]
