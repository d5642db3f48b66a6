"""Decides who may ask, before anything else of a request is looked at, and adds headers that protect pages."""

from __future__ import annotations

import hmac
import secrets
import socket
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, urlencode

from etq.listening import host_of, is_address
from etq.serve.payloads import of_error
from etq.team.users import ANYONE, Role, User

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")
# What pages may send, to servers that take it.
EDITS: Final = "/data/edit"
# Paths for programs, which may send, too.
API: Final = "/api/"
# All interfaces.
ANY: Final = ("0.0.0.0", "::", "")
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
HEADERS: Final = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)


@dataclass(frozen=True)
class Access:
    """Who may ask: clients that name one of `hosts`, and, for a server that isn't on the loopback, have the token.

    host   address that the server binds to
    token  None on the loopback
    edits  whether they may change overviews
    """

    host: str
    port: int
    token: str | None = field(default=None, repr=False)
    edits: bool = False

    @classmethod
    def of(cls, host: str, port: int, *, edits: bool = False) -> Access:
        """Return the access to a server at an address; a token is made unless it is on the loopback."""
        return cls(host, port, None if host in LOOPBACK else secrets.token_urlsafe(24), edits)

    @property
    def url(self) -> str:
        """The address to open, with the token."""
        host = socket.gethostname() if self.host in ANY else self.host
        address = f"http://{f'[{host}]' if ':' in host else host}:{self.port}/"
        return address if self.token is None else f"{address}?token={self.token}"

    @property
    def cookie(self) -> str:
        """The cookie that has the token. Ports of a host share cookies."""
        return f"etq_{self.port}"

    def is_host(self, header: str) -> bool:
        """Whether a request's header `Host` names this server: a page of another name, which was made to resolve to
        this address, must not read answers.
        """
        name = host_of(header)
        if name is None:
            return False
        if name in LOOPBACK or name == self.host.lower():
            return True
        if self.host not in ANY:
            return False
        return name in (socket.gethostname().lower(), socket.getfqdn().lower()) or is_address(name)

    def is_token(self, text: str) -> bool:
        """Whether a text is the token, compared in constant time."""
        return self.token is None or hmac.compare_digest(text.encode(), self.token.encode())


def _is_of(origin: str | None, host: str) -> bool:
    """Whether a request's header `Origin` is a page of the host that its header `Host` names, or empty."""
    return origin == "" or (
        origin is not None and origin.lower() in (f"http://{host.lower()}", f"https://{host.lower()}")
    )


class AccessGuard:
    """The outermost application: refuses requests, or hands them on."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = [*message.get("headers", ())]
                named = {name for name, _ in given}
                message["headers"] = [*given, *(each for each in HEADERS if each[0] not in named)]
            await send(message)

        refused = self._refused(scope)
        if refused is None:
            state = scope.setdefault("state", {})
            state["user"] = User(ANYONE, Role.LABEL if self._access.edits else Role.READ)
            if (connection := state.get("connection")) is not None:
                connection.trust()
            await self._app(scope, receive, sending)
            return
        status, text, headers = refused
        answer = of_error(text, status) if scope["path"].startswith("/data/") else None
        body = text.encode() if answer is None else answer.body
        type = "text/plain; charset=utf-8" if answer is None else answer.type
        plain = [(b"content-type", type.encode()), (b"content-length", str(len(body)).encode()),
                 (b"cache-control", b"no-store"), *headers]  # fmt: skip
        if status != HTTPStatus.SEE_OTHER:
            plain.append((b"connection", b"close"))  # it is of no use to who may not ask
        await sending({"type": "http.response.start", "status": status, "headers": plain})
        await sending({"type": "http.response.body", "body": body})

    def _refused(self, scope: Scope) -> tuple[int, str, list[tuple[bytes, bytes]]] | None:
        """Return the status, text and headers of a refusal; None for a request that is allowed."""
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        host = headers.get("host", "") if [name for name, _ in scope["headers"]].count(b"host") == 1 else ""
        if not self._access.is_host(host):
            wanted = ", ".join(dict.fromkeys([self._access.host, "localhost"]))
            return HTTPStatus.MISDIRECTED_REQUEST, f"Host {host[:200]!r} is not this server; use {wanted}", []
        is_edit = scope["method"] == "POST" and scope["path"] == EDITS
        is_sent = scope["method"] not in ("GET", "HEAD") and scope["path"].startswith(API)
        if (is_edit or is_sent) and self._access.edits:
            # Browsers name the page that sends; those of other sites, and of other ports here, must not.
            origin = headers.get("origin", "" if scope["path"].startswith(API) else None)
            if headers.get("sec-fetch-site", "same-origin") != "same-origin" or not _is_of(origin, host):
                return HTTPStatus.FORBIDDEN, "only this server's own pages may change what it keeps", []
        elif scope["method"] not in ("GET", "HEAD"):
            return HTTPStatus.METHOD_NOT_ALLOWED, "pages are only read", [(b"allow", b"GET, HEAD")]
        # Another site must not have this one work, even if it can't read the answer.
        if headers.get("sec-fetch-site") in ("cross-site", "same-site") and scope["path"].startswith("/data/"):
            return HTTPStatus.FORBIDDEN, "data are for this server's own pages", []
        return None if self._access.token is None else self._without_token(scope, headers)

    def _without_token(
        self, scope: Scope, headers: dict[str, str]
    ) -> tuple[int, str, list[tuple[bytes, bytes]]] | None:
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        given = dict(query).get("token")
        if given is not None and self._access.is_token(given):
            others = urlencode([each for each in query if each[0] != "token"])
            path = scope.get("raw_path", scope["path"].encode()).split(b"?")[0].decode("latin-1")
            place = "/" + path.lstrip("/\\") + (f"?{others}" if others else "")
            cookie = f"{self._access.cookie}={given}; HttpOnly; SameSite=Strict; Path=/"
            moved = [(b"location", place.encode("latin-1")), (b"set-cookie", cookie.encode("latin-1"))]
            return HTTPStatus.SEE_OTHER, "the token is kept as a cookie", moved
        for pair in headers.get("cookie", "").split(";"):
            name, _, value = pair.strip().partition("=")
            if name == self._access.cookie and self._access.is_token(value):
                return None
        return HTTPStatus.UNAUTHORIZED, "a token is needed: open the link that etq serve printed when it started", []
