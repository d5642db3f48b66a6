"""Captures that wait to be stored: their files in the folder `files`, and what is known of them in SQLite.

A file is there once its bytes are on the disk and its row is in the database; a push once its row is, and the names of
its files are on the disk. So nothing that was acknowledged is lost when a process or the machine stops. What was begun
and not finished is in `partial`, by user: nobody can spoil the file of another.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from etq.database.publishing import fsync_folder
from etq.errors import EtqError
from etq.remote.protocol import Push, Sent, State
from etq.team.audit import add_note
from etq.team.folder import TeamFolder

# A push that ended the writer's process so often is given up.
MOST_CRASHES: Final = 2
# Captures, and bytes of their files, that the writer takes at once.
AT_ONCE: Final = 64
BYTES_AT_ONCE: Final = 32 * 2**20
# Seconds since it was sent in which one that ended the process lets all others go first.
LATER: Final = 600.0
# Seconds after which a file that no capture needs is removed, and what is known of captures that were stored.
UNUSED: Final = 86_400.0
REMEMBERED: Final = 90 * 86_400.0
# Pushes of a user that may wait, and files of a user that may be half there.
MOST_WAITING: Final = 20_000
MOST_PARTIAL: Final = 64
# Pushes of a user that are remembered, and those of a request that the audit log names.
MOST_REMEMBERED: Final = 100_000
MOST_NAMED: Final = 20

GIVEN_UP: Final = (
    "storing it ended the server's process twice{}; the file may be damaged: try etq ingest on it, and report it"
)


class ConflictError(EtqError):
    """An identifier of another push."""


class TooManyError(EtqError):
    """Too many captures of a user wait."""


@dataclass(frozen=True)
class Waiting:
    """A push that waits, and how often it ended the writer's process."""

    push: Push
    crashes: int


@dataclass(frozen=True)
class Ended:
    """What became of a push, and which of its files are needed no longer."""

    state: State
    done_with: tuple[Sent, ...] = ()


