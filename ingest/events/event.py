"""Events as arrays, which the readers of all formats produce: names, kinds and times."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from etq.ingest.flatbuffers.reader import Positions

PROFILE, DEBUG, OUTPUT, ALLOCATION = range(4)

Ticks = npt.NDArray[np.int64]


class EventKey(NamedTuple):
    """The properties that the same event has in all runs.

    `type` is PROFILE, DEBUG (a logged value), OUTPUT (a logged program output) or ALLOCATION. The other attributes are
    the file's fields; absent numbers are -1, absent texts None. `chain_index` is an i32 of profile events and a u64 of
    debug events, so -1 and 2**64 - 1 are different values, as in the Inspector.
    """

    type: int
    name: str | None = None
    chain_index: int = 0
    instruction_id: int = -1
    delegate_debug_id: int = -1
    delegate_debug_str: str | None = None


class DebugValues(NamedTuple):
    """The debug events of a slice, and the values that they logged. Arrays [d] have an entry per event; arrays [v] have
    an entry per value, and one per tensor of a tensor list.

    is_output [d] whether a debug event logged an output of the program
    at        [v] for each value, the place of its event in the slice
    table     [v] columns value_index, kind, scalar_type, sizes, strides, byte_offset, number
    """

    is_output: npt.NDArray[np.bool_]
    at: Positions
    table: pa.Table


class EventSlice(NamedTuple):
    """Consecutive events of one dump, in file order; they may belong to several runs.

    codes       [n] index into `keys`
    keys        the distinct `EventKey`s of the slice
    start       [n] start_time of profile events in ticks, its 64 bits as a signed integer; 0 for other events
    elapsed     [n] end_time - start_time of profile events in ticks, modulo 2**64, signed; 0 for other events
    columns     [p] the columns of `event_ticks` by name, with a row for each profile event; columns that are NULL in
                all rows are left out
    allocations [m] place in the slice, allocator_id and size in bytes of the allocation events
    values      the values that debug events logged; None if there are no debug events
    """

    codes: npt.NDArray[np.int64]
    keys: list[EventKey]
    start: Ticks
    elapsed: Ticks
    columns: Mapping[str, pa.Array]
    allocations: tuple[Positions, npt.NDArray[np.int32], npt.NDArray[np.int64]]
    values: DebugValues | None
