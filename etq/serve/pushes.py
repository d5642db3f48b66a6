"""Captures that programs send to the server: `etq.remote.protocol` has the requests and answers."""

from __future__ import annotations

import asyncio
import math
import re
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final, TypeVar

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from etq.annotations.labels import check_labels, moment_of
from etq.errors import EtqError
from etq.remote.protocol import (
    MOST_AT_ONCE,
    ROOT,
    Hashes,
    Identifiers,
    Missing,
    Push,
    Pushes,
    Sent,
    State,
    States,
    is_identifier,
    is_sha256,
)
from etq.serve.changing import CAPTURE, Changing
from etq.serve.endpoints import Endpoint, address_of, body_of, error, needs, user_of
from etq.serve.forms import pushed_form
from etq.serve.payloads import JSON, content_of
from etq.serve.receiving import Receiver, RefusedError
from etq.serve.site import Part, Site
from etq.serve.storing import Storing
from etq.serve.turns import BusyError, client_of
from etq.team.changes import Changes
from etq.team.folder import TeamFolder
from etq.team.queue import ConflictError, PushQueue, TooManyError
from etq.team.users import Role

# Bytes of a request that isn't a file.
MOST_SENT: Final = 4 * 2**20
# Seconds that an answer waits at most: a connection has 300 for it.
LONGEST_WAIT: Final = 120.0
# Labels of a capture, characters of a text, and of the parts of a file's name.
MOST_LABELS: Final = 100
MOST_OF_TEXT: Final = 2000
MOST_OF_NAME: Final = 120
MOST_PARTS: Final = 4

_NOT_IN_NAMES: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\ud800-\udfff]")
Asked = TypeVar("Asked")


def pushes(site: Site) -> Part:
    """What programs send, if the server has a folder for it."""
    folder = site.settings.folder
    if folder is None or not (site.settings.edits or folder.exists):
        return Part()
    served = _Pushes(site, folder)
    routes = [
        Route(f"{ROOT}/files/missing", served.endpoint(served.missing), methods=["POST"]),
        Route(f"{ROOT}/files/{{sha256}}", served.endpoint(served.offset), methods=["GET", "HEAD"]),
        Route(f"{ROOT}/files/{{sha256}}", served.endpoint(served.file), methods=["PUT"]),
        Route(f"{ROOT}/pushes", served.endpoint(served.push), methods=["POST"]),
        Route(f"{ROOT}/pushes/states", served.endpoint(served.states), methods=["POST"]),
        Route(f"{ROOT}/pushes/{{id}}", served.endpoint(served.state), methods=["GET"]),
        Route(f"{ROOT}/captures", served.endpoint(served.form), methods=["POST"]),
        Route(f"{ROOT}{CAPTURE}", served.endpoint(served.changing.label, Role.LABEL), methods=["PATCH"]),
        Route(f"{ROOT}{CAPTURE}", served.endpoint(served.changing.remove, Role.ADMIN), methods=["DELETE"]),
    ]
    return Part(routes, served.running)


