"""A bounded pool of processes that answer questions: a slow one delays no other, and ends when nobody waits for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from etq.process_pool import ProcessPool
from etq.processes import EndedError, TooLargeError
from etq.serve.payloads import Payload, of_error
from etq.serve.turns import Turns

# Questions at once, of one client one less, and questions that wait for their turn.
WORKERS: Final = 3
# Processes that are started before anyone asks: a page asks two questions at once.
READY: Final = 2
WAITING: Final = 32
# How long a question may take, in seconds; and the largest answer, in bytes.
SECONDS: Final = 60.0
MOST: Final = 2**32


class QuestionPool:
    """Up to `workers` processes, which are started when they are needed, and replaced when they end."""

    def __init__(self, path: str, workers: int = WORKERS, waiting: int = WAITING, seconds: float = SECONDS) -> None:
        self._seconds = seconds
        self._workers = workers
        self.turns = Turns(workers, waiting)
        self._processes = ProcessPool("etq.serve.worker", path, idle=workers, most=MOST)

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

    def start(self) -> None:
        """Start processes up to `READY`, so that the next questions don't wait for them."""
        while len(self._processes) < min(READY, self._workers):
            self._processes.start()

    def close(self) -> None:
        """End all processes."""
        self._processes.close()
