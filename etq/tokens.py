"""Tokens of a server, in a file of TOML: a line each, with the token's name, its roles and the SHA-256 of its secret.

    "ci" = { roles = ["push"], sha256 = "…", ends = 2027-01-31 }

A token ends after the day that `ends` names, in UTC, or when its line is removed: the server reads the file again when
it changes.
"""

from __future__ import annotations

import os
import re
import secrets
import tomllib
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, date, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from etq.errors import EtqError, printable

# The role read is for pages; sql for pages and queries; push for sending captures, without reading anything.
ROLES: Final = ("read", "sql", "push")
_NAME: Final = re.compile(r"[A-Za-z0-9_.@-]{1,100}")
_HASH: Final = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Token:
    """The holder of a token, its roles, and the last day on which it is valid; None: no last day."""

    name: str
    roles: frozenset[str]
    ends: date | None = None

    def may(self, role: str) -> bool:
        """Whether it has a role."""
        return role in self.roles or (role == "read" and "sql" in self.roles)

    @property
    def is_over(self) -> bool:
        """Whether its last day is over."""
        return self.ends is not None and self.ends < datetime.now(UTC).date()


class TokenFile:
    """The tokens of a file, which is read again when it has changed. Raises `EtqError` if it can't be read."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._state: tuple[int, ...] | None = None
        self._tokens: dict[str, Token] = {}
        self.find("")

    def find(self, secret: str) -> Token | None:
        """Return the token with a secret, unless it is over. Raises `EtqError` if the file can't be read."""
        try:
            found = Path(self.path).stat()
        except OSError as error:
            raise _unreadable(self.path, error) from error
        state = (found.st_ino, found.st_size, found.st_mtime_ns)
        if state != self._state:
            self._tokens, self._state = _read(self.path), state
        # Looked up by its hash, so that the time of the look-up reveals nothing about a secret.
        token = self._tokens.get(_hash(secret))
        return None if token is None or token.is_over else token


def add(path: str, name: str, roles: Collection[str], ends: date | None = None) -> str:
    """Add a token to a file, which is created if it doesn't exist, and return its secret.

    Raises `EtqError` for an invalid name, one that the file has, a day that is over, and a file that can't be read or
    written.
    """
    if _NAME.fullmatch(name) is None:
        raise EtqError(f"{name!r}: a token's name has up to 100 letters, digits, _, ., @ or -")
    if Token(name, frozenset(roles), ends).is_over:
        raise EtqError(f"{ends}: is over already; choose a later day")
    if Path(path).exists() and name in {token.name for token in _read(path).values()}:
        raise EtqError(f"{path}: has a token {name} already; remove its line first, or choose another name")
    secret = f"etq_{secrets.token_urlsafe(32)}"
    listed = ", ".join(f'"{role}"' for role in ROLES if role in roles)
    until = "" if ends is None else f", ends = {ends}"
    line = f'"{name}" = {{ roles = [{listed}], sha256 = "{_hash(secret)}"{until} }}\n'
    try:
        with os.fdopen(os.open(path, os.O_CREAT | os.O_RDWR | os.O_APPEND, 0o600), "r+", encoding="utf-8") as file:
            text = file.read()
            file.write(line if not text or text.endswith("\n") else f"\n{line}")
    except OSError as error:
        raise EtqError(f"{path}: can't be written: {(error.strerror or str(error)).lower()}") from error
    return secret


def _hash(secret: str) -> str:
    return sha256(secret.encode("utf-8", "replace")).hexdigest()


def _read(path: str) -> dict[str, Token]:
    """Return the tokens of a file by their hashes."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise _unreadable(path, error) from error
    try:
        known = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise EtqError(f"{path}: not TOML: {error}") from error
    tokens = {}
    for name, entry in known.items():
        found = _token(name, entry) if isinstance(entry, dict) else None
        if found is None:
            raise EtqError(
                f"{path}: {printable(name)}: needs roles, a list of {', '.join(ROLES)}, and sha256, and may have ends, "
                "a day; add tokens with: etq token"
            )
        tokens[entry["sha256"]] = found
    return tokens


def _token(name: str, entry: dict[str, Any]) -> Token | None:
    """Return the token of a line; None for a line that isn't one."""
    roles, digest, ends = entry.get("roles"), entry.get("sha256"), entry.get("ends")
    is_valid = (
        {*entry} <= {"roles", "sha256", "ends"}
        and isinstance(roles, list) and roles != [] and all(role in ROLES for role in roles)
        and isinstance(digest, str) and _HASH.fullmatch(digest) is not None
        and (ends is None or type(ends) is date)  # in Python, a datetime is a date
    )  # fmt: skip
    return Token(name, frozenset(roles or ()), ends) if is_valid else None


def _unreadable(path: str, error: Exception) -> EtqError:
    missing = isinstance(error, FileNotFoundError)
    what = "no such file; add a token with: etq token NAME --file" if missing else f"can't be read: {error}"
    return EtqError(f"{path}: {what}{f' {path}' if missing else ''}")
