"""Retention by rule: once a day, what `etq prune` would remove is removed."""

from __future__ import annotations

import asyncio
import shlex
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import date, datetime
from datetime import time as time_of_day
from typing import Final

from etq.errors import EtqError
from etq.serve.children import ran
from etq.serve.meters import Family, gauge
from etq.serve.site import Part, Site
from etq.team import audit

# How often the clock is looked at, in seconds: it may be set, and the machine may sleep.
TICK: Final = 20.0
# How long a rule waits for writers, and may take, in seconds.
WAIT: Final = 600
SECONDS: Final = 4 * 3600.0
# Who removes, in the audit log.
USER: Final = "etq serve"


def pruning(site: Site) -> Part:
    """What removes captures by rule, if there are rules."""
    daily = Daily(site, site.settings.prune_at)
    site.meters.add(daily.families)

    @asynccontextmanager
    async def running() -> AsyncIterator[None]:
        task = asyncio.create_task(daily.run()) if site.settings.prune else None
        yield
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    return Part(running=running)


class Daily:
    """Applies the rules when the clock passes a time of the day, at most once a day.

    A server that doesn't run then waits for the next day.
    """

    def __init__(self, site: Site, at: time_of_day, now: Callable[[], datetime] = datetime.now) -> None:
        self._site = site
        self._at = at
        self._now = now
        self._before = now()
        self._done: date | None = None
        self._last: float | None = None
        self._failed = False

    async def run(self) -> None:
        """Wait, and apply the rules, until cancelled."""
        while True:
            await asyncio.sleep(TICK)
            await self.tick()

    async def tick(self) -> None:
        """Apply the rules if the time has come."""
        before, self._before = self._before, self._now()
        days = {before.date(), self._before.date()}
        if not any(before < datetime.combine(day, self._at) <= self._before for day in days):
            return
        if self._done == self._before.date():  # the clock was set back
            return
        self._done = self._before.date()
        self._failed = False
        for rule in self._site.settings.prune:
            await self._apply(rule)

    async def families(self) -> list[Family]:
        """Return what is known as values of metrics."""
        if self._last is None:
            return []
        return [
            gauge("etq_last_prune_timestamp_seconds", "When the rules of retention were applied last.", self._last),
            gauge("etq_last_prune_failed", "Whether a rule of retention failed then.", int(self._failed)),
        ]

    async def _apply(self, rule: str) -> None:
        """Apply a rule in a process of its own, which waits for its turn to write."""
        given = ["--wait", str(WAIT), "prune", *shlex.split(rule), "-y", "--db", self._site.path]
        status: int | None = None
        try:
            status, said = await ran(*given, seconds=SECONDS)
            text = said.rpartition("\n")[2]
        except TimeoutError:
            text = f"took longer than {SECONDS:g} s"
        self._last = time.time()
        self._failed |= status != 0
        details: dict[str, object] = {"rule": rule, "result": text, "status": status}
        self._site.log.note("prune", **details)
        with suppress(EtqError):  # the captures are removed, whether it can be noted or not
            await asyncio.to_thread(self._note, details)

    def _note(self, details: dict[str, object]) -> None:
        folder = self._site.settings.folder
        if folder is not None and folder.exists:
            audit.note(folder, USER, "", "pruned", details)
