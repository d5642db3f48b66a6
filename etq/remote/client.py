"""A connection to a team's server, which is kept and made anew when it ends."""

from __future__ import annotations

import http.client
import json
import random
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar
from urllib.parse import urlsplit

import msgspec

from etq.errors import EtqError
from etq.remote.deadlines import ended_after
from etq.remote.protocol import ROOT
from etq.remote.servers import origin_of, token_of
from etq.version import VERSION

# Seconds of an answer, and between attempts: they double up to the last. A server that asks for more time gets it.
SECONDS: Final = 180.0
PAUSES: Final = (0.1, 5.0)
LONGEST_PAUSE: Final = 60.0
# Seconds without progress after which it is given up.
PATIENCE: Final = 120.0
# Bytes that are sent at once.
AT_ONCE: Final = 2**18
# Bytes of an answer: a server may be anyone's.
MOST: Final = 128 * 2**20
_AGAIN: Final = (429, 502, 503, 504, 507)

Answer = TypeVar("Answer")


class ServerError(EtqError):
    """A server refuses a request, or can't be reached; `status` is that of HTTP, 0 without an answer."""

    def __init__(self, message: str, status: int = 0, body: bytes = b"") -> None:
        super().__init__(message)
        self.status, self.body = status, body


class Body(Protocol):
    """What is sent: its bytes from an offset on."""

    size: int

    def read_from(self, offset: int) -> AbstractContextManager[Callable[[int], bytes]]:
        """Provide a function that reads up to so many of the next bytes."""
        ...


