"""The audit log: who did what, from where, and when."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import sqlite3

    from etq.team.folder import TeamFolder

# Characters of a detail, such as a query, and of all details of a note.
LONGEST: Final = 4000
LONGEST_NOTE: Final = 8000
# Bytes of a note beside its details, about.
OVERHEAD: Final = 200


def note(folder: TeamFolder, user: str, address: str, action: str, details: Mapping[str, Any]) -> None:
    """Note what a user did; long texts are cut. Raises `EtqError`.

    action    a word: signed in, signed out, refused, sql, pushed, overview, …
    details   what JSON can have
    """
    with folder.writing() as connection:
        add_note(connection, user, address, action, details)


def add_note(connection: sqlite3.Connection, user: str, address: str, action: str, details: Mapping[str, Any]) -> None:
    """Note what a user did, within a transaction; as `note`."""
    shortened = {
        name: f"{value[:LONGEST]}…" if isinstance(value, str) and len(value) > LONGEST else value
        for name, value in details.items()
    }
    text = json.dumps(shortened, default=str)
    if len(text) > LONGEST_NOTE:
        text = json.dumps({"cut": text[:LONGEST_NOTE]})
    row = [time.time(), user, address, action, text]
    connection.execute("INSERT INTO audit (at, user, address, action, details) VALUES (?, ?, ?, ?, ?)", row)


def trim(folder: TeamFolder, days: float, megabytes: float) -> int:
    """Remove notes that are older; of more megabytes, the oldest ones until a tenth is free. Return how many.

    Raises `EtqError`.
    """
    with folder.reading() as connection:  # nobody waits for it
        query = "SELECT coalesce(min(at), ?), coalesce(sum(length(details) + ?), 0) FROM audit"
        first, size = connection.execute(query, [time.time(), OVERHEAD]).fetchone()
    if first >= time.time() - days * 86_400 and size <= megabytes * 1e6:
        return 0
    with folder.writing() as connection:
        old = connection.execute("DELETE FROM audit WHERE at < ?", [time.time() - days * 86_400])
        many = connection.execute(
            """
            DELETE FROM audit WHERE audit_id <= (
                SELECT max(a.audit_id)
                FROM (
                    SELECT audit_id, sum(length(details) + ?) OVER (ORDER BY audit_id DESC) AS total FROM audit
                ) AS a
                WHERE a.total > ?
            )
            """,
            [OVERHEAD, int(megabytes * (1e6 if size <= megabytes * 1e6 else 0.9e6))],
        )
        return old.rowcount + many.rowcount


def noted(connection: sqlite3.Connection) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Return the columns and rows of the log, the latest first; times are seconds since 1970."""
    found = connection.execute("SELECT at, user, address, action, details FROM audit ORDER BY audit_id DESC")
    return [name for name, *_ in found.description], found.fetchall()
