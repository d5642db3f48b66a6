"""The details of a trace's device and memory events. Only the entries of these events are decoded, which are few."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from math import nextafter
from typing import Any, Final, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa
from msgspec.structs import astuple

from etq.ingest.arrow import batch, encoded, numbers, texts
from etq.ingest.trace.columns import Numbered, texts_of
from etq.ingest.trace.scanner import NONE, CallEvent, DeviceArguments, DeviceEvent, MemoryArguments, MemoryEvent
from etq.ingest.trace.ticks import BEYOND, Whole
from etq.ingest.trace.types import Entries, Part, lenient

Places: TypeAlias = "Whole | slice"
EVERY: Final = slice(None)
# Numbers and sizes that reach these limits are impossible, and their sums might not be finite.
MOST: Final = 1e15
MOST_BYTES: Final = 2**53

_devices, _device = lenient(DeviceEvent)
_calls, _call = lenient(CallEvent)
_memories, _memory = lenient(MemoryEvent)
_NO_DEVICE: Final = DeviceArguments()
_NO_MEMORY: Final = MemoryArguments()
# The index of the first field of `DeviceArguments` that is raw JSON; later fields are raw, too.
_RAW: Final = DeviceArguments.__struct_fields__.index("grid")


class DeviceDetails:
    """The details of the device events at these positions. `calls` has the position of the call that launched each copy
    or fill; -1 for other events.
    """

    def __init__(self, at: Whole, calls: Whole) -> None:
        self._at, self._calls = at, calls
        self._order = np.argsort(at, kind="stable")
        # The calls of a kernel mostly have the same details, so few distinct values are converted.
        self._distinct = Numbered()
        self._codes = array("q")
        self.part = Part(at[self._order], _devices, _device, self._add)

    def _add(self, events: Sequence[DeviceEvent]) -> None:
        for event in events:
            details = astuple(event.args or _NO_DEVICE)
            self._codes.append(self._distinct[details[:_RAW] + tuple(map(bytes, details[_RAW:]))])

    def rows(self, entries: Entries, run: Whole, launches: Mapping[str, pa.Array]) -> pa.RecordBatch:
        """Return the table `device_events`. `run` has the run of each event, `launches` the columns about its launch.
        The part must have been decoded.
        """
        codes = np.empty(len(self._at), np.int64)
        codes[self._order] = self._codes
        columns = zip(*self._distinct, strict=True)
        details = dict(zip(DeviceArguments.__struct_fields__, columns, strict=True))
        return batch(
            {
                "run_index": numbers(run.astype(np.int32)),
                "event_index": numbers(self._at.astype(np.int32)),
                "device": _held(details["device"], codes),
                "stream": _held([*map(_stream_of, details["stream"])], codes, np.int64),
                "grid": _as_written(details["grid"], codes),
                "block": _as_written(details["block"], codes),
                "registers_per_thread": _held(details["registers"], codes),
                "shared_memory_bytes": _sizes(details["shared_memory"], codes),
                "blocks_per_sm": _floats(details["blocks_per_sm"], codes),
                "warps_per_sm": _floats(details["warps_per_sm"], codes),
                "occupancy_percent": _floats(details["occupancy"], codes),
                "bandwidth_gb_per_s": _floats(details["bandwidth"], codes),
                "bytes": _bytes(entries, details["bytes"], codes, self._calls),
                "collective": _texts(details["collective"], codes),
                "process_group": _texts(details["process_group"], codes),
                "group_description": _texts(details["group_description"], codes),
                "group_size": _held([*map(_plain, details["group_size"])], codes),
                "message_type": _texts(details["message_type"], codes),
                "in_elements": _sizes([*map(_plain, details["in_elements"])], codes),
                "out_elements": _sizes([*map(_plain, details["out_elements"])], codes),
                "wait_stream": _held(details["wait_stream"], codes, np.int64),
                "wait_correlation_id": _held(details["wait_correlation"], codes, np.int64),
                **launches,
            }
        )


class MemoryDetails:
    """The details of the memory events in `memory`: position, thread, and time in ticks of each."""

    def __init__(self, memory: Sequence[tuple[int, int, int]]) -> None:
        self._kept = [each for each in memory if abs(each[2]) < BEYOND]
        self._rows: list[tuple[Any, ...]] = []
        self.part = Part(np.array([at for at, _, _ in self._kept], np.int64), _memories, _memory, self._add)

    def _add(self, events: Sequence[MemoryEvent]) -> None:
        self._rows += [astuple(event.args or _NO_MEMORY) for event in events]

    def rows(self) -> pa.RecordBatch:
        """Return the columns of `trace_memory` that the file has. The part must have been decoded."""
        fields = MemoryArguments.__struct_fields__
        columns = [*zip(*self._rows, strict=True)] or [()] * len(fields)
        details: dict[str, Sequence[Any]] = dict(zip(fields, columns, strict=True))
        return batch(
            {
                "event_index": numbers(self.part.places.astype(np.int32)),
                "thread_index": numbers(np.array([thread for _, thread, _ in self._kept], np.int32)),
                "at_ticks": numbers(np.array([moment for _, _, moment in self._kept], np.int64)),
                "bytes": _sizes(details["bytes"]),
                "device_type": _held(details["device_type"]),
                "device": _held(details["device_id"]),
                "address": texts([None if each is None else str(each) for each in details["address"]]),
                "total_allocated": _sizes(details["total_allocated"]),
                "total_reserved": _sizes(details["total_reserved"]),
            }
        )


def _bytes(entries: Entries, sizes: Sequence[int | None], codes: Whole, calls: Whole) -> pa.Array:
    """Return sizes in bytes. Copies and fills without a size, such as ROCm's, get the size from the call that launched
    them.
    """
    is_unsized = np.array([size is None for size in sizes], np.bool_)
    places = np.flatnonzero((calls != NONE) & is_unsized[codes])
    if not len(places):
        return _sizes(sizes, codes)
    written, of_call = np.unique(calls[places], return_inverse=True)
    events: list[CallEvent] = []
    entries.decode(Part(written, _calls, _call, events.extend))
    of_calls = [event.args.size if event.args else None for event in events]
    every = [sizes[code] for code in codes.tolist()]
    for place, call in zip(places.tolist(), of_call.tolist(), strict=True):
        size = of_calls[call]
        every[place] = size if size is None or size >= 0 else None
    return _sizes(every)


def _stream_of(written: int | str | None) -> int | str | None:
    """Return the number of a stream that is written as a text; other values are unchanged."""
    is_number = isinstance(written, str) and written.isascii() and written.isdecimal() and len(written) < 20
    return int(written) if is_number and written is not None else written


def _texts(written: Sequence[bytes], codes: Whole) -> pa.Array:
    """Return texts. A number, which some versions write instead of a name, becomes a text; other values become null."""
    return encoded([None if (each := _plain(part)) is None else str(each) for part in written], codes)


def _plain(written: bytes) -> int | str | None:
    """Return a text or an integer; None for other JSON, and for a missing value."""
    try:
        value = msgspec.json.decode(written) if written else None
    except (msgspec.DecodeError, RecursionError):
        return None
    return value if isinstance(value, (int, str)) and not isinstance(value, bool) else None


def _as_written(written: Sequence[bytes], codes: Whole) -> pa.Array:
    return encoded(texts_of(each or None for each in written), codes)


def _held(values: Sequence[Any], codes: Places = EVERY, dtype: type[np.signedinteger] = np.int32) -> pa.Array:
    """Return integers that fit the column's type; other values, which a file may contain, become null."""
    return _between(values, codes, int, int(np.iinfo(dtype).min), int(np.iinfo(dtype).max), dtype)


def _floats(values: Sequence[float | None], codes: Places = EVERY) -> pa.Array:
    """Return numbers; impossible ones, such as infinity, become null."""
    return _between(values, codes, float, -nextafter(MOST, 0), nextafter(MOST, 0), np.float64)


def _sizes(values: Sequence[Any], codes: Places = EVERY) -> pa.Array:
    """Return sizes in bytes, or numbers of elements; impossible ones become null."""
    return _between(values, codes, int, 1 - MOST_BYTES, MOST_BYTES - 1, np.int64)


def _between(
    values: Sequence[Any],
    codes: Places,
    kind: type[int] | type[float],
    least: float,
    most: float,
    dtype: type[np.signedinteger] | type[np.float64],
) -> pa.Array:
    """Return for each code the entry of `values` at that index, as a number of type `kind`. Null if the entry has
    another type, or is below `least` or above `most`.

    `pyarrow.array` would import pandas in each process that reads a trace.
    """
    is_null = np.array([type(value) is not kind or not least <= value <= most for value in values], np.bool_)
    found = np.array([0 if null else each for each, null in zip(values, is_null.tolist(), strict=True)], dtype)
    return numbers(found[codes], is_null[codes] if is_null.any() else None)