class _Pushes:
    """The endpoints of a queue."""

    def __init__(self, site: Site, folder: TeamFolder) -> None:
        self._pool = site.pool
        self._folder = folder
        self._queue = PushQueue(folder)
        self._receiver = Receiver(self._queue, folder.path, site.settings)
        self._storing = Storing(site.path, folder.path, self._queue)
        self.changing = Changing(site.path, Changes(folder), self._storing)
        self._running = AsyncExitStack()
        self._starting = asyncio.Lock()
        self._is_started = False

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Store what waits. Without a folder, one is made for the first request."""
        async with self._running:
            if self._folder.exists:
                await self._start()
            yield

    async def _start(self) -> None:
        async with self._starting:
            if not self._is_started:
                await asyncio.to_thread(self._folder.make)
                await self._running.enter_async_context(self._storing.running())
                self._is_started = True

    def endpoint(self, answer: Endpoint, role: Role = Role.PUSH) -> Endpoint:
        """Return an endpoint for those who may push, or have another role, which answers what it refuses."""

        async def answered(request: Request) -> Response:
            try:
                await self._start()
                return await answer(request)
            except RefusedError as refused:
                return error(refused.message, refused.status, **refused.headers)
            except ClientDisconnect:
                return Response(status_code=499)  # nobody reads it
            except EtqError as failure:  # of the folder
                return error(str(failure), 503, retry_after="5")
            except OSError as failure:
                what = (failure.strerror or str(failure)).lower()
                return error(f"the server's folder can't be written: {what}; look at its disk", 507, retry_after="60")

        return needs(role, answered)

    async def missing(self, request: Request) -> Response:
        """Which of files the server needs."""
        asked = await _body(request, Hashes)
        hashes = dict.fromkeys([*asked.sha256, *asked.others])
        _check_hashes([*hashes])
        there = await self._receiver.threads.run(self._queue.there, [*hashes])
        others = {*asked.others}
        known = await self._known(request, [each for each in hashes if each not in there and each not in others])
        missing = [each for each in hashes if each not in there and each not in known]
        return _json(Missing(missing, self._receiver.most_bytes))

    async def offset(self, request: Request) -> Response:
        """How much of a file is there."""
        sha256 = _hash_of(request)
        count, is_whole = await self._receiver.threads.run(self._receiver.offset, user_of(request).name, sha256)
        headers = {"upload-offset": str(count), "upload-complete": "?1" if is_whole else "?0"}
        return Response(status_code=204, headers={"cache-control": "no-store", **headers})

    async def file(self, request: Request) -> Response:
        """Receive a file."""
        sha256 = _hash_of(request)
        await self._receiver.receive(request, user_of(request).name, sha256)
        return _json(Sent(sha256, sha256), 201)

    async def push(self, request: Request) -> Response:
        """Take captures whose files are there."""
        sent = await _body(request, Pushes)
        if not 0 < len(sent.pushes) <= MOST_AT_ONCE:
            raise RefusedError(f"send 1 to {MOST_AT_ONCE} captures at once", 413 if sent.pushes else 400)
        return await self._taken(request, sent.pushes)

    async def form(self, request: Request) -> Response:
        """Receive a capture as a form. The status is 422 if it was waited for, and can't be stored."""
        seconds = _seconds(request)
        push = await pushed_form(request, user_of(request).name, self._receiver)
        return await self._taken(request, [push], seconds)

    async def _taken(self, request: Request, sent: Sequence[Push], seconds: float = 0) -> Response:
        user = user_of(request).name
        checked = [_checked(each) for each in sent]
        missing = await self._receiver.threads.run(self._queue.needed, checked, set())
        known = await self._known(request, missing)
        try:
            missing = await self._receiver.threads.run(self._queue.add, user, checked, known, address_of(request))
        except ConflictError as conflict:
            raise RefusedError(str(conflict), 422) from None
        except TooManyError as many:
            raise RefusedError(str(many), 429, retry_after="30") from None
        if missing:
            text = f"{len(missing)} files are missing; send them first, by PUT {ROOT}/files/SHA256"
            return _json(Missing(missing, self._receiver.most_bytes, text), 409)
        self._storing.wake()
        states = await self._states([each.id for each in checked], user, seconds)
        failed = next((each.error for each in states if each.error is not None), None) if seconds else None
        return _json(States(states, failed), 202 if failed is None else 422)

    async def state(self, request: Request) -> Response:
        """What became of a capture."""
        states = await self._states([request.path_params["id"]], user_of(request).name, _seconds(request))
        return _json(states[0]) if states else error("no such push of yours; send it first", 404)

    async def states(self, request: Request) -> Response:
        """What became of captures."""
        asked = await _body(request, Identifiers)
        if len(asked.ids) > MOST_AT_ONCE:
            raise RefusedError(f"ask for at most {MOST_AT_ONCE} at once", 413)
        return _json(States(await self._states(asked.ids, user_of(request).name, _seconds(request))))

    async def _states(self, ids: Sequence[str], user: str, seconds: float) -> list[State]:
        """Return what became of captures, at the latest after so many seconds, before if none waits."""
        end = time.monotonic() + seconds
        while True:
            states = await self._receiver.threads.run(self._queue.states, ids, user)
            left = end - time.monotonic()
            if left <= 0 or all(each.state != "waiting" for each in states):
                break
            # What is told between the two lines above and below is seen a second later.
            await self._storing.change(min(left, 1.0))
        note = self._storing.note
        return [msgspec.structs.replace(each, note=note) if each.state == "waiting" else each for each in states]

    async def _known(self, request: Request, hashes: Sequence[str]) -> set[str]:
        """Return which files the warehouse has. If it can't be asked now, they are sent again, which does no harm."""
        if not hashes:
            return set()
        client = client_of(request.client.host if request.client is not None else None)
        try:
            answer = await self._pool.ask("stored", {"hashes": [*hashes]}, None, client)
        except BusyError:
            return set()
        if answer.status != 200:
            return set()
        return {*content_of(answer)}


