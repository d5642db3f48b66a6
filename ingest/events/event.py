"""Events as arrays, which the readers of all formats produce: names, kinds and times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from etq.ingest.flatbuffers.reader import Positions

PROFILE, DEBUG, OUTPUT, ALLOCATION = range(4)

Ticks = npt.NDArray[np.int64]


class EventKey(NamedTuple):
    """The properties that the same event of different runs has in common.

    `type` is PROFILE, DEBUG (a logged value), OUTPUT (a logged program output) or ALLOCATION; the others are the
    file's fields, -1 and None if they are absent. `chain_index` is an i32 of profile events and a u64 of debug
    events, so that -1 and 2**64 - 1 stay apart, as they do for the Inspector.
    """

    type: int
    name: str | None = None
    chain_index: int = 0
    instruction_id: int = -1
    delegate_debug_id: int = -1
    delegate_debug_str: str | None = None


@dataclass(frozen=True)
class DebugValues:
    """The debug events of a slice, and the values they logged (a tensor list is one row for each of its tensors).

    is_output [d] whether a debug event logged an output of the program
    at        [v] place in the slice of the event that each value belongs to
    table     [v] columns value_index, kind, scalar_type, sizes, strides, byte_offset, number
    """

    is_output: npt.NDArray[np.bool_]
    at: Positions
    table: pa.Table


@dataclass(frozen=True)
class EventSlice:
    """Consecutive events of one dump, in file order, whatever run they belong to.

    codes       [n] index into `keys`
    keys        the distinct `EventKey`s of the slice
    start       [n] start_time of profile events in ticks, by its 64 bits; 0 for other events
    elapsed     [n] end_time - start_time of profile events in ticks, modulo 2**64, signed; 0 for other events
    metadata    [n] delegate_debug_metadata, None where absent or empty; or None if no event has any
    allocations [m] place in the slice, allocator_id and size in bytes of the allocation events
    values      what the debug events logged; None if there are none
    """

    codes: npt.NDArray[np.int64]
    keys: list[EventKey]
    start: Ticks
    elapsed: Ticks
    metadata: list[bytes | None] | None
    allocations: tuple[Positions, npt.NDArray[np.int32], npt.NDArray[np.int64]]
    values: DebugValues | None
