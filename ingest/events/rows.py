"""Rows of the base tables, as Arrow record batches, from the decoded parts of an ETDump or a prof_result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from etq.ingest.arrow import batch, flags, integers, numbers, texts
from etq.ingest.events import classify as signatures
from etq.ingest.events.blocks import SignatureRow, Structure, occurrences
from etq.ingest.events.event import DEBUG, OUTPUT, DebugValues, EventKey, EventSlice
from etq.ingest.events.keys import NOWHERE, Indexes
from etq.ingest.events.own_times import OwnTimes
from etq.ingest.events.run_times import RunTimes

Mask = npt.NDArray[np.bool_]
# The clocks of signatures; their positions here are their numbers.
_CLOCKS: Final = ("host", "delegate", "synthetic")
HOST: Final = 0

# The table `event_ticks` without capture_id.
EVENT_TICKS: Final = pa.schema(
    [
        ("run_index", pa.int32()),
        ("event_index", pa.int32()),
        ("signature_index", pa.int32()),
        ("occurrence", pa.int32()),
        ("parent_index", pa.int32()),
        ("parent_run_index", pa.int32()),
        ("execute_index", pa.int32()),
        ("start_ticks", pa.int64()),
        ("elapsed_ticks", pa.int64()),
        ("delegate_metadata", pa.binary()),
        ("is_detached", pa.bool_()),
        ("overlap_ticks", pa.int64()),
        ("unwrapped_ticks", pa.int64()),
        ("children", pa.int32()),
        ("self_ticks", pa.int64()),
        ("torch_self_ticks", pa.int64()),
        ("is_additive", pa.bool_()),
        ("is_execute", pa.bool_()),
    ]
)
# The columns that `own_times` computes.
OWN_TIMES: Final = EVENT_TICKS.names[EVENT_TICKS.get_field_index("unwrapped_ticks") :]

# The batches of a large file have equally many rows, so empty columns are made once and shared.
_nulls: Final = lru_cache(maxsize=4)(pa.nulls)


def event_batch(columns: Mapping[str, pa.Array]) -> pa.RecordBatch:
    """Return rows of `event_ticks`; columns that are not given are NULL."""
    rows = len(columns["run_index"])
    arrays = [
        columns[name] if name in columns else _nulls(rows, EVENT_TICKS.field(name).type) for name in EVENT_TICKS.names
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=EVENT_TICKS)


class Runs:
    """The RunDatas of a file, in order: each list has one entry per run; `block_index` is NOWHERE without a block."""

    def __init__(self) -> None:
        self.dump_index: list[int] = []
        self.name: list[str] = []
        self.bundled_input_index: list[int] = []
        self.block_index: list[int] = []
        self.times = RunTimes()

    def __len__(self) -> int:
        return len(self.name)

    def add(self, names: Sequence[str], dump_index: int, bundled_input_index: Sequence[int] | None = None) -> None:
        """Add runs of a dump; their `block_index` is added later. Without `bundled_input_index`, it is -1, which means
        not written.
        """
        self.name += names
        self.dump_index += [dump_index] * len(names)
        self.bundled_input_index += [-1] * len(names) if bundled_input_index is None else bundled_input_index

    def rows(self) -> pa.RecordBatch:
        """The table `runs`."""
        block = np.array(self.block_index, np.int64)
        number = {name: index for index, name in enumerate(dict.fromkeys(self.name))}
        named = np.array([number[name] for name in self.name], np.int64)
        return batch(
            {
                "run_index": numbers(np.arange(len(self), dtype=np.int32)),
                "dump_index": integers(self.dump_index),
                "name": texts(self.name),
                "bundled_input_index": _known(self.bundled_input_index),
                "block_index": numbers(block.astype(np.int32), block == NOWHERE),
                "block_run": numbers(occurrences(block), block == NOWHERE),
                "iteration": numbers(occurrences(named)),
                **self.times.columns(),
            }
        )


class Place(NamedTuple):
    """The position of each event of a group: the index of its run in the file, and the event's index in the run."""

    run_index: Indexes
    event_index: Indexes


def event_ticks(
    place: Place,
    structure: Structure,
    start: Indexes,
    elapsed: Indexes,
    slices: Sequence[EventSlice],
    chosen: Mask | None,
    detached: Mask | None,
    own: OwnTimes,
) -> pa.RecordBatch:
    """Return the rows of `event_ticks` of the chosen events (None: all), with the columns of `slices`.

    `detached` is a mask over all events: true for events that don't count within their parents (None: all count). `own`
    has the own times of all events.
    """

    def column(values: npt.NDArray[Any], dtype: type[np.generic]) -> pa.Array:
        return numbers((values if chosen is None else values[chosen]).astype(dtype, copy=False))

    def index(values: npt.NDArray[np.int32]) -> pa.Array:
        kept = values if chosen is None else values[chosen]
        is_null = kept == NOWHERE
        return numbers(kept, is_null if is_null.any() else None)

    run_index = column(place.run_index, np.int32)
    is_detached = np.zeros(len(run_index), np.bool_)
    if detached is not None:
        is_detached = detached if chosen is None else detached[chosen]
    return event_batch(
        {
            "run_index": run_index,
            "event_index": column(place.event_index, np.int32),
            "signature_index": column(structure.signature, np.int32),
            "occurrence": column(structure.occurrence, np.int32),
            "parent_index": index(structure.parent),
            "execute_index": index(structure.execute),
            "start_ticks": column(start, np.int64),
            "elapsed_ticks": column(elapsed, np.int64),
            "is_detached": flags(is_detached),
            **own.columns(chosen),
            **_columns(slices, chosen),
        }
    )


