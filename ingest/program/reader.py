"""ExecuTorch programs (`.pte`): instructions, planned memory and data of a runtime.

A program is a FlatBuffers buffer, followed by segments with constants and delegates' blobs. The header states where the
segments start. The tables of all methods are read together, as columns. For constants and blobs, only position and size
are read, and the graphs in blobs of XNNPACK and Vulkan.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from etq.errors import FormatError
from etq.ingest.arrow import batch, integers, numbers, texts
from etq.ingest.dictionary import encode_strings
from etq.ingest.flatbuffers.reader import REFERENCE, Buffer, Positions, Spans, Tables
from etq.ingest.program import schema
from etq.ingest.program.delegate_graphs import delegate_graph_rows
from etq.ingest.program.instructions import instruction_rows
from etq.ingest.program.methods import Methods
from etq.ingest.program.values import value_rows

Batch = tuple[str, pa.RecordBatch]

# The header follows the reference to the root table and the identifier; a size prefix may precede them.
_HEADER_AT: Final = 8
_SIZE_PREFIX: Final = 4


def is_program(data: Any) -> bool:
    """Whether a file begins with an ExecuTorch program, size-prefixed or not."""
    return schema.IDENTIFIER in (bytes(data[4:8]), bytes(data[8:12]))


def read_program(data: Any, path: str) -> Iterator[Batch]:
    """Read a program and yield pairs of base table and rows.

    `data` is the file's bytes (or a memory map of it), `path` its name for messages. Rows lack the key `program_id`,
    which the warehouse assigns. The table `programs` has one row and comes first, with what the file states about
    itself.

    Raises `FormatError`, naming the byte, for files that are damaged, truncated or not a program.
    """
    if not is_program(data):
        raise FormatError(path, _what_it_is(data))
    parts = _parts(data, path)
    buffer = Buffer(data, path, parts.start, parts.end)
    at = np.array([parts.start], np.int64)
    root = Tables(buffer, schema.PROGRAM, at + buffer.gather(at, REFERENCE, "the reference to the root table"))
    yield "programs", _program_row(root, parts)
    methods = Methods(root)
    yield "methods", methods.rows()
    yield "instructions", instruction_rows(methods)
    yield "program_values", value_rows(methods)
    yield "planned_buffers", methods.planned_buffers()
    yield from _data_rows(root, methods, parts)


def _what_it_is(data: Any) -> str:
    head = bytes(data[:12])
    if len(data) == 0:
        return "the file is empty; copy or export it again"
    if head[4:8] == schema.BUNDLED_IDENTIFIER:
        return "this is a bundled program (.bpte, `BP08` at byte 4), not a program; give the .pte it was made of"
    if b"ED00" in (head[4:8], head[8:12]):
        return "this is an ETDump (`ED00`), not an ExecuTorch program; give the .pte that was run"
    if head.startswith(b"PK"):
        return "this is a zip, perhaps an ETRecord, not an ExecuTorch program; give the .pte"
    return f"not an ExecuTorch program: expected `ET12` at byte 4 or 8, found {head[4:8]!r} and {head[8:12]!r}"


@dataclass(frozen=True)
class _Parts:
    """The positions of a file's FlatBuffers part, bytes [start, end), and of its segments.

    `segment_bytes` is the total size of the segments as stated in the header, None if it isn't.
    """

    start: int
    end: int
    segments: int
    segments_end: int
    segment_bytes: int | None


def _parts(data: Any, path: str) -> _Parts:
    """Return the parts that the header and the size prefix describe, checked against the file's size."""
    size = len(data)
    start = 0 if bytes(data[4:8]) == schema.IDENTIFIER else _SIZE_PREFIX
    end = size if start == 0 else start + _unsigned(data, 0, 4)
    _check_reaches(path, end, size, "its size prefix", 0)
    at = start + _HEADER_AT
    if bytes(data[at : at + 4]) != schema.HEADER:
        return _Parts(start, end, end, size, None)
    length = _unsigned(data, at + 4, 4)
    if length < schema.HEADER_LENGTH or at + length > size:
        raise FormatError(
            path, f"not the header of a program: it has {length} bytes, the file ends at byte {size}", at + 4
        )
    end = start + _unsigned(data, at + 8, 8)
    _check_reaches(path, end, size, "its header, for the FlatBuffers part,", at + 8)
    segments = start + _unsigned(data, at + 16, 8)
    if segments == start:
        return _Parts(start, end, end, size, 0)
    if segments < end:
        raise FormatError(path, f"segments begin at byte {segments}, within the FlatBuffers part", at + 16)
    declared = _unsigned(data, at + 24, 8) if length >= schema.HEADER_LENGTH_WITH_SEGMENT_SIZE else None
    _check_reaches(path, segments + (declared or 0), size, "its header, for the segments,", at + 24)
    return _Parts(start, end, segments, size, declared)


