"""Tokens of users, and sessions of browsers that signed in with one.

A session has two halves. One is a cookie, which scripts can't read, but which servers on other ports of a host are
sent, too. The other is a key, which a browser keeps for the pages of one port. Both are needed.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import sqlite3
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from etq.errors import EtqError
from etq.team.users import ROLES, User, check_user

if TYPE_CHECKING:
    from etq.team.folder import TeamFolder

# By which people, and programs that look for secrets in files, recognise a token.
PREFIX: Final = "etq_"
BYTES: Final = 32
# Characters by which people name a token; the others remain unknown.
SHOWN: Final = len(PREFIX) + 8
# Seconds after which a session ends that isn't used, or that was begun.
IDLE: Final = 7 * 86400.0
LONGEST: Final = 30 * 86400.0
# Sessions of one token; the oldest ones end.
MOST: Final = 100
# How exact the time of the last use is, in seconds: not each request writes.
EXACT: Final = 60.0

_VALID: Final = "t.revoked_at IS NULL AND u.revoked_at IS NULL AND (t.expires_at IS NULL OR t.expires_at > :now)"


@dataclass(frozen=True)
class SignedIn:
    """A new session: the user, the cookie's value, and the key."""

    user: User
    session: str
    key: str


def digest(text: str) -> str:
    """Return what is kept of a token, a session or a key.

    They are random, not words that people choose: nobody finds them by trying, so a fast hash is enough.
    """
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def add_token(connection: sqlite3.Connection, user: str, note: str = "", lifetime: float | None = None) -> str:
    """Make a token for a user, which can't be had again. Raises `EtqError` for an unknown user.

    lifetime   seconds until it expires
    """
    check_user(connection, user)
    token = PREFIX + secrets.token_urlsafe(BYTES)
    now = time.time()
    connection.execute(
        "INSERT INTO tokens (token_sha256, prefix, user, note, created_at, expires_at) VALUES (?, ?, ?, ?, ?, ?)",
        [digest(token), token[:SHOWN], user, note, now, None if lifetime is None else now + lifetime],
    )
    return token


def revoke_token(connection: sqlite3.Connection, prefix: str) -> str:
    """End a token, which its first characters name; return whose it was. Raises `EtqError` unless they name one."""
    if len(prefix) < SHOWN:
        raise EtqError(f"{prefix}: too short to name a token; give the characters that etq users shows")
    found = connection.execute(
        "SELECT token_sha256, user FROM tokens WHERE prefix = ? AND revoked_at IS NULL", [prefix[:SHOWN]]
    ).fetchall()
    if len(prefix) > SHOWN:
        found = [each for each in found if each[0] == digest(prefix)]
    if len(found) != 1:
        raise EtqError(f"{prefix[:SHOWN]}: {len(found) or 'no'} valid tokens begin so; see them with etq users")
    connection.execute("UPDATE tokens SET revoked_at = ? WHERE token_sha256 = ?", [time.time(), found[0][0]])
    return str(found[0][1])


def revoke_tokens(connection: sqlite3.Connection) -> int:
    """End all tokens, and sessions with them; return how many."""
    ended = connection.execute("UPDATE tokens SET revoked_at = ? WHERE revoked_at IS NULL", [time.time()])
    connection.execute("DELETE FROM sessions")
    return ended.rowcount


def user_of_token(folder: TeamFolder, token: str) -> User | None:
    """Return whose a token is; None for one that is unknown, revoked or expired. Raises `EtqError`."""
    wanted = digest(token)
    query = f"""
        SELECT t.token_sha256, u.name, u.role, t.last_used_at
        FROM tokens AS t JOIN users AS u ON u.name = t.user
        WHERE t.token_sha256 = :wanted AND {_VALID}
    """
    with folder.reading() as connection:
        row = connection.execute(query, {"wanted": wanted, "now": time.time()}).fetchone()
    # The search is by a hash, of which times tell nothing about the token.
    if row is None or not hmac.compare_digest(row[0], wanted):
        return None
    _note_use(folder, "tokens", "token_sha256", wanted, row[3])
    return User(row[1], ROLES[row[2]])


def sign_in(folder: TeamFolder, token: str) -> SignedIn | None:
    """Begin a session; None for a token that isn't valid. Raises `EtqError`."""
    user = user_of_token(folder, token)
    if user is None:
        return None
    session, key = secrets.token_urlsafe(BYTES), secrets.token_urlsafe(BYTES)
    now = time.time()
    with folder.writing() as connection:
        connection.execute("DELETE FROM sessions WHERE last_used_at < ? OR created_at < ?", [now - IDLE, now - LONGEST])
        connection.execute(
            "INSERT INTO sessions VALUES (?, ?, ?, ?, ?)", [digest(session), digest(key), digest(token), now, now]
        )
        connection.execute(
            """
            DELETE FROM sessions WHERE session_sha256 IN (
                SELECT session_sha256 FROM sessions WHERE token_sha256 = ? ORDER BY last_used_at DESC LIMIT -1 OFFSET ?
            )
            """,
            [digest(token), MOST],
        )
    return SignedIn(user, session, key)


def user_of_session(folder: TeamFolder, session: str, key: str) -> User | None:
    """Return who signed in; None unless both halves are those of a session whose token is still valid. Raises
    `EtqError`.
    """
    wanted, now = digest(session), time.time()
    query = f"""
        SELECT s.key_sha256, u.name, u.role, s.last_used_at
        FROM sessions AS s JOIN tokens AS t USING (token_sha256) JOIN users AS u ON u.name = t.user
        WHERE s.session_sha256 = :wanted AND s.last_used_at > :idle AND s.created_at > :begun AND {_VALID}
    """
    with folder.reading() as connection:
        parameters = {"wanted": wanted, "now": now, "idle": now - IDLE, "begun": now - LONGEST}
        row = connection.execute(query, parameters).fetchone()
    if row is None or not hmac.compare_digest(row[0], digest(key)):
        return None
    _note_use(folder, "sessions", "session_sha256", wanted, row[3])
    return User(row[1], ROLES[row[2]])


def sign_out(folder: TeamFolder, session: str, key: str) -> None:
    """End a session, if both halves are given. Raises `EtqError`."""
    with folder.writing() as connection:
        connection.execute(
            "DELETE FROM sessions WHERE session_sha256 = ? AND key_sha256 = ?", [digest(session), digest(key)]
        )


def _note_use(folder: TeamFolder, table: str, key: str, value: str, before: float | None) -> None:
    now = time.time()
    if before is not None and now - before < EXACT:
        return
    # A full disk, on which nothing can be noted, keeps nobody out; nor does who writes now: the next request notes it.
    with suppress(EtqError), folder.writing(wait=0.0) as connection:
        connection.execute(f"UPDATE {table} SET last_used_at = ? WHERE {key} = ?", [now, value])
        if table == "sessions":
            connection.execute(
                """
                UPDATE tokens SET last_used_at = ?
                WHERE token_sha256 = (SELECT s.token_sha256 FROM sessions AS s WHERE s.session_sha256 = ?)
                """,
                [now, value],
            )