def _checked(push: Push) -> Push:
    """Return a push with names that are only names. Raises `RefusedError` for one that can't be stored."""
    if not is_identifier(push.id):
        raise RefusedError(f"{push.id[:80]!r} is not an identifier: 8 to 64 letters, digits, - and _", 400)
    try:
        check_labels(push.labels)
        check_labels(push.found_labels)
        if push.captured_at is not None:
            moment_of(push.captured_at)
    except EtqError as wrong:
        raise RefusedError(f"{push.file.name}: {wrong}", 400) from None
    texts = [push.name or "", *push.labels, *push.labels.values(), *push.found_labels, *push.found_labels.values()]
    if len(texts) > 4 * MOST_LABELS or max(map(len, texts)) > MOST_OF_TEXT:
        text = f"at most {MOST_LABELS} labels, and {MOST_OF_TEXT:,} characters in each"
        raise RefusedError(f"{push.file.name}: too many or too long labels; {text}", 400)
    if push.values and push.debug_buffer is None:
        raise RefusedError(f"{push.file.name}: values goes with debug_buffer", 400)
    files = [push.file, *push.linked, *push.others]
    if len(files) > MOST_LABELS:
        raise RefusedError(f"{push.file.name}: too many files; send at most {MOST_LABELS}", 400)
    _check_hashes([each.sha256 for each in files])
    named = {
        field: None if (sent := getattr(push, field)) is None else _named(sent)
        for field in ("file", "etrecord", "pte", "debug_buffer", "sidecar")
    }
    several = {field: tuple(map(_named, getattr(push, field))) for field in ("metrics", "graph_captures")}
    return msgspec.structs.replace(push, **named, **several)


def _named(sent: Sent) -> Sent:
    """Return a file with a name that is one: the last folders of its path, without any that leads out of them."""
    parts = [_NOT_IN_NAMES.sub("_", part.strip()) for part in re.split(r"[/\\]", sent.name)]
    # The end of a long name has what the file is.
    kept = [part[-MOST_OF_NAME:] for part in parts if part.strip(".") and not part.endswith(":")]
    return Sent(sent.sha256, "/".join(kept[-MOST_PARTS:]) or "capture")


async def _body(request: Request, type: type[Asked]) -> Asked:
    """Return what a request asks. Raises `RefusedError` for what is too long, or something else."""
    if (body := await body_of(request, MOST_SENT)) is None:
        raise RefusedError("too long; send fewer at once", 413, connection="close")
    try:
        return msgspec.json.decode(body, type=type)
    except (msgspec.DecodeError, UnicodeDecodeError) as wrong:
        raise RefusedError(f"not what this takes: {wrong}", 400) from None


def _check_hashes(hashes: Sequence[str]) -> None:
    if len(hashes) > 10 * MOST_AT_ONCE:
        raise RefusedError(f"ask for at most {10 * MOST_AT_ONCE:,} files at once", 413)
    wrong = next((each for each in hashes if not is_sha256(each)), None)
    if wrong is not None:
        raise RefusedError(f"{wrong[:80]!r} is not a SHA-256 in small hexadecimal digits", 400)


def _hash_of(request: Request) -> str:
    sha256: str = request.path_params["sha256"]
    _check_hashes([sha256])
    return sha256


def _seconds(request: Request) -> float:
    """Return how long a request wants to wait."""
    text = request.query_params.get("wait", "0")
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if math.isnan(seconds):
        raise RefusedError(f"wait={text[:40]!r} is not a number of seconds", 400)
    return min(max(seconds, 0.0), LONGEST_WAIT)


def _json(answer: msgspec.Struct, status: int = 200) -> Response:
    return Response(msgspec.json.encode(answer), status, {"cache-control": "no-store"}, JSON)
