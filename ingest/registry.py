"""Profiling files of any format, identified by their first bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from etq.ingest.etdump.containers import is_etdump
from etq.ingest.prof_result.blocks import is_prof_result

GZIP: Final = b"\x1f\x8b"
BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"

Reading = Iterator[tuple[str, pa.RecordBatch]]


def is_json(data: Any) -> bool:
    """Whether a file begins as JSON does, or as gzip, which may contain a trace."""
    start = bytes(data[:64])
    return start[:2] == GZIP or start.removeprefix(BYTE_ORDER_MARK).lstrip(b" \t\r\n")[:1] in (b"{", b"[")


# Each reader is imported only when a file of its format is read.
def _etdump(data: Any, path: str, clock_bits: int | None) -> Reading:
    from etq.ingest.etdump.reader import read_etdump

    return read_etdump(data, path, clock_bits)


def _torch_trace(data: Any, path: str, _: int | None) -> Reading:
    from etq.ingest.trace.reader import read_torch_trace

    return read_torch_trace(data, path)


def _prof_result(data: Any, path: str, clock_bits: int | None) -> Reading:
    from etq.ingest.prof_result.reader import read_prof_result

    return read_prof_result(data, path, clock_bits)


@dataclass(frozen=True)
class CaptureFormat:
    """A format of profiling files."""

    is_of: Callable[[Any], bool]  # whether a file's bytes begin as files of this format do
    read: Callable[[Any, str, int | None], Reading]
    endings: tuple[str, ...]  # file name endings that folder searches accept; a capture's name lacks them


FORMATS: Final = {
    "etdump": CaptureFormat(is_etdump, _etdump, (".etdp",)),
    "torch_trace": CaptureFormat(is_json, _torch_trace, (".pt.trace.json", ".pt.trace.json.gz")),
    "prof_result": CaptureFormat(is_prof_result, _prof_result, (".prof_result.bin",)),
}


def read_capture(data: Any, path: str, clock_bits: int | None = None) -> Reading:
    """Read a profiling file and yield pairs of base table and rows, without the key `capture_id`.

    `data` is the file's bytes (or a memory map of it), `path` its name for messages; `clock_bits` (32 or 64) is the
    width of the clock's counter, if known. The table `captures` has one row, which names the format.

    Raises `FormatError`, naming the byte, for files that are damaged, truncated or not a profiling file.
    """
    for each in FORMATS.values():
        if each.is_of(data):
            return each.read(data, path, clock_bits)
    # ETDump's reader recognizes logs that contain dumps, and explains what else a file may be.
    return _etdump(data, path, clock_bits)
