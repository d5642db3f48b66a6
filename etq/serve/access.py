"""Decides whether a request is allowed, before any other part of it is read.

Without tokens, a server answers only this machine. The header `Host` must name the machine. Otherwise, a page of
another site could read the server by a name that resolves to this machine. With tokens, each request needs one: in the
header `Authorization`, or in the cookie that the sign-in form sets. Browsers send the cookie by themselves, so requests
that carry one must come from this server's own pages.
"""

from __future__ import annotations

import html
from contextlib import suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from etq.errors import EtqError, printable
from etq.listening import host_of
from etq.serve.answers import error_response
from etq.serve.pages import document
from etq.tokens import Token, TokenFile

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")
SIGN_IN: Final = "/sign-in"
COOKIE: Final = "etq_token"
# The user of a server without tokens.
ANYONE: Final = Token("-", frozenset(("read", "sql")))
# The roles that paths need; other paths need the role read.
_ROLES: Final = {"/api/push": "push", "/api/query": "sql", "/data/sql": "sql"}
# Paths that anyone may read, and a path for any token. They have no data. The sign-in page needs its style.
_OPEN: Final = ("/healthz", SIGN_IN, "/assets/")
_WHO: Final = "/data/me"
_MONTH: Final = 30 * 86400
_MOST_FORM: Final = 4000
HEADERS: Final = (
    (b"content-security-policy", b"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
     b"img-src 'self' data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)  # fmt: skip


class Guard:
    """The outermost application. It refuses a request, or passes it on with the token as `request.state.token`."""

    def __init__(self, app: ASGIApp, tokens: TokenFile | None, host: str) -> None:
        self._app = app
        self._tokens = tokens
        self._hosts = {*LOOPBACK, host.lower()}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *HEADERS]
            await send(message)

        request = Request(scope, receive)
        try:
            found = self._checked(request)
            if isinstance(found, Token):
                scope.setdefault("state", {})["token"] = found
                found = _refused(found, scope["path"]) or found
        except EtqError as error:  # an error of the file of tokens; only the server's log may have its path
            scope.setdefault("state", {})["problem"] = str(error)
            found = error_response("the server can't read its tokens; see its log", HTTPStatus.SERVICE_UNAVAILABLE)
        if isinstance(found, Response):
            await found(scope, receive, sending)
            return
        with suppress(ClientDisconnect):  # the client left before it sent everything, so nobody reads an answer
            await self._app(scope, receive, sending)

    def _checked(self, request: Request) -> Token | Response:  # noqa: PLR0911 - one case per line
        if self._tokens is None:
            if len(request.headers.getlist("host")) != 1 or host_of(request.headers["host"]) not in self._hosts:
                what = f"Host {request.headers.get('host', '')[:200]!r} is not this server; use localhost"
                return error_response(what, HTTPStatus.MISDIRECTED_REQUEST)
            return self._from_own_page(request) or ANYONE
        if request.scope["path"].startswith(_OPEN):
            return self._from_own_page(request) or ANYONE
        scheme, _, secret = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            token = self._tokens.find(secret.strip())
            return token or error_response("the token is wrong, was removed or has ended; ask for another one", 401)
        if (refusal := self._from_own_page(request)) is not None:
            return refusal
        token = self._tokens.find(request.cookies.get(COOKIE, ""))
        if token is None and request.method == "GET" and "text/html" in request.headers.get("accept", ""):
            place = quote(request.url.path + (f"?{request.url.query}" if request.url.query else ""))
            return RedirectResponse(f"{SIGN_IN}?next={place}", HTTPStatus.SEE_OTHER)
        return token or error_response("needs a token: send Authorization: Bearer TOKEN", HTTPStatus.UNAUTHORIZED)

    @staticmethod
    def _from_own_page(request: Request) -> Response | None:
        """Return a refusal if a page of another site or port made the browser send the request.

        Browsers state where a request comes from. Links from other sites may open pages, because pages contain no data.
        """
        site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
        is_data = request.scope["path"].startswith(("/data/", "/api/"))
        is_page = request.method == "GET" and request.headers.get("sec-fetch-dest") == "document" and not is_data
        is_own = site in (None, "same-origin", "none") and (
            origin is None or origin.partition("://")[2].lower() == request.headers.get("host", "").lower()
        )
        return None if is_own or is_page else error_response("only pages of this server may send requests", 403)


def _refused(token: Token, path: str) -> Response | None:
    """Return a refusal if a token lacks the role that a path needs."""
    needed = _ROLES.get(path, "read")
    if token.may(needed) or path == _WHO or path.startswith(_OPEN):
        return None
    if token is ANYONE:
        what = "a server without tokens only reads; start it with --tokens"
    else:
        what = f"{token.name}: needs a token of the role {needed}: etq token NAME --role {needed}"
    return error_response(what, HTTPStatus.FORBIDDEN)


class SignIn:
    """The form with which a browser signs in with a token, or signs out."""

    def __init__(self, tokens: TokenFile | None) -> None:
        self._tokens = tokens

    async def answer(self, request: Request) -> Response:
        """Show the form. If a valid token was entered, set the cookie and open the requested page."""
        if self._tokens is None:
            return RedirectResponse("/", HTTPStatus.SEE_OTHER)
        place = _place(request.query_params.get("next", "/"))
        if request.method == "GET":
            return self._form(place, "")
        length = request.headers.get("content-length", "")
        if not length.isdecimal() or int(length) > _MOST_FORM:
            return self._form(place, "That is not a token.")
        async with request.form() as sent:
            secret = str(sent.get("token", "")).strip()
        if secret and self._tokens.find(secret) is None:
            return self._form(place, "The token is wrong, was removed or has ended; ask for another one.")
        response = RedirectResponse(place, HTTPStatus.SEE_OTHER)
        is_secure = "https" in (request.url.scheme, request.headers.get("x-forwarded-proto"))
        age = _MONTH if secret else 0
        response.set_cookie(COOKIE, secret, max_age=age, path="/", secure=is_secure, httponly=True, samesite="strict")
        return response

    @staticmethod
    def _form(place: str, wrong: str) -> Response:
        action = html.escape(f"{SIGN_IN}?next={quote(place)}")
        return HTMLResponse(
            document("Sign in", "sign-in", _FORM.format(action=action, wrong=html.escape(printable(wrong)))),
            HTTPStatus.UNAUTHORIZED if wrong else HTTPStatus.OK,
            {"cache-control": "no-store"},
        )


def _place(text: str) -> str:
    """Return a path of this server; / for anything else, such as //elsewhere."""
    is_path = text.startswith("/") and not text.startswith(("//", "/\\")) and text.isprintable()
    return text if is_path else "/"


_FORM: Final = """<main id="main">
<h1>Sign in</h1>
<form id="sign-in" method="post" action="{action}">
<p>Enter your token. <code>etq token NAME</code> on the server makes one.</p>
<div class="bar">
<label class="field"><span class="muted">token</span>
<input type="password" name="token" id="token" autocomplete="current-password" required autofocus></label>
<button class="main">Sign in</button>
</div>
<p class="missing" role="alert">{wrong}</p>
</form>
</main>
"""