class PushQueue:
    """The queue of a folder, which exists."""

    def __init__(self, folder: TeamFolder) -> None:
        self._folder = folder
        self._files = folder.path / "files"
        self._partial = folder.path / "partial"

    def make(self) -> None:
        """Make its folders, and remove what a process that was killed left."""
        for each in (self._files, self._partial):
            each.mkdir(mode=0o700, exist_ok=True)
        with self._folder.writing() as connection:
            known = {sha256 for (sha256,) in connection.execute("SELECT sha256 FROM files").fetchall()}
            there = {path.name for path in self._files.iterdir()}
            for name in there - known:
                self.path(name).unlink()
            # The names of files that no capture waits for yet may not have come to the disk.
            connection.executemany(
                "DELETE FROM files WHERE sha256 = ? AND sha256 NOT IN (SELECT sha256 FROM wanted)",
                [(sha256,) for sha256 in known - there],
            )
            connection.execute("UPDATE pushes SET is_begun = 0 WHERE is_begun = 1")

    # Files.

    def path(self, sha256: str) -> Path:
        """Return the path of a file that was received."""
        return self._files / sha256

    def partial(self, user: str, sha256: str) -> Path:
        """Return the path of what is there of a file that a user sends."""
        return self._partial / f"{_tag(user)}-{sha256}"

    def make_room_for_partial(self, user: str) -> None:
        """Remove those of a user's files that are half there, but for the latest ones."""
        mine = sorted(self._partial.glob(f"{_tag(user)}-*"), key=_modified, reverse=True)
        for path in mine[MOST_PARTIAL - 1 :]:
            path.unlink(missing_ok=True)

    def there(self, hashes: Sequence[str]) -> set[str]:
        """Return those of files that are there."""
        with self._folder.reading() as connection:
            query = "SELECT f.sha256 FROM files AS f JOIN json_each(?) AS h ON h.value = f.sha256"
            return {sha256 for (sha256,) in connection.execute(query, [_json(hashes)]).fetchall()}

    def size(self, hashes: Iterable[str]) -> int:
        """Return how many bytes those of files have that are there."""
        total = 0
        for each in hashes:
            with suppress(FileNotFoundError):
                total += self.path(each).stat().st_size
        return total

    def receive(self, user: str, sha256: str, part: Path, sent: int) -> None:
        """Take a file that is complete and on the disk, at another path of the folder. So much of it was sent now."""
        size = part.stat().st_size
        with self._folder.writing() as connection:
            part.replace(self.path(sha256))
            insert = "INSERT OR IGNORE INTO files VALUES (?, ?, ?, ?)"
            connection.execute(insert, [sha256, size, user, time.time()])
            _note_sent(connection, user, sent)

    def waiting_bytes(self) -> int:
        """Return how many bytes of files are there, also those that are half there."""
        with self._folder.reading() as connection:
            (total,) = connection.execute("SELECT coalesce(sum(byte_size), 0) FROM files").fetchone()
        for path in self._partial.iterdir():
            with suppress(FileNotFoundError):
                total += path.stat().st_size
        return int(total)

    def sent_today(self, user: str) -> int:
        """Return how many bytes a user has sent on this day, of UTC."""
        with self._folder.reading() as connection:
            row = connection.execute("SELECT bytes FROM sent WHERE user = ? AND day = ?", [user, _day()]).fetchone()
        return 0 if row is None else int(row[0])

    def note_sent(self, user: str, count: int) -> None:
        """Add to the bytes that a user has sent on this day."""
        with self._folder.writing() as connection:
            _note_sent(connection, user, count)

    # Pushes.

    def needed(self, pushes: Iterable[Push], known: set[str]) -> list[str]:
        """Return which files of pushes are not there, without those that the warehouse has.

        Of pushes that were acknowledged before, none is needed.
        """
        wanted: dict[str, None] = {}
        listed = list(pushes)
        acknowledged = {state.id for state in self.states([each.id for each in listed])}
        for push in listed:
            if push.id not in acknowledged:
                for each in (push.file, *push.linked, *push.others):
                    is_known = each.sha256 in known and each not in push.others
                    if not is_known or (each is push.file and push.is_read_again):
                        wanted[each.sha256] = None
        there = self.there([*wanted])
        return [each for each in wanted if each not in there]

    def add(self, user: str, pushes: Sequence[Push], known: set[str], address: str = "") -> list[str]:
        """Take pushes: they are on the disk when this returns an empty list. If files are missing, none is taken, and
        they are returned; `known` are those that the warehouse has. Who sent them, from where, is noted for the audit.

        Raises `ConflictError` for an identifier of another push, `TooManyError` if too many wait.
        """
        with self._folder.writing() as connection:
            if missing := self.needed(pushes, known):
                return missing
            fsync_folder(self._files)  # once for all of their files
            count = "SELECT count(*) FROM pushes WHERE user = ? AND state = 'waiting'"
            if connection.execute(count, [user]).fetchone()[0] + len(pushes) > MOST_WAITING:
                raise TooManyError(f"{MOST_WAITING:,} captures of {user} wait; send more when they are stored")
            new = []
            for push in pushes:
                text = msgspec.json.encode(push).decode()
                same = "SELECT user, request FROM pushes WHERE push_id = ?"
                if (row := connection.execute(same, [push.id]).fetchone()) is not None:
                    if row not in ((user, text), (user, _short(text))):
                        raise ConflictError(f"{push.id}: the identifier of another push; make a new one")
                    continue
                new.append(push)
                connection.execute(
                    """
                    INSERT INTO pushes (push_id, place, user, received_at, request, state)
                    SELECT ?, (SELECT coalesce(max(place), 0) + 1 FROM pushes), ?, ?, ?, 'waiting'
                    """,
                    [push.id, user, time.time(), text],
                )
                names = {each.sha256 for each in (push.file, *push.linked, *push.others)}
                # Those that aren't there are in the warehouse.
                connection.execute(
                    """
                    INSERT INTO wanted
                    SELECT f.sha256, ? FROM files AS f JOIN json_each(?) AS h ON h.value = f.sha256
                    """,
                    [push.id, _json(sorted(names))],
                )
            if new:
                shown = new[:MOST_NAMED]
                details: dict[str, object] = {
                    "captures": [each.file.name for each in shown],
                    "ids": [each.id for each in shown],
                }
                if len(new) > len(shown):
                    details["count"] = len(new)
                add_note(connection, user, address, "pushed", details)
        return []

    def states(self, ids: Sequence[str], user: str | None = None) -> list[State]:
        """Return what became of pushes, of one user or of all, in that order; unknown ones are left out."""
        query = """
            SELECT p.push_id, p.state, p.request, p.result
            FROM json_each($ids) AS g JOIN pushes AS p ON p.push_id = g.value
            WHERE $user IS NULL OR p.user = $user
            ORDER BY g.key
        """
        with self._folder.reading() as connection:
            rows = connection.execute(query, {"ids": _json(ids), "user": user}).fetchall()
        found = []
        for push_id, state, request, result in rows:
            if result is not None:
                found.append(msgspec.json.decode(result, type=State))
            else:
                push = msgspec.json.decode(request, type=Push)
                found.append(State(push_id, state, push.file.name))
        return found

    def has_waiting(self) -> bool:
        """Whether anything waits."""
        with self._folder.reading() as connection:
            return connection.execute("SELECT 1 FROM pushes WHERE state = 'waiting' LIMIT 1").fetchone() is not None

    # What the writer does.

    def take(self) -> list[Waiting]:
        """Return what is stored together next: users take turns, each with what waits longest.

        One that ended the process before comes alone, and, for `LATER` seconds, after all others. Those of a user are
        in a row.
        """
        query = """
            WITH next AS (
                SELECT
                    p.push_id,
                    p.place,
                    p.crashes > 0 AND p.received_at > ? AS is_later,
                    row_number() OVER (PARTITION BY p.user, p.crashes > 0 ORDER BY p.place) AS turn
                FROM pushes AS p WHERE p.state = 'waiting'
                ORDER BY is_later, turn, p.place LIMIT ?
            )
            SELECT p.user, p.request, p.crashes, coalesce(f.byte_size, 0)
            FROM next AS n
            JOIN pushes AS p USING (push_id)
            LEFT JOIN files AS f ON f.sha256 = json_extract(p.request, '$.file.sha256')
            ORDER BY n.is_later, n.turn, n.place
        """
        taken: dict[str, list[Waiting]] = {}
        total = 0
        is_alone = False
        with self._folder.reading() as connection:
            rows = connection.execute(query, [time.time() - LATER, AT_ONCE]).fetchall()
        for user, request, crashes, size in rows:
            total += size
            if taken and (crashes or is_alone or total > BYTES_AT_ONCE):
                break
            is_alone = crashes > 0
            taken.setdefault(user, []).append(Waiting(msgspec.json.decode(request, type=Push), crashes))
        return [each for them in taken.values() for each in them]

    def begin(self, pushes: Iterable[Push]) -> None:
        """Note which pushes are stored now."""
        with self._folder.writing() as connection:
            connection.executemany("UPDATE pushes SET is_begun = 1 WHERE push_id = ?", [(each.id,) for each in pushes])

    def end(self, ended: Iterable[Ended]) -> None:
        """Note what became of pushes, and remove their files that no other one waits for."""
        listed = list(ended)
        now = time.time()
        with self._folder.writing() as connection:
            connection.create_function("short", 1, _short, deterministic=True)
            for each in listed:
                connection.execute(
                    """
                    UPDATE pushes SET state = ?, result = ?, ended_at = ?, is_begun = 0, request = short(request)
                    WHERE push_id = ? AND state = 'waiting'
                    """,
                    [each.state.state, msgspec.json.encode(each.state).decode(), now, each.state.id],
                )
                connection.execute("DELETE FROM wanted WHERE push_id = ?", [each.state.id])
            hashes = {sent.sha256 for each in listed for sent in each.done_with}
            removed = connection.execute(
                """
                DELETE FROM files WHERE sha256 IN (SELECT value FROM json_each(?))
                AND sha256 NOT IN (SELECT sha256 FROM wanted) RETURNING sha256
                """,
                [_json(sorted(hashes))],
            ).fetchall()
        self._unlink([sha256 for (sha256,) in removed])

    def note_crash(self, why: str) -> list[State]:
        """Note that the writer's process ended while it stored; return the pushes that are given up for it."""
        with self._folder.writing() as connection:
            connection.execute("UPDATE pushes SET is_begun = 0, crashes = crashes + 1 WHERE is_begun = 1")
            query = "SELECT request FROM pushes WHERE state = 'waiting' AND crashes >= ?"
            rows = connection.execute(query, [MOST_CRASHES]).fetchall()
        given_up = [msgspec.json.decode(request, type=Push) for (request,) in rows]
        states = [State(each.id, "failed", each.file.name, error=GIVEN_UP.format(why)) for each in given_up]
        self.end(Ended(state, (push.file, *push.others)) for state, push in zip(states, given_up, strict=True))
        return states

    def tidy(self) -> None:
        """Remove files that no capture needs, and forget captures that were stored long ago."""
        before = time.time() - UNUSED
        with self._folder.writing() as connection:
            removed = connection.execute(
                """
                DELETE FROM files WHERE received_at < ? AND sha256 NOT IN (SELECT sha256 FROM wanted)
                RETURNING sha256
                """,
                [before],
            ).fetchall()
            connection.execute(
                "DELETE FROM pushes WHERE state <> 'waiting' AND ended_at < ?", [time.time() - REMEMBERED]
            )
            connection.execute(
                """
                DELETE FROM pushes WHERE push_id IN (
                    SELECT p.push_id
                    FROM (
                        SELECT push_id, row_number() OVER (PARTITION BY user ORDER BY ended_at DESC) AS number
                        FROM pushes WHERE state <> 'waiting'
                    ) AS p
                    WHERE p.number > ?
                )
                """,
                [MOST_REMEMBERED],
            )
            connection.execute("DELETE FROM sent WHERE day < ?", [_day(before)])
        self._unlink([sha256 for (sha256,) in removed])
        for path in self._partial.iterdir():
            if _modified(path) < before:
                path.unlink(missing_ok=True)

    def _unlink(self, hashes: Sequence[str]) -> None:
        """Remove files that have no row. One that is received again meanwhile has one, and stays."""
        if not hashes:
            return
        with self._folder.writing() as connection:
            there = "SELECT 1 FROM files WHERE sha256 = ?"
            for each in hashes:
                if connection.execute(there, [each]).fetchone() is None:
                    self.path(each).unlink(missing_ok=True)


def _note_sent(connection: sqlite3.Connection, user: str, count: int) -> None:
    insert = "INSERT INTO sent VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes"
    connection.execute(insert, [user, _day(), count])


def _short(request: str) -> str:
    """Return what is kept of the request of a capture that isn't waiting: whether it is sent again."""
    return f"sha256 {hashlib.sha256(request.encode()).hexdigest()}"


def _tag(user: str) -> str:
    return hashlib.sha256(user.encode()).hexdigest()[:16]


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _day(at: float | None = None) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(at))


def _json(values: Sequence[str]) -> str:
    return msgspec.json.encode(list(values)).decode()


def free_bytes(folder: Path) -> int:
    """Return how many bytes a process may still write to a folder's disk."""
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize
