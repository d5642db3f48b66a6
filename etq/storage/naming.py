"""Names of captures, records and programs: unique in a warehouse, and by default derived from files' paths."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import PurePath
from typing import Final

import duckdb

from etq.errors import ArgumentError, ArgumentTypeError, printable
from etq.ingest.registry import FORMATS
from etq.storage.sources import Source

# Endings of files that are not part of a name; the longest come first, because an ending may contain another.
_ENDINGS: Final = sorted({".json.gz", *(ending for each in FORMATS.values() for ending in each.endings)}, key=len)[::-1]


def check_name(name: str) -> None:
    """Raise `ArgumentError` for an invalid name, `ArgumentTypeError` for anything but a text."""
    if not isinstance(name, str):
        raise ArgumentTypeError(f"a name is a text, not {name!r}")
    if not name.strip() or name.startswith("@") or "=" in name:
        raise ArgumentError(f"{name!r} is not a name: a name is not empty, doesn't begin with @ and has no =")
    if printable(name) != name or ".." in name.replace("\\", "/").split("/"):
        raise ArgumentError(f"{name!r} is not a name: a name has no control characters and no part '..'")


def check_name_is_free(connection: duckdb.DuckDBPyConnection, table: str, name: str, key: int) -> None:
    """Raise `ArgumentError` for an invalid name, and for a name that other content of the table has."""
    check_name(name)
    taken = connection.execute(
        f"SELECT sha256 FROM {table} WHERE name = ? AND {table.removesuffix('s')}_id <> ?", [name, key]
    ).fetchall()
    if taken:
        raise ArgumentError(f"the name {name!r} is taken by other content ({taken[0][0][:12]}); give another one")


def free_name(connection: duckdb.DuckDBPyConnection, table: str, source: Source) -> str:
    """Return the first of the `names_for` a file that no other content has."""
    for name in names_for(source.uri, lambda: source.sha256):
        if not connection.execute(f"SELECT 1 FROM {table} WHERE name = ?", [name]).fetchall():
            break
    return name


def names_for(uri: str, sha256: Callable[[], str]) -> Iterator[str]:
    """Yield the file's stem, then the stem with more and more folders before it, and last the stem with the hash, which
    is unique.
    """
    path = PurePath(uri)
    stem = next((path.name[: -len(ending)] for ending in _ENDINGS if path.name.endswith(ending)), "") or path.stem
    # Characters that names can't contain (see `check_name`) are left out.
    folders = [part for part in path.parts[:-1] if part != ".."]
    parts = [printable(part.replace("\\", "-").replace("=", "-")).lstrip("@") or "capture" for part in (*folders, stem)]
    for start in range(len(parts) - 1, -1, -1):
        yield "/".join(parts[start:])
    # The hash is used last, because another thread may still be computing it.
    yield f"{parts[-1]}-{sha256()[:12]}"
    yield f"{parts[-1]}-{sha256()}"
