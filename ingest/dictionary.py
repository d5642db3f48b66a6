"""Exact dictionary encoding: equal strings, or equal rows of integers, get equal small numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from etq.errors import FormatError
from etq.ingest.arrow import as_numpy, numbers
from etq.ingest.flatbuffers.reader import Buffer, Spans
from etq.ingest.flatbuffers.strings import string_views

Codes = npt.NDArray[np.int64]

# Up to this many strings are sorted by numpy, which is faster than importing Arrow's hashing.
FEW: Final = 16384
# Texts up to this length are padded to equal length and sorted by numpy; longer texts go to Arrow, which doesn't pad.
LONG: Final = 256
# If the product of the columns' ranges is at most this, a row fits into one signed 64-bit key.
LARGEST_KEY: Final = 2**62


def encode_strings(buffer: Buffer, spans: Spans, what: str) -> tuple[Codes, list[str | None]]:
    """Return a code for each string, and the string of each code: UTF-8 text, or None for an absent string.

    Raises `FormatError` if one of the distinct strings is not UTF-8.
    """
    if not spans.present.any():
        return np.zeros(len(spans.start), np.int64), [None]
    if spans.total() > buffer.end - buffer.start:
        return _encode_shared(buffer, spans, what)
    if len(spans.start) <= FEW:
        codes, first = _encode_few(buffer, spans)
    else:
        codes, distinct = _encode(string_views(buffer, spans))
        first = _first_rows(codes, distinct)
    if (size := int(spans.count[first].sum())) > buffer.end - buffer.start:
        raise FormatError(buffer.path, f"the texts of {what} overlap: distinct texts have {size:,} bytes")
    return codes, [
        buffer.text(int(spans.start[at]), int(spans.count[at]), what) if spans.present[at] else None for at in first
    ]


def _encode_shared(buffer: Buffer, spans: Spans, what: str) -> tuple[Codes, list[str | None]]:
    """Do the same as `encode_strings` for strings that share their bytes.

    Each text is read only once, because a small hostile file may refer to a long text many times.
    """
    _, first, which = np.unique(spans.start, return_index=True, return_inverse=True)
    each = Spans(spans.start[first], spans.count[first], spans.present[first])
    if (size := each.total()) > buffer.end - buffer.start:
        raise FormatError(buffer.path, f"the texts of {what} overlap: distinct texts have {size:,} bytes")
    codes, texts = encode_strings(buffer, each, what)
    return codes[which], texts


def encode_rows(columns: Sequence[npt.NDArray[Any]]) -> tuple[Codes, npt.NDArray[np.int64]]:
    """Return a code for each row of integer columns of equal length, and for each code the first row that has it.

    Columns may have any integer type; u64 values are compared by their bits.
    """
    key = np.zeros(len(columns[0]), np.int64)
    size = 1
    for column in columns:
        values = column.astype(np.int64, copy=False)
        low, high = (int(values.min()), int(values.max())) if len(values) else (0, 0)
        if low == high:
            continue
        if high - low >= LARGEST_KEY:
            values, low, high = _renumber(values)
        if size * (high - low + 1) > LARGEST_KEY:
            key, _, high_key = _renumber(key)
            size = high_key + 1
        if size * (high - low + 1) > LARGEST_KEY:
            values, low, high = _renumber(values)
        key = key * (high - low + 1) + (values - low)
        size *= high - low + 1
    if len(key) <= FEW:
        _, first, codes = np.unique(key, return_index=True, return_inverse=True)
        return codes, first
    codes, distinct = _encode(numbers(key))
    return codes, _first_rows(codes, distinct)


def _renumber(values: Codes) -> tuple[Codes, int, int]:
    distinct, codes = np.unique(values, return_inverse=True)
    return codes, 0, max(len(distinct) - 1, 0)


def _encode_few(buffer: Buffer, spans: Spans) -> tuple[Codes, Codes]:
    """Return codes, and the first row of each code. Texts are sorted as rows of bytes, each preceded by the text's
    length.
    """
    if int(spans.count.max(initial=0)) > LONG:
        codes, distinct = _encode(string_views(buffer, spans))
        return codes, _first_rows(codes, distinct)
    width = int(spans.count.max(initial=0))
    # The length distinguishes a text from one followed by zeros, and an absent one (-1) from an empty one.
    rows = np.zeros((len(spans.start), width + 4), np.uint8)
    rows[:, :4] = np.where(spans.present, spans.count, -1).astype("<i4")[:, None].view(np.uint8)
    places = np.arange(width)
    inside = places < spans.count[:, None]
    rows[:, 4:][inside] = buffer.bytes.take((spans.start[:, None] + places)[inside])
    _, first, codes = np.unique(rows.view(f"V{width + 4}").ravel(), return_index=True, return_inverse=True)
    return codes, first


def _encode(array: pa.Array) -> tuple[Codes, int]:
    """Return codes, numbered in the order in which values first appear, and the number of distinct values."""
    encoded = array.dictionary_encode(null_encoding="encode")
    return as_numpy(encoded.indices, np.int32).astype(np.int64), len(encoded.dictionary)


def _first_rows(codes: Codes, distinct: int) -> Codes:
    """Return the first row of each code. Rows are assigned from the last to the first: of several assignments to one
    place, the last one remains.
    """
    first = np.zeros(distinct, np.int64)
    first[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)
    return first
