"""Sends captures to a server (`etq serve --tokens`), by `POST /api/push`."""

from __future__ import annotations

import http.client
import os
import random
import ssl
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import SplitResult, urlsplit

import msgspec

from etq.errors import EtqError, FormatError, MissingFileError, displayed, printable

# How long to retry while a server can't be reached or is busy, and how long an answer may take, in seconds.
PATIENCE: Final = 120.0
_TIMEOUT: Final = 600.0
_PAUSES: Final = (0.5, 10.0)
_AT_ONCE: Final = 2**18
_LONGEST_ANSWER: Final = 2**20
# The answers to a capture that was stored: it was known, or is new.
_STORED: Final = (200, 201)
_LATER: Final = (429, 500, 502, 503, 504)


class _LaterError(Exception):
    """The server couldn't be reached or was busy: a later attempt may succeed."""


class Stored(msgspec.Struct):
    """The result for a file: the name of its capture, whether it is new, and findings, as rule and detail."""

    name: str
    is_new: bool
    findings: list[tuple[str, str]] = []


class _Part(NamedTuple):
    head: bytes
    path: str | None = None
    size: int = 0


class Pusher:
    """Sends to the server at an address, with the token of $ETQ_TOKEN; `notify` gets a line when a push is repeated.

    Raises `EtqError` for an invalid address.
    """

    def __init__(
        self, url: str, patience: float = PATIENCE, notify: Callable[[str], object] = lambda text: None
    ) -> None:
        self._address = found = _address(url)
        self._path = f"{found.path.rstrip('/')}/api/push"
        self._token = os.environ.get("ETQ_TOKEN", "").strip()
        if not self._token.isascii() or not self._token.isprintable():
            raise EtqError("$ETQ_TOKEN: has characters that no token has; copy it again")
        self._patience, self._notify = patience, notify

    def push(self, files: Sequence[tuple[str, str]], fields: Sequence[tuple[str, str]]) -> Stored:
        """Send a capture: files by field (file, etrecord, pte, metrics), and other fields (label, name).

        Raises `EtqError` for a file that can't be read, or that the server doesn't take.
        """
        ends = time.monotonic() + self._patience
        pause = _PAUSES[0]
        while True:
            try:
                return self._pushed(files, fields)
            except _LaterError as error:
                if time.monotonic() + pause > ends:
                    raise EtqError(f"{error}; tried for {self._patience:g} s") from error
                if pause == _PAUSES[0]:
                    self._notify(f"{error}; trying again for {self._patience:g} s")
            time.sleep(random.uniform(pause / 2, pause))
            pause = min(2 * pause, _PAUSES[1])

    def _pushed(self, files: Sequence[tuple[str, str]], fields: Sequence[tuple[str, str]]) -> Stored:
        boundary = uuid.uuid4().hex
        parts = [*_fields(fields, boundary), *_files(files, boundary), _Part(f"\r\n--{boundary}--\r\n".encode())]
        headers = {
            "content-type": f"multipart/form-data; boundary={boundary}",
            "content-length": str(sum(len(part.head) + part.size for part in parts)),
            **({"authorization": f"Bearer {self._token}"} if self._token else {}),
        }
        with closing(self._connection()) as connection:
            try:
                # The server may refuse before all is sent; the refusal is in the answer.
                with suppress(BrokenPipeError, ConnectionResetError):
                    connection.request("POST", self._path, _content(parts), headers)
                answer = connection.getresponse()
                body = answer.read(_LONGEST_ANSWER)
            except ssl.SSLCertVerificationError as error:
                raise EtqError(f"{self._origin}: its certificate is not trusted: {error.verify_message}") from error
            except ssl.SSLError as error:
                if error.reason == "WRONG_VERSION_NUMBER":  # the answer of a server without TLS
                    raise EtqError(f"{self._origin}: no HTTPS there; write http:// if it has none") from error
                raise _LaterError(f"{self._origin}: can't be reached: {error}") from error
            except (OSError, http.client.HTTPException) as error:
                raise _LaterError(f"{self._origin}: can't be reached: {str(error) or type(error).__name__}") from error
        # `read` returns the received part if the server ends within its answer.
        if answer.status in _STORED and answer.length and len(body) < _LONGEST_ANSWER:
            raise _LaterError(f"{self._origin}: its answer ended halfway")
        return self._read(answer.status, body)

    def _read(self, status: int, body: bytes) -> Stored:
        if status in _STORED:
            try:
                return msgspec.json.decode(body, type=Stored)
            except msgspec.DecodeError as error:
                raise EtqError(f"{self._origin}: does not answer like etq serve; is the address right?") from error
        if 300 <= status < 400:
            raise EtqError(f"{self._origin}: redirects to another address, to which nothing is sent; give that one")
        try:
            text = printable(str(msgspec.json.decode(body)["error"]))[:1000]
        except (msgspec.DecodeError, KeyError, TypeError):
            text = f"status {status}, which is no answer of etq serve"
        if status in _LATER:
            raise _LaterError(text)
        raise EtqError(f"{text}; set $ETQ_TOKEN to a token" if status == 401 and not self._token else text)

    @property
    def _origin(self) -> str:
        return f"{self._address.scheme}://{self._address.netloc}"

    def _connection(self) -> http.client.HTTPConnection:
        host = self._address.hostname or ""
        if self._address.scheme == "https":
            return http.client.HTTPSConnection(host, self._address.port, timeout=_TIMEOUT)
        return http.client.HTTPConnection(host, self._address.port, timeout=_TIMEOUT)


def _address(url: str) -> SplitResult:
    with suppress(ValueError):
        found = urlsplit(url)
        is_number = found.port is None or found.port > 0  # raises ValueError for other ports
        if found.scheme in ("http", "https") and found.hostname and found.username is None and is_number:
            return found
    raise EtqError(f"{printable(url)}: not a server's address; write it as http://HOST:PORT")


def _fields(fields: Sequence[tuple[str, str]], boundary: str) -> Iterator[_Part]:
    for name, value in fields:
        head = f'\r\n--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}'
        yield _Part(head.encode("utf-8", "surrogateescape"))


def _files(files: Sequence[tuple[str, str]], boundary: str) -> Iterator[_Part]:
    for name, path in files:
        if not Path(path).is_file():
            raise MissingFileError(displayed(path))
        try:
            size = Path(path).stat().st_size
        except OSError as error:
            raise FormatError(displayed(path), f"can't be read: {(error.strerror or str(error)).lower()}") from error
        shown = displayed(Path(path).name).replace('"', "%22")
        head = (
            f'\r\n--{boundary}\r\nContent-Disposition: form-data; name="{name}"; filename="{shown}"\r\n'
            "Content-Type: application/octet-stream\r\n\r\n"
        )
        yield _Part(head.encode(), path, size)


def _content(parts: Sequence[_Part]) -> Iterator[bytes]:
    for part in parts:
        yield part.head
        if part.path is None:
            continue
        left = part.size
        with Path(part.path).open("rb") as file:
            while block := file.read(min(_AT_ONCE, left)):
                left -= len(block)
                yield block
        if left:
            raise FormatError(displayed(part.path), "changed while it was sent; send it again")
