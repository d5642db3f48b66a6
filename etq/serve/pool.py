"""A bounded pool of processes that answer questions: a slow one delays no other, and ends when nobody waits for it."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

import msgspec

from etq import processes
from etq.serve.payloads import Payload, of_error
from etq.serve.turns import Turns

# Questions at once, of one client one less, and questions that wait for their turn.
WORKERS: Final = 3
WAITING: Final = 32
# How long a question may take, in seconds; and how long a process gets to end.
SECONDS: Final = 60.0
LENGTHS: Final = struct.Struct("<II")


class QuestionPool:
    """Up to `workers` processes, which are started when they are needed, and replaced when they end."""

    def __init__(self, path: str, workers: int = WORKERS, waiting: int = WAITING, seconds: float = SECONDS) -> None:
        self._path = path
        self._seconds = seconds
        self._workers = workers
        self._turns = Turns(workers, waiting)
        self._idle: list[asyncio.subprocess.Process] = []
        self._all: set[asyncio.subprocess.Process] = set()

    async def ask(self, question: str, arguments: Mapping[str, Any], state: str | None, client: str = "") -> Payload:
        """Return the answer to a client's question; if the caller is cancelled, the process that works on it is ended.

        Raises `BusyError` if too many questions wait, or this one has waited for too long.
        """
        async with self._turns.of(client):
            return await self._asked(question, arguments, state)

    async def start(self) -> None:
        """Start a process, unless there are enough, so that the next question doesn't wait for it."""
        if len(self._all) < self._workers:
            self._idle.append(await self._started())

    async def close(self) -> None:
        """End all processes."""
        await asyncio.gather(*(self._end(each) for each in [*self._all]))

    async def _asked(self, question: str, arguments: Mapping[str, Any], state: str | None) -> Payload:
        request = msgspec.json.encode([question, arguments, state, self._seconds])
        while True:
            process = self._idle.pop() if self._idle else None
            is_new = process is None
            process = process or await self._started()
            answer = None
            try:
                async with asyncio.timeout(self._seconds + 1):
                    answer = await _exchange(process, request)
            except TimeoutError:
                return of_error(f"the question took longer than {self._seconds:g} s; ask for less of it", 504)
            except (OSError, asyncio.IncompleteReadError):
                if is_new:
                    return of_error("the question ended its process; ask for less of it", 500)
                continue  # it ended while it was idle
            finally:
                if answer is None:
                    await asyncio.shield(self._end(process))
            self._idle.append(process)
            return answer

    async def _started(self) -> asyncio.subprocess.Process:
        process = await asyncio.create_subprocess_exec(
            *processes.command("etq.serve.worker", self._path),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=2**20,
            env=processes.environment(MALLOC_ARENA_MAX="2"),
        )
        self._all.add(process)
        return process

    async def _end(self, process: asyncio.subprocess.Process) -> None:
        self._all.discard(process)
        if process in self._idle:
            self._idle.remove(process)
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def _exchange(process: asyncio.subprocess.Process, request: bytes) -> Payload:
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(struct.pack("<I", len(request)) + request)
    await process.stdin.drain()
    head, body = LENGTHS.unpack(await process.stdout.readexactly(LENGTHS.size))
    status, type, is_compressed, file = msgspec.json.decode(await process.stdout.readexactly(head))
    return Payload(status, type, await process.stdout.readexactly(body), is_compressed, file)
