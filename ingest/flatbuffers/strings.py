"""Strings of a FlatBuffer as Arrow arrays."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from etq.ingest.flatbuffers.reader import REFERENCE, Buffer, Positions, Spans

# A view has room for a string of at most this many bytes. For a longer string, the view has its first 4 bytes and its
# place.
_MOST_IN_VIEW: Final = 12


def string_views(buffer: Buffer, spans: Spans) -> pa.Array:
    """Return the strings [n] as an Arrow binary_view array over the file's bytes; strings of up to 12 bytes are copied
    into the views.

    Absent strings are null. Callers must check that the strings are UTF-8. The layout of a view:
    https://arrow.apache.org/docs/format/Columnar.html#variable-size-binary-view-layout
    """
    # A view's offset has 32 bits, but the file may be larger than that. So offsets are counted from the first string.
    base = int(spans.start.min(initial=np.iinfo(np.int64).max, where=spans.present)) if spans.present.any() else 0
    is_long = spans.count > _MOST_IN_VIEW
    views = np.zeros((len(spans.start), 4), "<u4")
    views[:, 0] = spans.count
    views[is_long, 1] = buffer.gather(spans.start[is_long], REFERENCE, "a string")
    views[is_long, 3] = spans.start[is_long] - base
    _copy_short_strings(buffer, spans, np.flatnonzero(~is_long), views)
    validity = None if spans.present.all() else pa.py_buffer(np.packbits(spans.present, bitorder="little"))
    buffers = [validity, pa.py_buffer(views), pa.py_buffer(buffer.bytes[base:])]
    return pa.Array.from_buffers(pa.binary_view(), len(spans.start), buffers)


def _copy_short_strings(buffer: Buffer, spans: Spans, rows: Positions, views: npt.NDArray[np.uint32]) -> None:
    """Copy the strings of `rows` into their views [n, 4], after the length; the rest of a view is zeros."""
    start, count = spans.start.take(rows), spans.count.take(rows)
    copied = np.zeros((len(rows), _MOST_IN_VIEW), np.uint8)
    for place in range(int(count.max(initial=0))):
        is_in_string = count > place
        copied[is_in_string, place] = buffer.bytes.take(start[is_in_string] + place)
    views[rows, 1:] = copied.view("<u4")
