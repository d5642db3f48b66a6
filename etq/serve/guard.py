"""Decides who may ask, before anything else of a request is looked at, and adds headers that protect pages."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, NoReturn

from etq.errors import EtqError
from etq.serve.access import Access
from etq.serve.payloads import of_error
from etq.serve.rates import Rates
from etq.serve.refusals import Refusals, RefusedError, too_many, unreadable
from etq.serve.spool import whole
from etq.serve.turns import client_of
from etq.team.folder import TeamFolder
from etq.team.keys import may_read_by_key, overview_of
from etq.team.tokens import user_of_session, user_of_token
from etq.team.users import User, find_user
from etq.threads import Threads

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

# What pages may send, from those who may change what is watched.
EDITS: Final = "/data/edit"
# Paths for programs.
API: Final = "/api/"
# What only reads, although it is sent.
QUERIES: Final = "/api/v1/sql"
# Where pages sign in.
LOGIN: Final = "/login"
# The header with the half of a session that is no cookie.
KEY: Final = "x-etq-key"
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


# Everyone waits for these threads, and they for nobody: they only read.
_finding: Final = Threads("finding", 2)


class AccessGuard:
    """The outermost application: refuses requests, or hands them on with the user.

    shown   paths that anyone may read, as of `Part`
    """

    def __init__(self, app: ASGIApp, access: Access, refusals: Refusals, shown: Sequence[str] = ()) -> None:
        self._app = app
        self._access = access
        self._refusals = refusals
        self._shown = frozenset(path for path in shown if not path.endswith("?"))
        self._shown_without_query = frozenset(path[:-1] for path in shown if path.endswith("?"))
        self._beginnings = tuple(path for path in shown if path.endswith("/") and path != "/")
        self._requests = Rates(access.settings.requests_per_minute)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        state = scope.setdefault("state", {})
        status = 0

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                given = [*message.get("headers", ())]
                named = {name for name, _ in given}
                message["headers"] = [*given, *(each for each in HEADERS if each[0] not in named)]
            await send(message)

        try:
            user = await self._checked(scope)
            if user is not None:
                state["user"] = user
                if (connection := state.get("connection")) is not None:
                    connection.trust()
            await self._app(scope, receive, sending)
            if user is not None and status == HTTPStatus.FORBIDDEN:
                await self._note(_address(scope), user.name, f"{scope['method']} {scope['path'][:200]}")
        except RefusedError as refusal:
            await _answer(refusal, scope, sending)

    async def _checked(self, scope: Scope) -> User | None:
        """Return who asks; None for what anyone may read. Raises `RefusedError`."""
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        counts = [name for name, _ in scope["headers"]]
        host = headers.get("host", "") if counts.count(b"host") == 1 else ""
        if not self._access.is_host(host):
            wanted = ", ".join(dict.fromkeys([self._access.host, "localhost"]))
            raise RefusedError(HTTPStatus.MISDIRECTED_REQUEST, f"Host {host[:200]!r} is not this server; use {wanted}")
        peer = _address(scope)
        name = await self._named_user(headers, counts, peer)
        scheme, token = _credentials(headers)
        # Pages of other sites can't have a browser send a token.
        if name is not None or scheme != "bearer":
            self._check_page(scope, headers, host)
        if self._access.is_proxy(peer):
            scope["client"] = (_forwarded(headers, peer, self._access.is_proxy), 0)
        address = _address(scope)
        if scope["path"] == LOGIN:
            self._count(f"sign-in {client_of(address)}", "too many sign-ins")
        if self._is_shown(scope):
            return None
        try:
            if overview_of(scope["path"]) is not None and await _finding.run(self._has_key, scope):
                return None
            return await self._known(scope, headers, name, token, address)
        except EtqError as error:
            raise unreadable(error) from error

    async def _known(
        self, scope: Scope, headers: Mapping[str, str], name: str | None, token: str | None, address: str
    ) -> User:
        """Return the user. Raises `RefusedError`, and `EtqError` if that can't be known."""
        folder = self._access.folder()
        if folder is None:
            return self._access.anyone
        user = await _finding.run(self._found, folder, headers, token, name)
        if user is None:
            await self._refuse(folder, address, token, name)
        most = self._access.settings.requests_per_minute
        counted = user.name if folder is self._access.settings.folder else client_of(address)
        self._count(f"user {counted}", f"{user.name} asks more than {most} times a minute")
        return user

    def _count(self, name: str, text: str) -> None:
        """Count a request. Raises `RefusedError` if it is too early."""
        if seconds := self._requests.wait(name):
            raise too_many(text, seconds)

    def _found(
        self, folder: TeamFolder, headers: Mapping[str, str], token: str | None, name: str | None
    ) -> User | None:
        if name is not None:
            return find_user(folder, name, self._access.settings.default_role)
        if "authorization" in headers:
            return None if not token else user_of_token(folder, token)
        session = session_of(headers, self._access)
        return None if session is None else user_of_session(folder, *session)

    async def _refuse(self, folder: TeamFolder, address: str, token: str | None, name: str | None) -> NoReturn:
        if name is not None:
            await self._refusals.note(folder, name[:100], address, "unknown user, or revoked")
            text = f"{name[:100]!r} is no user here; ask for: etq users add NAME --no-token"
            raise RefusedError(HTTPStatus.FORBIDDEN, text)
        if token:
            await self._refusals.note_wrong(folder, address)
        # Pages ask for a token by themselves.
        text = "needs a valid token: send Authorization: Bearer TOKEN; etq login keeps one for the commands of etq"
        raise RefusedError(HTTPStatus.UNAUTHORIZED, text, ((b"www-authenticate", b"Bearer"),))

    async def _note(self, address: str, name: str, why: str) -> None:
        """Note a refusal, if that is possible: nobody waits for it to be told."""
        if (folder := self._access.settings.folder) is not None and folder.exists:
            with suppress(EtqError):
                await self._refusals.note(folder, name, address, why)

    def _check_page(self, scope: Scope, headers: Mapping[str, str], host: str) -> None:
        """Raise `RefusedError` for what pages of other sites, and of other ports here, have a browser send.

        With it go this server's cookies, or what a proxy knows.
        """
        site, path = headers.get("sec-fetch-site"), scope["path"]
        if _is_change(scope):
            # Browsers name the page that sends.
            origin = headers.get("origin")
            is_program = origin is None and site is None and path.startswith(API)
            if site not in (None, "same-origin") or not (is_program or self._access.is_origin(origin, host)):
                raise RefusedError(HTTPStatus.FORBIDDEN, "only this server's own pages may change what it keeps")
        elif site in ("cross-site", "same-site") and path.startswith(("/data/", API)):
            # Another site must not have this one work, even if it can't read the answer.
            raise RefusedError(HTTPStatus.FORBIDDEN, "data are for this server's own pages")

    async def _named_user(self, headers: Mapping[str, str], counts: Sequence[bytes], peer: str) -> str | None:
        """Return the user whom a proxy names. Raises `RefusedError` if anyone else does."""
        header = self._access.settings.user_header
        if header is None or (name := headers.get(header.lower())) is None:
            return None
        if not self._access.is_proxy(peer):
            await self._note(peer, "", f"{header} from no proxy")
            raise RefusedError(HTTPStatus.FORBIDDEN, f"{header} comes from {peer}, which is no --proxy; leave it out")
        if counts.count(header.lower().encode()) != 1:
            raise RefusedError(HTTPStatus.BAD_REQUEST, f"{header} comes twice; let the proxy drop what clients send")
        return name

    def _has_key(self, scope: Scope) -> bool:
        """Whether a request reads a badge or a feed by the key in its link."""
        folder = self._access.settings.folder
        return not _is_change(scope) and may_read_by_key(folder, scope["path"], scope["query_string"])

    def _is_shown(self, scope: Scope) -> bool:
        path = scope["path"]
        is_shown = path in self._shown or (not scope["query_string"] and path in self._shown_without_query)
        return (not _is_change(scope) and (is_shown or path.startswith(self._beginnings))) or (
            path == LOGIN and scope["method"] == "POST"
        )


