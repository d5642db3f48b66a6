"""The application: routes of pages, of their data, and of programs."""

from __future__ import annotations

import gzip
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final
from urllib.parse import quote, urlencode

import msgspec
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.convertors import PathConvertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from etq.database import limited
from etq.errors import EtqError, json_error, printable
from etq.serve.access import ANYONE, SIGN_IN, Guard, SignIn
from etq.serve.answers import Answer, error_response, of_data, of_error, rows_of
from etq.serve.instance import Instance
from etq.serve.pages import PAGES, assets, digest, missing, shell
from etq.serve.pushes import TooLargeError, push
from etq.serve.questions import QUESTIONS
from etq.serve.state import state_of
from etq.tokens import Token, TokenFile
from etq.version import VERSION

# The most bytes of a query with its parameters, and of cached answers.
MOST_SENT: Final = 2**20
MOST_KEPT: Final = 24 * 2**20
# Bytes that a cached answer takes besides its body. If they weren't counted, short answers would never be dropped.
_OVERHEAD: Final = 1000

Endpoint = Callable[[Request], Awaitable[Response]]


class _Any(PathConvertor):
    """A part of a path with any characters, because names may even contain line ends."""

    regex = r"[\s\S]*"


register_url_convertor("any", _Any())


class _Asked(msgspec.Struct, forbid_unknown_fields=True):
    """The body of a program's POST /api/query."""

    sql: str
    parameters: dict[str, Any] | list[Any] | None = None
    format: str = "json"


class _Kept:
    """A cache of the latest answers to pages, up to `MOST_KEPT` bytes."""

    def __init__(self) -> None:
        self._answers: OrderedDict[str, Answer] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()

    def get(self, key: str) -> Answer | None:
        with self._lock:
            if (found := self._answers.get(key)) is not None:
                self._answers.move_to_end(key)
            return found

    def put(self, key: str, answer: Answer) -> None:
        with self._lock:
            if key not in self._answers and len(answer.body) < MOST_KEPT // 2:
                self._answers[key] = answer
                self._size += len(answer.body) + _OVERHEAD
            while self._size > MOST_KEPT:
                self._size -= len(self._answers.popitem(last=False)[1].body) + _OVERHEAD


def application(instance: Instance, tokens: TokenFile | None, host: str, seconds: float, most_bytes: int) -> ASGIApp:
    """Return the application of a warehouse.

    tokens      the tokens of those who may send requests; None: only this machine
    seconds     limit of a query's time
    most_bytes  limit of the size of a push
    """
    served = _Served(instance, seconds, most_bytes)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        instance.close()

    routes = [
        Route("/", _page("home")),
        Route("/capture/{name:any}", _page("capture")),
        *(Route(f"/{name}", _page(name)) for name in PAGES if name != "home"),
        Route("/assets/{name}", _asset),
        Route(SIGN_IN, SignIn(tokens).answer, methods=["GET", "POST"]),
        Route("/data/me", served.me),
        Route("/data/state", served.state),
        Route("/data/sql", served.sql),
        *(Route(f"/data/{name}", partial(served.data, name)) for name in QUESTIONS),
        Route("/api/query", served.query, methods=["POST"]),
        Route("/api/push", served.push, methods=["POST"]),
        Route("/healthz", served.health),
    ]
    served_routes = Starlette(routes=routes, lifespan=lifespan, exception_handlers={HTTPException: _refused})
    return _Logged(Guard(served_routes, tokens, host), is_on=tokens is not None)


