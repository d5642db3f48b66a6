"""Changes of captures that a server was asked for: labels, and removal. The writer's process makes them, in turn with
what was pushed, and whoever asked waits for the outcome; what nobody waits for any more isn't made.
"""

from __future__ import annotations

import time
from typing import Any, Final

import msgspec

from etq.team.audit import add_note
from etq.team.folder import TeamFolder

# A change that ended the writer's process so often is given up.
MOST_CRASHES: Final = 2
# What the audit log calls them.
LABELLED: Final = "labelled"
REMOVED: Final = "removed"


class Change(msgspec.Struct, frozen=True):
    """A change of a capture, which is named as in views: its labels, of which null removes one; or its removal."""

    capture: str
    labels: dict[str, str | None] | None = None


class Outcome(msgspec.Struct, frozen=True, omit_defaults=True):
    """What became of a change: a status of HTTP, and the capture, or why there is none."""

    status: int
    capture: str | None = None
    sha256: str | None = None
    labels: dict[str, str] | None = None
    error: str | None = None


class Changes:
    """The changes of a folder, which exists."""

    def __init__(self, folder: TeamFolder) -> None:
        self._folder = folder

    def forget(self) -> None:
        """Forget those of a server that has ended: nobody waits for them."""
        with self._folder.writing() as connection:
            connection.execute("DELETE FROM changes")

    def add(self, identifier: str, user: str, address: str, change: Change) -> None:
        """Have the writer make a change."""
        row = [identifier, user, address, time.time(), msgspec.json.encode(change).decode()]
        with self._folder.writing() as connection:
            insert = "INSERT INTO changes (change_id, user, address, asked_at, request) VALUES (?, ?, ?, ?, ?)"
            connection.execute(insert, row)

    def has_waiting(self) -> bool:
        """Whether any is to be made."""
        with self._folder.reading() as connection:
            return connection.execute("SELECT 1 FROM changes WHERE outcome IS NULL LIMIT 1").fetchone() is not None

    def outcome(self, identifier: str) -> Outcome | None:
        """Return what became of a change, and forget it; None while it isn't made."""
        query = "DELETE FROM changes WHERE change_id = ? AND outcome IS NOT NULL RETURNING outcome"
        with self._folder.writing() as connection:
            row = connection.execute(query, [identifier]).fetchone()
        return None if row is None else msgspec.json.decode(row[0], type=Outcome)

    def withdraw(self, identifier: str) -> bool:
        """Have a change not made, unless the writer has begun it. Returns whether it is not."""
        query = "DELETE FROM changes WHERE change_id = ? AND attempts = 0 RETURNING 1"
        with self._folder.writing() as connection:
            return connection.execute(query, [identifier]).fetchone() is not None

    # What the writer does.

    def waiting(self) -> list[tuple[str, Change]]:
        """Return the changes to be made, in the order in which they were asked for."""
        query = "SELECT change_id, request FROM changes WHERE outcome IS NULL ORDER BY rowid"
        with self._folder.reading() as connection:
            rows = connection.execute(query).fetchall()
        return [(identifier, msgspec.json.decode(request, type=Change)) for identifier, request in rows]

    def begin(self, identifier: str) -> bool:
        """Begin a change. Returns whether it is to be made: it was not withdrawn, and ended the process not twice."""
        query = "UPDATE changes SET attempts = attempts + 1 WHERE change_id = ? RETURNING attempts"
        with self._folder.writing() as connection:
            row = connection.execute(query, [identifier]).fetchone()
        if row is not None and row[0] > MOST_CRASHES:
            self.end(identifier, Outcome(500, error="it ended the server's process twice; report it"))
            return False
        return row is not None

    def note(self, identifier: str, action: str, details: dict[str, Any]) -> None:
        """Note in the audit log what is done now, for whom. A change that is begun again is noted once."""
        query = "SELECT user, address, attempts FROM changes WHERE change_id = ?"
        with self._folder.writing() as connection:
            user, address, attempts = connection.execute(query, [identifier]).fetchone()
            if attempts == 1:
                add_note(connection, user, address, action, details)

    def end(self, identifier: str, outcome: Outcome) -> None:
        """Note what became of a change."""
        text = msgspec.json.encode(outcome).decode()
        with self._folder.writing() as connection:
            connection.execute("UPDATE changes SET outcome = ? WHERE change_id = ?", [text, identifier])
