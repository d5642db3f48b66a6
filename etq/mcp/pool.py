"""The processes that answer calls: an idle one is used again, and one whose call is cancelled is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from typing import Any, Final

import anyio

from etq import processes

# How many calls run at once, and how many idle processes are kept.
AT_ONCE: Final = 4
IDLE: Final = 2
# The longest time of a call, in seconds; that of waiting for its turn or for the warehouse's writer counts.
SECONDS: Final = 120.0
LONGEST_LINE: Final = 2**24


class CallPool:
    """Processes of `etq.mcp.worker`."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self._seconds = seconds
        self._turns = anyio.CapacityLimiter(AT_ONCE)
        self._idle: list[_Process] = []

    async def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the answer of a process to a request. If the caller is cancelled, the process is killed."""
        try:
            with anyio.fail_after(self._seconds):
                async with self._turns:
                    return await self._answered(request)
        except TimeoutError:
            return {"error": f"took longer than {self._seconds:g} s"}

    async def _answered(self, request: dict[str, Any]) -> dict[str, Any]:
        while True:
            is_new = not self._idle
            process = _Process(await _started()) if is_new else self._idle.pop()
            try:
                answer = await process.answer(request)
            except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.DelimiterNotFound, anyio.IncompleteRead):
                await process.kill()
                if not is_new:
                    continue  # it ended while it was idle
                return {"error": "the process that answers ended, maybe for lack of memory; repeat, or ask for less"}
            except BaseException:
                await process.kill()
                raise
            if len(self._idle) < IDLE:
                self._idle.append(process)
            else:
                await process.kill()
            return answer

    async def close(self) -> None:
        """Kill the idle processes."""
        while self._idle:
            await self._idle.pop().kill()


async def _started() -> anyio.abc.Process:
    return await anyio.open_process(
        processes.command("etq.mcp.worker"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=None,
        start_new_session=True,
        env=processes.environment(),
    )


class _Process:
    """A process of `etq.mcp.worker`, and its answers as lines."""

    def __init__(self, process: anyio.abc.Process) -> None:
        from anyio.streams.buffered import BufferedByteReceiveStream

        self._process = process
        self._answers = BufferedByteReceiveStream(process.stdout)

    async def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        await self._process.stdin.send(json.dumps(request).encode() + b"\n")
        line = await self._answers.receive_until(b"\n", LONGEST_LINE)
        answer: dict[str, Any] = json.loads(line)
        return answer

    async def kill(self) -> None:
        """End the process and those that it started, and wait until it has ended."""
        with anyio.CancelScope(shield=True):
            with suppress(ProcessLookupError, PermissionError):
                if sys.platform == "win32":
                    self._process.kill()
                else:
                    os.killpg(self._process.pid, signal.SIGKILL)
            await self._process.aclose()
