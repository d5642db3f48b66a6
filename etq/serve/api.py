"""The warehouse for programs: each view by its name, one SELECT, and what there is, under `/api/v1/`."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Coroutine
from contextlib import suppress
from pathlib import PurePosixPath
from typing import Any, Final
from urllib.parse import unquote

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from etq import catalog
from etq.errors import EtqError
from etq.remote.protocol import COMMAND, status_of
from etq.sandbox.formats import TYPES, check_format
from etq.serve.endpoints import body_of, error, needs, note, user_of
from etq.serve.openapi import document
from etq.serve.pages import digest
from etq.serve.parameters import call_of
from etq.serve.payloads import JSON, Payload, content_of
from etq.serve.sending import InParts
from etq.serve.site import Part, Site
from etq.serve.state import WarehouseState
from etq.serve.turns import BusyError, client_of
from etq.team.users import ANYONE, Role
from etq.version import SCHEMA_VERSION, VERSION

# Bytes of a query with its parameters.
MOST_SENT: Final = 4 * 2**20
RETRY_SECONDS: Final = "2"
# Commands that are remembered, characters of an identifier, and queries of a command after which it is noted again.
MOST_COMMANDS: Final = 1000
LONGEST_ID: Final = 64
MOST_QUERIES: Final = 500
# Formats of answers to anyone.
FORMATS: Final = tuple(format for format in TYPES if format != "exact")
CAPTURES: Final = "FROM capture_summary"
SELECTED: Final = f"{CAPTURES} AS s WHERE s.name IN (SELECT m.name FROM _matching_captures($selector) AS m)"


class _Asked(msgspec.Struct, forbid_unknown_fields=True):
    query: str
    parameters: dict[str, Any] | list[Any] | None = None
    format: str = "json"


def reading(site: Site) -> Part:
    """What programs read."""
    api = _Api(site)
    routes = [
        Route("/api/v1/", needs(Role.READ, api.about)),
        Route("/api/v1/openapi.json", needs(Role.READ, api.openapi)),
        Route("/api/v1/captures", needs(Role.READ, api.captures)),
        Route("/api/v1/views/{view}", needs(Role.READ, api.view)),
        Route("/api/v1/sql", needs(Role.READ, api.sql), methods=["POST"]),
    ]
    return Part(routes)


class _Api:
    def __init__(self, site: Site) -> None:
        self._site = site
        self._state = WarehouseState(site.path)
        self._document: bytes | None = None
        self._commands = _Commands()

    async def about(self, request: Request) -> Response:
        """What is served, by which version of etq, and to whom."""
        user = user_of(request)
        return _json(
            {
                "etq_version": VERSION,
                "sql_sha256": catalog.definitions_hash(),
                "schema_version": SCHEMA_VERSION,
                "warehouse": PurePosixPath(self._site.path).name,
                "user": None if user.name == ANYONE else user.name,
                "role": user.role.label,
            }
        )

    async def openapi(self, _: Request) -> Response:
        """The description of all this; without types of columns while the warehouse can't be asked for them."""
        if self._document is None:
            with suppress(BusyError):
                answer = await self._site.pool.ask("types", {}, await self._current())
                if answer.status == 200:
                    self._document = msgspec.json.encode(document(FORMATS, content_of(answer)))
        body = self._document or msgspec.json.encode(document(FORMATS, {}))
        return InParts(body, 200, {"cache-control": "private, no-cache"}, JSON)

    async def captures(self, request: Request) -> Response:
        given = dict(request.query_params)
        format = given.pop("format", "json")
        if set(given) - {"selector"}:
            return error("captures: its parameters are selector and format", 400)
        return await self._answer(request, SELECTED if given else CAPTURES, given, format)

    async def view(self, request: Request) -> Response:
        name = request.path_params["view"]
        view = catalog.objects().get(name)
        if view is None or not view.is_public or view.kind not in ("view", "table macro"):
            return error(f"no view {name!r}; GET /api/v1/openapi.json lists them", 404)
        given = [each for each in request.query_params.multi_items() if each[0] != "format"]
        try:
            query, values = call_of(view, given)
        except EtqError as wrong:
            return error(str(wrong), 400)
        return await self._answer(request, query, values, request.query_params.get("format", "json"))

    async def sql(self, request: Request) -> Response:
        """One SELECT in the sandbox."""
        if request.headers.get("content-type", "").partition(";")[0].strip() != JSON:
            return error(f"a query is sent as {JSON}", 415)
        if (body := await body_of(request, MOST_SENT)) is None:
            return error(f"a query with its parameters has at most {MOST_SENT >> 20} MB; ask for less at once", 413)
        try:
            asked = msgspec.json.decode(body, type=_Asked)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return error('not a query; send {"query": "SELECT ...", "parameters": {...}, "format": "json"}', 400)
        if (details := self._commands.details(request, asked.query)) is not None:
            await note(self._site, request, "sql", details)
        self._commands.count(request)
        return await self._answer(request, asked.query, asked.parameters, asked.format, is_kept=False)

    async def _answer(
        self, request: Request, query: str, parameters: Any, format: str, *, is_kept: bool = True
    ) -> Response:
        """Answer a query. `is_kept`: unless the client has the answer of this state of the warehouse."""
        state = await self._current()
        tag = f'"{digest(f"{VERSION} {state} {query} {parameters!r} {format}")}"'
        headers = {"cache-control": "no-store"}
        if is_kept and state is not None:
            headers = {"cache-control": "private, no-cache", "etag": tag}
            if request.headers.get("if-none-match") == tag:
                return Response(status_code=304, headers=headers)
        client = client_of(request.client.host if request.client is not None else None)
        try:
            check_format(format)
            answer = await _unless_gone(request, self._site.pool.query(query, parameters, format, state, client))
        except BusyError as busy:
            return error(str(busy), 503, retry_after=RETRY_SECONDS)
        except EtqError as wrong:
            return error(str(wrong), status_of(wrong))
        if answer is None:
            return Response(status_code=499)  # nobody reads it
        if answer.status == 503:
            headers = {"cache-control": "no-store", "retry-after": RETRY_SECONDS}
        elif answer.status != 200:
            headers = {"cache-control": "no-store"}
        return InParts(answer.body, answer.status, headers, answer.type)

    async def _current(self) -> str | None:
        return await asyncio.to_thread(self._state.current) if self._state.is_slow else self._state.current()


