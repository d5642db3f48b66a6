"""The details of a trace's device and memory events. Few events have them, so they are decoded from those entries
alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from math import nextafter
from types import NoneType
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from etq.ingest.arrow import batch, encoded, numbers, texts
from etq.ingest.trace.columns import texts_of
from etq.ingest.trace.scanner import (
    NONE,
    UNWRITTEN,
    CallEvent,
    DeviceArguments,
    DeviceEvent,
    MemoryArguments,
    MemoryEvent,
)
from etq.ingest.trace.types import Entries

Whole = npt.NDArray[np.int64]
# Times from this one on, in microseconds, are too large: differences of nanoseconds must fit 64-bit integers.
BEYOND: Final = 4.6e15
# Numbers and sizes from these on can't be true, and sums of them would not be finite.
MOST: Final = 1e15
MOST_BYTES: Final = 2**53

_devices: Final = msgspec.json.Decoder(list[DeviceEvent], strict=False)
_device: Final = msgspec.json.Decoder(DeviceEvent, strict=False)
_calls: Final = msgspec.json.Decoder(list[CallEvent], strict=False)
_call: Final = msgspec.json.Decoder(CallEvent, strict=False)
_memories: Final = msgspec.json.Decoder(list[MemoryEvent], strict=False)
_memory: Final = msgspec.json.Decoder(MemoryEvent, strict=False)


def nanoseconds(microseconds: npt.NDArray[np.float64]) -> Whole:
    """Return microseconds as nanoseconds. Whole and fraction are converted apart:
    together they would lose the last digit.
    """
    whole = np.floor(microseconds)
    part = np.rint((microseconds - whole) * 1000)
    found: Whole = whole.astype(np.int64) * 1000 + part.astype(np.int64)
    return found


def device_events(entries: Entries, at: Whole, run: Whole, calls: Whole) -> pa.RecordBatch:
    """Return the table `device_events` of the entries at these positions.

    `run` has the run of each, `calls` the position of the call that launched it if it is a copy or fill, else -1.
    """
    order = np.argsort(at, kind="stable")
    details = [DeviceArguments()] * len(at)
    decoded = chain.from_iterable(entries.decoded(at[order], _devices, _of_device))
    for place, event in zip(order.tolist(), decoded, strict=True):
        details[place] = event.args or DeviceArguments()
    _add_sizes(entries, details, calls)
    return batch(
        {
            "run_index": numbers(run.astype(np.int32)),
            "event_index": numbers(at.astype(np.int32)),
            "device": _held([each.device for each in details]),
            "stream": _held(_streams([each.stream for each in details]), np.int64),
            "grid": _as_written([each.grid for each in details]),
            "block": _as_written([each.block for each in details]),
            "registers_per_thread": _held([each.registers for each in details]),
            "shared_memory_bytes": _sizes([each.shared_memory for each in details]),
            "blocks_per_sm": _floats([each.blocks_per_sm for each in details]),
            "warps_per_sm": _floats([each.warps_per_sm for each in details]),
            "occupancy_percent": _floats([each.occupancy for each in details]),
            "bandwidth_gb_per_s": _floats([each.bandwidth for each in details]),
            "bytes": _sizes([each.bytes for each in details]),
            "collective": _texts([each.collective for each in details]),
            "process_group": _texts([each.process_group for each in details]),
            "group_description": _texts([each.group_description for each in details]),
            "group_size": _integers([each.group_size for each in details]),
            "message_type": _texts([each.message_type for each in details]),
            "in_elements": _counts([each.in_elements for each in details]),
            "out_elements": _counts([each.out_elements for each in details]),
            "wait_stream": _held([each.wait_stream for each in details], np.int64),
            "wait_correlation_id": _held([each.wait_correlation for each in details], np.int64),
        }
    )


def memory_events(entries: Entries, memory: Sequence[tuple[int, int, float]]) -> pa.RecordBatch:
    """Return the table `trace_memory` of the memory events in `memory`: position, thread, and time in microseconds."""
    kept = [each for each in memory if abs(each[2]) < BEYOND]
    at = np.array([at for at, _, _ in kept], np.int64)
    decoded = chain.from_iterable(entries.decoded(at, _memories, _of_memory))
    details = [event.args or MemoryArguments() for event in decoded]
    return batch(
        {
            "event_index": numbers(at.astype(np.int32)),
            "thread_index": numbers(np.array([thread for _, thread, _ in kept], np.int32)),
            "at_ticks": numbers(nanoseconds(np.array([moment for _, _, moment in kept], np.float64))),
            "bytes": _sizes([each.bytes for each in details]),
            "device_type": _held([each.device_type for each in details]),
            "device": _held([each.device_id for each in details]),
            "address": texts([None if each.address is None else str(each.address) for each in details]),
            "total_allocated": _sizes([each.total_allocated for each in details]),
            "total_reserved": _sizes([each.total_reserved for each in details]),
        }
    )


def _add_sizes(entries: Entries, details: Sequence[DeviceArguments], calls: Whole) -> None:
    """Set the bytes of copies and fills that have none, as those of ROCm, to the size in their launching calls."""
    is_unsized = [each.bytes is None for each in details]
    places = np.flatnonzero((calls != NONE) & np.array(is_unsized, np.bool_))
    if not len(places):
        return
    written, of_call = np.unique(calls[places], return_inverse=True)
    events = chain.from_iterable(entries.decoded(written, _calls, _of_call))
    sizes = [event.args.size if event.args else None for event in events]
    for place, call in zip(places.tolist(), of_call.tolist(), strict=True):
        size = sizes[call]
        details[place].bytes = size if size is None or size >= 0 else None


def _streams(written: list[int | str | None]) -> Sequence[int | str | None]:
    """Return streams, as numbers where their numbers are written as texts, as of other ids."""
    return [*map(_stream_of, written)] if str in set(map(type, written)) else written


def _stream_of(written: int | str | None) -> int | str | None:
    """Return the number of a stream that is written as a text, as of other ids; else what is written."""
    is_number = isinstance(written, str) and written.isascii() and written.isdecimal() and len(written) < 20
    return int(written) if is_number and written is not None else written


def _of_device(entry: msgspec.Raw) -> DeviceEvent:
    """Return an entry's details about a device, an empty object if its arguments have another tool's layout."""
    try:
        return _device.decode(entry)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return DeviceEvent()


def _of_call(entry: msgspec.Raw) -> CallEvent:
    """Return an entry's size of what it copies, an empty object if its arguments have another tool's layout."""
    try:
        return _call.decode(entry)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return CallEvent()


def _of_memory(entry: msgspec.Raw) -> MemoryEvent:
    """Return an entry's details about memory, an empty object if its arguments have another tool's layout."""
    try:
        return _memory.decode(entry)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return MemoryEvent()


def _texts(parts: Sequence[msgspec.Raw]) -> pa.Array:
    """Return texts; numbers, which some versions write for names, as text; other values become null."""
    written = _written(parts)
    places = {each: place for place, each in enumerate(dict.fromkeys(written))}
    known = [None if each is None else str(each) for each in map(_plain, places)]
    return encoded(known, np.array([places[each] for each in written], np.int64))


def _integers(parts: Sequence[msgspec.Raw], dtype: type[np.signedinteger] = np.int32) -> pa.Array:
    """Return integers that fit the column's type; other values become null."""
    written = _written(parts)
    known = {each: _plain(each) for each in set(written)}
    return _held([known[each] for each in written], dtype)


