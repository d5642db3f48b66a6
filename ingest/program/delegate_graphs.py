"""The graphs in delegates' blobs, as rows of the tables `delegate_ops` and `delegate_values`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from etq.ingest.flatbuffers.reader import Buffer
from etq.ingest.program import vulkan, vulkan_schema, xnnpack, xnnpack_schema
from etq.ingest.program.delegate_rows import OpRows, ValueRows

_READERS = {xnnpack_schema.BACKEND: xnnpack.add_graph, vulkan_schema.BACKEND: vulkan.add_graph}


def delegate_graph_rows(buffer: Buffer, blobs: Iterable[tuple[str, int, int]]) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yield the tables `delegate_ops` and `delegate_values` of blobs: (backend, position, size) each.

    Only blobs in the known formats of XNNPACK and Vulkan have rows. A blob that several delegates share is read once.

    Raises `FormatError`, naming the byte, for a damaged graph, and for graphs whose total size is too large.
    """
    ops, values = OpRows(), ValueRows()
    for backend, start, size in sorted(set(blobs)):
        if backend in _READERS:
            _READERS[backend](buffer, start, size, ops, values)
    yield "delegate_ops", ops.rows()
    yield "delegate_values", values.rows()
