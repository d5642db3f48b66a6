"""Tokens of a server, in a file of TOML: a line each, with the token's name, its role and the SHA-256 of its secret.

    "ci" = { role = "push", sha256 = "…" }

A token ends when its line is removed: the server reads the file again when it changes.
"""

from __future__ import annotations

import os
import re
import secrets
import tomllib
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

from etq.errors import EtqError

# A reader sees pages and asks queries; who pushes may do that, too.
ROLES: Final = ("read", "push")
_NAME: Final = re.compile(r"[A-Za-z0-9_.@-]{1,100}")
_HASH: Final = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Token:
    """Who has a token, and what it is for."""

    name: str
    role: str

    @property
    def may_push(self) -> bool:
        """Whether it is for sending captures, too."""
        return self.role == "push"


class TokenFile:
    """The tokens of a file, which is read again when it has changed. Raises `EtqError` if it can't be read."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._state: tuple[int, ...] | None = None
        self._tokens: dict[str, Token] = {}
        self.find("")

    def find(self, secret: str) -> Token | None:
        """Return the token with a secret. Raises `EtqError` if the file can't be read."""
        try:
            found = Path(self.path).stat()
        except OSError as error:
            raise _unreadable(self.path, error) from error
        state = (found.st_ino, found.st_size, found.st_mtime_ns)
        if state != self._state:
            self._tokens, self._state = _read(self.path), state
        # By its hash: how long the look-up takes tells nothing about a secret.
        return self._tokens.get(_hash(secret))


def add(path: str, name: str, role: str) -> str:
    """Add a token to a file, which is created if it doesn't exist, and return its secret.

    Raises `EtqError` for an invalid name, one that the file has, and a file that can't be read or written.
    """
    if _NAME.fullmatch(name) is None:
        raise EtqError(f"{name!r}: a token's name has up to 100 letters, digits, _, ., @ or -")
    if Path(path).exists() and name in {token.name for token in _read(path).values()}:
        raise EtqError(f"{path}: has a token {name} already; remove its line first, or choose another name")
    secret = f"etq_{secrets.token_urlsafe(32)}"
    line = f'"{name}" = {{ role = "{role}", sha256 = "{_hash(secret)}" }}\n'
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
        role, digest = (entry.get("role"), entry.get("sha256")) if isinstance(entry, dict) else (None, None)
        if role not in ROLES or not isinstance(digest, str) or _HASH.fullmatch(digest) is None:
            raise EtqError(
                f"{path}: {name}: needs a role, {' or '.join(ROLES)}, and sha256; add tokens with: etq token"
            )
        tokens[digest] = Token(name, role)
    return tokens


def _unreadable(path: str, error: Exception) -> EtqError:
    missing = isinstance(error, FileNotFoundError)
    what = "no such file; add a token with: etq token NAME --file" if missing else f"can't be read: {error}"
    return EtqError(f"{path}: {what}{f' {path}' if missing else ''}")
