"""Profiling files of every format: which one a file is, and its reader."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from etq.ingest.etdump import read_etdump


def read_capture(data: Any, path: str, clock_bits: int | None) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Read a profiling file, whose format its first bytes tell: (base table, rows), without the key `capture_id`.

    Raises `FormatError` for a file that can't be read or is of no known format.
    """
    if bytes(data[:2]) == b"\x1f\x8b" or bytes(data[:64]).lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"["):
        from etq.ingest.torch_trace import read_torch_trace

        return read_torch_trace(data, path)
    return read_etdump(data, path, clock_bits)
