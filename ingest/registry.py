"""Profiling files of any format, identified by their first bytes."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, NamedTuple

import pyarrow as pa

from etq.errors import FormatError
from etq.ingest.etdump.containers import dumps_in_log, is_etdump, is_text
from etq.ingest.other_files import begins_timeline, is_packets, is_snapshot, is_timeline
from etq.ingest.prof_result.blocks import is_prof_result

GZIP: Final = b"\x1f\x8b"
BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
# How many bytes of a folder's file, unpacked if it is gzip, are examined.
HEAD: Final = 2**18

Reading = Iterator[tuple[str, pa.RecordBatch]]


class Given(NamedTuple):
    """What is known of a file besides its bytes.

    clock_bits  the width of the clock's counter, 32 or 64; None if it isn't known
    recorded    for a trace: bytes and names of the traces in which its graphs were captured
    assumed     for a trace: sizes that it lacks, see `assumptions`
    """

    clock_bits: int | None = None
    recorded: Sequence[tuple[Any, str]] = ()
    assumed: Mapping[str, str] = {}


NOTHING: Final = Given()


def is_json(data: Any) -> bool:
    """Whether a file begins as JSON does, or as gzip, which may contain a trace."""
    start = bytes(data[:64])
    return start[:2] == GZIP or start.removeprefix(BYTE_ORDER_MARK).lstrip(b" \t\r\n")[:1] in (b"{", b"[")


def _is_trace(data: Any) -> bool:
    return is_json(data) or is_packets(data) or is_snapshot(data)


def _begins_etdump(head: bytes) -> bool:
    """Whether a file begins like an ETDump, or like a log that may contain one."""
    return is_etdump(head) or (is_text(head) and not is_json(head) and bool(dumps_in_log(head, "a file's beginning")))


# Each reader is imported only when a file of its format is read.
def _etdump(data: Any, path: str, given: Given) -> Reading:
    from etq.ingest.etdump.reader import read_etdump

    return read_etdump(data, path, given.clock_bits)


def _torch_trace(data: Any, path: str, given: Given) -> Reading:
    from etq.ingest.trace.reader import read_torch_trace

    if is_snapshot(data):
        from etq.ingest.snapshot.reader import read_snapshot

        return read_snapshot(data, path)
    if is_timeline(data):
        from etq.ingest.snapshot.timeline import read_timeline

        return read_timeline(data, path)
    if is_packets(data):
        from etq.ingest.trace.perfetto import json_of

        data = json_of(data, path)
    _check_packed(data, path)
    return read_torch_trace(data, path, given.recorded, given.assumed)


def _check_packed(data: Any, path: str) -> None:
    """Raise `FormatError` for a gzipped ETDump or archive: only traces may be gzipped, because the profiler writes
    gzipped traces.
    """
    if bytes(data[:2]) == GZIP:
        with suppress(zlib.error):  # the file is damaged: the reader raises the error about it
            head = zlib.decompressobj(wbits=31).decompress(bytes(data[:HEAD]), HEAD)
            if is_etdump(head):
                raise FormatError(path, "an ETDump packed as gzip; unpack it first: gunzip FILE")
            if head[257:262] == b"ustar":
                raise FormatError(path, "an archive; unpack it first: tar xzf FILE")


def _begins_trace(head: bytes) -> bool:
    from etq.ingest.trace.beginning import begins_trace

    return (is_json(head) and begins_trace(head, len(head) < HEAD)) or is_snapshot(head) or begins_timeline(head)


def _prof_result(data: Any, path: str, given: Given) -> Reading:
    from etq.ingest.prof_result.reader import read_prof_result

    return read_prof_result(data, path, given.clock_bits)


class CaptureFormat(NamedTuple):
    """A format of profiling files."""

    is_of: Callable[[Any], bool]  # whether a file's bytes may begin a file of this format
    begins: Callable[[bytes], bool]  # whether a file's bytes certainly do; used for files of folders
    read: Callable[[Any, str, Given], Reading]
    endings: tuple[str, ...]  # file name endings that folder searches accept; a capture's name lacks them


FORMATS: Final = {
    "etdump": CaptureFormat(is_etdump, _begins_etdump, _etdump, (".etdp",)),
    "torch_trace": CaptureFormat(_is_trace, _begins_trace, _torch_trace, (".pt.trace.json", ".pt.trace.json.gz")),
    "prof_result": CaptureFormat(
        is_prof_result, partial(is_prof_result, is_sure=True), _prof_result, (".prof_result.bin",)
    ),
}


def read_capture(data: Any, path: str, given: Given = NOTHING) -> Reading:
    """Read a profiling file and yield pairs of base table and rows, without the key `capture_id`.

    `data` is the file's bytes (or a memory map of it), `path` its name for messages. The table `captures` has one row,
    which names the format.

    Raises `FormatError`, naming the byte, for files that are damaged, truncated or not a profiling file.
    """
    for name, each in FORMATS.items():
        if each.is_of(data):
            if name != "torch_trace" and (given.recorded or given.assumed):
                what = "a graph capture is" if given.recorded else "assumed sizes are"
                raise FormatError(path, f"not a PyTorch trace; {what} for traces only")
            return each.read(data, path, given)
    # ETDump's reader recognizes logs that contain dumps, and otherwise explains what the file is.
    return _etdump(data, path, given)
