"""Traces of the PyTorch Profiler (`.pt.trace.json`, `.json.gz`), and other Chrome traces, as tables.

The one public function is `read_torch_trace`. Ticks are nanoseconds, because the file's microseconds have up to three
digits after the point.
"""

from __future__ import annotations

import gc
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec
import pyarrow as pa

from etq.ingest.arrow import batch, texts
from etq.ingest.trace.blocks import BrokenError
from etq.ingest.trace.categories import of_tracks
from etq.ingest.trace.columns import NOTHING, TraceColumns
from etq.ingest.trace.devices import device_rows, devices_in, working_devices
from etq.ingest.trace.foreign import check_is_torchs
from etq.ingest.trace.rows import trace_rows
from etq.ingest.trace.scanner import DeviceProperties, DistributedInfo, PlainEvent, ProcessGroup, Trace, TraceEvent
from etq.ingest.trace.types import Entries

if TYPE_CHECKING:
    from etq.ingest.trace.recordings import Recorder

T = TypeVar("T")

# File names of `torch.profiler.tensorboard_trace_handler`: they consist of worker and time.
WORKER: Final = re.compile(r"(.+)\.\d+\.pt\.trace\.json(?:\.gz)?")
# Characters that are replaced in names of process groups.
NOT_IN_GROUPS: Final = re.compile(r"[^\w.+/-]")
# A number of processes that no job has: a damaged file may have any number.
MOST_PROCESSES: Final = 1_000_000
# The most process groups of a process. It is in some groups for each kind of parallelism.
MOST_GROUPS: Final = 32

_events: Final = msgspec.json.Decoder(list[TraceEvent], strict=False)
_event: Final = msgspec.json.Decoder(TraceEvent, strict=False)
_plain: Final = msgspec.json.Decoder(PlainEvent, strict=False)


