"""Profiling files of any format, told by their first bytes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa

from etq.ingest.dumps import is_etdump
from etq.ingest.etdump import read_etdump
from etq.ingest.prof_result_blocks import is_prof_result

GZIP: Final = b"\x1f\x8b"
BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


def read_capture(data: Any, path: str, clock_bits: int | None = None) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Read a profiling file: (base table, rows) one after the other, without the key `capture_id`.

    `data` is the file's bytes (or a memory map of it), `path` its name for messages; `clock_bits` (32 or 64) is the
    width of the clock's counter where that is known. The table `captures` has one row, which names the format, and
    comes last.

    Raises `FormatError`, naming the byte, for files that are damaged, truncated or no profiling file at all.
    """
    # Readers other than ETDump's are imported where there is something for them to read.
    if is_etdump(data):
        return read_etdump(data, path, clock_bits)
    if is_json(data):
        from etq.ingest.torch_trace import read_torch_trace

        return read_torch_trace(data, path)
    if is_prof_result(data):
        from etq.ingest.prof_result import read_prof_result

        return read_prof_result(data, path, clock_bits)
    # It knows logs that hold dumps, and what else a file may be that was mistaken for one.
    return read_etdump(data, path, clock_bits)


def is_json(data: Any) -> bool:
    """Whether a file begins as JSON does, or as gzip, in which traces are packed."""
    start = bytes(data[:64])
    return start[:2] == GZIP or start.removeprefix(BYTE_ORDER_MARK).lstrip(b" \t\r\n")[:1] in (b"{", b"[")
