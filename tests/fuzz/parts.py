"""Traces read in parts of a few hundred bytes, so that those of small files end anywhere."""

from __future__ import annotations

import math
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random
from typing import Any, Final
from unittest.mock import patch

from etq.errors import FormatError
from etq.ingest.arrow import LazyBatch
from etq.ingest.registry import read_capture
from etq.ingest.trace import blocks, text
from etq.storage import sources

Tables = dict[str, list[dict[str, Any]]]
# Kinds whose files are read in parts from the disk, and also whole for comparison.
KIND: Final = "parts"


@contextmanager
def small_parts(content: bytes) -> Iterator[None]:
    """Read every file in parts within this block; their sizes depend on the content."""
    random = Random(zlib.crc32(content))
    sizes = {
        (text, "_PART"): random.choice((100, 333, 1000, 2**14)),
        (text, "PACKED"): random.choice((64, 500, 2**12)),
        (blocks, "_BLOCK"): random.choice((50, 300, 2000)),
        (blocks, "_CHUNK"): random.choice((200, 1500, 2**14)),
        (sources, "SMALL"): 0,
    }
    with ExitStack() as patches:
        for (module, name), size in sizes.items():
            patches.enter_context(patch.object(module, name, size))
        yield


@contextmanager
def on_disk(content: bytes) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file.json"
        path.write_bytes(content)
        yield path


def tables_in_parts(content: bytes) -> Iterator[tuple[str, Any]]:
    """Yield the tables of a file that is read from the disk in small parts."""
    with on_disk(content) as path, small_parts(content):
        yield from read_capture(sources.source_of(path).content, "file")


def difference_of_parts(content: bytes) -> str | None:
    """Return how a file read in parts differs from the same file read whole; None if it does not."""
    parts, whole = _read(tables_in_parts(content)), _read(read_capture(content, "file"))
    if isinstance(parts, str) or isinstance(whole, str):
        is_same = isinstance(parts, str) and isinstance(whole, str)
        return None if is_same else f"in parts {_told(parts)}, whole {_told(whole)}"
    if parts.keys() != whole.keys():
        return f"in parts tables {sorted(parts)}, whole {sorted(whole)}"
    for name, rows in whole.items():
        for at, (part, row) in enumerate(zip(parts[name], rows, strict=False)):
            if not _is_same(part, row):
                return f"row {at} of {name} in parts is {str(part)[:200]}, whole {str(row)[:200]}"
        if len(parts[name]) != len(rows):
            return f"{name} has {len(parts[name])} rows in parts, {len(rows)} whole"
    return None


def _told(read: Tables | str) -> str:
    return read[:200] if isinstance(read, str) else "it is read"


def _read(reading: Iterator[tuple[str, Any]]) -> Tables | str:
    """Return the rows of all tables, or why the file is refused."""
    tables: Tables = {}
    try:
        for name, rows in reading:
            tables.setdefault(name, []).extend((rows.rows if isinstance(rows, LazyBatch) else rows).to_pylist())
    except FormatError as error:
        return str(error)
    return tables


def _is_same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return one == other or (math.isnan(one) and math.isnan(other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_is_same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_is_same, one, other))
    return type(one) is type(other) and bool(one == other)
