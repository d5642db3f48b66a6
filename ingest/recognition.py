"""What a file of a folder is, by its first bytes: profiling files have any name.

Unlike a reader, which explains what it can't read, this decides what a folder's files are before anything is read: only
what begins like a profiling file, or has the name of one, is taken.
"""

from __future__ import annotations

import re
import stat
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from etq.ingest.etdump.containers import dumps_in_log, is_etdump, is_text
from etq.ingest.prof_result.blocks import is_prof_result
from etq.ingest.registry import FORMATS, GZIP, is_json

# How many bytes of a file, or of what a gzip file unpacks to, are looked at.
HEAD: Final = 2**18
# Why a file is left out. Programs and records are what profiling files are linked to.
RECORD: Final = "ETRecord"
PROGRAM: Final = "program"
PACKED: Final = "damaged gzip file"
UNREADABLE: Final = "unreadable file"
OTHER: Final = "other file"

_TOKEN: Final = re.compile(rb'"(?:[^"\\]|\\.)*"(\s*:)?|[\[\]{}]', re.DOTALL)
_EVENT: Final = re.compile(rb'\[\s*\{[^\[]*"ph"\s*:\s*"\w"')
_EVENTS_KEY: Final = b'"traceEvents"'
# What PyTorch writes before the events, which may be longer than what is looked at.
_FIRST_KEYS: Final = {b'"schemaVersion"', b'"deviceProperties"', b'"distributedInfo"'}


def left_out(path: str) -> str | None:
    """Return why a folder's file is not read as a profiling file: one of the reasons above; None if it is read."""
    if path.endswith(tuple(ending for each in FORMATS.values() for ending in each.endings)):
        return None
    try:
        head = _head(path)
    except OSError:
        return UNREADABLE
    except zlib.error:
        return PACKED
    if head.startswith(b"PK\x03\x04"):
        return RECORD
    if head[4:8] == b"ET12":
        return PROGRAM
    return None if any(begins(head) for begins in BEGINNINGS.values()) else OTHER


def _head(path: str) -> bytes:
    """Return a file's first bytes, unpacked. What isn't a regular file, such as a pipe, is not opened."""
    if not stat.S_ISREG(Path(path).stat().st_mode):
        raise OSError("not a regular file")
    with Path(path).open("rb") as file:
        head = file.read(HEAD)
    return zlib.decompressobj(wbits=31).decompress(head, HEAD) if head.startswith(GZIP) else head


def _is_etdump(head: bytes) -> bool:
    """Whether a file begins as an ETDump, or as a log that has one."""
    return is_etdump(head) or (is_text(head) and not is_json(head) and bool(dumps_in_log(head, "a file's beginning")))


def _is_trace(head: bytes) -> bool:
    """Whether a file begins as a trace: as JSON of an object with events, or of a list of events."""
    if not is_json(head):
        return False
    depth, keys = 0, set()
    for match in _TOKEN.finditer(head):
        token = match[0][:1]
        if token != b'"':
            depth += 1 if token in b"[{" else -1
            if token == b"[" and depth == 1:
                return _EVENT.match(head, match.start()) is not None
        elif depth == 1 and match[1] is not None:
            keys.add(match[0][: -len(match[1])])
            if _EVENTS_KEY in keys:
                return True
    return len(head) == HEAD and bool(keys & _FIRST_KEYS)


# By format: whether a file of a folder surely begins so.
BEGINNINGS: Final[dict[str, Callable[[bytes], bool]]] = {
    "etdump": _is_etdump,
    "torch_trace": _is_trace,
    "prof_result": partial(is_prof_result, is_sure=True),
}
