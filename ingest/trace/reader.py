"""PyTorch Profiler traces (`.pt.trace.json`, `.json.gz`), and other Chrome traces, as tables.

The one public function is `read_torch_trace`. Ticks are nanoseconds: the file's microseconds have up to three digits
after the point.
"""

from __future__ import annotations

import gc
import re
import zlib
from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import Any, Final

import msgspec
import pyarrow as pa

from etq.errors import FormatError
from etq.ingest.arrow import batch, texts
from etq.ingest.trace.columns import NOTHING, TraceColumns
from etq.ingest.trace.devices import device_rows
from etq.ingest.trace.rows import trace_rows
from etq.ingest.trace.scanner import PlainEvent, Trace, TraceEvent
from etq.ingest.trace.types import Entries

# As `torch.profiler.tensorboard_trace_handler` names files: worker and time.
WORKER: Final = re.compile(r"(.+)\.\d+\.pt\.trace\.json(?:\.gz)?")
GZIP: Final = b"\x1f\x8b"
# A trace packs to a tenth or a thirtieth. One that is packed more tightly than text ever is, is a bomb.
LARGEST_RATIO: Final = 500
LARGEST_JSON: Final = 2**33
# So much of a gzip file is unpacked at once, so that a bomb is known by its first part.
PACKED: Final = 2**16
# How many events are decoded at once: all of them would fill memory, and leave the processor's cache.
AT_ONCE: Final = 512

_events: Final = msgspec.json.Decoder(list[TraceEvent], strict=False)
_event: Final = msgspec.json.Decoder(TraceEvent, strict=False)
_plain: Final = msgspec.json.Decoder(PlainEvent, strict=False)


def read_torch_trace(data: Any, path: str) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Read a trace: (base table, rows) one after the other, without the key `capture_id`, which is the warehouse's.

    `data` is the file's bytes (or a memory map of it), `path` its name for messages. A run is a profiler step; what is
    in no step, or all, where there are none, is a run of its own. Events without a duration, with impossible times or
    of kinds that are not slices are reported in `findings`. Rank and worker are labels, if the file or its name has
    them.

    Raises `FormatError` for anything but a JSON trace, for damaged or absurdly packed gzip.
    """
    entries = Entries(_unpacked(data, path), path)
    collecting = gc.isenabled()
    # No objects of a trace refer to each other in a cycle.
    gc.disable()
    try:
        columns, trace = _decoded(entries)
    finally:
        if collecting:
            gc.enable()
    info = trace.distributedInfo
    labels = {} if info is None or info.rank is None else {"rank": str(info.rank)}
    if (named := WORKER.fullmatch(PurePath(path).name)) is not None:
        labels["worker"] = named[1]
    if labels:
        yield "labels", batch({"key": texts([*labels]), "value": texts([*labels.values()])})
    devices = _devices(trace, columns)
    if devices is not None:
        yield "trace_devices", devices
    yield from trace_rows(columns, entries)


def _unpacked(data: Any, path: str) -> Any:
    """The text of a gzip file of one member or several, with zeros between and after them; of other files, the
    bytes."""
    if bytes(data[:2]) != GZIP:
        return data
    parts: list[bytes] = []
    size, unpacker = 0, None
    try:
        for start in range(0, len(data), PACKED):
            left = memoryview(data)[start : start + PACKED]
            room = LARGEST_RATIO * len(left) + 2**20
            while left:
                if unpacker is None:
                    left = memoryview(bytes(left).lstrip(b"\0"))
                    unpacker = zlib.decompressobj(wbits=31) if left else None
                    continue
                parts.append(unpacker.decompress(left, room + 1))
                size += len(parts[-1])
                room -= len(parts[-1])
                if room < 0 or size > LARGEST_JSON:
                    raise FormatError(path, f"the gzip would unpack to more than {size - 1:,} bytes, which is refused")
                left = memoryview(unpacker.unused_data)
                unpacker = None if unpacker.eof else unpacker
    except zlib.error as error:
        raise FormatError(path, f"the gzip is damaged: {error}") from error
    if unpacker is not None:
        raise FormatError(path, f"the gzip is truncated: it ends within a member, after {size:,} bytes of text")
    return b"".join(parts)


def _decoded(entries: Entries) -> tuple[TraceColumns, Trace]:
    """The events, and the rest of the trace, possibly without its entries."""
    try:
        columns = TraceColumns()
        place = 0
        for block in entries.blocks():
            place += _add_block(columns, place, block)
        if place:
            return columns, entries.around
    except (msgspec.DecodeError, RecursionError):
        pass
    columns = TraceColumns()
    every = entries.whole.traceEvents
    for start in range(0, len(every), AT_ONCE):
        _add_each(columns, start, every[start : start + AT_ONCE])
    return columns, entries.whole


def _add_block(columns: TraceColumns, first: int, block: bytes) -> int:
    """Add the events of a JSON list at places from `first` on, and return their number."""
    try:
        events = _events.decode(block)
    except (msgspec.DecodeError, UnicodeDecodeError):
        each = msgspec.json.decode(block, type=list[msgspec.Raw])
        _add_each(columns, first, each)
        return len(each)
    columns.add(first, events)
    return len(events)


def _add_each(columns: TraceColumns, first: int, entries: Sequence[msgspec.Raw]) -> None:
    try:
        columns.add(first, list(map(_event.decode, entries)))
    except (msgspec.DecodeError, UnicodeDecodeError):
        columns.add(first, [_one(at, entry, columns) for at, entry in enumerate(entries, first)])


def _devices(trace: Trace, columns: TraceColumns) -> pa.RecordBatch | None:
    try:
        return device_rows(trace.deviceProperties)
    except msgspec.DecodeError as error:
        columns.find("devices left out", f"deviceProperties is not a list of devices: {error}")
        return None


def _one(at: int, entry: msgspec.Raw, columns: TraceColumns) -> TraceEvent | PlainEvent:
    """An event of a block that has events of another tool, or bytes that aren't UTF-8."""
    content = bytes(entry)
    try:
        content.decode()
    except UnicodeDecodeError:
        columns.find("no UTF-8", "bytes of names that aren't UTF-8 are shown as \N{REPLACEMENT CHARACTER}")
        content = content.decode("utf-8", "replace").encode()
    try:
        return _event.decode(content)
    except msgspec.DecodeError:
        columns.plain.add(at)
    try:
        return _plain.decode(content)
    except msgspec.DecodeError:
        columns.leave_out("no event's form")
        return NOTHING
