"""Keys in links that can only read one badge or feed: their readers send neither headers nor cookies."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from typing import Final
from urllib.parse import parse_qs

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
    return hmac.new(_secret(folder), f"overview\n{overview}".encode(), hashlib.sha256).hexdigest()[:40]


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


def _secret(folder: TeamFolder) -> bytes:
    query = "SELECT secret FROM secrets WHERE name = 'links'"
    with folder.reading() as connection:
        found = connection.execute(query).fetchone()
    if found is None:
        with folder.writing() as connection:
            connection.execute("INSERT OR IGNORE INTO secrets VALUES ('links', ?)", [secrets.token_bytes(32)])
            found = connection.execute(query).fetchone()
    return bytes(found[0])
