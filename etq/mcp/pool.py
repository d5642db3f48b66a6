"""The processes that answer calls."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Final

from etq.process_pool import ProcessPool
from etq.processes import EndedError, TooLargeError

# How many calls run at once, and how many idle processes are kept.
AT_ONCE: Final = 4
IDLE: Final = 2
# The longest time of a call, in seconds; that of waiting for its turn or for the warehouse's writer counts.
SECONDS: Final = 120.0
# The largest answer, in bytes.
MOST: Final = 2**24


class CallPool:
    """Processes of `etq.mcp.worker`."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self._seconds = seconds
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._processes = ProcessPool("etq.mcp.worker", idle=IDLE, most=MOST)

    async def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the answer of a process to a request. If the caller is cancelled, the process is killed."""
        try:
            async with asyncio.timeout(self._seconds), self._turns:
                text = await self._processes.ask(json.dumps(request).encode(), self._seconds)
        except TimeoutError:
            return {"error": f"took longer than {self._seconds:g} s"}
        except (EndedError, TooLargeError):
            return {"error": "the process that answers ended, maybe for lack of memory; repeat, or ask for less"}
        answer: dict[str, Any] = json.loads(text)
        return answer

    def close(self) -> None:
        """End the processes."""
        self._processes.close()
