"""Tokens of servers, by their origin: `etq login` keeps them in a file that only its user can read."""

from __future__ import annotations

import json
import os
import stat
import sys
import tempfile
import tomllib
from pathlib import Path
from urllib.parse import urlsplit

from etq.errors import EtqError

_PORTS = {"http": 80, "https": 443}


def is_url(text: str) -> bool:
    """Whether a text is the address of a server."""
    return text.startswith(("http://", "https://"))


def origin_of(url: str) -> str:
    """Return scheme, host and port of an address. Raises `EtqError` for what isn't a server's."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    if parts.scheme not in _PORTS or not parts.hostname:
        raise EtqError(f"{url}: not the address of a server; write http://HOST:PORT or https://HOST")
    if parts.username is not None or parts.password is not None:
        raise EtqError("an address with a user or password; leave them out, and give the token by etq login")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}:{port or _PORTS[parts.scheme]}"


def place() -> Path:
    """Return the path of the file with tokens."""
    base = os.environ.get("XDG_CONFIG_HOME")
    return Path(base if base and Path(base).is_absolute() else Path.home() / ".config") / "etq" / "servers.toml"


def token_of(url: str, given: str | None = None) -> str | None:
    """Return the token for a server: the given one, that of `$ETQ_TOKEN`, or the one kept for its origin.

    Raises `EtqError` for a file that others can read, and for a text that isn't a token.
    """
    token = given or os.environ.get("ETQ_TOKEN") or _kept().get(origin_of(url))
    if token is not None and not (token.isascii() and token.isprintable() and " " not in token):
        raise EtqError("the token has characters that no token has; copy it again")
    return token


def keep(url: str, token: str | None) -> None:
    """Keep the token of a server, or forget it if it is None."""
    tokens = {**_kept(), origin_of(url): token}
    # The strings of JSON are strings of TOML.
    lines = [f"[{json.dumps(origin)}]\ntoken = {json.dumps(each)}\n" for origin, each in tokens.items() if each]
    path = place()
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False, encoding="utf-8") as file:
            file.write("\n".join(lines))
        Path(file.name).replace(path)
    except OSError as error:
        raise EtqError(f"{path}: {(error.strerror or str(error)).lower()}; give the token by $ETQ_TOKEN") from error


def _kept() -> dict[str, str]:
    path = place()
    try:
        with path.open("rb") as file:
            if sys.platform != "win32" and stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o077:
                raise EtqError(f"{path}: others can read its tokens; chmod 600 it, and make new tokens")
            content = tomllib.load(file)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise EtqError(f"{path}: can't be read; remove it, and use etq login again") from error
    return {
        origin: each["token"]
        for origin, each in content.items()
        if isinstance(each, dict) and isinstance(each.get("token"), str)
    }
