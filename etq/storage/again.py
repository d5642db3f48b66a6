"""Reads the files of stored captures again, so that their rows are those that this version of etq produces."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path, PurePath
from typing import NamedTuple

import duckdb

from etq.database.handles import Capture
from etq.database.rollups import PRUNED
from etq.errors import EtqError, FormatError, StoreError, displayed
from etq.ingest import stores
from etq.storage.capture import OF_GIVEN, Options, read_again
from etq.storage.sources import Source, source_of


class Again(NamedTuple):
    """The result for a stored capture."""

    capture: Capture
    path: str | None = None  # the file that was read, or tried
    left: str | None = None  # why it is unchanged; None: its file was read
    error: EtqError | None = None  # the error with which its file was read


class Stored(NamedTuple):
    """A stored capture, with the properties of its file."""

    capture: Capture
    uri: str
    size: int
    kept: str | None  # why it stays unchanged, whatever files exist


def stored(connection: duckdb.DuckDBPyConnection, keys: Sequence[int] | None) -> list[Stored]:
    """Return the captures of these keys, or all, in the order of ingest."""
    query = """
        SELECT c.capture_id, c.name, c.sha256, c.format, c.uri, c.size_bytes,
            CASE
                WHEN c.format = 'reference' THEN 'its values were computed: it has no file'
                WHEN list_contains(f.rules, $pruned)
                    THEN 'its events were pruned; etq ingest FILE brings them back'
                WHEN list_has_any(f.rules, $given::VARCHAR[])
                    THEN 'it was read with a capture of its graphs: etq ingest FILE --graph-capture reads it anew'
            END
        FROM captures AS c
        LEFT JOIN (
            SELECT s.capture_id, list(s.rule) AS rules FROM findings AS s GROUP BY s.capture_id
        ) AS f ON f.capture_id = c.capture_id
        WHERE $keys::BIGINT[] IS NULL OR list_contains($keys::BIGINT[], c.capture_id)
        ORDER BY c.ingested_at, c.capture_id
    """
    given = {"keys": keys, "pruned": PRUNED, "given": [*OF_GIVEN]}
    rows = connection.execute(query, given).fetchall()
    return [Stored(Capture(*row[:4]), *row[4:]) for row in rows]


def outcome_of(
    connection: duckdb.DuckDBPyConnection,
    each: Stored,
    folders: Sequence[str],
    write: Callable[[Callable[[], None]], object],
) -> Again:
    """Read the file of a capture anew, if it is in one of the folders. `write` runs a function in a transaction."""
    source = each.kept or found(each, folders)
    if isinstance(source, str):
        return Again(each.capture, left=source)
    try:
        write(partial(_reread, connection, each, source))
    except FormatError as error:
        return Again(each.capture, source.uri, "its file can't be read", error)
    return Again(each.capture, source.uri)


def is_near(each: Stored, folders: Iterable[str]) -> bool:
    """Whether a folder has a file that may be a capture's, by its place and size."""
    return each.kept is None and any(_size(path) == each.size for path in _places(each.uri, folders))


def found(each: Stored, folders: Iterable[str]) -> Source | str:
    """Return the file of a capture from one of the folders, or why there isn't one.

    It is at the path that was stored, or has only its name. A name that leads out of a folder isn't opened, nor an
    address that doesn't begin with a folder's address: somebody else may have written it.

    Raises `StoreError` for a store that can't be read.
    """
    others = []
    for path in _places(each.uri, folders):
        try:
            source = source_of(path) if _size(path) == each.size else None
        except StoreError:
            raise
        except (EtqError, OSError):
            source = None
        if source is not None and source.sha256 == each.capture.sha256:
            return source
        others.append(displayed(path))
    if others:
        return f"{others[0]}: has other content than the file that was read"
    if stores.is_address(each.uri):
        folder = each.uri.rpartition("/")[0]
        return f"{each.uri}: not read unless its folder is named: etq ingest --again {folder}/"
    return f"{each.uri}: not found"


def _places(uri: str, folders: Iterable[str]) -> Iterator[str]:
    """Yield the candidates for the file of a stored path."""
    path = PurePath(uri)
    is_inside = not path.is_absolute() and ".." not in path.parts and not stores.is_address(uri)
    for folder in folders:
        root = f"{folder.rstrip('/')}/"
        if stores.is_address(folder) and uri.startswith(root) and ".." not in uri.split("/"):
            yield uri
            continue
        for place in dict.fromkeys((uri, path.name) if is_inside else (path.name,)):
            candidate = root + place if stores.is_address(folder) else os.path.join(folder, place)
            if _size(candidate) is not None:
                yield candidate


def _size(path: str) -> int | None:
    """The bytes of a file; None if there is none."""
    if stores.is_address(path):
        return stores.size_of(path)
    try:
        status = Path(path).stat()
    except (OSError, ValueError):
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def _reread(connection: duckdb.DuckDBPyConnection, each: Stored, source: Source) -> None:
    """Replace the rows of a capture by those that its file gives now. The caller holds a transaction."""
    read_again(connection, each.capture.capture_id, each.capture.name, source, Options())
    connection.execute("UPDATE captures SET uri = ? WHERE capture_id = ?", [each.uri, each.capture.capture_id])