class _Commands:
    """Commands of etq, which send many queries: of each, the audit log has the command and the first query.

    They are known by what the client says. One that goes on for long is noted again.
    """

    def __init__(self) -> None:
        self._asked = OrderedDict[tuple[str, str], int]()

    def details(self, request: Request, query: str) -> dict[str, str] | None:
        """Return what is noted of a query; None if its command was noted."""
        id, command = _command_of(request)
        if not command:
            return {"query": query}
        is_noted = self._asked.get((user_of(request).name, id), 0) % MOST_QUERIES != 0
        return None if is_noted else {"command": command, "query": query}

    def count(self, request: Request) -> None:
        """Count a query that was noted, or needn't be."""
        id, command = _command_of(request)
        if command:
            key = user_of(request).name, id
            self._asked[key] = self._asked.pop(key, 0) + 1
            if len(self._asked) > MOST_COMMANDS:
                self._asked.popitem(last=False)


def _command_of(request: Request) -> tuple[str, str]:
    """Return the identifier and the text of the command that a request is of; empty without one."""
    id, _, command = request.headers.get(COMMAND, "").partition(" ")
    return (id, unquote(command)) if len(id) <= LONGEST_ID else ("", "")


async def _unless_gone(request: Request, asking: Coroutine[Any, Any, Payload]) -> Payload | None:
    """Return an answer; None if the client goes away before, which ends the work on it."""
    work, gone = asyncio.ensure_future(asking), asyncio.ensure_future(_disconnected(request))
    try:
        await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
        return work.result() if work.done() else None
    finally:
        gone.cancel()
        work.cancel()


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _json(data: Any) -> Response:
    return Response(msgspec.json.encode(data), media_type=JSON, headers={"cache-control": "no-store"})