def read_torch_trace(
    data: Any, path: str, recorded: Sequence[tuple[Any, str]] = (), assumed: Mapping[str, str] | None = None
) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Read a trace and yield pairs of base table and rows, without the key `capture_id`, which the warehouse assigns.

    `data` is the file's bytes (or a memory map of it), `path` its name for messages. Each profiler step is a run; all
    events outside of steps are one further run. Events without a duration, with impossible times or with other phases
    than slices are reported in `findings`. Rank, world size, process groups and worker become labels, if the file or
    its name has them. The time at which the recording began is `captured_at`, if the file has it. `recorded` has the
    bytes and names of traces in which graphs were captured, and of files with annotations of kernels: the graphs'
    kernels get their ops and modules from these. `assumed` has sizes that the trace lacks, see `assumptions`.

    Raises `FormatError` for anything but a JSON trace of PyTorch's profiler, for damaged or absurdly packed gzip.
    """
    entries = Entries(data, path)
    columns, trace = _decoded_without_cycles(entries)
    columns.finish()
    tracks = of_tracks(columns, entries)
    check_is_torchs(trace, columns, tracks, path)
    annotations: dict[int, str] = {}
    recorders = [recorder for each in recorded if (recorder := _recorder(*each, annotations)) is not None]
    labels = _labels_of(trace.distributedInfo)
    if (named := WORKER.fullmatch(PurePath(path).name)) is not None:
        labels["worker"] = named[1]
    if labels:
        yield "labels", batch({"key": texts([*labels]), "value": texts([*labels.values()])})
    devices, working = _devices(trace, columns), frozenset[int]()
    base = _value_of(int, trace.baseTimeNanoseconds) or 0
    groups = labels.get("process_groups", "")
    for table, rows in trace_rows(columns, entries, tracks, base, recorders, annotations, assumed, groups):
        if table == "device_events" and isinstance(rows, pa.RecordBatch):
            working = working_devices(rows)
        yield table, rows
    if devices:
        yield "trace_devices", device_rows(devices, working)


def _recorder(data: Any, path: str, annotations: dict[int, str]) -> Recorder | None:
    """Return the content of a trace in which graphs were captured. For a file of annotations, add these to
    `annotations` and return None.
    """
    from etq.ingest.trace.annotations import annotations_in
    from etq.ingest.trace.recordings import Recorder

    if (found := annotations_in(data, path)) is not None:
        annotations.update(found)
        return None
    entries = Entries(data, path)
    return Recorder(_decoded_without_cycles(entries)[0], entries, PurePath(path).name)


def _decoded_without_cycles(entries: Entries) -> tuple[TraceColumns, Trace]:
    collecting = gc.isenabled()
    # A trace's objects have no reference cycles.
    gc.disable()
    try:
        return _decoded(entries)
    finally:
        if collecting:
            gc.enable()


def _labels_of(written: msgspec.Raw) -> dict[str, str]:
    """Return the labels of the process that wrote a trace: rank, number of processes, names and sizes of its groups.

    Values of another type, or impossible ones, are left out, because the trace is useful without them.
    """
    info = _value_of(DistributedInfo, written) or DistributedInfo()
    rank, size = _value_of(int, info.rank), _value_of(int, info.world_size)
    labels = {}
    if rank is not None and 0 <= rank < MOST_PROCESSES:
        labels["rank"] = str(rank)
    if size is not None and 0 < size <= MOST_PROCESSES:
        labels["world_size"] = str(size)
    groups = []
    for each in _value_of(list[msgspec.Raw], info.pg_config) or ():
        group = _value_of(ProcessGroup, each) or ProcessGroup()
        # The label separates groups by spaces. PyTorch calls a group without a description undefined.
        described = None if group.pg_desc == "undefined" else group.pg_desc
        name = NOT_IN_GROUPS.sub("_", str(described or group.pg_name or group.pg_desc or "")[:100])
        processes = group.pg_size or group.group_size or 0
        if name and 0 < processes <= MOST_PROCESSES:
            groups.append(f"{name}:{processes}")
            if len(groups) == MOST_GROUPS:
                break
    return labels | ({"process_groups": " ".join(groups)} if groups else {})


def _value_of(kind: type[T], written: msgspec.Raw) -> T | None:
    """Return a value of a trace as a type; None if it has another type."""
    try:
        return msgspec.json.decode(written, type=kind, strict=False)
    except (msgspec.DecodeError, RecursionError):
        return None


def _decoded(entries: Entries) -> tuple[TraceColumns, Trace]:
    """Return the events, and the rest of the trace."""
    columns = TraceColumns()
    try:
        return columns, entries.read(partial(_add_block, columns))
    except BrokenError:
        columns = TraceColumns()
    trace, repaired = entries.read_broken(partial(_add_block, columns))
    columns.findings.insert(0, ("broken JSON", f"the profiler wrote invalid JSON, which was repaired: {repaired}"))
    return columns, trace


def _add_block(columns: TraceColumns, first: int, block: bytes) -> int:
    """Add the events of a JSON list, the first at position `first`; return the number of events.

    Raises `msgspec.DecodeError` for anything but a JSON list.
    """
    try:
        events = _events.decode(block)
    except msgspec.DecodeError:
        each = msgspec.json.decode(block, type=list[msgspec.Raw])
        _add_each(columns, first, each)
        return len(each)
    columns.add(first, events)
    return len(events)


def _add_each(columns: TraceColumns, first: int, entries: Sequence[msgspec.Raw]) -> None:
    try:
        columns.add(first, list(map(_event.decode, entries)))
    except msgspec.DecodeError:
        columns.add(first, [_one(at, entry, columns) for at, entry in enumerate(entries, first)])


def _devices(trace: Trace, columns: TraceColumns) -> Sequence[DeviceProperties]:
    try:
        return devices_in(trace.deviceProperties)
    except msgspec.DecodeError as error:
        columns.find("devices left out", f"deviceProperties is not a list of devices: {error}")
        return []


def _one(at: int, entry: msgspec.Raw, columns: TraceColumns) -> TraceEvent | PlainEvent:
    """Return one event of a block that can't be decoded as a whole, because the layout is another tool's or the text
    isn't UTF-8.
    """
    written = bytes(entry)
    replaced = written.decode("utf-8", "replace").encode()
    for decode in (_event.decode, _plain.decode):
        for content in (written,) if replaced == written else (written, replaced):
            with suppress(msgspec.DecodeError):
                event = decode(content)
                if content != written:
                    columns.find("no UTF-8", "bytes of names that aren't UTF-8 are shown as \N{REPLACEMENT CHARACTER}")
                if isinstance(event, PlainEvent):
                    columns.plain.add(at)
                return event
    columns.leave_out("no event's form")
    return NOTHING
