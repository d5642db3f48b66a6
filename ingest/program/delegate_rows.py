"""The rows of the tables `delegate_ops` and `delegate_values`, and functions that the readers of delegates' graphs
share.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from etq.errors import FormatError
from etq.ingest.arrow import batch, flags, integers, lists, numbers, texts
from etq.ingest.flatbuffers.reader import REFERENCE, Buffer, Tables, TableType

# The most ops or values that are read of a program. An op takes 20 bytes in a file, but 0.5 kB or more in memory.
MOST_OPS: Final = 200_000
MOST_VALUES: Final = 1_000_000
# The header of blobs: an identifier at byte 4, its length (u16), position and size of the graph (u32s).
_HEADER_LENGTH: Final = 30
GRAPH_AT: Final = 10


@dataclass
class OpRows:
    """The rows of `delegate_ops`, blob by blob."""

    blobs: list[int] = field(default_factory=list)
    indexes: list[int] = field(default_factory=list)
    ops: list[str] = field(default_factory=list)
    handles: list[int | None] = field(default_factory=list)
    inputs: list[list[int]] = field(default_factory=list)
    outputs: list[list[int]] = field(default_factory=list)
    parameters: list[str] = field(default_factory=list)

    def rows(self) -> pa.RecordBatch:
        """Return the table."""
        return batch(
            {
                "blob_offset": integers(self.blobs, np.int64),
                "op_index": integers(self.indexes),
                "op": texts(self.ops),
                "debug_handle": integers(self.handles),
                "inputs": _lists(self.inputs),
                "outputs": _lists(self.outputs),
                "parameters": texts(self.parameters),
            }
        )


@dataclass
class ValueRows:
    """The rows of `delegate_values`, blob by blob."""

    blobs: list[int] = field(default_factory=list)
    ids: list[int] = field(default_factory=list)
    dtypes: list[str] = field(default_factory=list)
    sizes: list[list[int]] = field(default_factory=list)
    constants: list[bool] = field(default_factory=list)
    inputs: list[bool] = field(default_factory=list)
    outputs: list[bool] = field(default_factory=list)

    def rows(self) -> pa.RecordBatch:
        """Return the table."""
        return batch(
            {
                "blob_offset": integers(self.blobs, np.int64),
                "value_id": integers(self.ids, np.int64),
                "dtype": texts(self.dtypes),
                "sizes": _lists(self.sizes),
                "is_constant": flags(np.array(self.constants, np.bool_)),
                "is_input": flags(np.array(self.inputs, np.bool_)),
                "is_output": flags(np.array(self.outputs, np.bool_)),
            }
        )


def graph_of(
    buffer: Buffer, start: int, size: int, header: bytes, identifiers: Sequence[bytes], type: TableType, backend: str
) -> Tables | None:
    """Return the root table of a blob's graph; None if the blob has none.

    Raises `FormatError` for a header or a reference that points outside of the blob.
    """
    part = _graph_part(buffer, start, size, header, identifiers, backend)
    if part is None:
        return None
    at = np.array([part.start], np.int64)
    return Tables(part, type, at + part.gather(at, REFERENCE, f"the reference to {backend}'s graph"))


def _graph_part(
    buffer: Buffer, start: int, size: int, header: bytes, identifiers: Sequence[bytes], backend: str
) -> Buffer | None:
    """Return the part of the file that is a blob's graph, with or without a header; None if the blob has none."""
    head = buffer.bytes[start : start + min(size, _HEADER_LENGTH)].tobytes()
    if head[4:8] in identifiers:
        return buffer.part(start, start + size)
    if head[4:8] != header or len(head) < _HEADER_LENGTH:
        return None
    at, length = (int.from_bytes(head[place : place + 4], "little") for place in (GRAPH_AT, GRAPH_AT + 4))
    if length < 8 or at + length > size:
        raise FormatError(
            buffer.path,
            f"by its header, {backend}'s graph has {length} bytes, from byte {at} of its blob of {size} bytes",
            start + GRAPH_AT,
        )
    part = buffer.part(start + at, start + at + length)
    found = part.bytes[part.start + 4 : part.start + 8].tobytes()
    return part if found in identifiers else None


def check_apart(tables: Tables, backend: str) -> None:
    """Raise `FormatError` for ops that share a table: a small hostile file could claim many ops."""
    ascending: npt.NDArray[Any] = np.sort(tables.positions)
    if (shared := ascending[1:][ascending[1:] == ascending[:-1]]).size:
        raise FormatError(
            tables.buffer.path, f"two ops of {backend}'s graph share a {tables.type.name}", int(shared[0])
        )


def check_few(tables: Tables, number: int, most: int, what: str, backend: str) -> None:
    """Raise `FormatError` for more ops or values than the limit."""
    if number > most:
        raise FormatError(
            tables.buffer.path,
            f"{backend}'s graphs have {number:,} {what} up to this one; etq reads at most {most:,} of a program",
            int(tables.positions[0]),
        )


def _lists(listed: Sequence[Sequence[int]]) -> pa.Array:
    counts = np.array([len(each) for each in listed], np.int64)
    return lists(numbers(np.array([value for each in listed for value in each], np.int64)), counts)
