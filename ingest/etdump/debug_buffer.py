"""The debug buffer (`.bin`): the bytes of the tensors to which an ETDump's debug events refer.

`tensor_at` returns one tensor as an array, `tensors_at` several, with checks, and `with_elements` adds the buffer's
contents to rows of `debug_values`. If a tensor lies outside the buffer or has an impossible layout, its elements are
unknown (None).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from hashlib import sha256
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from etq.errors import FormatError
from etq.ingest.arrow import lists, numbers, texts

# numpy's types for those of c10. Quantised tensors are read as the integers they store; an element of a packed type is
# read as one byte, as the runtime counts it (`elementSize` in ExecuTorch's scalar_type_util.h).
_STORED: Final = {
    **{name: name for name in ("uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64")},
    **{name: name for name in ("complex64", "complex128", "bool", "uint16", "uint32", "uint64")},
    **{"qint8": "int8", "quint8": "uint8", "qint32": "int32", "complex32": "float16", "bfloat16": "uint16"},
    **dict.fromkeys(("quint4x2", "quint2x4", "bits1x8", "bits2x4", "bits4x2", "bits8"), "uint8"),
    **{"bits16": "uint16", "float8_e5m2": "uint8", "float8_e4m3fn": "uint8"},
    **{"float8_e5m2fnuz": "uint8", "float8_e4m3fnuz": "uint8"},
}
# Number of exponent bits, exponent bias, and kind of special values. The kind fnuz has no infinities, one zero and one
# NaN. Source: c10/util/Float8_*.h of PyTorch.
_FLOAT8: Final = {
    "float8_e5m2": (5, 15, "ieee"),
    "float8_e4m3fn": (4, 7, "fn"),
    "float8_e5m2fnuz": (5, 16, "fnuz"),
    "float8_e4m3fnuz": (4, 8, "fnuz"),
}
_MOST_DIMENSIONS: Final = 64
# A batch holds at most this many elements, unless a single tensor has more.
_ELEMENTS: Final = 4_000_000
# The tensors of one dump take at most the size of its buffer. A file may have several dumps, each with its own buffer;
# their tensors may claim more than the given buffer. Up to this many times its size is accepted.
_MOST_TIMES: Final = 16
_MOST_CLAIMED: Final = 2**24


def tensor_at(
    buffer: Any, scalar_type: str, sizes: Sequence[int], strides: Sequence[int], byte_offset: int
) -> npt.NDArray[Any] | None:
    """Return the tensor at `byte_offset`, of shape `sizes`, or None if the buffer doesn't contain it.

    The array has the tensor's type, except that bfloat16 and float8 become float32, complex32 becomes complex64, and
    quantised and packed types become the stored integers. `strides` count elements; if empty, the tensor is in
    row-major order.
    """
    stored = _STORED.get(scalar_type)
    if stored is None or len(sizes) > _MOST_DIMENSIONS or min(sizes, default=0) < 0:
        return None
    pair = 2 if scalar_type == "complex32" else 1
    item = np.dtype(stored).itemsize * pair
    count = math.prod(sizes)
    if count == 0:
        return _empty(scalar_type, sizes)
    steps = list(strides) if strides else _row_major(sizes)
    if len(steps) != len(sizes) or min(steps, default=0) < 0 or byte_offset < 0:
        return None
    # The runtime writes `count` elements; a layout that reaches beyond them is invalid.
    reach = sum((size - 1) * step for size, step in zip(sizes, steps, strict=True)) + 1
    if reach > count or byte_offset + count * item > len(buffer):
        return None
    array: npt.NDArray[Any] = np.ndarray(
        (*sizes, *((2,) if pair == 2 else ())),
        stored,
        memoryview(buffer),
        byte_offset,
        [step * item for step in steps] + ([np.dtype(stored).itemsize] if pair == 2 else []),
    )
    return _decoded(array, scalar_type)


def tensors_at(
    buffer: Any, places: Iterable[tuple[str, Sequence[int], Sequence[int], int | None]], path: str
) -> Iterator[npt.NDArray[Any] | None]:
    """Yield the tensor of each place, as `tensor_at` returns it.

    places  scalar type, sizes, strides and offset of each tensor; the offset is None where there is no tensor
    path    the buffer's file, for messages

    Raises `FormatError` if a tensor of type bool has a byte other than 0 and 1, because the buffer is then of another
    run. Also raises it if overlapping tensors exceed the buffer's size many times: the runtime never writes such dumps,
    but a small hostile ETDump could claim the whole buffer again and again.
    """
    claimed = 0
    most = max(_MOST_CLAIMED, _MOST_TIMES * len(buffer))
    for at, (scalar_type, sizes, strides, offset) in enumerate(places):
        array = None if offset is None else tensor_at(buffer, scalar_type, sizes, strides, offset)
        if array is not None and scalar_type == "bool" and (odd := int(array.view(np.uint8).max(initial=0))) > 1:
            what = f"the logged bool tensor at byte {offset:,} has the byte {odd}, which is neither 0 nor 1"
            raise FormatError(path, f"{what}: the debug buffer is of another run; give the one of this ETDump")
        claimed += 0 if array is None else array.nbytes
        if claimed > most:
            overlap = f"logged tensors overlap: the first {at + 1} take {claimed:,} bytes"
            raise FormatError(path, f"{overlap}, the debug buffer has {len(buffer):,}")
        yield array


def with_elements(rows: pa.RecordBatch, buffer: Any, path: str) -> Iterator[pa.RecordBatch]:
    """Return rows of `debug_values` with two further columns, in small batches.

    elements  the tensor's elements in row-major order as doubles, two for a complex element; null if unknown
    sha256    hash of the tensor's own bytes in row-major order; null if unknown

    Errors are those of `tensors_at`.
    """
    columns = [rows.column(name).to_pylist() for name in ("scalar_type", "sizes", "strides", "byte_offset")]
    found: list[npt.NDArray[np.float64] | None] = []
    hashes: list[str | None] = []
    begin = held = 0
    for at, array in enumerate(tensors_at(buffer, zip(*columns, strict=True), path)):
        if array is not None and found and held + array.size > _ELEMENTS:
            yield _joined(rows.slice(begin, at - begin), found, hashes)
            found, hashes, begin, held = [], [], at, 0
        found.append(None if array is None else doubles(array))
        hashes.append(None if array is None else bytes_hash(array))
        held += 0 if array is None else array.size
    if found:
        yield _joined(rows.slice(begin), found, hashes)


def _joined(
    rows: pa.RecordBatch, found: list[npt.NDArray[np.float64] | None], hashes: list[str | None]
) -> pa.RecordBatch:
    counts = np.array([0 if each is None else each.size for each in found], np.int64)
    flat = np.concatenate([each for each in found if each is not None] or [np.zeros(0)])
    is_null = np.array([each is None for each in found], np.bool_)
    elements = lists(numbers(flat), counts, is_null if is_null.any() else None)
    names = [*rows.schema.names, "elements", "sha256"]
    return pa.RecordBatch.from_arrays([*rows.columns, elements, texts(hashes)], names)


def _row_major(sizes: Sequence[int]) -> list[int]:
    return [math.prod(sizes[at + 1 :]) for at in range(len(sizes))]


def _empty(scalar_type: str, sizes: Sequence[int]) -> npt.NDArray[Any] | None:
    decoded = _decoded(np.zeros((0, *((2,) if scalar_type == "complex32" else ())), _STORED[scalar_type]), scalar_type)
    try:
        return decoded.reshape(tuple(sizes))
    except ValueError:  # with a size of 0, numpy's product of the other sizes could overflow
        return None


def _decoded(array: npt.NDArray[Any], scalar_type: str) -> npt.NDArray[Any]:
    if scalar_type == "bfloat16":  # bfloat16 is the upper half of a float32
        return (array.astype(np.uint32) << 16).view(np.float32)
    if scalar_type == "complex32":
        pairs: npt.NDArray[Any] = np.ascontiguousarray(_single(array)).view(np.complex64)
        return pairs[..., 0]
    if scalar_type in _FLOAT8:
        values: npt.NDArray[Any] = _float8_values(scalar_type)[array]
        return values
    return array


def bytes_hash(array: npt.NDArray[Any]) -> str:
    """SHA-256 of an array's bytes in row-major order."""
    return sha256(np.ascontiguousarray(array).tobytes()).hexdigest()


