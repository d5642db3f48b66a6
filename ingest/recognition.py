"""The kind of a file in a folder, by its first bytes: profiling files may have any name.

This decides before reading which files of a folder are taken: those that begin like a profiling file, or have the name
of one.
"""

from __future__ import annotations

import re
import stat
import zlib
from pathlib import Path
from typing import Any, Final

from etq.errors import FormatError
from etq.ingest import stores
from etq.ingest.registry import FORMATS, GZIP, HEAD, is_json

# Reasons to leave out a file. Programs and records are among them, because profiling files are linked to these instead.
RECORD: Final = "ETRecord"
PROGRAM: Final = "program"
PACKED: Final = "damaged gzip file"
UNREADABLE: Final = "unreadable file"
OTHER: Final = "other file"
# The kinds of files, in words.
KINDS: Final = {
    "etdump": "an ETDump",
    "torch_trace": "a trace in JSON",
    "prof_result": "a prof_result file",
    RECORD: "a zip, perhaps an ETRecord",
    PROGRAM: "an ExecuTorch program (.pte)",
}
# Patterns for the rank and number of processes in PyTorch's traces, and for the rank in names of files.
_RANK_WRITTEN: Final = re.compile(rb'"distributedInfo"\s*:\s*\{[^{}]*?"rank"\s*:\s*(\d{1,7})\b')
_SIZE_WRITTEN: Final = re.compile(rb'"distributedInfo"\s*:\s*\{[^{}]*?"world_size"\s*:\s*(\d{1,7})\b')
_RANK_NAMED: Final = re.compile(r"(?<![a-z])rank[-_.]?(\d{1,6})(?!\d)", re.IGNORECASE)


def left_out(path: str) -> str | None:
    """Return why a folder's file is not read as a profiling file: one of the reasons above; None if it is read."""
    kind = kind_of(path)
    return None if kind in FORMATS else kind


def kind_of(path: str) -> str:
    """Return the format of a profiling file, by the ending of its name or its first bytes, or one of the reasons."""
    for name, each in FORMATS.items():
        if path.endswith(each.endings):
            return name
    try:
        return _kind_of(_head(path))
    except OSError:
        return UNREADABLE
    except zlib.error:
        return PACKED


def has_several_ranks(path: str) -> bool:
    """Whether a file begins as a trace of several ranks, which were merged."""
    try:
        head = _head(path)
    except (OSError, zlib.error):
        return False
    if not is_json(head):
        return False
    from etq.ingest.trace.ranks import begins_merged

    return begins_merged(head)


def rank_of(path: str) -> tuple[int, int | None] | None:
    """Return the rank of the process that wrote a trace, and the number of processes. They are taken from the file's
    beginning or its name; None if neither contains them, and for other files.
    """
    try:
        head = _head(path)
    except (OSError, zlib.error):
        return None
    if _kind_of(head) != "torch_trace":
        return None
    sizes = _SIZE_WRITTEN.search(head)
    size = None if sizes is None else int(sizes[1])
    if (written := _RANK_WRITTEN.search(head)) is not None:
        return int(written[1]), size
    named = _RANK_NAMED.search(Path(path).name)
    return None if named is None else (int(named[1]), size)


def kind_of_bytes(content: Any) -> str:
    """Return the format of a profiling file that begins with these bytes, or one of the reasons."""
    try:
        return _kind_of(_unpacked(bytes(content[:HEAD])))
    except zlib.error:
        return PACKED


def _kind_of(head: bytes) -> str:
    if head.startswith(b"PK\x03\x04"):
        return RECORD
    if b"ET12" in (head[4:8], head[8:12]):  # the first without, the second with a size prefix
        return PROGRAM
    return next((name for name, each in FORMATS.items() if each.begins(head)), OTHER)


def _head(path: str) -> bytes:
    """Return a file's first bytes, unpacked. Only regular files are opened, so no pipes."""
    if stores.is_address(path):
        return _unpacked(_head_in_store(path))
    if not stat.S_ISREG(Path(path).stat().st_mode):
        raise OSError("not a regular file")
    with Path(path).open("rb") as file:
        return _unpacked(file.read(HEAD))


def _head_in_store(address: str) -> bytes:
    try:
        with stores.opened(address) as file:
            return bytes(file.read(HEAD))
    except FormatError as error:
        raise OSError(str(error)) from error


def _unpacked(head: bytes) -> bytes:
    return zlib.decompressobj(wbits=31).decompress(head, HEAD) if head.startswith(GZIP) else head
