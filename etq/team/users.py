"""Users and what they may do."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final

from etq.errors import EtqError

if TYPE_CHECKING:
    import sqlite3

    from etq.team.folder import TeamFolder


class Role(IntEnum):
    """What a user may do; each role may do what those before it may."""

    READ = 1
    PUSH = 2
    LABEL = 3
    ADMIN = 4

    @property
    def label(self) -> str:
        """The role as users write it."""
        return self.name.lower()


ROLES: Final = {role.label: role for role in Role}
# Who asks a server that needn't know who asks.
ANYONE: Final = "anyone"
# Also addresses of mail, by which proxies know users.
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@+-]{0,99}")


@dataclass(frozen=True)
class User:
    """Who sends a request."""

    name: str
    role: Role


def is_name(text: str) -> bool:
    """Whether a text can be the name of a user: it begins neither as an option nor as a token does."""
    return _NAME.fullmatch(text) is not None and not text.startswith("etq_")


def has_users(folder: TeamFolder) -> bool:
    """Whether a folder has users, those included who may do nothing any more: a server doesn't open up when the last
    one is revoked. Raises `EtqError`.
    """
    if not folder.exists:
        return False
    with folder.reading() as connection:
        return connection.execute("SELECT 1 FROM users LIMIT 1").fetchone() is not None


def find_user(folder: TeamFolder, name: str, default: Role | None = None) -> User | None:
    """Return the user of a name; None for one that was revoked. Raises `EtqError`.

    default   the role of those who are unknown; None: they are none
    """
    with folder.reading() as connection:
        row = connection.execute("SELECT role, revoked_at FROM users WHERE name = ?", [name]).fetchone()
    if row is None:
        return None if default is None or not is_name(name) else User(name, default)
    return User(name, ROLES[row[0]]) if row[1] is None else None


def add_user(connection: sqlite3.Connection, name: str, role: Role) -> None:
    """Add a user, or one that was revoked again. Raises `EtqError` for a name that is taken or can't be one."""
    if not is_name(name):
        raise EtqError(f"{name!r}: not a name of a user; use letters, digits and . _ - + @, at most 100")
    added = connection.execute(
        """
        INSERT INTO users (name, role, created_at) VALUES (?, ?, ?)
        ON CONFLICT (name) DO UPDATE SET role = excluded.role, created_at = excluded.created_at, revoked_at = NULL
        WHERE revoked_at IS NOT NULL
        """,
        [name, role.label, time.time()],
    )
    if not added.rowcount:
        raise EtqError(f"{name}: a user already; etq users token makes another token, etq users role changes the role")


def set_role(connection: sqlite3.Connection, name: str, role: Role) -> None:
    """Change what a user may do, from the next request on. Raises `EtqError` for an unknown name."""
    check_user(connection, name)
    connection.execute("UPDATE users SET role = ? WHERE name = ?", [role.label, name])


def revoke_user(connection: sqlite3.Connection, name: str) -> int:
    """Let a user do nothing any more; return how many tokens ended. Raises `EtqError` for an unknown name."""
    check_user(connection, name)
    now = time.time()
    connection.execute("UPDATE users SET revoked_at = ? WHERE name = ?", [now, name])
    ended = connection.execute("UPDATE tokens SET revoked_at = ? WHERE user = ? AND revoked_at IS NULL", [now, name])
    return ended.rowcount


def check_user(connection: sqlite3.Connection, name: str) -> None:
    """Raise `EtqError` unless a name is that of a user who isn't revoked."""
    if connection.execute("SELECT 1 FROM users WHERE name = ? AND revoked_at IS NULL", [name]).fetchone() is None:
        names = [known for (known,) in connection.execute("SELECT name FROM users WHERE revoked_at IS NULL ORDER BY 1")]
        raise EtqError(f"{name}: no such user; there are {', '.join(names[:20]) or 'none: add one with etq users add'}")


# A row for each token, and one for a user without any.
LISTED: Final = """
    SELECT
        u.name,
        CASE WHEN u.revoked_at IS NULL THEN u.role ELSE 'revoked' END AS role,
        t.prefix AS token,
        t.note,
        t.last_used_at AS last_used,
        coalesce(t.created_at, u.created_at) AS created,
        t.expires_at AS expires
    FROM users AS u
    LEFT JOIN tokens AS t ON t.user = u.name AND t.revoked_at IS NULL
    ORDER BY u.name, t.created_at, t.prefix
"""


def listed(connection: sqlite3.Connection) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Return the columns and rows of users with their tokens; times are seconds since 1970."""
    found = connection.execute(LISTED)
    return [name for name, *_ in found.description], found.fetchall()
