"""The application: routes of pages, of their files, and of data, which are cached by the warehouse's state."""

from __future__ import annotations

import asyncio
import gzip
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from typing import Final
from urllib.parse import quote, urlencode

import msgspec
from starlette.applications import Starlette
from starlette.convertors import PathConvertor, register_url_convertor
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from etq.serve.access import Access
from etq.serve.api import reading
from etq.serve.backups import backups
from etq.serve.endpoints import Endpoint, body_of, needs, note, user_of
from etq.serve.feeds import feeds
from etq.serve.guard import EDITS, AccessGuard
from etq.serve.health import health
from etq.serve.meters import Family, gauge
from etq.serve.metrics import metrics
from etq.serve.observed import Observed
from etq.serve.pages import PAGES, assets, digest, shell
from etq.serve.payloads import Payload, of_data, of_error
from etq.serve.pruning import pruning
from etq.serve.pushes import pushes
from etq.serve.refusals import Refusals
from etq.serve.sending import InParts
from etq.serve.signing import signing
from etq.serve.site import Part, Site
from etq.serve.state import WarehouseState
from etq.serve.trimming import trimming
from etq.serve.turns import BusyError, client_of
from etq.serve.webhook import webhook
from etq.team.users import ANYONE, Role
from etq.version import VERSION

# Bytes of answers that are kept, of all and of one.
MOST_KEPT: Final = 24 * 2**20
MOST_OF_ONE: Final = 12 * 2**20
# Bytes that an entry takes in addition to its answer: without them, short answers would never be dropped.
OVERHEAD: Final = 1000
# Data by path, which are answers to the questions of that name.
DATA: Final = (
    *("captures", "counts", "matches", "series", "report", "difference", "trends", "schema", "sql"),
    *("overviews", "watched", "changes", "compared"),
)
# The questions of the first page, in its order.
FIRST: Final = ("captures", "series", "counts")
# Bytes of a change to an overview.
MOST_SENT: Final = 20_000
RETRY_SECONDS: Final = "2"


class _Any(PathConvertor):
    """A part of a path with any characters: a name in somebody's warehouse may have line ends, too."""

    regex = r"[\s\S]*"


register_url_convertor("any", _Any())


class Kept:
    """Answers that were given, the latest ones, up to a size. Of keys, which may be long, only hashes are kept."""

    def __init__(self) -> None:
        self._answers: OrderedDict[str, Payload] = OrderedDict()
        self._size = 0

    @property
    def size(self) -> int:
        """The bytes that are kept."""
        return self._size

    def get(self, key: str) -> Payload | None:
        """Return an answer; None if it isn't kept."""
        place = digest(key)
        if (found := self._answers.get(place)) is not None:
            self._answers.move_to_end(place)
        return found

    def put(self, key: str, answer: Payload) -> None:
        """Keep an answer; the oldest ones are dropped."""
        if len(answer.body) > MOST_OF_ONE:
            return
        place = digest(key)
        if (known := self._answers.pop(place, None)) is not None:
            self._size -= len(known.body) + OVERHEAD
        self._answers[place] = answer
        self._size += len(answer.body) + OVERHEAD
        while self._size > MOST_KEPT:
            self._size -= len(self._answers.popitem(last=False)[1].body) + OVERHEAD


def application(site: Site, access: Access) -> ASGIApp:
    """Return the application of a site, for those who have access."""
    refusals = Refusals()
    parts = [signing(site, access, refusals), *(make(site) for make in PARTS)]

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with AsyncExitStack() as running:
            for part in parts:
                await running.enter_async_context(part.running())
            yield

    routes = [route for part in parts for route in part.routes]
    shown = [path for part in parts for path in part.shown]
    guarded = AccessGuard(Starlette(routes=routes, lifespan=lifespan), access, refusals, shown)
    return Observed(guarded, routes, site.meters, site.log)


def pages(site: Site) -> Part:
    """The pages and their data."""
    served = _Served(site)
    site.meters.add(served.families)

    @asynccontextmanager
    async def running() -> AsyncIterator[None]:
        served.pool.start()
        preparing = asyncio.create_task(served.prepare())
        yield
        preparing.cancel()
        served.pool.close()

    names = [name for name in PAGES if name != "captures"]
    routes = [
        Route("/", served.page("captures")),
        Route("/capture/{name:any}", served.page("capture")),
        *(Route(f"/{name}", served.page(name)) for name in names),
        Route("/assets/{name}", served.asset),
        Route("/data/state", needs(Role.READ, served.state)),
        *(Route(f"/data/{name}", needs(Role.READ, served.data(name))) for name in DATA),
        Route(EDITS, needs(Role.LABEL, served.edit), methods=["POST"]),
    ]
    return Part(routes, running, shown=["/", "/capture/", "/assets/", *(f"/{name}" for name in names)])


PARTS: Final[tuple[Callable[[Site], Part], ...]] = (
    pages, pushes, reading, feeds, webhook, health, metrics, backups, pruning, trimming,
)  # fmt: skip


