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

    Blobs of other backends, and of other formats of XNNPACK and Vulkan, have no rows. A blob that delegates
    share is read once.

    Raises `FormatError`, naming the byte, for a graph that is damaged, and for graphs that are too large together.
    """
    ops, values = OpRows(), ValueRows()
    for backend, start, size in sorted(set(blobs)):
        if backend in _READERS:
            _READERS[backend](buffer, start, size, ops, values)
    yield "delegate_ops", ops.rows()
    yield "delegate_values", values.rows()
