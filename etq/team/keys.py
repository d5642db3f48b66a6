"""Keys in links that can only read one badge or feed: their readers send neither headers nor cookies."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qs

if TYPE_CHECKING:
    import sqlite3

    from etq.team.folder import TeamFolder

# What a key may read: paths that begin with one of these, followed by the name of an overview and the ending.
PATHS: Final = {"/badge/": ".svg", "/feed/": ".atom"}
# The most characters of a key that is looked at.
LONGEST: Final = 100


def overview_of(path: str) -> str | None:
    """Return the name of the overview whose badge or feed a path, which is decoded, is; None for other paths."""
    for begin, end in PATHS.items():
        if path.startswith(begin) and path.endswith(end) and len(path) > len(begin) + len(end):
            return path[len(begin) : -len(end)]
    return None


def key_of(folder: TeamFolder, overview: str) -> str:
    """Return the key that reads the badge and the feed of an overview, and nothing else."""
    return hmac.new(_secret(folder, overview), f"overview\n{overview}".encode(), hashlib.sha256).hexdigest()[:40]


def end_keys(connection: sqlite3.Connection, overview: str | None = None) -> None:
    """End the keys of an overview, or of all: links that have them read nothing any more. Pages show new ones."""
    if overview is None:
        connection.execute("DELETE FROM secrets WHERE name = 'links' OR name LIKE 'links of %'")
    else:
        connection.execute("INSERT OR REPLACE INTO secrets VALUES (?, ?)", [_of(overview), secrets.token_bytes(32)])


def may_read_by_key(folder: TeamFolder | None, path: str, query: bytes | str) -> bool:
    """Whether a request is for a badge or feed and has its key, compared in constant time.

    path   the decoded path of the request
    query  its query, as it was sent
    """
    overview = overview_of(path)
    if folder is None or overview is None or not folder.exists:
        return False
    text = query.decode("latin-1") if isinstance(query, bytes) else query
    given = parse_qs(text).get("key", [""])[-1]
    if not 0 < len(given) <= LONGEST:
        return False
    return hmac.compare_digest(given.encode("utf-8", "replace"), key_of(folder, overview).encode())


def _secret(folder: TeamFolder, overview: str) -> bytes:
    """Return the secret of an overview whose keys were ended, or that of all others."""
    query = "SELECT secret FROM secrets WHERE name IN (?, 'links') ORDER BY name = 'links' LIMIT 1"
    with folder.reading() as connection:
        found = connection.execute(query, [_of(overview)]).fetchone()
    if found is None:
        with folder.writing() as connection:
            connection.execute("INSERT OR IGNORE INTO secrets VALUES ('links', ?)", [secrets.token_bytes(32)])
            found = connection.execute(query, [_of(overview)]).fetchone()
    return bytes(found[0])


def _of(overview: str) -> str:
    return f"links of {overview}"
