"""Arrow arrays straight from numpy's memory, and from lists of Python values.

`pyarrow.array` looks for pandas at its first call and imports it where it is installed, which costs more time than
reading a small file. Arrays made from buffers don't, and copy nothing. Of long lists it takes a tenth of the time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

# From how many values on finding pandas costs less than it saves.
LONG: Final = 50_000


def numbers(values: npt.NDArray[Any], is_null: npt.NDArray[np.bool_] | None = None) -> pa.Array:
    """An array of integers or floats of numpy's type, null where `is_null` is set."""
    values = np.ascontiguousarray(values)
    return pa.Array.from_buffers(
        pa.from_numpy_dtype(values.dtype), len(values), [_validity(is_null), pa.py_buffer(values)]
    )


def integers(values: Iterable[int | None], dtype: type[np.generic] = np.int32) -> pa.Array:
    """An array of integers, null for None."""
    listed = list(values)
    if len(listed) >= LONG:
        return pa.array(listed, pa.from_numpy_dtype(np.dtype(dtype)))
    filled = np.array([0 if value is None else value for value in listed], dtype)
    is_null = np.array([value is None for value in listed], np.bool_)
    return numbers(filled, is_null if is_null.any() else None)


def flags(values: npt.NDArray[np.bool_]) -> pa.Array:
    """An array of booleans."""
    bits = np.packbits(values, bitorder="little")
    return pa.Array.from_buffers(pa.bool_(), len(values), [None, pa.py_buffer(bits)])


def texts(values: Sequence[str | None]) -> pa.Array:
    """An array of strings, null for None."""
    if len(values) >= LONG:
        return pa.array(values, pa.string())
    return _spelled([None if value is None else value.encode() for value in values], pa.string())


def blobs(values: Sequence[bytes | None]) -> pa.Array:
    """An array of byte strings, null for None."""
    return _spelled(values, pa.binary())


def lists(values: pa.Array, counts: npt.NDArray[np.int64], is_null: npt.NDArray[np.bool_] | None = None) -> pa.Array:
    """An array of lists: `counts` of the values each, one list after the other; null where `is_null` is set."""
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    buffers = [_validity(is_null), pa.py_buffer(offsets)]
    return pa.Array.from_buffers(pa.list_(values.type), len(counts), buffers, children=[values])


def batch(columns: dict[str, pa.Array]) -> pa.RecordBatch:
    """A record batch of columns of one length."""
    return pa.RecordBatch.from_arrays(list(columns.values()), list(columns))


def _spelled(values: Sequence[bytes | None], type: pa.DataType) -> pa.Array:
    offsets = np.zeros(len(values) + 1, np.int32)
    np.cumsum([0 if value is None else len(value) for value in values], out=offsets[1:])
    is_null = np.array([value is None for value in values], np.bool_)
    content = b"".join(value for value in values if value is not None)
    return pa.Array.from_buffers(
        type,
        len(values),
        [_validity(is_null if is_null.any() else None), pa.py_buffer(offsets), pa.py_buffer(content)],
    )


def _validity(is_null: npt.NDArray[np.bool_] | None) -> pa.Buffer | None:
    return None if is_null is None else pa.py_buffer(np.packbits(~is_null, bitorder="little"))