def _columns(slices: Sequence[EventSlice], chosen: Mask | None) -> dict[str, pa.Array]:
    """Return the columns that only some slices have. They are NULL for chosen events of the other slices."""
    names = dict.fromkeys(name for part in slices for name in part.columns)
    if not names:
        return {}
    sizes = [len(part.codes) for part in slices]
    if chosen is not None:
        sizes = [int(part.sum()) for part in np.split(chosen, np.cumsum(sizes)[:-1])]
    nulls = {name: EVENT_TICKS.field(name).type for name in names}
    return {
        name: pa.concat_arrays(
            [part.columns.get(name, pa.nulls(size, type)) for part, size in zip(slices, sizes, strict=True)]
        )
        for name, type in nulls.items()
    }


def allocators(run_index: Indexes, allocator_id: Indexes, names: Sequence[str | None]) -> pa.RecordBatch:
    """The table `allocators`."""
    return batch(
        {"run_index": numbers(run_index.astype(np.int32)), "allocator_id": numbers(allocator_id), "name": texts(names)}
    )


def allocations(place: Place, at: Indexes, part: EventSlice) -> pa.RecordBatch:
    """The table `allocations` of a slice's allocation events; `at` has the places of these events in the group."""
    _, allocator, size = part.allocations
    return batch(
        {
            "run_index": numbers(place.run_index[at].astype(np.int32)),
            "event_index": numbers(place.event_index[at].astype(np.int32)),
            "allocator_id": numbers(allocator),
            "size_bytes": numbers(size),
        }
    )


def debug_values(place: Place, at: Indexes, keys: Sequence[EventKey], values: DebugValues) -> pa.RecordBatch:
    """The table `debug_values` of a slice's values; `at` has the places of their events in the group, `keys` the
    events' keys.
    """
    columns = {
        "run_index": numbers(place.run_index[at].astype(np.int32)),
        "event_index": numbers(place.event_index[at].astype(np.int32)),
        "chain_index": _chain(keys),
        "instruction_id": _known([key.instruction_id for key in keys]),
        "delegate_debug_id": _known([key.delegate_debug_id for key in keys]),
        "delegate_debug_str": texts([key.delegate_debug_str or None for key in keys]),
        "name": texts([key.name or None for key in keys]),
        "is_output": flags(np.array([key.type == OUTPUT for key in keys], np.bool_)),
    }
    for name in values.table.column_names:
        columns[name] = values.table.column(name).combine_chunks()
    return batch(columns)


def clocks_of(clocks: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the clock of each signature, as a place in `_CLOCKS`; `clocks` is that of `signature_rows`."""
    is_synthetic = (clocks[:, 0] > 0) & (clocks[:, 1] == clocks[:, 0])
    return np.where(is_synthetic, 2, np.where(2 * clocks[:, 2] > clocks[:, 0], 1, HOST))


def signature_rows(rows: Sequence[SignatureRow], clocks: npt.NDArray[np.int64]) -> pa.RecordBatch:
    """The table `signatures`. `clocks` has three counts per signature: its events, its bare values (which start at 0),
    and its events on a clock other than the host's.
    """
    keys = [row.key for row in rows]
    clock = [_CLOCKS[number] for number in clocks_of(clocks).tolist()]
    units = [
        None if key.type == DEBUG else signatures.event_value_unit(key, name == "synthetic")
        for key, name in zip(keys, clock, strict=True)
    ]
    return batch(
        {
            "signature_index": numbers(np.arange(len(rows), dtype=np.int32)),
            "block_index": integers(row.block_index for row in rows),
            "slot": integers(row.slot for row in rows),
            "kind": texts([signatures.event_kind(key) for key in keys]),
            "name": texts([key.name for key in keys]),
            "label": texts([signatures.event_label(key) for key in keys]),
            "family": texts([signatures.event_family(key) for key in keys]),
            "chain_index": _chain(keys),
            "instruction_id": _known([key.instruction_id for key in keys]),
            "delegate_debug_id": _known([key.delegate_debug_id for key in keys]),
            "delegate_debug_str": texts([key.delegate_debug_str or None for key in keys]),
            "value_unit": texts(units),
            "clock": texts(clock),
        }
    )


def findings(found: Sequence[tuple[str, str]]) -> pa.RecordBatch:
    """The table `findings`, of rules and details."""
    rules, details = zip(*found, strict=True)
    return batch({"rule": texts(rules), "detail": texts(details)})


def capture(format: str, clock_bits: int, profiling_level: str | None) -> pa.RecordBatch:
    """The table `captures`, one row, with the columns that the file states."""
    return batch(
        {"format": texts([format]), "clock_bits": integers([clock_bits]), "profiling_level": texts([profiling_level])}
    )


def _known(values: Sequence[int]) -> pa.Array:
    """Return integers, NULL for -1, which files write for a missing number."""
    return integers(None if value == -1 else value for value in values)


def _chain(keys: Sequence[EventKey]) -> pa.Array:
    """Return the chains of debug events as u64: 2**64 - 1 means none, as -1 does for other events."""
    return numbers(np.array([key.chain_index % 2**64 for key in keys], np.uint64).view(np.int64))