def _unsigned(data: Any, at: int, width: int) -> int:
    return int.from_bytes(bytes(data[at : at + width]), "little")


def _check_reaches(path: str, end: int, size: int, what: str, at: int) -> None:
    if end > size:
        raise FormatError(path, f"the program is truncated: by {what} it ends at byte {end}, the file at {size}", at)


def _program_row(root: Tables, parts: _Parts) -> pa.RecordBatch:
    return batch(
        {
            "version": numbers(root.scalar("version").astype(np.int64)),
            "flatbuffer_bytes": integers([parts.end - parts.start], np.int64),
            "segment_bytes": integers([parts.segment_bytes], np.int64),
        }
    )


@dataclass(frozen=True)
class _Segment:
    """A segment: bytes [start, start + size) of the file."""

    start: int
    size: int


def _data_rows(root: Tables, methods: Methods, parts: _Parts) -> Iterator[Batch]:
    """Yield the tables about constants, delegates and segments, which refer to each other."""
    segments = _segments(root, parts)
    contents = ["other"] * len(segments)
    blobs = root.vector_of_tables("backend_delegate_data", schema.INLINE_DATA)[0].spans("data", 1)
    storage = root.vector_of_tables("constant_buffer", schema.BUFFER)[0].spans("storage", 1)
    _check_apart(
        root,
        np.concatenate([blobs.start, storage.start]).tolist(),
        np.concatenate([blobs.count, storage.count]).tolist(),
    )
    named = _named_data(root, segments, contents)
    delegates = _delegate_rows(methods, blobs, segments, contents)
    _subsegments(root, "mutable_data_segments", segments, contents, "mutable")
    yield "constant_buffers", _constant_rows(root, storage, segments, contents)
    yield "program_delegates", delegates
    columns = (delegates.column(name).to_pylist() for name in ("backend", "byte_offset", "blob_bytes"))
    yield from delegate_graph_rows(Buffer(root.buffer.bytes, root.buffer.path), zip(*columns, strict=True))
    yield "named_data", named
    yield (
        "segments",
        batch(
            {
                "segment_index": numbers(np.arange(len(segments), dtype=np.int32)),
                "content": texts(contents),
                "byte_offset": integers((segment.start for segment in segments), np.int64),
                "size_bytes": integers((segment.size for segment in segments), np.int64),
            }
        ),
    )


def _segments(root: Tables, parts: _Parts) -> list[_Segment]:
    found, _ = root.vector_of_tables("segments", schema.SEGMENT)
    segments = []
    places = zip(found.scalar("offset").tolist(), found.scalar("size").tolist(), found.positions.tolist(), strict=True)
    for offset, size, at in places:
        start = parts.segments + offset
        if start + size > parts.segments_end:
            raise FormatError(
                root.buffer.path,
                f"a segment of bytes {start} to {start + size}, the file ends at byte {parts.segments_end}; "
                "the file is damaged or truncated",
                at,
            )
        segments.append(_Segment(start, size))
    _check_apart(root, [segment.start for segment in segments], [segment.size for segment in segments])
    return segments


def _check_apart(root: Tables, starts: Sequence[int], sizes: Sequence[int]) -> None:
    """Raise `FormatError` for data ranges that partly overlap: the sum of their sizes could exceed the file's size."""
    end = 0
    for start, size in sorted({(start, size) for start, size in zip(starts, sizes, strict=True) if size}):
        if start < end:
            raise FormatError(
                root.buffer.path, f"data of {size} bytes begins within other data, which ends at byte {end}", start
            )
        end = start + size


def _segment(root: Tables, segments: list[_Segment], index: int, at: int, what: str) -> _Segment:
    if index >= len(segments):
        raise FormatError(root.buffer.path, f"{what} is in segment {index} of {len(segments)}", at)
    return segments[index]


def _named_data(root: Tables, segments: list[_Segment], contents: list[str]) -> pa.RecordBatch:
    found, _ = root.vector_of_tables("named_data", schema.NAMED_DATA)
    codes, keys = encode_strings(root.buffer, found.spans("key", 1), "NamedData.key")
    indexes = found.scalar("segment_index").tolist()
    for index, at in zip(indexes, found.positions.tolist(), strict=True):
        _segment(root, segments, index, at, "named data")
        contents[index] = "named"
    return batch({"key": texts([keys[code] or "" for code in codes.tolist()]), "segment_index": integers(indexes)})