@dataclass(frozen=True)
class Reply:
    """An answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Client:
    """A client of a server. The token goes to that server alone: no redirection is followed."""

    def __init__(self, url: str, token: str | None = None, patience: float = PATIENCE) -> None:
        self.origin = origin_of(url)
        self._base = urlsplit(url).path.rstrip("/")
        self._token = token_of(url, token)
        self._patience = patience
        self._progress = 0.0
        self._connection: http.client.HTTPConnection | None = None
        self.connections = self.requests = 0

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def post(self, path: str, content: msgspec.Struct, type: type[Answer]) -> Answer:
        """Return the answer to a request, which is sent again until there is one. Raises `ServerError`."""
        body = msgspec.json.encode(content)
        reply = self.request("POST", path, {"content-type": "application/json"}, body)
        try:
            return msgspec.json.decode(reply.body, type=type)
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise ServerError(f"{self.origin}: not a server of etq, or one of another version") from None

    def request(
        self, method: str, path: str, headers: Mapping[str, str] | None = None, body: bytes | None = None
    ) -> Reply:
        """Return the answer to a request, which is sent again until there is one. Raises `ServerError`."""
        return self.patiently(lambda: self._once(method, path, headers or {}, body))

    def send(self, path: str, file: Body, progress: Callable[[int], None]) -> None:
        """Send a file, from where the server has it on. Raises `ServerError`.

        progress  called with how many bytes of it are there
        """
        is_again = False
        # What of the file was sent, and what the server says that it has.
        furthest = {"sent": 0, "there": 0}

        def moved(what: str, place: int) -> None:
            # What is sent again is no progress: a server that takes it in vain isn't tried for ever.
            if place > furthest[what]:
                furthest[what], self._progress = place, time.monotonic()

        def attempt() -> Reply:
            nonlocal is_again
            offset = 0
            # A small file is sent at once, and only looked for when that has failed.
            if is_again or file.size > AT_ONCE:
                there = self._once("HEAD", path, {}, None)
                if 300 <= there.status < 400:
                    return there
                given = there.headers.get("upload-offset", "0")
                offset = int(given) if given.isascii() and given.isdecimal() and len(given) < 20 else 0
                if there.headers.get("upload-complete") == "?1":
                    return there
            is_again = True
            offset = offset if offset < file.size else 0
            moved("there", offset)
            headers = {"upload-offset": str(offset), "content-length": str(file.size - offset)}

            def parts(read: Callable[[int], bytes]) -> Iterator[bytes]:
                done = offset
                while block := read(AT_ONCE):
                    yield block
                    done += len(block)
                    progress(done)
                    moved("sent", done)

            with file.read_from(offset) as read:
                return self._once("PUT", path, headers, parts(read))

        self.patiently(attempt)

    @contextmanager
    def streamed(self, path: str, seconds: float) -> Iterator[http.client.HTTPResponse]:
        """Provide the answer to a GET on a connection of its own, with a timeout for it and for each of its parts.

        Raises `ServerError` for a refusal, and errors of the connection as they are.
        """
        with closing(self._connected(seconds)) as connection:
            self._send(connection, "GET", path, {}, None)
            with connection.getresponse() as response:
                if response.status != http.client.OK:
                    headers = {name.lower(): value for name, value in response.getheaders()}
                    raise self._refused(Reply(response.status, headers, response.read(AT_ONCE)))
                yield response

    def patiently(self, attempt: Callable[[], Reply]) -> Reply:
        """Return the answer of an attempt, which is repeated while the server can't be reached, or is busy.

        It is given up after the client's patience since the start, or since there was progress.
        """
        pause, self._progress = PAUSES[0], time.monotonic()
        while True:
            wait = random.uniform(pause / 2, pause)
            try:
                reply = attempt()
                if reply.status < 300 or reply.status == 304:
                    return reply
                error = self._refused(reply)
                after = reply.headers.get("retry-after", "")
                if reply.status not in _AGAIN and not (reply.status == 409 and "upload-offset" in reply.headers):
                    raise error
                if after.isdecimal():
                    wait = max(wait, float(after))
                if wait > LONGEST_PAUSE:
                    raise error
            except (OSError, http.client.HTTPException) as failure:
                self.close()
                if isinstance(failure, ssl.SSLCertVerificationError):
                    raise ServerError(f"{self.origin}: {failure.verify_message}; see SSL_CERT_FILE") from None
                error = ServerError(f"{self.origin}: can't be reached: {_reason(failure)}; see whether it runs")
            if time.monotonic() + wait > self._progress + self._patience:
                raise error
            time.sleep(wait)
            pause = min(2 * pause, PAUSES[1])

    def _once(self, method: str, path: str, headers: Mapping[str, str], body: object) -> Reply:
        connection = self._connection = self._connection or self._connected()
        self.requests += 1
        try:
            try:
                self._send(connection, method, path, headers, body)
            except (BrokenPipeError, ConnectionResetError):
                # A server that refuses what is sent may not read to its end.
                reply = self._read(connection)
                if reply.status < 300:
                    raise
                self.close()
                return reply
            return self._read(connection)
        except BaseException:
            self.close()
            raise

    def _send(
        self, connection: http.client.HTTPConnection, method: str, path: str, headers: Mapping[str, str], body: object
    ) -> None:
        sent = {"user-agent": f"etq/{VERSION}", "accept": "application/json", **headers}
        if self._token is not None:
            sent["authorization"] = f"Bearer {self._token}"
        connection.request(method, f"{self._base}{ROOT}{path}", body, sent)  # type: ignore[arg-type]

    def _read(self, connection: http.client.HTTPConnection) -> Reply:
        with ended_after(connection.sock, SECONDS), connection.getresponse() as response:
            headers = {name.lower(): value for name, value in response.getheaders()}
            received = bytearray()
            while part := response.read(AT_ONCE):
                received += part
                if len(received) > MOST:
                    raise ServerError(f"{self.origin}: answers with more than {MOST >> 20} MB; ask for less of it")
        return Reply(response.status, headers, bytes(received))

    def _connected(self, seconds: float = SECONDS) -> http.client.HTTPConnection:
        self.connections += 1
        parts = urlsplit(self.origin)
        assert parts.hostname is not None
        if parts.scheme == "https":
            context = ssl.create_default_context()
            return http.client.HTTPSConnection(parts.hostname, parts.port, timeout=seconds, context=context)
        return http.client.HTTPConnection(parts.hostname, parts.port, timeout=seconds)

    def _refused(self, reply: Reply) -> ServerError:
        text = reply.body.decode(errors="replace")[:1000]
        with suppress(ValueError, KeyError, TypeError, RecursionError):
            text = str(json.loads(reply.body)["error"])
        if 300 <= reply.status < 400:
            place = reply.headers.get("location", "another address")
            text = f"leads to {place}; give that address, if it is the server's"
        if reply.status == 401:
            text = f"needs a valid token; give a token: etq login {self.origin}, or $ETQ_TOKEN"
        if reply.status in (404, 405) and b"error" not in reply.body:
            text = "isn't a team's server; start it as one, see etq serve --help"
        return ServerError(f"{self.origin}: {text or f'status {reply.status}'}", reply.status, reply.body)


class _Owner(msgspec.Struct):
    user: str | None
    role: str


def owner_of(url: str, token: str) -> tuple[str, str]:
    """Return whose token it is, and the role of that user. Raises `ServerError`, also for a server without users."""
    with Client(url, token, patience=5) as client:
        try:
            owner = msgspec.json.decode(client.request("GET", "/").body, type=_Owner)
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise ServerError(f"{client.origin}: not a server of etq, or one of another version") from None
        except ServerError as error:
            if error.status != 401:
                raise
            text = "the token is wrong, revoked or expired; ask for another one"
            raise ServerError(f"{client.origin}: {text}", error.status) from None
    if owner.user is None:
        raise ServerError(f"{client.origin}: has no users, so it needs no token")
    return owner.user, owner.role


def _reason(error: BaseException) -> str:
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return text.lower()
