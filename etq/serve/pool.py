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
from etq.remote.protocol import status_of
from etq.sandbox.client import MODULE, Asked, variables
from etq.sandbox.formats import TYPES
from etq.sandbox.results import parameters_of
from etq.serve.payloads import MOST_OF_ANSWER, Payload, of_error
from etq.serve.turns import Turns

# Questions at once, of one client one less, and questions that wait for their turn.
WORKERS: Final = 3
# Processes that are started before anyone asks: a page asks two questions at once.
READY: Final = 2
WAITING: Final = 32
# How long a question may take, in seconds; and the largest answer, in bytes.
SECONDS: Final = 60.0
MOST: Final = 2**32
# The limits of a query that users write.
QUERY_SECONDS: Final = 30.0
QUERY_MEGABYTES: Final = 512
# How long a process of the sandbox is kept for the next query: programs ask several, one after the other.
SANDBOX_IDLE: Final = 10.0


class QuestionPool:
    """Up to `workers` processes, which are started when they are needed, and replaced when they end."""

    def __init__(self, path: str, workers: int = WORKERS, waiting: int = WAITING, seconds: float = SECONDS) -> None:
        self._seconds = seconds
        self._workers = workers
        self.turns = Turns(workers, waiting)
        self._processes = ProcessPool("etq.serve.worker", path, idle=workers, most=MOST)
        self._path = path
        self._sandbox = ProcessPool(MODULE, idle=1, most=MOST_OF_ANSWER, variables=variables(), is_silent=True)
        self._sandbox_end: asyncio.TimerHandle | None = None

    async def ask(self, question: str, arguments: Mapping[str, Any], state: str | None, client: str = "") -> Payload:
        """Return the answer to a client's question; if the caller is cancelled, the process that works on it is ended.

        Raises `BusyError` if too many questions wait, or this one has waited for too long.
        """
        request = msgspec.json.encode([question, arguments, state])
        async with self.turns.of(client):
            try:
                return msgspec.msgpack.decode(await self._processes.ask(request, self._seconds), type=Payload)
            except TimeoutError:
                return of_error(f"the question took longer than {self._seconds:g} s; ask for less of it", 504)
            except (EndedError, TooLargeError):
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
                    answer = await self._sandbox.ask(asked.request, asked.longest)
                return Payload(200, TYPES[format], asked.answer(answer)[1].read())
            except EtqError as error:
                return of_error(str(error), status_of(error))
            finally:
                later = asyncio.get_running_loop().call_later
                self._sandbox_end = later(SANDBOX_IDLE, self._sandbox.end_idle)

    def start(self) -> None:
        """Start processes up to `READY`, so that the next questions don't wait for them."""
        for _ in range(len(self._processes), min(READY, self._workers)):
            self._processes.start()

    def close(self) -> None:
        """End all processes."""
        self._processes.close()
        self._sandbox.close()