class _Served:
    """The endpoints of one warehouse."""

    def __init__(self, site: Site) -> None:
        self.pool = site.pool
        self._site = site
        self._state = WarehouseState(site.path)
        self._kept = Kept()
        # Questions that are being answered, and how many wait for the answer.
        self._running: dict[str, asyncio.Task[Payload]] = {}
        self._waiting: Counter[asyncio.Task[Payload]] = Counter()
        self._assets = {each.name: each for each in assets().values()}
        self._compressed = {name: gzip.compress(each.body, 6, mtime=0) for name, each in self._assets.items()}

    async def prepare(self) -> None:
        """Ask for all that the first page shows, so that its first visitor needn't wait.

        Others go first: who is there already asks for what they see.
        """
        state = await self._current()
        for question in FIRST:
            if any(not work.done() for work in self._running.values()):
                return
            key = f"{state} {question}?"
            with suppress(BusyError), self._shared(key, question, {}, state) as work:
                answer = await work
                if state is not None and answer.status == 200:
                    self._kept.put(key, answer)

    async def families(self) -> list[Family]:
        """Return what is known as values of metrics."""
        return [gauge("etq_kept_answers_bytes", "Bytes of answers that are kept.", self._kept.size)]

    def page(self, name: str) -> Endpoint:
        text = shell(name)
        tag = f'"{digest(text)}"'

        async def endpoint(request: Request) -> Response:
            headers = {"etag": tag, "cache-control": "private, no-cache"}
            if _has_tag(request, tag):
                return Response(status_code=304, headers=headers)
            return Response(text, media_type="text/html; charset=utf-8", headers=headers)

        return endpoint

    async def asset(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in self._assets:
            return PlainTextResponse("not found: reload the page", 404)
        headers = {"cache-control": "private, max-age=31536000, immutable", "vary": "accept-encoding"}
        body = self._assets[name].body
        if _takes_gzip(request):
            body, headers["content-encoding"] = self._compressed[name], "gzip"
        return InParts(body, 200, headers, self._assets[name].type)

    async def state(self, request: Request) -> Response:
        """The state, by which pages notice that captures were added."""
        return _response(request, of_data({"state": await self._current()}), None)

    async def _current(self) -> str | None:
        return await asyncio.to_thread(self._state.current) if self._state.is_slow else self._state.current()

    def data(self, question: str) -> Endpoint:
        async def endpoint(request: Request) -> Response:
            return await self._data(question, request)

        return endpoint

    async def _data(self, question: str, request: Request) -> Response:
        arguments = dict(request.query_params)
        if question == "sql":
            await note(self._site, request, "sql", arguments)
        state = await self._current()
        key = f"{state} {question}?{urlencode(sorted(arguments.items()))}"
        # A query may ask for the time, or for random numbers.
        is_kept = state is not None and question != "sql"
        tag = f'"{digest(f"{VERSION} {key}")}"'
        if is_kept and _has_tag(request, tag):
            return Response(status_code=304, headers=_headers(tag))
        answer = self._kept.get(key) if is_kept else None
        if answer is None:
            answer = await self._asked(request, key if is_kept else f"{key} {id(request)}", question, arguments, state)
            if answer is None:
                return Response(status_code=499)  # nobody reads it
            if is_kept and answer.status == 200:
                self._kept.put(key, answer)
        return _response(request, answer, tag if is_kept and answer.status == 200 else None)

    async def edit(self, request: Request) -> Response:
        """A change to an overview, which pages of this server send."""
        if (body := await body_of(request, MOST_SENT)) is None:
            return _response(request, of_error("too long; choose fewer captures by a shorter selector", 413), None)
        try:
            arguments = msgspec.json.decode(body, type=dict[str, str])
        except (msgspec.DecodeError, UnicodeDecodeError):
            return _response(request, of_error("not a change to an overview; reload the page", 400), None)
        await note(self._site, request, "overview", dict(arguments))
        # Who writes is known to the server, if anyone is.
        user = user_of(request)
        arguments["author"] = "" if user.name == ANYONE else user.name
        answer = await self._asked(request, f"edit {id(request)}", "edit", arguments, None)
        self._state.forget()
        return Response(status_code=499) if answer is None else _response(request, answer, None)

    async def _asked(
        self, request: Request, key: str, question: str, arguments: dict[str, str], state: str | None
    ) -> Payload | None:
        """Return the answer of the pool; None if the client went away."""
        gone = asyncio.ensure_future(_disconnected(request))
        client = client_of(request.client.host if request.client is not None else None)
        try:
            with self._shared(key, question, arguments, state, client) as work:
                await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
                return await work if work.done() else None
        except BusyError as error:
            return of_error(str(error), 503)
        finally:
            gone.cancel()

    @contextmanager
    def _shared(
        self, key: str, question: str, arguments: dict[str, str], state: str | None, client: str = ""
    ) -> Iterator[asyncio.Task[Payload]]:
        """Provide the work on a question, one for all who ask it at the same time; it ends when none of them waits."""
        work = self._running.get(key)
        if work is None:
            work = self._running[key] = asyncio.create_task(self.pool.ask(question, arguments, state, client))
            work.add_done_callback(lambda done: done.cancelled() or done.exception())  # of which nobody may ask
        self._waiting[work] += 1
        try:
            yield work
        finally:
            self._waiting[work] -= 1
            if not self._waiting[work]:
                del self._waiting[work], self._running[key]
                work.cancel()


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _response(request: Request, answer: Payload, tag: str | None) -> Response:
    headers = _headers(tag)
    if answer.status == 503:
        headers["retry-after"] = RETRY_SECONDS
    if answer.file is not None:
        headers["content-disposition"] = f"attachment; filename*=UTF-8''{quote(answer.file)}"
    takes_gzip = _takes_gzip(request)
    if answer.is_compressed and takes_gzip:
        headers["content-encoding"] = "gzip"
    expands = answer.is_compressed and not takes_gzip
    return InParts(answer.body, answer.status, headers, answer.type, expands=expands)


def _headers(tag: str | None) -> dict[str, str]:
    if tag is None:
        return {"cache-control": "no-store"}
    return {"etag": tag, "cache-control": "private, no-cache", "vary": "accept-encoding"}


def _has_tag(request: Request, tag: str) -> bool:
    return tag in (each.strip().removeprefix("W/") for each in request.headers.get("if-none-match", "").split(","))


def _takes_gzip(request: Request) -> bool:
    return "gzip" in request.headers.get("accept-encoding", "")
