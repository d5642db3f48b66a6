"""Serving over standard input and output, or over HTTP."""

from __future__ import annotations

import ipaddress
import os
import secrets
import socket
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from etq.database.connection import NONE_THERE, expanded, is_lake_path
from etq.database.locking import HeldError
from etq.errors import EtqError
from etq.listening import bound, host_of, is_address
from etq.mcp.server import server_of
from etq.warehouse.warehouse import open as open_warehouse

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server

PATH: Final = "/mcp"
# The environment variable with the token that clients must send.
TOKEN: Final = "ETQ_MCP_TOKEN"
_SHORTEST_TOKEN: Final = 16
_BACKLOG: Final = 128
# How much of a refused request's body is read, in bytes.
_LONGEST_REFUSED: Final = 2**16

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


def check_warehouse(db: str, allowed: list[str], report: Callable[[str], None]) -> None:
    """Open the warehouse once, for an error at the start instead of one at each call.

    With allowed folders it may be missing: their files can be inspected without it, and `report` is called with what to
    do. A warehouse that a writer holds is not waited for: each call waits for it. Raises `WarehouseError`.
    """
    path = expanded(db)
    if allowed and not is_lake_path(path) and not os.path.exists(path):
        report(f"{path}: {NONE_THERE.format(path)}; until then, only files of the allowed folders can be inspected")
        return
    with suppress(HeldError), open_warehouse(path, read_only=True, wait=0):
        pass


def serve_stdio(db: str, allowed: list[str]) -> None:
    """Serve a client on standard input and output until it closes them or ends. Errors are those of `server_of`."""
    server = server_of(db, allowed)
    import anyio
    from mcp.server.stdio import stdio_server

    from etq.mcp.messages import Answered

    async def serve() -> None:
        async with stdio_server() as (read, write):
            await server.run(Answered(read, write), write, server.create_initialization_options())

    try:
        anyio.run(serve)
    except BaseExceptionGroup as errors:
        # Nobody reads the answer of a call that was under way when the client ended.
        if errors.split((BrokenPipeError, anyio.BrokenResourceError))[1] is not None:
            raise


def serve_http(db: str, allowed: list[str], host: str, port: int) -> None:
    """Serve clients over HTTP until the process ends. Errors are those of `server_of` and `bound`.

    A host that is not the loopback needs a token: that of `$ETQ_MCP_TOKEN`, or a new one, which is printed.
    """
    server = server_of(db, allowed)
    import uvicorn

    token = os.environ.get(TOKEN) or None
    if token is not None and len(token) < _SHORTEST_TOKEN:
        raise EtqError(
            f"${TOKEN}: shorter than {_SHORTEST_TOKEN} characters; use a longer one, or unset it for a new one"
        )
    listener = bound(host, port)
    if token is None and not is_loopback(host):
        token = secrets.token_urlsafe(32)
        print(f"Token, to send as Authorization: Bearer: {token}", file=sys.stderr)
    app = guarded(server, host, token)
    config = uvicorn.Config(app, host=host, port=port, log_level="warning", server_header=False)
    listener.listen(_BACKLOG)  # so that a reader of the address can connect
    shown = f"[{host}]" if ":" in host else host
    print(f"http://{shown}:{listener.getsockname()[1]}{PATH}", file=sys.stderr, flush=True)
    uvicorn.Server(config).run(sockets=[listener])


def guarded(server: Server[Any], host: str, token: str | None) -> App:
    """Return the server as an application that refuses requests as `RequestGuard` does."""
    from mcp.server.transport_security import TransportSecuritySettings

    # The guard checks more strictly, before anything of the request is read.
    unchecked = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    return RequestGuard(
        server.streamable_http_app(streamable_http_path=PATH, transport_security=unchecked), host, token
    )


def is_loopback(host: str) -> bool:
    """Whether only processes of this machine reach a host's address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class RequestGuard:
    """Refuses requests that other sites' pages cause, and those without the token.

    The name in `Host` must be an address, localhost, the host served at or this machine's name: a name that an attacker
    controls (DNS rebinding) is none of these. `Origin`, which browsers send, must be that of the same server.
    """

    def __init__(self, app: App, host: str, token: str | None) -> None:
        self._app = app
        self._names = {"localhost", host.lower(), socket.gethostname().lower()}
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        refused = (404, "not found") if scope["type"] != "http" else self._refusal(scope["headers"])
        if refused is None:
            await self._app(scope, receive, send)
            return
        # A client that still sends the body would see a reset connection instead of the answer.
        size = 0
        while scope["type"] == "http" and size < _LONGEST_REFUSED:
            message = await receive()
            size += len(message.get("body", b""))
            if not message.get("more_body", False):
                break
        status, text = refused
        headers = [(b"content-type", b"text/plain; charset=utf-8")]
        headers += [(b"www-authenticate", b"Bearer")] if status == 401 else []
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": text.encode()})

    def _refusal(self, headers: list[tuple[bytes, bytes]]) -> tuple[int, str] | None:
        """Return the status and text of a refusal; None for a request that may pass."""
        hosts, origins, tokens = (
            [value.decode("latin-1") for key, value in headers if key == name]
            for name in (b"host", b"origin", b"authorization")
        )
        if len(hosts) != 1 or not self._is_served(hosts[0]):
            return 421, "the Host header names another server; use the address that etq mcp prints"
        if any(
            origin.lower() not in (f"http://{hosts[0]}".lower(), f"https://{hosts[0]}".lower()) for origin in origins
        ):
            return 403, "the Origin header is that of another site"
        if self._token is not None:
            expected = f"Bearer {self._token}".encode()
            if len(tokens) != 1 or not secrets.compare_digest(tokens[0].encode("latin-1"), expected):
                return 401, "the token is missing or wrong; send Authorization: Bearer TOKEN"
        return None

    def _is_served(self, host: str) -> bool:
        name = host_of(host)
        return name is not None and (is_address(name) or name in self._names)
