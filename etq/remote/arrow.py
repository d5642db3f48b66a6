"""Arrow that somebody else sends: it may be damaged, and a few bytes of it may stand for any memory."""

from __future__ import annotations

import io
import struct
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import pyarrow as pa

# Values of each array, beyond those of which each takes a bit.
MOST_FREE: Final = 1_000_000
# Bytes of the texts of a column that has each text once.
MOST_EXPANDED: Final = 2**30
# Types of which values may share bytes.
_NEVER_SENT: Final = ("string_view", "binary_view", "list_view", "large_list_view", "run_end_encoded")
# The kinds of messages with arrays, and the slots of their fields, of Message.fbs and Schema.fbs.
_DICTIONARY, _RECORDS = 2, 3
_HEADER_TYPE, _HEADER, _DATA, _COMPRESSION = 1, 2, 1, 3


def table_of(content: bytes) -> pa.Table:
    """Return the rows of a stream, which use its bytes. Raises `pyarrow.ArrowException` and `ValueError`.

    Streams of a server are not compressed, and have no views of lists or texts, of which many may be of the same bytes.
    """
    import pyarrow as pa

    for message in pa.ipc.MessageReader.open_stream(io.BytesIO(content)):
        if _is_compressed(message.metadata.to_pybytes()):
            raise ValueError("it is compressed, as no server of etq sends it")
    with pa.ipc.open_stream(pa.BufferReader(content)) as reader:
        rows = reader.read_all()
    for column in rows.columns:
        for chunk in column.chunks:
            _check(pa, chunk, MOST_FREE + 8 * len(content))
    if rows.num_rows > MOST_FREE + 8 * len(content):
        raise ValueError("it has more rows than its bytes can tell")
    rows.validate(full=True)
    return rows


def _is_compressed(message: bytes) -> bool:
    """Whether the arrays of a message are. Raises `ValueError` for one that is damaged."""
    try:
        (root,) = struct.unpack_from("<I", message)
        place = _field(message, root, _HEADER_TYPE)
        kind = message[place] if place else 0
        if kind not in (_DICTIONARY, _RECORDS):
            return False
        batch = _table(message, root, _HEADER)
        if kind == _DICTIONARY:
            batch = _table(message, batch, _DATA)
        return _field(message, batch, _COMPRESSION) != 0
    except (struct.error, IndexError) as error:
        raise ValueError("a message is damaged") from error


def _field(message: bytes, table: int, slot: int) -> int:
    """Return the place of a field of a table; 0 if it isn't there."""
    start = table - struct.unpack_from("<i", message, table)[0]
    size: int = struct.unpack_from("<H", message, start)[0]
    at = 4 + 2 * slot
    offset: int = struct.unpack_from("<H", message, start + at)[0] if at + 2 <= size else 0
    return table + offset if offset else 0


def _table(message: bytes, table: int, slot: int) -> int:
    place = _field(message, table, slot)
    return place + int(struct.unpack_from("<I", message, place)[0])


def _check(pa: Any, array: Any, most: int) -> None:
    """Raise `ValueError` for an array that is more than its bytes."""
    type = array.type
    if len(array) > most:
        raise ValueError("an array has more values than its bytes can tell")
    if any(getattr(pa.types, f"is_{each}")(type) for each in _NEVER_SENT):
        raise ValueError(f"it has the type {str(type)[:80]}, which no server of etq sends")
    if isinstance(array, pa.ExtensionArray):
        _check(pa, array.storage, most)
    elif pa.types.is_dictionary(type):
        _check(pa, array.dictionary, most)
        _check_expanded(array)
    elif pa.types.is_struct(type) or pa.types.is_union(type):
        for at in range(type.num_fields):
            _check(pa, array.field(at), most)
    elif pa.types.is_map(type):
        _check(pa, array.keys, most)
        _check(pa, array.items, most)
    elif pa.types.is_nested(type):
        _check(pa, array.values, most)


def _check_expanded(array: Any) -> None:
    """Raise `ValueError` if the values of a dictionary, each as often as it is used, take too much."""
    from pyarrow import compute

    dictionary = array.dictionary
    dictionary.validate(full=True)
    try:
        longest = compute.max(compute.binary_length(dictionary)).as_py() or 0
    except NotImplementedError:  # of numbers
        longest = 16
    if longest * len(array) > MOST_EXPANDED:
        raise ValueError("the values of a dictionary take more than 1 GB")
