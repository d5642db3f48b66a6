"""The metadata of commits: who made them, and which files the lake has in all tables."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final

import msgspec

from etq.errors import WarehouseError
from etq.ingest import memory
from etq.version import SCHEMA_VERSION

# The most bytes of a commit and of a checkpoint; the most bytes of the JSON that a note is packed of, and what it may
# take as objects: notes of some 30,000 loads. A small commit of somebody else's lake could be unpacked to any size.
LARGEST_COMMIT: Final = 1 << 27
LARGEST_CHECKPOINT: Final = 1 << 28
_LARGEST_NOTE: Final = 1 << 27
_MOST_MEMORY: Final = 1 << 30
# The most characters of a table's schema.
LARGEST_SCHEMA: Final = 1 << 20

_Count = Annotated[int, msgspec.Meta(ge=0, le=2**62)]


class Note(msgspec.Struct):
    """What a commit of a root table notes.

    files    rows and bytes of each file of its loads, by load, table and name
    dropped  loads that were given up by the commit: their writers, if there are any left, must not commit them
    """

    schema: int = SCHEMA_VERSION
    files: dict[str, dict[str, dict[str, tuple[_Count, _Count]]]] = {}
    dropped: list[str] = []


class Commit(msgspec.Struct, frozen=True):
    """What was read of a commit: the name that its writer gave it, and its note; None for one by another program."""

    writer: str | None
    note: Note | None


class _Info(msgspec.Struct):
    etq: str | None = None
    etqCommit: str | None = None  # noqa: N815 - as other names of a commit


class _Action(msgspec.Struct):
    commitInfo: _Info | None = None  # noqa: N815 - of Delta Lake


class _Table(msgspec.Struct):
    schemaString: str = ""  # noqa: N815 - of Delta Lake


class _TableAction(msgspec.Struct):
    metaData: _Table | None = None  # noqa: N815 - of Delta Lake


class _Column(msgspec.Struct):
    name: str
    type: msgspec.Raw


class _Schema(msgspec.Struct):
    fields: list[_Column]


def metadata(lake: str, writer: str, note: Note | None) -> dict[str, Any]:
    """The metadata for a commit. Raises `WarehouseError` for a note that would not be read."""
    if note is None:
        return {"etqCommit": writer}
    content = msgspec.json.encode(note)
    text = base64.b64encode(zlib.compress(content)).decode()
    # A commit has more than its note: the files that it adds.
    if len(content) > _LARGEST_NOTE or memory.json_size(content) > _MOST_MEMORY or len(text) > LARGEST_COMMIT // 2:
        raise WarehouseError(f"{lake}: a commit can't note so many loads; put them together: etq lake compact {lake}")
    return {"etqCommit": writer, "etq": text}


def read(content: bytes) -> Commit:
    """The metadata in a commit. Raises `ValueError` for a damaged one."""
    info = _Info()
    try:
        for line in content.splitlines():
            info = msgspec.json.decode(line, type=_Action).commitInfo or info
        return Commit(info.etqCommit, None if info.etq is None else _unpacked(info.etq))
    except (zlib.error, RecursionError) as error:
        raise ValueError(str(error)) from error


def schemas(content: bytes) -> Iterator[str]:
    """Yield the schemas that a commit gives its table. Raises `ValueError` if it is damaged."""
    for line in content.splitlines():
        if (table := msgspec.json.decode(line, type=_TableAction).metaData) is not None:
            yield table.schemaString


def check_schema(text: str, types: Mapping[str, Any]) -> None:
    """Raise `ValueError` if the schema of a table has other columns, or is damaged.

    It may lack some, as that of an earlier version. The library makes statistics of each column for each file.
    """
    if len(text) > LARGEST_SCHEMA:
        raise ValueError(f"a schema has more than {memory.shown(LARGEST_SCHEMA)}")
    columns = msgspec.json.decode(text, type=_Schema).fields
    if len(columns) > len(types):
        raise ValueError(f"a schema has {len(columns):,} columns; expected {len(types)}")
    for column in columns:
        if column.name not in types or msgspec.json.decode(column.type) != types[column.name]:
            raise ValueError(f"a schema has the column {column.name!r} with a name or type that etq doesn't write")


def _unpacked(text: str) -> Note:
    decompressor = zlib.decompressobj()
    content = decompressor.decompress(base64.b64decode(text, validate=True), _LARGEST_NOTE)
    if not decompressor.eof:
        raise ValueError(f"a note is cut off, or has more than {_LARGEST_NOTE >> 20} MB")
    if (size := memory.json_size(content)) > min(_MOST_MEMORY, memory.available()):
        raise ValueError(f"to read its note would take {memory.shown(size)} of memory")
    return msgspec.json.decode(content, type=Note)