def _counts(parts: Sequence[msgspec.Raw]) -> pa.Array:
    """Return numbers of elements; other values become null."""
    written = _written(parts)
    known = {each: number if isinstance(number := _plain(each), int) else None for each in set(written)}
    return _sizes([known[each] for each in written])


def _written(parts: Sequence[msgspec.Raw]) -> list[bytes]:
    """Return JSON as bytes, empty where nothing is written, as for all events but those of collectives."""
    return [b"" if part is UNWRITTEN else bytes(part) for part in parts]


def _plain(written: bytes) -> int | str | None:
    """Return a text or an integer; None for other JSON, and if nothing is written."""
    try:
        value = msgspec.json.decode(written) if written else None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return value if isinstance(value, (int, str)) and not isinstance(value, bool) else None


def _held(values: Sequence[int | str | None], dtype: type[np.signedinteger] = np.int32) -> pa.Array:
    """Return integers that fit the column's type; other values, which a file may contain, become null."""
    return _between(values, int, int(np.iinfo(dtype).min), int(np.iinfo(dtype).max), dtype)


def _floats(values: Sequence[float | None]) -> pa.Array:
    """Return numbers; those that can't be true, such as infinity, become null."""
    return _between(values, float, -nextafter(MOST, 0), nextafter(MOST, 0), np.float64)


def _sizes(values: Sequence[int | None]) -> pa.Array:
    """Return sizes in bytes, or numbers of elements; those that can't be true become null."""
    return _between(values, int, 1 - MOST_BYTES, MOST_BYTES - 1, np.int64)


def _between(
    values: Sequence[float | str | None],
    kind: type[int] | type[float],
    least: float,
    most: float,
    dtype: type[np.signedinteger] | type[np.float64],
) -> pa.Array:
    """Return numbers of this type, from `least` to `most`; other values become null.

    `pyarrow.array` would import pandas in each process that reads a trace.
    """
    kinds = set(map(type, values))
    if kinds == {NoneType}:
        return pa.nulls(len(values), pa.from_numpy_dtype(dtype))
    known: list[Any] = [each if type(each) is kind else None for each in values] if kinds != {kind} else [*values]
    try:
        found = np.array([0 if each is None else each for each in known], np.int64 if kind is int else np.float64)
    except OverflowError:
        fitting = [each if each is not None and least <= each <= most else None for each in known]
        return _between(fitting, kind, least, most, dtype)
    is_null = np.array([each is None for each in known], np.bool_) | ~((found >= least) & (found <= most))
    return numbers(np.where(is_null, 0, found).astype(dtype), is_null if is_null.any() else None)


def _as_written(parts: Sequence[msgspec.Raw]) -> pa.Array:
    written = [None if part is UNWRITTEN else bytes(part) for part in parts]
    places = {each: place for place, each in enumerate(dict.fromkeys(written))}
    return encoded(texts_of(places), np.array([places[each] for each in written], np.int64))
