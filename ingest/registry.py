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
    """Whether a file begins as JSON does, or as gzip, in which traces are packed."""
    start = bytes(data[:64])
    return start[:2] == GZIP or start.removeprefix(BYTE_ORDER_MARK).lstrip(b" \t\r\n")[:1] in (b"{", b"[")


# Readers are imported where there is something for them to read.
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
class Format:
    """A format of profiling files."""

    is_of: Callable[[Any], bool]  # whether a file's bytes begin as it does
    read: Callable[[Any, str, int | None], Reading]
    endings: tuple[str, ...]  # endings of its files, for which folders are searched; the rest is the capture's name


FORMATS: Final = {
    "etdump": Format(is_etdump, _etdump, (".etdp",)),
    "torch_trace": Format(is_json, _torch_trace, (".pt.trace.json", ".pt.trace.json.gz")),
    "prof_result": Format(is_prof_result, _prof_result, (".prof_result.bin",)),
}


def read_capture(data: Any, path: str, clock_bits: int | None = None) -> Reading:
    """Read a profiling file: (base table, rows) one after the other, without the key `capture_id`.

    `data` is the file's bytes (or a memory map of it), `path` its name for messages; `clock_bits` (32 or 64) is the
    width of the clock's counter where that is known. The table `captures` has one row, which names the format, and
    comes last.

    Raises `FormatError`, naming the byte, for files that are damaged, truncated or no profiling file at all.
    """
    for each in FORMATS.values():
        if each.is_of(data):
            return each.read(data, path, clock_bits)
    # ETDump's reader recognizes logs that hold dumps, and other files that are mistaken for dumps.
    return _etdump(data, path, clock_bits)
