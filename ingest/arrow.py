"""Arrow arrays straight from numpy's memory, and from lists of Python values.

`pyarrow.array` and `to_numpy` look for pandas at their first call and import it where it is installed, which costs more
time than reading 100,000 texts. Arrays made from buffers don't, and copy nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any, Final, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

# The types for what 32-bit offsets can't reach.
LARGE: Final = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}


class LazyBatch:
    """Rows that are computed when they are read, as an Arrow stream; their schema is known before."""

    def __init__(self, schema: pa.Schema, make: Callable[[], pa.RecordBatch]) -> None:
        self.schema = schema
        self._make = make

    @cached_property
    def rows(self) -> pa.RecordBatch:
        """The rows, made at the first call."""
        return self._make()

    def __arrow_c_schema__(self) -> object:
        return self.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.rows.__arrow_c_stream__(requested_schema)


# The rows of a table.
Rows: TypeAlias = "pa.RecordBatch | LazyBatch"


def numbers(values: npt.NDArray[Any], is_null: npt.NDArray[np.bool_] | None = None) -> pa.Array:
    """An array of integers or floats of numpy's type, null where `is_null` is set."""
    values = np.ascontiguousarray(values)
    return pa.Array.from_buffers(
        pa.from_numpy_dtype(values.dtype), len(values), [_validity(is_null), pa.py_buffer(values)]
    )


def integers(values: Iterable[int | None], dtype: type[np.generic] = np.int32) -> pa.Array:
    """An array of integers, null for None."""
    listed = list(values)
    try:
        return numbers(np.array(listed, dtype))
    except TypeError:  # Some are None.
        return chosen(listed, np.arange(len(listed)), dtype)


def chosen(
    values: Sequence[int | None], codes: npt.NDArray[np.integer[Any]], dtype: type[np.generic] = np.int32
) -> pa.Array:
    """An array of integers, null for None: the value of each code."""
    filled = np.array([0 if value is None else value for value in values], dtype)
    is_null = np.array([value is None for value in values], np.bool_)
    return numbers(filled[codes], is_null[codes] if is_null.any() else None)


def flags(values: npt.NDArray[np.bool_]) -> pa.Array:
    """An array of booleans."""
    bits = np.packbits(values, bitorder="little")
    return pa.Array.from_buffers(pa.bool_(), len(values), [None, pa.py_buffer(bits)])


def texts(values: Sequence[str | None], *, is_large: bool = False) -> pa.Array:
    """An array of strings, null for None; with 64-bit offsets if `is_large`, or if 32 bits are not enough."""
    is_null = np.array([value is None for value in values], np.bool_)
    filled = ["" if value is None else value for value in values] if is_null.any() else cast(Sequence[str], values)
    content = "".join(filled).encode()
    lengths = np.fromiter(map(len, filled), np.int64, len(filled))
    if lengths.sum() != len(content):  # Not all is ASCII.
        lengths = np.fromiter((len(value.encode()) for value in filled), np.int64, len(filled))
    return _spelled(lengths, content, is_null, pa.string(), is_large)


def encoded(values: Sequence[str | None], codes: npt.NDArray[np.integer[Any]], *, is_large: bool = False) -> pa.Array:
    """An array of strings, null for None: the value of each code. Each text is stored once."""
    distinct = {value: number for number, value in enumerate(dict.fromkeys(values))}
    of_codes = np.array([distinct[value] for value in values], np.int32)
    is_null = np.array([value is None for value in values], np.bool_)
    indices = numbers(of_codes[codes], is_null[codes] if is_null.any() else None)
    return pa.DictionaryArray.from_arrays(indices, texts([value or "" for value in distinct], is_large=is_large))


def blobs(values: Sequence[bytes | None]) -> pa.Array:
    """An array of byte strings, null for None."""
    filled = [b"" if value is None else value for value in values]
    lengths = np.fromiter(map(len, filled), np.int64, len(filled))
    return _spelled(lengths, b"".join(filled), np.array([value is None for value in values], np.bool_), pa.binary())


def lists(values: pa.Array, counts: npt.NDArray[np.int64], is_null: npt.NDArray[np.bool_] | None = None) -> pa.Array:
    """An array of lists with `counts` values each, which are concatenated; null where `is_null` is set."""
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    buffers = [_validity(is_null), pa.py_buffer(offsets)]
    return pa.Array.from_buffers(pa.list_(values.type), len(counts), buffers, children=[values])


def as_numpy(values: pa.Array | pa.ChunkedArray, dtype: type[np.generic]) -> npt.NDArray[Any]:
    """The numbers of an array of that type, without nulls: as `to_numpy`, which looks for pandas, too."""
    chunks = values.chunks if isinstance(values, pa.ChunkedArray) else [values]
    parts = [np.frombuffer(each.buffers()[1], dtype, each.offset + len(each))[each.offset :] for each in chunks]
    return parts[0] if len(parts) == 1 else np.concatenate([*parts, np.zeros(0, dtype)])


def batch(columns: dict[str, pa.Array]) -> pa.RecordBatch:
    """A record batch of columns of one length."""
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
        LARGE[type] if is_large else type,
        len(lengths),
        [validity, pa.py_buffer(offsets), pa.py_buffer(content)],
    )


def _validity(is_null: npt.NDArray[np.bool_] | None) -> pa.Buffer | None:
    return None if is_null is None else pa.py_buffer(np.packbits(~is_null, bitorder="little"))
