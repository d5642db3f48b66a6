"""FlatBuffers unions: a field of two slots, the first with the number of a member, the second with a reference to
it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from etq.errors import FormatError
from etq.ingest.flatbuffers.reader import Mask, Positions, Tables, TableType


def union_kinds(tables: Tables, name: str, kinds: Sequence[str | None]) -> npt.NDArray[Any]:
    """Return the kind of each table's union member, by the number in field `name`.

    Raises `FormatError` for a number without an entry in `kinds`, or whose entry is None.
    """
    numbers = tables.scalar(name)
    known = np.array([kind is not None for kind in kinds])
    wrong = (numbers >= len(kinds)) | ~known.take(numbers, mode="clip")
    if wrong.any():
        first = int(np.flatnonzero(wrong)[0])
        raise FormatError(
            tables.buffer.path,
            f"{tables.type.name}.{name} is {numbers[first]}; known are {int(np.argmax(known))} to {len(kinds) - 1}",
            int(tables.positions[first]),
        )
    named: npt.NDArray[Any] = np.array(kinds, object)[numbers]
    return named


def members(tables: Tables, name: str, chosen: Mask, type: TableType) -> tuple[Tables, Positions]:
    """Return the members that field `name` of the chosen tables refers to, and the indexes of the chosen tables.

    Raises `FormatError` if there is none.
    """
    at = np.flatnonzero(chosen)
    found, owners = tables.take(at).tables(name, type)
    if len(owners) < len(at):
        missing = int(np.setdiff1d(np.arange(len(at)), owners)[0])
        raise FormatError(
            tables.buffer.path,
            f"{tables.type.name}.{name} is missing; expected a {type.name}",
            int(tables.positions[at[missing]]),
        )
    return found, at
