"""Whether a server can do its work: `/healthz`, for what starts it again or calls somebody."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from etq.database.connection import is_lake_path
from etq.errors import EtqError
from etq.serve.endpoints import answered
from etq.serve.meters import Family, Sample, gauge
from etq.serve.payloads import content_of, of_data
from etq.serve.site import Part, Site
from etq.serve.turns import BusyError

PATH: Final = "/healthz"
# For how many seconds an answer about the warehouse is used again; others ask as often as they like.
LASTS: Final = 10.0
# The same for the disk and the queue.
LOOKED_LASTS: Final = 2.0
# How long a check waits for the warehouse, in seconds; what asks gives up after about 10.
WAIT: Final = 5.0
# A warehouse that a writer holds, or processes that are busy with long questions, are no reason to start again, for
# so many seconds: a question takes 60 at most.
PATIENCE: Final = 90.0
# With less space than this, in bytes, nothing more can be stored.
LEAST_FREE: Final = 200_000_000
# A queue of which nothing was stored for so many seconds doesn't move.
LONGEST_STORING: Final = 900.0


@dataclass(frozen=True)
class Check:
    """What was looked at, what was found, and whether it hinders the server."""

    name: str
    text: str
    is_bad: bool = False


@dataclass(frozen=True)
class Queue:
    """Pushes by state; when the oldest one that waits came, and when the latest one ended (seconds since 1970)."""

    counts: Mapping[str, int]
    oldest: float | None
    ended: float | None


class Health:
    """What is known of a server's health."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._began = time.time()
        self._good = time.monotonic()  # the server opened the warehouse before it started
        self._asked: asyncio.Task[Check] | None = None
        self._until = 0.0
        self._looked: asyncio.Task[list[Check]] | None = None
        self._looked_until = 0.0
        self.captures: int | None = None

    async def checks(self) -> list[Check]:
        """Return all checks."""
        return [await self.warehouse(), *await self._of_folder()]

    async def _of_folder(self) -> list[Check]:
        """What the disk and the queue tell, which is looked at once for all who check in some seconds."""
        if self._looked is None or (self._looked.done() and time.monotonic() > self._looked_until):
            self._looked = asyncio.create_task(asyncio.to_thread(self._look))
        return await asyncio.shield(self._looked)

    def _look(self) -> list[Check]:
        folder = self._site.settings.folder
        self._looked_until = time.monotonic() + LOOKED_LASTS
        return [self._disk(), *([self._writer()] if folder is not None and folder.exists else [])]

    async def warehouse(self) -> Check:
        """Whether the warehouse can be read, by a process of the pool; asked once for all who check at a time."""
        if self._asked is None or (self._asked.done() and time.monotonic() > self._until):
            self._asked = asyncio.create_task(self._ask())
        await asyncio.wait({self._asked}, timeout=WAIT)
        return self._asked.result() if self._asked.done() else self._busy("no answer yet")

    async def _ask(self) -> Check:
        try:
            answer = await self._site.pool.ask("health", {}, None, "health")
            found = content_of(answer)
        except BusyError as error:
            return self._busy(str(error))
        finally:
            self._until = time.monotonic() + LASTS
        if answer.status != 200:
            self.captures = None
            return Check("warehouse", found["error"], True)
        if "held" in found:
            return self._busy(found["held"])
        self._good = time.monotonic()
        self.captures = found["captures"]
        return Check("warehouse", "ok")

    async def families(self) -> list[Family]:
        """Return what is known as values of metrics."""
        good = [Sample(0 if each.is_bad else 1, {"check": each.name}) for each in await self.checks()]
        found = [Family("etq_healthy", "gauge", "Whether each check of /healthz finds nothing wrong.", good)]
        if self.captures is not None:
            found.append(gauge("etq_captures", "Captures in the warehouse.", self.captures))
        return found

    def close(self) -> None:
        """End what still waits for the warehouse."""
        if self._asked is not None:
            self._asked.cancel()

    def _busy(self, text: str) -> Check:
        return Check("warehouse", f"busy: {text}", time.monotonic() - self._good > PATIENCE)

    def _disk(self) -> Check:
        places = places_of(self._site)
        free = {place: free_in(place) for place in places.values()}
        full = [f"{left / 1e6:.0f} MB free in {place}" for place, left in free.items() if left < LEAST_FREE]
        return Check("disk", "; ".join(full) or "ok", bool(full))

    def _writer(self) -> Check:
        try:
            queue = queue_of(self._site)
        except EtqError as error:
            return Check("writer", str(error), True)
        if queue is None or queue.oldest is None:
            return Check("writer", "ok")
        idle = time.time() - max(queue.oldest, queue.ended or 0.0, self._began)
        waiting = queue.counts["waiting"]
        text = f"{waiting} wait; nothing was stored for {idle:.0f} s" if idle > LONGEST_STORING else "ok"
        return Check("writer", text, idle > LONGEST_STORING)


def places_of(site: Site) -> dict[str, Path]:
    """Return the folders that a server writes to, by what they are for."""
    places = {}
    if not is_lake_path(site.path):
        places["warehouse"] = Path(site.path).absolute().parent
    elif "://" not in site.path:
        places["warehouse"] = Path(site.path).absolute()
    if site.settings.folder is not None and site.settings.folder.exists:
        places["team"] = site.settings.folder.path
    return places


def free_in(folder: Path) -> int:
    """Return the bytes that are free where a folder is; 0 if it is gone."""
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return 0


def queue_of(site: Site) -> Queue | None:
    """Return what waits to be stored; None for a server without a folder. Raises `EtqError`."""
    folder = site.settings.folder
    if folder is None or not folder.exists:
        return None
    query = "SELECT state, count(*), min(received_at), max(ended_at) FROM pushes GROUP BY state"
    with folder.reading() as connection:
        rows = {state: (count, oldest, ended) for state, count, oldest, ended in connection.execute(query)}
    ends = [ended for _, _, ended in rows.values() if ended is not None]
    return Queue(
        {"waiting": 0, "stored": 0, "failed": 0, **{state: count for state, (count, _, _) in rows.items()}},
        rows["waiting"][1] if "waiting" in rows else None,
        max(ends, default=None),
    )


def health(site: Site) -> Part:
    """`/healthz`: the names of checks that fail for anyone, and what they found for who may read."""
    known = Health(site)
    site.meters.add(known.families)

    async def endpoint(request: Request) -> Response:
        found = await known.checks()
        failing = [each.name for each in found if each.is_bad]
        told: dict[str, Any] = {"status": "failing" if failing else "ok"}
        if request.url.query:  # which the guard lets pass for those who may read
            told |= {"checks": {each.name: each.text for each in found}, "captures": known.captures}
        elif failing:
            told["failing"] = failing
        headers = {"retry_after": "10"} if failing else {}
        return answered(of_data(told, 503 if failing else 200), **headers)

    @asynccontextmanager
    async def running() -> AsyncIterator[None]:
        yield
        known.close()

    return Part([Route(PATH, endpoint)], running, shown=[f"{PATH}?"])
