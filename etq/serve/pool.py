"""A bounded pool of processes that answer questions: a slow one delays no other, and ends when nobody waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from etq.database.connection import is_lake_path
from etq.errors import EtqError
from etq.process_pool import ProcessPool
from etq.processes import EndedError, TooLargeError
from etq.sandbox.client import MODULE, Asked, columns_of, variables
from etq.sandbox.formats import TYPES
from etq.sandbox.results import parameters_of
from etq.serve.payloads import MOST_OF_ANSWER, Payload, of_error, of_failure, read
from etq.serve.spool import LONGEST_LINE, Answer, Body, Spool
from etq.serve.turns import BusyError, Turns
from etq.team.folder import TeamFolder

# Questions at once, of one client one less, and questions that wait for their turn.
WORKERS: Final = 3
# Processes that are started before anyone asks: a page asks two questions at once.
READY: Final = 2
WAITING: Final = 32
# How long a question may take, in seconds.
SECONDS: Final = 60.0
# Bytes of an answer with its first line: to a program's query, and to pages, which fetch files.
MOST: Final = MOST_OF_ANSWER + LONGEST_LINE
MOST_OF_PAGES: Final = 512 * 2**20
# The limits of a query that users write.
QUERY_SECONDS: Final = 30.0
QUERY_MEGABYTES: Final = 512
# How long a process of the sandbox is kept for the next query: programs ask several, one after the other.
SANDBOX_IDLE: Final = 10.0


class QuestionPool:
    """Up to `workers` processes, which are started when they are needed, and replaced when they end."""

    def __init__(
        self,
        path: str,
        workers: int = WORKERS,
        waiting: int = WAITING,
        seconds: float = SECONDS,
        folder: TeamFolder | None = None,
    ) -> None:
        self._spool = Spool(folder)
        self._seconds = seconds
        self._workers = workers
        self.turns = Turns(workers, waiting)
        self._processes = ProcessPool("etq.serve.worker", path, idle=workers, most=MOST_OF_PAGES)
        self._path = path
        self._sandbox = ProcessPool(MODULE, idle=1, most=MOST, variables=variables(), is_silent=True)
        self._sandbox_end: asyncio.TimerHandle | None = None

    async def ask(self, question: str, arguments: Mapping[str, Any], state: str | None, client: str = "") -> Payload:
        """Return the answer to a client's question; if the caller is cancelled, the process that works on it is ended.

        Raises `BusyError` if too many questions wait, or this one has waited for too long, or there is no room for the
        answer.
        """
        request = msgspec.json.encode([question, arguments, state])
        async with self.turns.of(client):
            try:
                return read(*await self._answer(self._processes, request, self._seconds, client))
            except TimeoutError:
                return of_error(f"the question took longer than {self._seconds:g} s; ask for less of it", 504)
            except TooLargeError:
                return of_error(f"the answer has more than {MOST_OF_PAGES >> 20} MB; ask for less of it", 500)
            except EndedError:
                return of_error("the question ended its process; ask for less of it", 500)

    async def query(self, query: str, parameters: Any, format: str, state: str | None, client: str = "") -> Payload:
        """Return the rows of a client's SELECT in a format of the sandbox, in which it runs.

        A lake, whose definitions take a second to make, stays open in the processes that answer questions. `state` and
        errors are those of `ask`.
        """
        if is_lake_path(self._path):
            given = {"query": query, "parameters": parameters, "format": format}
            return await self.ask("query", given, state, client)
        async with self.turns.of(client):
            if self._sandbox_end is not None:
                self._sandbox_end.cancel()
            try:
                asked = Asked.of(self._path, query, parameters_of(parameters), QUERY_SECONDS, QUERY_MEGABYTES, format)
                with asked.explained():
                    line, body = await self._answer(self._sandbox, asked.request, asked.longest, client)
                columns_of(line)
                return Payload(200, TYPES[format], body)
            except BusyError:
                raise
            except EtqError as error:
                return of_failure(error)
            finally:
                later = asyncio.get_running_loop().call_later
                self._sandbox_end = later(SANDBOX_IDLE, self._sandbox.end_idle)

    async def _answer(self, processes: ProcessPool, request: bytes, seconds: float, client: str) -> tuple[bytes, Body]:
        answer = Answer(self._spool, client)
        try:
            await processes.read(request, seconds, answer.begin)
        except TimeoutError:
            raise
        except OSError as error:
            what = (error.strerror or str(error)).lower()
            raise BusyError(f"the answer can't be kept: {what}; look at the server's disk and memory") from error
        return answer.parts()

    def start(self) -> None:
        """Start processes up to `READY`, so that the next questions don't wait for them."""
        for _ in range(len(self._processes), min(READY, self._workers)):
            self._processes.start()

    def close(self) -> None:
        """End all processes."""
        self._processes.close()
        self._sandbox.close()
