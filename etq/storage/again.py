"""Reads the files of stored captures again, so that their rows are those that this version of etq produces."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePath
from typing import Final, NamedTuple

import duckdb

from etq.database.handles import Capture
from etq.database.rollups import PRUNED
from etq.errors import EtqError, displayed
from etq.storage.capture import Options, read_again
from etq.storage.sources import Source, source_of

# Findings about files that were given with a trace, which are no longer known.
_GIVEN: Final = ("graph capture", "graph not matched", "no graph launched")


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
    """Return the captures of these keys, or all, by key."""
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
        WHERE $keys::INTEGER[] IS NULL OR list_contains($keys::INTEGER[], c.capture_id)
        ORDER BY c.capture_id
    """
    given = {"keys": keys, "pruned": PRUNED, "given": [*_GIVEN]}
    rows = connection.execute(query, given).fetchall()
    return [Stored(Capture(*row[:4]), *row[4:]) for row in rows]


def found(each: Stored, folders: Iterable[str]) -> Source | str:
    """Return the file of a capture from one of the folders, or why there isn't one.

    The file is at the stored path within a folder, or has the stored name. A path that leads out of the folder isn't
    opened: somebody else may have written it.
    """
    others = []
    for path in _places(each.uri, folders):
        try:
            is_it = Path(path).stat().st_size == each.size
            source = source_of(path) if is_it else None
        except (EtqError, OSError):
            source = None
        if source is not None and source.sha256 == each.capture.sha256:
            return source
        others.append(displayed(path))
    if others:
        return f"{others[0]}: has other content than the file that was read"
    return f"{each.uri}: not found"


def _places(uri: str, folders: Iterable[str]) -> Iterator[str]:
    """Yield the candidates for the file of a stored path."""
    path = PurePath(uri)
    is_inside = not path.is_absolute() and ".." not in path.parts
    for folder in folders:
        for place in dict.fromkeys((uri, path.name) if is_inside else (path.name,)):
            candidate = os.path.join(folder, place)
            if Path(candidate).is_file():
                yield candidate


def reread(connection: duckdb.DuckDBPyConnection, each: Stored, source: Source) -> None:
    """Replace the rows of a capture by those that its file gives now. The caller holds a transaction."""
    read_again(connection, each.capture.capture_id, each.capture.name, source, Options())
    connection.execute("UPDATE captures SET uri = ? WHERE capture_id = ?", [each.uri, each.capture.capture_id])