class _Served:
    """The endpoints of a warehouse."""

    def __init__(self, instance: Instance, seconds: float, most_bytes: int) -> None:
        self._instance = instance
        self._seconds = seconds
        self._most_bytes = most_bytes
        self._kept = _Kept()
        self._since = datetime.now(UTC).isoformat(timespec="seconds")

    async def me(self, request: Request) -> Response:
        """The facts that pages show about the warehouse, and the user."""
        token: Token = request.state.token
        user = token.name if token.name != "-" else None
        facts = {"source": printable(self._instance.path), "user": user, "asks_sql": token.may("sql")}
        return _response(request, of_data(facts))

    async def state(self, request: Request) -> Response:
        """The warehouse's state. Pages read it to notice that captures were added."""
        return _response(request, of_data({"state": await run_in_threadpool(state_of, self._instance.path)}))

    async def data(self, question: str, request: Request) -> Response:
        """The answer to a question of a page. Answers are cached until the warehouse changes."""
        state = await run_in_threadpool(state_of, self._instance.path)
        arguments = dict(request.query_params)
        key = digest(f"{VERSION} {state} {question}?{urlencode(sorted(arguments.items()))}")
        tag = None if state is None else f'"{key}"'
        if tag is not None and tag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=_headers(tag))
        answer = None if tag is None else self._kept.get(key)
        if answer is None:
            answer = await run_in_threadpool(self._asked, question, arguments)
            if tag is not None and answer.status == 200:
                self._kept.put(key, answer)
        return _response(request, answer, tag if answer.status == 200 else None)

    def _asked(self, question: str, arguments: dict[str, str]) -> Answer:
        try:
            with self._instance.reading(is_snapshot=True) as warehouse:
                return QUESTIONS[question](warehouse, arguments)
        except EtqError as error:
            return of_error(error)

    async def sql(self, request: Request) -> Response:
        """The rows of a query from the page of SQL, to show or as a file."""
        given = request.query_params
        asked = _Asked(given.get("query", ""), None, given.get("format", "page"))
        return _response(request, await run_in_threadpool(self._queried, asked, request.state.token))

    async def query(self, request: Request) -> Response:
        """The rows of a SELECT that a program sends."""
        body = bytearray()
        async for part in request.stream():
            body += part
            if len(body) > MOST_SENT:
                return _response(
                    request, of_data({"error": f"more than {MOST_SENT >> 10} KiB; send a shorter query"}, 413)
                )
        try:
            asked = msgspec.json.decode(body, type=_Asked)
        except (msgspec.DecodeError, RecursionError) as error:
            text = f'{json_error(error)}; send {{"sql": "SELECT ...", "parameters": {{}}, "format": "json"}}'
            return _response(request, of_data({"error": text}, 400))
        return _response(request, await run_in_threadpool(self._queried, asked, request.state.token))

    def _queried(self, asked: _Asked, token: Token) -> Answer:
        try:
            answer = rows_of(asked.format)
            with self._instance.reading() as warehouse:
                connection = warehouse.connection_for(asked.sql)
                sql, parameters = asked.sql, asked.parameters
                return limited.ask(
                    connection, sql, lambda cursor: answer(cursor, sql, parameters), self._seconds, parameters,
                    None if token is ANYONE else token.name,
                )  # fmt: skip
        except EtqError as error:
            return of_error(error)

    async def push(self, request: Request) -> Response:
        """Store a capture that is sent."""
        try:
            return _response(request, await push(request, self._instance, self._most_bytes))
        except TooLargeError as error:
            return _response(request, of_data({"error": str(error)}, 413))
        except EtqError as error:
            return _response(request, of_error(error))

    async def health(self, request: Request) -> Response:
        """The server's health: whether the warehouse answers a query, when this process began, and how many queries
        exceed their time limit.
        """
        return _response(request, await run_in_threadpool(self._health))

    def _health(self) -> Answer:
        try:
            with self._instance.reading() as warehouse:
                captures = warehouse.rows("SELECT count(*) FROM captures")[1][0][0]
            return of_data({"captures": captures, "since": self._since, "left": limited.left()})
        except EtqError as error:
            # Anyone may send this request. So the text, which contains paths, only goes to the log.
            sys.stderr.write(f"{printable(str(error))}\n")
            return of_data({"error": "the warehouse can't be read; see the server's log"}, 503)


def _page(name: str) -> Endpoint:
    text = shell(name)
    tag = f'"{digest(text)}"'

    async def endpoint(request: Request) -> Response:
        headers = {"etag": tag, "cache-control": "private, no-cache"}
        if tag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        return Response(text, media_type="text/html; charset=utf-8", headers=headers)

    return endpoint


async def _refused(request: Request, error: Exception) -> Response:
    """The answer at an address, or to a method, that has no route: a page in browsers, else an error as JSON."""
    assert isinstance(error, HTTPException)
    if error.status_code != 404:
        path = printable(request.url.path)
        response = error_response(f"{path} doesn't accept {request.method}", error.status_code)
        response.headers.update(error.headers or {})
        return response
    is_data = request.url.path.startswith(("/data/", "/api/"))
    if not is_data and "text/html" in request.headers.get("accept", ""):
        return HTMLResponse(missing(), 404, {"cache-control": "no-store"})
    return error_response("no such address", 404)


async def _asset(request: Request) -> Response:
    found = next((asset for asset in assets().values() if asset.name == request.path_params["name"]), None)
    if found is None:
        return PlainTextResponse("not found: reload the page", 404)
    answer = Answer(gzip.compress(found.body, 6, mtime=0), found.type, is_compressed=True)
    return _response(request, answer, None, {"cache-control": "private, max-age=31536000, immutable"})


def _response(request: Request, answer: Answer, tag: str | None = None, more: dict[str, str] | None = None) -> Response:
    headers = {**_headers(tag), **(more or {})}
    if answer.status in (429, 503):
        headers["retry-after"] = "2"
    if answer.file is not None:
        headers["content-disposition"] = f"attachment; filename*=UTF-8''{quote(answer.file)}"
    body = answer.body
    if answer.is_compressed:
        headers["vary"] = "accept-encoding"
        if "gzip" in request.headers.get("accept-encoding", ""):
            headers["content-encoding"] = "gzip"
        else:
            body = gzip.decompress(body)
    return Response(body, answer.status, headers, answer.type)


def _headers(tag: str | None) -> dict[str, str]:
    return {"cache-control": "no-store"} if tag is None else {"etag": tag, "cache-control": "private, no-cache"}


class _Logged:
    """Writes a line for each request to standard error, with the name of the token."""

    def __init__(self, app: ASGIApp, *, is_on: bool) -> None:
        self._app = app
        self._is_on = is_on

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http" or not self._is_on:
            await self._app(scope, receive, send)
            return
        began, status = time.monotonic(), 500

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, sending)
        finally:
            state = scope.get("state", {})
            who = state["token"].name if "token" in state else "-"
            address = scope["client"][0] if scope.get("client") else "-"
            path = printable(scope["path"]).replace(" ", "%20")
            when = datetime.now(UTC).isoformat(timespec="milliseconds")
            problem = f" {printable(state['problem'])}" if "problem" in state else ""
            line = f"{when} {who} {address} {scope['method']} {path} {status} {time.monotonic() - began:.3f}s{problem}"
            sys.stderr.write(f"{line}\n")
            sys.stderr.flush()