def _delegate_rows(methods: Methods, blobs: Spans, segments: list[_Segment], contents: list[str]) -> pa.RecordBatch:
    """Return the table `program_delegates`. Blobs are in the FlatBuffers part, at `blobs`, or in segments."""
    delegates = methods.delegates
    references, owners = delegates.tables("processed", schema.DATA_REFERENCE)
    if len(owners) < len(delegates):
        missing = int(np.setdiff1d(np.arange(len(delegates)), owners)[0])
        raise FormatError(
            delegates.buffer.path, "a delegate has no BackendDelegate.processed", int(delegates.positions[missing])
        )
    locations, indexes = references.scalar("location").tolist(), references.scalar("index").tolist()
    offsets, sizes = [], []
    for location, index, at in zip(locations, indexes, references.positions.tolist(), strict=True):
        if location == schema.LOCATIONS.index("segment"):
            segment = _segment(delegates, segments, index, at, "a delegate's blob")
            contents[index] = "delegate"
        elif location == schema.LOCATIONS.index("inline") and index < len(blobs.start):
            segment = _Segment(int(blobs.start[index]), int(blobs.count[index]))
        else:
            raise FormatError(
                delegates.buffer.path,
                f"a delegate's blob is number {index} at location {location}; expected 0 (of {len(blobs.start)} "
                f"inline) or 1 (of {len(segments)} segments)",
                at,
            )
        offsets.append(segment.start)
        sizes.append(segment.size)
    codes, names = encode_strings(delegates.buffer, delegates.spans("id", 1), "BackendDelegate.id")
    return batch(
        {
            "method": methods.names_of(methods.delegate_counts),
            "delegate_index": numbers(methods.index_within(methods.delegate_counts)),
            "backend": texts([names[code] or "" for code in codes.tolist()]),
            "location": texts([schema.LOCATIONS[location] for location in locations]),
            "data_index": integers(indexes, np.int64),
            "byte_offset": integers(offsets, np.int64),
            "blob_bytes": integers(sizes, np.int64),
        }
    )


def _constant_rows(root: Tables, storage: Spans, segments: list[_Segment], contents: list[str]) -> pa.RecordBatch:
    """Return the table `constant_buffers`: constants of the FlatBuffers part, then those of a segment,
    if there is one.
    """
    inline = len(storage.start)
    starts: list[int | None] = [
        start if there else None for start, there in zip(storage.start.tolist(), storage.present.tolist(), strict=True)
    ]
    sizes = storage.count.tolist()
    for segment, offsets in _subsegments(root, "constant_segment", segments, contents, "constants"):
        starts += [segment.start + offset for offset in offsets]
        sizes += [following - offset for offset, following in zip(offsets, [*offsets[1:], segment.size], strict=True)]
    return batch(
        {
            "constant_index": integers([*range(inline), *range(len(starts) - inline)]),
            "location": texts(["inline"] * inline + ["segment"] * (len(starts) - inline)),
            "byte_offset": integers(starts, np.int64),
            "size_bytes": integers(sizes, np.int64),
        }
    )


def _subsegments(
    root: Tables, name: str, segments: list[_Segment], contents: list[str], content: str
) -> list[tuple[_Segment, list[int]]]:
    """Return the segments that field `name` divides, with the offsets in each segment. Sets the segments' content in
    `contents`.
    """
    if name == "constant_segment":
        found, _ = root.tables(name, schema.SUBSEGMENTS)
    else:
        found, _ = root.vector_of_tables(name, schema.SUBSEGMENTS)
    divided = []
    flat, counts = found.vector("offsets", "u64")
    ends: Positions = np.cumsum(counts)
    for number, at in enumerate(found.positions.tolist()):
        offsets = flat[ends[number] - counts[number] : ends[number]].tolist()
        if not offsets:
            continue
        index = int(found.scalar("segment_index")[number])
        segment = _segment(root, segments, index, at, f"data of {content}")
        if offsets != sorted(offsets) or offsets[-1] > segment.size:
            raise FormatError(
                root.buffer.path, f"offsets of {content} don't ascend within the {segment.size} bytes of a segment", at
            )
        contents[index] = content
        divided.append((segment, offsets))
    return divided
