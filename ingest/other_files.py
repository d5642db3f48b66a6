"""Recognises files that PyTorch and ExecuTorch write and etq doesn't read, and says what to give instead.

The forms are those of torch's sources: `torch/cuda/memory.py` and `torch/cuda/_memory_viz.py` (snapshots),
`torch/profiler/_memory_profiler.py` (pages of memory timelines),
`torch/csrc/profiler/standalone/execution_trace_observer.cpp`.
"""

from __future__ import annotations

import re
import sys
import zlib
from typing import Any, Final

# How many bytes of a file are examined.
HEAD: Final = 2**16

_REFUSED: Final = (
    "etq reads no other pickles, as reading one runs what its author put in it; record profile_memory=True and give "
    "the profiler's trace"
)
_SNAPSHOT_PAGE: Final = (
    "this is the page of a memory snapshot (torch.cuda._memory_viz); give the snapshot, as _dump_snapshot writes it"
)
# The beginning of a pickle, and how many of its bytes are examined.
_PICKLE: Final = re.compile(rb"\x80[\x02-\x05]")
_FIRST: Final = 2**12
# The bytes of a Perfetto trace: packets, of field 1, each after its length.
_PACKET: Final = 0x0A
# The beginning of a memory timeline: times in microseconds, or a change from before or within the recording.
_TIMELINE: Final = re.compile(rb"(?:\xef\xbb\xbf)?\s*\[\s*\[\s*(?:-?\d|\])")
_SURE_TIMELINE: Final = re.compile(
    rb"\s*\[\s*\[\s*(?:1\d{15}\s*[],]|(?:-1|1\d{18})\s*,\s*[1-4]\s*,\s*-?\d+\s*,\s*[0-7]\s*\])"
)
_CONTROL: Final = re.compile(rb"[\0-\x08\x0b\x0c\x0e-\x1f]")
_GZIP: Final = b"\x1f\x8b"
_JSON_TRACE: Final = "give the profiler's own file, as export_chrome_trace writes it (.pt.trace.json, .json.gz)"
# Kinds of files by the beginning of their text.
_FORMS: Final = (
    (_PICKLE, f"this is a pickle, but no memory snapshot of torch.cuda; {_REFUSED}"),
    (
        re.compile(rb'\{\s*"segments"\s*:\s*\[|\{[^\[]*"device_traces"\s*:\s*\['),
        "this is a memory snapshot of torch.cuda as JSON; give the snapshot, as _dump_snapshot writes it",
    ),
    (
        re.compile(rb'\{(?>[^\[]*?"schema"\s*:\s*"[\d.][^"]*")[^\[]*"nodes"\s*:\s*\['),
        "this is an execution trace (ExecutionTraceObserver), which has no times; give the profiler's trace",
    ),
)
_IS_PAGE: Final = re.compile(rb"\s*(?:<!--.*?-->\s*)*+<(?:!doctype html|html|script|head)\b", re.IGNORECASE | re.DOTALL)


def other_file(data: Any) -> str | None:
    """Return the kind of a file that etq doesn't read, and the file to give instead, as text; None for others."""
    if (packed := _binary(bytes(data[:HEAD]), len(data))) is not None:
        return packed
    head = bytes(data[:HEAD]).removeprefix(b"\xef\xbb\xbf").lstrip(b" \t\r\n")
    if _IS_PAGE.match(head):
        if b"MemoryViz.js" in head or b"add_local_files" in head:
            return _SNAPSHOT_PAGE
        if b"GPU Memory Timeline" in head:
            return (
                "this is the page of a memory timeline (export_memory_timeline), which is an image; "
                "export it as .raw.json.gz"
            )
        return "this is an HTML page, not a profiling file; give the file that the profiler wrote"
    return next((text for form, text in _FORMS if form.match(head)), None)


def _binary(head: bytes, size: int) -> str | None:
    """Return a text about a database, a bundled program or a file of Protocol Buffers; None for other files. `size`
    is the size of the file.
    """
    if head.startswith(b"SQLite format 3\0"):
        return (
            "this is an SQLite database, as rocprofv3 (rocpd) and Nsight Systems write, which has no ops; "
            f"record with torch.profiler and {_JSON_TRACE}"
        )
    if head[4:8] == b"BP08":
        return (
            "this is a bundled program (.bpte), a program with inputs to test it; give the .etdp of a run, and the "
            "program before it was bundled (.pte) as --pte"
        )
    if head[8:12] == b"DUCK":
        return "this is a DuckDB database, not a profiling file; name a warehouse with --db, or open it with etq.open"
    if _is_packets(head, size):
        return f"this is a trace of Protocol Buffers, as Perfetto (.pftrace, .perfetto-trace) and XPlane; {_JSON_TRACE}"
    return None


def is_packets(data: Any) -> bool:
    """Whether a file, perhaps gzipped, is a trace of Protocol Buffers."""
    head = bytes(data[:HEAD])
    if head[:2] != _GZIP:
        return _is_packets(head, len(data))
    try:
        return _is_packets(zlib.decompressobj(wbits=31).decompress(head, HEAD), sys.maxsize)
    except zlib.error:
        return False


def is_snapshot(data: Any) -> bool:
    """Whether a file begins like a memory snapshot of torch.cuda: a pickle of segments and traces of devices."""
    head = bytes(data[:_FIRST])
    return _PICKLE.match(head) is not None and (b"segments" in head or b"device_traces" in head)


def is_timeline(data: Any) -> bool:
    """Whether a file, perhaps gzipped, begins like a memory timeline of torch.profiler: with a list of numbers in a
    list.
    """
    head = bytes(data[:_FIRST])
    if head[:2] == _GZIP:
        try:
            head = zlib.decompressobj(wbits=31).decompress(head, _FIRST)
        except zlib.error:
            return False
    return _TIMELINE.match(head) is not None


def begins_timeline(head: bytes) -> bool:
    """Whether bytes certainly begin a memory timeline: with a change from before the recording, or a plausible recent
    time.
    """
    return _SURE_TIMELINE.match(head) is not None


def _is_packets(head: bytes, size: int) -> bool:
    """Whether the examined bytes are messages of field 1, and not a JSON text."""
    at = count = 0
    while at < len(head):
        length, shift, tag = 0, 0, head[at]
        at += 1
        while at < len(head) and shift < 64:
            byte = head[at]
            length, shift, at = length | (byte & 0x7F) << shift, shift + 7, at + 1
            if byte < 0x80:
                break
        if tag != _PACKET or (not length and count == 0) or at + length > size:
            return False
        at, count = at + length, count + 1
    return count > 0 and _CONTROL.search(head) is not None
