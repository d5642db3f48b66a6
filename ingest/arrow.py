"""Arrow arrays made from numpy's memory without a copy, and from lists of Python values.

`pyarrow.array` and `to_numpy` look for pandas at their first call and import it if it is installed, which takes longer
than reading 100,000 texts. Arrays that are made from buffers avoid both the import and the copy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any, Final, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

# The types with 64-bit offsets, for data that 32-bit offsets can't address.
LARGE: Final = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}


class LazyBatch:
    """Rows that are computed when they are first read, as an Arrow stream; their schema is known from the start."""

    def __init__(self, schema: pa.Schema, make: Callable[[], pa.RecordBatch]) -> None:
        self.schema = schema
        self._make = make

    @cached_property
    def rows(self) -> pa.RecordBatch:
        """The rows, computed at the first call."""
        return self._make()

    def __arrow_c_schema__(self) -> object:
        return self.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.rows.__arrow_c_stream__(requested_schema)


# The rows of a table: computed already, or when they are first read.
Rows: TypeAlias = "pa.RecordBatch | LazyBatch"


def numbers(values: npt.NDArray[Any], is_null: npt.NDArray[np.bool_] | None = None) -> pa.Array:
    """Return an array of integers or floats with numpy's type, null where `is_null` is true."""
    values = np.ascontiguousarray(values)
    return pa.Array.from_buffers(
        pa.from_numpy_dtype(values.dtype), len(values), [_validity(is_null), pa.py_buffer(values)]
    )


def integers(values: Iterable[int | None], dtype: type[np.generic] = np.int32) -> pa.Array:
    """Return an array of integers; None becomes null."""
    listed = list(values)
    try:
        return numbers(np.array(listed, dtype))
    except TypeError:  # some are None
        return chosen(listed, np.arange(len(listed)), dtype)


def chosen(
    values: Sequence[int | None], codes: npt.NDArray[np.integer[Any]], dtype: type[np.generic] = np.int32
) -> pa.Array:
    """Return an array of integers: for each code, the entry of `values` at that index; None becomes null."""
    filled = np.array([0 if value is None else value for value in values], dtype)
    is_null = np.array([value is None for value in values], np.bool_)
    return numbers(filled[codes], is_null[codes] if is_null.any() else None)


def flags(
    values: npt.NDArray[np.bool_] | Sequence[bool | None], is_null: npt.NDArray[np.bool_] | None = None
) -> pa.Array:
    """Return an array of booleans; null for None, and where `is_null` is true."""
    bits = np.packbits(np.array(values, np.bool_), bitorder="little")
    if not isinstance(values, np.ndarray) or values.dtype != np.bool_:
        is_null = np.array([value is None for value in values], np.bool_)
    return pa.Array.from_buffers(pa.bool_(), len(values), [_validity(is_null), pa.py_buffer(bits)])


def texts(values: Sequence[str | None], *, is_large: bool = False) -> pa.Array:
    """Return an array of strings; None becomes null. Offsets have 64 bits if `is_large`,
    or if 32 bits are not enough.
    """
    is_null = np.array([value is None for value in values], np.bool_)
    filled = ["" if value is None else value for value in values] if is_null.any() else cast(Sequence[str], values)
    content = "".join(filled).encode()
    lengths = np.fromiter(map(len, filled), np.int64, len(filled))
    if lengths.sum() != len(content):  # some characters are not ASCII
        lengths = np.fromiter((len(value.encode()) for value in filled), np.int64, len(filled))
    return _spelled(lengths, content, is_null, pa.string(), is_large)


def encoded(values: Sequence[str | None], codes: npt.NDArray[np.integer[Any]], *, is_large: bool = False) -> pa.Array:
    """Return an array of strings: for each code, the entry of `values` at that index; each text is stored once.
    None becomes null.
    """
    distinct = {value: number for number, value in enumerate(dict.fromkeys(values))}
    of_codes = np.array([distinct[value] for value in values], np.int32)
    is_null = np.array([value is None for value in values], np.bool_)
    indices = numbers(of_codes[codes], is_null[codes] if is_null.any() else None)
    return pa.DictionaryArray.from_arrays(indices, texts([value or "" for value in distinct], is_large=is_large))


def blobs(values: Sequence[bytes | None]) -> pa.Array:
    """Return an array of byte strings; None becomes null."""
    filled = [b"" if value is None else value for value in values]
    lengths = np.fromiter(map(len, filled), np.int64, len(filled))
    return _spelled(lengths, b"".join(filled), np.array([value is None for value in values], np.bool_), pa.binary())


def lists(values: pa.Array, counts: npt.NDArray[np.int64], is_null: npt.NDArray[np.bool_] | None = None) -> pa.Array:
    """Return an array of lists. `values` holds the elements of all lists, one list after the other; `counts` holds the
    length of each list. A list is null where `is_null` is true.
    """
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    buffers = [_validity(is_null), pa.py_buffer(offsets)]
    return pa.Array.from_buffers(pa.list_(values.type), len(counts), buffers, children=[values])


def as_numpy(values: pa.Array | pa.ChunkedArray, dtype: type[np.generic]) -> npt.NDArray[Any]:
    """Return the numbers of an array of type `dtype` that has no nulls. Unlike `to_numpy`, this doesn't look for
    pandas.
    """
    chunks = values.chunks if isinstance(values, pa.ChunkedArray) else [values]
    parts = [np.frombuffer(chunk.buffers()[1], dtype, chunk.offset + len(chunk))[chunk.offset :] for chunk in chunks]
    return parts[0] if len(parts) == 1 else np.concatenate([*parts, np.zeros(0, dtype)])


def filled(values: pa.Array, missing: int) -> npt.NDArray[np.int64]:
    """Return the integers of an array as 64-bit integers; null becomes `missing`."""
    found = as_numpy(values, np.dtype(str(values.type)).type).astype(np.int64)
    if (validity := values.buffers()[0]) is not None:
        bits = np.unpackbits(np.frombuffer(validity, np.uint8), count=len(values), bitorder="little")
        found[bits == 0] = missing
    return found


def batch(columns: dict[str, pa.Array]) -> pa.RecordBatch:
    """Return a record batch of columns of equal length."""
    return pa.RecordBatch.from_arrays(list(columns.values()), list(columns))


def _spelled(
    lengths: npt.NDArray[np.int64],
    content: bytes,
    is_null: npt.NDArray[np.bool_],
    type: pa.DataType,
    is_large: bool = False,
) -> pa.Array:
    is_large = is_large or len(content) >= 2**31
    offsets = np.zeros(len(lengths) + 1, np.int64 if is_large else np.int32)
    np.cumsum(lengths, out=offsets[1:])
    validity = _validity(is_null if is_null.any() else None)
    return pa.Array.from_buffers(
        LARGE[type] if is_large else type, len(lengths), [validity, pa.py_buffer(offsets), pa.py_buffer(content)]
    )


def _validity(is_null: npt.NDArray[np.bool_] | None) -> pa.Buffer | None:
    return None if is_null is None else pa.py_buffer(np.packbits(~is_null, bitorder="little"))
