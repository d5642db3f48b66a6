"""Counts and logs each request, also those that are refused before anything else of them is looked at."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from starlette.routing import BaseRoute, Route

from etq.serve.logs import Log, seconds_since
from etq.serve.meters import NO_ROUTE, Meters

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

# Characters of a path in the log, and names of its query.
LONGEST: Final = 500
MOST_NAMES: Final = 20
# Parts of paths that let in who knows them.
SECRET: Final = frozenset({"token", "key", "secret"})


class Observed:
    """The outermost application."""

    def __init__(self, app: ASGIApp, routes: Iterable[BaseRoute], meters: Meters, log: Log) -> None:
        self._app = app
        self._paths: dict[object, str] = {each.endpoint: each.path for each in routes if isinstance(each, Route)}
        self._meters = meters
        self._log = log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status, size, start = 500, 0, time.perf_counter()

        async def sending(message: Message) -> None:
            nonlocal status, size
            if message["type"] == "http.response.start":
                status = message["status"]
            size += len(message.get("body", b""))
            await send(message)

        self._meters.requests.running += 1
        try:
            await self._app(scope, receive, sending)
        finally:
            self._meters.requests.running -= 1
            route = self._paths.get(scope.get("endpoint", self), NO_ROUTE)
            seconds = seconds_since(start)
            self._meters.requests.add(route, scope["method"], status, seconds, size)
            if self._log.is_on:
                self._note(scope, route, status, seconds, size)

    def _note(self, scope: Scope, route: str, status: int, seconds: float, size: int) -> None:
        state = scope.get("state", {})
        user = state.get("user")
        client = scope.get("client")
        self._log.note(
            "request", method=scope["method"][:20], path=_path(scope, route), status=status, seconds=seconds,
            bytes=size, user=None if user is None else user.name,
            address=state.get("address") or (client[0] if client else "-"),
        )  # fmt: skip


def _path(scope: Scope, route: str) -> str:
    """Return the path as it was sent, with the names of its query, and not their values, which may be secret."""
    if SECRET & scope.get("path_params", {}).keys():
        return route
    raw = scope.get("raw_path") or scope["path"].encode("utf-8", "backslashreplace")
    path: str = raw.partition(b"?")[0].decode("ascii", "backslashreplace")[:LONGEST]
    pairs = scope["query_string"].decode("latin-1")[:LONGEST].split("&")[:MOST_NAMES]
    names = [name for name, has_value, _ in (pair.partition("=") for pair in pairs) if has_value]
    return path + (f"?{'&'.join(f'{name}=' for name in names)}" if names else "")
