"""A part of a server that keeps its audit log within limits of age and size."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

from etq.errors import EtqError, printable
from etq.serve.site import Part, Site
from etq.team import audit
from etq.team.folder import TeamFolder

# Seconds between looks: in so long, one user may add 10 MB.
SECONDS: Final = 60.0


def trimming(site: Site) -> Part:
    """What removes old notes, if the server has a folder."""
    folder = site.settings.folder
    if folder is None:
        return Part()

    @asynccontextmanager
    async def running() -> AsyncIterator[None]:
        task = asyncio.create_task(_trim(site, folder))
        yield
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    return Part(running=running)


async def _trim(site: Site, folder: TeamFolder) -> None:
    days, megabytes = site.settings.audit_days, site.settings.audit_megabytes
    while True:
        try:
            if folder.exists:
                await asyncio.to_thread(audit.trim, folder, days, megabytes)
        except EtqError as error:
            logging.getLogger("etq.audit").warning("notes that are too old: %s", printable(str(error)))
        await asyncio.sleep(SECONDS)
