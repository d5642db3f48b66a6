"""Decodes metadata that delegates log with times, by a user's function, for backends that `delegate_metadata` lacks."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from etq import catalog
from etq.errors import QueryError

if TYPE_CHECKING:
    from etq.database.handles import Answers, Capture

# Given an event's name and the bytes that a run logged for it, returns fields by name; None for unknown bytes.
Decoder = Callable[[str, bytes], Mapping[str, Any] | None]

_LOGGED = """
    SELECT s.block_index, s.slot, s.label, t.delegate_metadata, count(*)
    FROM event_ticks AS t
    JOIN signatures AS s ON s.capture_id = t.capture_id AND s.signature_index = t.signature_index
    WHERE t.capture_id = $capture AND s.kind = 'delegate' AND t.delegate_metadata IS NOT NULL
    GROUP BY ALL
    ORDER BY ALL
"""
# Of block_index, slot, event_name, field, value and runs.
_TYPES = (pa.int32(), pa.int32(), pa.string(), pa.string(), pa.string(), pa.int64())


def decoded_metadata(warehouse: Answers, capture: Capture, decoder: Decoder) -> pa.Table:
    """Return a row for each field of an event's metadata: block_index, slot, event_name, field, value (text), runs.

    Bytes that the decoder doesn't know give one row without a field, with the value in hexadecimal. Raises `QueryError`
    if the decoder raises an error or returns neither a mapping nor None.
    """
    _, logged = warehouse.rows(_LOGGED, capture=capture.capture_id)
    rows = [
        (block, slot, name, field, value, runs)
        for block, slot, name, content, runs in logged
        for field, value in _fields(decoder, name, content)
    ]
    names = [column.name for column in catalog.named("delegate_metadata").columns if column.name != "source"]
    columns = [pa.array([row[at] for row in rows], kind) for at, kind in enumerate(_TYPES)]
    return pa.Table.from_arrays(columns, names)


def _fields(decoder: Decoder, name: str, content: bytes) -> Iterator[tuple[str | None, str]]:
    try:
        fields = decoder(name, content)
    except Exception as error:
        raise QueryError(f"the decoder raised {type(error).__name__} at {content!r} of {name}: {error}") from error
    if fields is None:
        yield None, content.hex()
        return
    if not isinstance(fields, Mapping):
        raise QueryError(f"the decoder gave {fields!r} for {name}; expected a mapping of fields to values, or None")
    for field, value in fields.items():
        yield str(field), value if isinstance(value, str) else json.dumps(value, default=str)