def session_of(headers: Mapping[str, str], access: Access) -> tuple[str, str] | None:
    """Return both halves of the session of a request; None without one of them."""
    key = headers.get(KEY)
    cookies = dict(pair.strip().partition("=")[::2] for pair in headers.get("cookie", "").split(";"))
    session = cookies.get(access.cookie(is_secure=True))
    if session is None and access.settings.certificate is None:
        session = cookies.get(access.cookie(is_secure=False))
    return None if not key or not session else (session, key)


def _address(scope: Scope) -> str:
    return scope["client"][0] if scope.get("client") else ""


def _is_change(scope: Scope) -> bool:
    return scope["method"] not in ("GET", "HEAD")


def _credentials(headers: Mapping[str, str]) -> tuple[str, str | None]:
    """Return the scheme of the header `Authorization`, in small letters, and the token in it; None without one.

    Readers of feeds send names with passwords (Basic): the token is the password.
    """
    scheme, _, text = headers.get("authorization", "").partition(" ")
    scheme = scheme.lower()
    if scheme == "bearer":
        return scheme, text.strip()
    if scheme == "basic":
        with suppress(ValueError):
            return scheme, base64.b64decode(text, validate=True).decode().partition(":")[2]
    return scheme, None


def _forwarded(headers: Mapping[str, str], peer: str, is_proxy: Callable[[str], bool]) -> str:
    """Return the address of the client of a proxy: the last one that isn't a proxy's; clients may write others."""
    for each in reversed(headers.get("x-forwarded-for", "").split(",")):
        if (address := each.strip()) and not is_proxy(address):
            return address[:100]
    return peer


async def _answer(refusal: RefusedError, scope: Scope, send: Send) -> None:
    is_data = scope["path"].startswith(("/data/", API)) or _is_change(scope)
    body = whole(of_error(refusal.text, refusal.status).body) if is_data else refusal.text.encode()
    type = b"application/json" if is_data else b"text/plain; charset=utf-8"
    headers = [(b"content-type", type), (b"content-length", str(len(body)).encode()), (b"cache-control", b"no-store"),
               (b"connection", b"close"), *refusal.headers]  # fmt: skip
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
