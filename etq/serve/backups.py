"""A copy of the warehouse and of the server's folder as an archive, made while the server runs: `/api/v1/backup`."""

from __future__ import annotations

import asyncio
import tarfile
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from etq.database.connection import is_lake_path
from etq.database.publishing import private_folder
from etq.errors import EtqError
from etq.serve.children import ran
from etq.serve.endpoints import error, needs, note, user_of
from etq.serve.meters import Family, gauge
from etq.serve.site import Part, Site
from etq.team.copying import copied
from etq.team.users import Role

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

PATH: Final = "/api/v1/backup"
AT_ONCE: Final = 2**20
# The longest time to make the copy, in seconds; and the slowest client, in bytes a second.
SECONDS: Final = 3600.0
SLOWEST: Final = 100_000
# Seconds that the copy waits for a writer.
WAIT: Final = 600


def backups(site: Site) -> Part:
    """`/api/v1/backup`, for administrators, one at a time."""
    made = _Backups(site)
    site.meters.add(made.families)
    return Part([Route(PATH, needs(Role.ADMIN, made.endpoint))])


class _Backups:
    def __init__(self, site: Site) -> None:
        self._site = site
        self._turn = asyncio.Lock()
        self._last: float | None = None

    async def families(self) -> list[Family]:
        if self._last is None:
            return []
        return [gauge("etq_last_backup_timestamp_seconds", "When a backup was sent last.", self._last)]

    async def endpoint(self, request: Request) -> Response:
        if request.method == "HEAD":  # which would make one for nothing
            return Response(status_code=405, headers={"allow": "GET"})
        if self._turn.locked():
            return error("another backup is being made; try again when it is done", 503, retry_after="60")
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._turn)
            connection = request.scope["state"].get("connection")
            if connection is not None:
                connection.allow(SECONDS)
            try:
                await note(self._site, request, "backup")
                # Beside what is copied, where there is room for it.
                near = self._folder or Path(self._site.path).absolute()
                folder = Path(stack.enter_context(private_folder(near)))
                files = await self._copy(folder)
            except (EtqError, OSError) as failed:
                self._site.log.note("backup", user=user_of(request).name, error=str(failed))
                return error(str(failed), 503, retry_after="60")
            archive = _Archive(folder, files, stack.pop_all(), self._done)
            if connection is not None:
                connection.allow(SECONDS / 10 + archive.size / SLOWEST)
            return archive
        raise AssertionError

    @property
    def _folder(self) -> Path | None:
        folder = self._site.settings.folder
        return folder.path if folder is not None and folder.exists else None

    def _done(self, size: int) -> None:
        self._last = time.time()
        self._site.log.note("backup", bytes=size)

    async def _copy(self, folder: Path) -> list[Path]:
        """Copy all into a folder; return the files. Raises `EtqError`, `OSError`."""
        if is_lake_path(self._site.path):
            if self._folder is None:
                raise EtqError("a lake, and no folder of the server; copy the lake by the means of its store")
            assert self._site.settings.folder is not None
            await asyncio.to_thread(_copy_team, self._site, folder / "lake.team")
        else:
            await self._run(folder / Path(self._site.path).name)
        return sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))

    async def _run(self, output: Path) -> None:
        team = ["--team", str(self._folder)] if self._folder is not None else ["--without-team"]
        given = ["--wait", str(WAIT), "backup", self._site.path, "-o", str(output), *team]
        try:
            status, said = await ran(*given, seconds=SECONDS)
        except TimeoutError:
            raise EtqError(f"the copy took longer than {SECONDS:g} s; copy the file itself: etq backup") from None
        if status != 0:
            raise EtqError(said.removeprefix("Error: ") or "the copy failed")


def _copy_team(site: Site, target: Path) -> None:
    assert site.settings.folder is not None
    with copied(site.settings.folder, target):
        pass


class _Archive(Response):
    """Files of a folder as a tar archive. Its length is known, so that one that is cut off is noticed."""

    def __init__(self, folder: Path, files: Sequence[Path], stack: AsyncExitStack, done: Callable[[int], None]) -> None:
        self._folder, self._files, self._stack, self._done = folder, files, stack, done
        sizes = [each.stat().st_size for each in files]
        blocks = sum(len(self._head(each)) + -(-size // 512) * 512 for each, size in zip(files, sizes, strict=True))
        self.size = blocks + 1024
        name = f"{files[0].relative_to(folder).parts[0]}.tar"
        super().__init__(
            headers={
                "cache-control": "no-store", "content-length": str(self.size),
                "content-disposition": f"attachment; filename*=UTF-8''{quote(name)}",
            },
            media_type="application/x-tar",
        )  # fmt: skip

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._stack:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            for file in self._files:
                await send({"type": "http.response.body", "body": self._head(file), "more_body": True})
                with file.open("rb") as opened:
                    while part := await asyncio.to_thread(opened.read, AT_ONCE):
                        await send({"type": "http.response.body", "body": part, "more_body": True})
                if rest := -file.stat().st_size % 512:
                    await send({"type": "http.response.body", "body": bytes(rest), "more_body": True})
            await send({"type": "http.response.body", "body": bytes(1024)})
            self._done(self.size)

    def _head(self, file: Path) -> bytes:
        entry = tarfile.TarInfo(file.relative_to(self._folder).as_posix())
        found = file.stat()
        entry.size, entry.mtime, entry.mode = found.st_size, int(found.st_mtime), 0o600
        return entry.tobuf(tarfile.PAX_FORMAT)
