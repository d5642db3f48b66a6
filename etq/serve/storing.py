"""Runs the process that stores what was sent, whenever something waits, and starts it again when it ends."""

from __future__ import annotations

import asyncio
import re
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

from etq.database.connection import absolute, is_lake_path
from etq.errors import EtqError
from etq.processes import command, environment
from etq.team.changes import Changes
from etq.team.folder import TeamFolder
from etq.team.queue import PushQueue

# What the process prints when it has stored something, as `etq.team.writer` has it: that module imports all readers.
STORED: Final = b"stored\n"
BEGUN: Final = re.compile(rb"begun (\d{1,15})\n")
# Seconds to store what it has begun: in a file, in a lake, which may be elsewhere, for each MB of files, and at most.
LEAST: Final = 120.0
LEAST_OF_LAKE: Final = 600.0
FOR_A_MEGABYTE: Final = 5.0
LONGEST: Final = 1800.0
# Seconds to start, to open a warehouse, or to say why it waits.
LONGEST_WAIT: Final = 600.0
# Seconds before it is started again, if it ends before it has stored anything; they double.
PAUSES: Final = (0.1, 10.0)
# Seconds between looks at what nobody needs any more.
TIDY: Final = 3600.0
# Seconds that it may go on when the server ends.
GRACE: Final = 5.0


class Storing:
    """The process that stores the pushes of a queue; `note` is why it waits, if it does."""

    def __init__(self, path: str, folder: Path, queue: PushQueue) -> None:
        # The process works in the folder.
        self._path = path if "://" in path else absolute(path)
        self._folder, self._queue = folder.absolute(), queue
        self._changes = Changes(TeamFolder(folder))
        self.note: str | None = None
        self._wanted = asyncio.Event()
        self._changed = asyncio.Event()
        self._process: Process | None = None
        self._has_stored = False

    def wake(self) -> None:
        """Note that something waits."""
        self._wanted.set()
        if self._process is not None and self._process.stdin is not None:
            with suppress(ConnectionError, RuntimeError):
                self._process.stdin.write(b"\n")

    async def change(self, seconds: float) -> None:
        """Wait until something was stored, or failed, at most so long."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), seconds)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Store what waits until the block ends."""
        await asyncio.to_thread(self._queue.make)
        await asyncio.to_thread(self._changes.forget)
        await asyncio.to_thread(self._queue.tidy)
        self._wanted.set()
        tasks = [asyncio.create_task(self._run()), asyncio.create_task(self._tidy())]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            for task in tasks:
                with suppress(asyncio.CancelledError):
                    await task

    async def _tidy(self) -> None:
        """Make room, also on a server that runs for months: files that no capture needs count as waiting ones."""
        while True:
            await asyncio.sleep(TIDY)
            with suppress(EtqError, OSError):  # the folder can't be written; it is tried again
                await asyncio.to_thread(self._queue.tidy)

    async def _run(self) -> None:
        pause = PAUSES[0]
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            self._has_stored = False
            try:
                if not (
                    await asyncio.to_thread(self._queue.has_waiting)
                    or await asyncio.to_thread(self._changes.has_waiting)
                ):
                    continue
                why = await self._until_it_ends()
                if why is not None:
                    await asyncio.to_thread(self._queue.note_crash, why)
                    self._tell()
            except (EtqError, OSError) as error:  # the folder can't be read, or the process not be started
                self.note = str(error)
            if self._has_stored:
                pause = PAUSES[0]
            else:
                await asyncio.sleep(pause)
                pause = min(2 * pause, PAUSES[1])
            self._wanted.set()

    async def _until_it_ends(self) -> str | None:
        """Start the process; return how it ended, None if by itself."""
        process = self._process = await asyncio.create_subprocess_exec(
            *command("etq.team.writer", self._path, str(self._folder)),
            stdin=PIPE, stdout=PIPE, start_new_session=True, env=environment(MALLOC_ARENA_MAX="2"),
        )  # fmt: skip
        try:
            return await self._followed(process)
        except asyncio.CancelledError:
            await _end(process)
            raise
        finally:
            self._process = None

    async def _followed(self, process: Process) -> str | None:
        assert process.stdout is not None
        seconds = LONGEST_WAIT
        try:
            while line := await asyncio.wait_for(_line(process.stdout), seconds):
                seconds = LONGEST_WAIT
                if begun := BEGUN.fullmatch(line):
                    seconds = self._seconds(int(begun[1]))
                    continue
                is_stored = line == STORED
                self._has_stored |= is_stored
                self.note = None if is_stored else line.decode(errors="replace").strip()
                self._tell()
        except TimeoutError:
            process.kill()
            await process.wait()
            return f" (it took longer than {seconds:.0f} s)"
        status = await process.wait()
        return None if status == 0 else f" ({_named(status)})"

    def _seconds(self, count: int) -> float:
        """Return how long it may take to store so many bytes."""
        least = LEAST_OF_LAKE if is_lake_path(self._path) else LEAST
        return min(LONGEST, least + count / 1e6 * FOR_A_MEGABYTE)

    def _tell(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


async def _line(stream: asyncio.StreamReader) -> bytes:
    """Return a line; of a longer one than a stream takes, which libraries may print, a part."""
    try:
        return await stream.readline()
    except ValueError:
        return b"...\n"


async def _end(process: Process) -> None:
    """End the process, after what it is storing if that doesn't take long."""
    if process.stdin is not None:
        process.stdin.close()
    with suppress(TimeoutError):
        await asyncio.wait_for(process.wait(), GRACE)
    if process.returncode is None:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def _named(status: int) -> str:
    if status < 0 and -status in {*signal.Signals}:
        return signal.Signals(-status).name
    return f"status {status}"
