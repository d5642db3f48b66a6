"""Strings of a FlatBuffer as Arrow arrays."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from etq.ingest.flatbuffers.reader import REFERENCE, Buffer, Positions, Spans


def string_views(buffer: Buffer, spans: Spans) -> pa.Array:
    """Return the strings as an Arrow string_view array over the file's bytes; only short strings are copied, into
    views.

    Absent strings are null. Callers must check that distinct values are UTF-8; it is not checked here.
    The layout of a view: https://arrow.apache.org/docs/format/Columnar.html#variable-size-binary-view-layout
    """
    # A view's offset has 32 bits, so it is counted from the first string: the file may be larger.
    base = int(spans.start.min(initial=np.iinfo(np.int64).max, where=spans.present)) if spans.present.any() else 0
    views = np.zeros((len(spans.start), 4), "<u4")
    views[:, 0] = spans.count
    _copy_bytes(buffer, spans, views[:, 1:2], np.flatnonzero(spans.count > 12), 4)
    _copy_bytes(buffer, spans, views[:, 1:], np.flatnonzero(spans.count <= 12), 12)
    long = spans.count > 12
    views[long, 3] = spans.start[long] - base
    validity = None if spans.present.all() else pa.py_buffer(np.packbits(spans.present, bitorder="little"))
    buffers = [validity, pa.py_buffer(views), pa.py_buffer(buffer.bytes[base:])]
    return pa.Array.from_buffers(pa.binary_view(), len(spans.start), buffers)


def _copy_bytes(buffer: Buffer, spans: Spans, into: npt.NDArray[np.uint32], rows: Positions, most: int) -> None:
    """Copy the first `most` bytes of the spans of `rows` into these rows of `into`, padded with zeros."""
    if not len(rows):
        return
    start, count = spans.start.take(rows), spans.count.take(rows)
    if most == 4 and count.min() >= 4:
        into[rows, 0] = buffer.gather(start, REFERENCE, "a string")
        return
    copied = np.zeros((len(rows), most), np.uint8)
    for place in range(min(most, int(count.max()))):
        has = count > place
        copied[has, place] = buffer.bytes.take(start[has] + place)
    into[rows] = copied.view("<u4")
