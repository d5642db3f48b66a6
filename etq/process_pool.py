"""Workers for coroutines: an idle one is asked again, and one whose caller is cancelled is killed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from threading import Thread
from typing import Final

from etq.processes import Begin, EndedError, Worker, environment
from etq.threads import Threads

# Workers of a pool that are asked at once; more wait.
MOST_THREADS: Final = 32


class ProcessPool:
    """As many workers of a module as are asked at once. Of those, `idle` are kept; an answer has up to `most` bytes.

    variables, is_silent  as of `Worker`
    """

    def __init__(
        self,
        module: str,
        *arguments: str,
        idle: int,
        most: int,
        variables: Mapping[str, str] | None = None,
        is_silent: bool = False,
    ) -> None:
        self._command = module, *arguments
        self._variables = variables
        self._is_silent = is_silent
        self._most_idle = idle
        self._most = most
        self._idle: list[Worker] = []
        self._busy: set[Worker] = set()
        self._is_closed = False
        # Each worker that is asked has a thread, which others needn't wait for.
        self._threads = Threads("asking", MOST_THREADS)

    def __len__(self) -> int:
        return len(self._idle) + len(self._busy)

    async def ask(self, request: bytes, seconds: float) -> bytearray:
        """Return a worker's answer to a request, within so many seconds. Raises the errors of `Worker.ask`."""
        answer = bytearray()

        def begin(_: int) -> Callable[[bytes], object]:
            answer.clear()
            return answer.extend

        await self.read(request, seconds, begin)
        return answer

    async def read(self, request: bytes, seconds: float, begin: Begin) -> None:
        """As `ask`, for an answer that is taken in parts, as of `Worker.read`; perhaps from the start again."""
        while True:
            is_new = not self._idle
            worker = self._started() if is_new else self._idle.pop()
            self._busy.add(worker)
            try:
                await self._threads.run(worker.read, request, seconds, self._most, begin)
            except EndedError:
                if is_new or self._is_closed:
                    raise
                continue  # it ended while it was idle
            except BaseException:
                # The thread that asks it may never begin, or be done already, and then leaves the process alone.
                Thread(target=worker.end).start()
                raise
            finally:
                self._busy.discard(worker)
            if len(self._idle) < self._most_idle and not self._is_closed:
                self._idle.append(worker)
            else:
                worker.end()
            return

    def start(self) -> None:
        """Start a worker, for which the next request needn't wait then."""
        if not self._is_closed:
            self._idle.append(self._started())

    def close(self) -> None:
        """End all workers, those that are asked, too."""
        self._is_closed = True
        for worker in self._busy:
            worker.kill()
        self.end_idle()

    def end_idle(self) -> None:
        """End the workers that nobody asks now."""
        while self._idle:
            self._idle.pop().end()

    def _started(self) -> Worker:
        # Each arena of the allocator keeps memory.
        variables = environment(MALLOC_ARENA_MAX="2") if self._variables is None else self._variables
        return Worker(*self._command, variables=variables, is_silent=self._is_silent)