def _single(array: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    with np.errstate(invalid="ignore"):  # signalling NaNs, see `doubles`
        return array.astype(np.float32)


def doubles(array: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return the elements of an array in row-major order as doubles; a complex element becomes two."""
    # numpy would warn about signalling NaNs in a buffer.
    with np.errstate(invalid="ignore"):
        if np.iscomplexobj(array):
            return np.ascontiguousarray(array.astype(np.complex128)).reshape(-1).view(np.float64)
        return np.ascontiguousarray(array, np.float64).reshape(-1)


@cache
def _float8_values(scalar_type: str) -> npt.NDArray[np.float32]:
    """Return a table of 256 entries: the value of each byte of that float8 type."""
    exponent_bits, bias, kind = _FLOAT8[scalar_type]
    mantissa_bits = 7 - exponent_bits
    code = np.arange(256)
    sign = np.where(code & 0x80, -1.0, 1.0)
    exponent = (code & 0x7F) >> mantissa_bits
    mantissa = (code & ((1 << mantissa_bits) - 1)) / (1 << mantissa_bits)
    value = sign * np.where(exponent == 0, mantissa * 2.0 ** (1 - bias), (1 + mantissa) * 2.0 ** (exponent - bias))
    top = exponent == (1 << exponent_bits) - 1
    if kind == "ieee":
        value = np.where(top, np.where(mantissa == 0, sign * np.inf, np.nan), value)
    elif kind == "fn":
        value = np.where((code & 0x7F) == 0x7F, np.nan, value)
    else:
        value = np.where(code == 0x80, np.nan, value)
    return value.astype(np.float32)
