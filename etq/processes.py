"""Processes that run a module of etq: a `Worker` is asked, and its process answers what `requests` yields.

A request is its length, the seconds that it may take, and its bytes; an answer is its length and its bytes.
"""

from __future__ import annotations

import os
import select
import selectors
import signal
import struct
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import IO, Final

_REQUEST: Final = struct.Struct("<Qd")
_ANSWER: Final = struct.Struct("<Q")
# Bytes that a pipe is read and written at once.
_AT_ONCE: Final = 2**16
# A process that nobody ended at its time limit ends itself so many seconds later.
_GRACE: Final = 2.0
# Of one call of the system, which takes no more than years, in seconds; it is called again.
_LONGEST_WAIT: Final = 3600.0

# Takes the size of an answer, and returns what takes its parts.
Begin = Callable[[int], Callable[[bytes], object]]


class EndedError(Exception):
    """A process ended without an answer."""

    def __init__(self, status: int) -> None:
        super().__init__(f"the process ended with {status}")
        # The negative number of the signal that ended it, if one did.
        self.status = status


class TooLargeError(Exception):
    """An answer is larger than it may be."""


def command(module: str, *arguments: str) -> list[str]:
    """Return the command that runs a module with this interpreter, and imports nothing from the working directory."""
    return [sys.executable, "-P", "-m", module, *arguments]


def search_path() -> str:
    """Return the PYTHONPATH with which a process imports the same modules as this one."""
    return os.pathsep.join(each for each in sys.path if each)


def environment(**changes: str) -> dict[str, str]:
    """Return the environment of this process with that search path and other changes."""
    return {**os.environ, "PYTHONPATH": search_path(), **changes}


class Worker:
    """A process of a module that answers requests, one after the other.

    The keys of a terminal don't reach it. On Linux it ends with the thread that started it.

    variables  its environment; without it, that of this process
    is_silent  whether what it prints to standard error is dropped
    """

    def __init__(
        self, module: str, *arguments: str, variables: Mapping[str, str] | None = None, is_silent: bool = False
    ) -> None:
        # To import them takes 2 to 5 ms, for which processes that only answer needn't wait.
        from subprocess import DEVNULL, PIPE, Popen
        from threading import Lock

        self._in_use = Lock()
        self._process = Popen(
            command(module, *arguments),
            bufsize=0,
            stdin=PIPE,
            stdout=PIPE,
            stderr=DEVNULL if is_silent else None,
            env=environment() if variables is None else variables,
            start_new_session=True,
        )

    def ask(self, request: bytes, seconds: float, most: int) -> bytearray:
        """Return the answer to a request. If there is none, the process is ended.

        Raises `TimeoutError` after so many seconds, `TooLargeError` for an answer of more bytes than `most`, and
        `EndedError` if the process ends.
        """
        answer = bytearray()
        self.read(request, seconds, most, lambda _: answer.extend)
        return answer

    def read(self, request: bytes, seconds: float, most: int, begin: Begin) -> None:
        """As `ask`, for an answer that is taken in parts: `begin` is called with its size, and returns what takes them.

        Raises what these raise, too; the process is ended then.
        """
        deadline = time.monotonic() + seconds
        try:
            with self._in_use:
                self._answer(request, seconds, most, deadline, begin)
        except BaseException:
            self.end()
            raise

    def _answer(self, request: bytes, seconds: float, most: int, deadline: float, begin: Begin) -> None:
        unsent = memoryview(_REQUEST.pack(len(request), seconds) + request)
        stdin, stdout = self._pipes()
        os.set_blocking(stdin.fileno(), False)
        with selectors.DefaultSelector() as selector:
            selector.register(stdin, selectors.EVENT_WRITE, unsent)
            selector.register(stdout, selectors.EVENT_READ)
            head = bytearray()
            self._receive(selector, _ANSWER.size, deadline, head.extend)
            (size,) = _ANSWER.unpack(head)
            if size > most:
                raise TooLargeError
            self._receive(selector, size, deadline, begin(size))

    def kill(self) -> None:
        """Kill the process, and those that it started. An `ask` in another thread ends then."""
        if self._process.poll() is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def end(self) -> None:
        """Kill the process, and wait until it has ended, and an `ask` in another thread, too."""
        self.kill()
        with self._in_use:
            self._process.wait()
            for pipe in self._pipes():
                pipe.close()

    def _pipes(self) -> tuple[IO[bytes], IO[bytes]]:
        assert self._process.stdin and self._process.stdout
        return self._process.stdin, self._process.stdout

    def _receive(
        self, selector: selectors.BaseSelector, count: int, deadline: float, take: Callable[[bytes], object]
    ) -> None:
        """Take so many bytes of an answer, while the rest of the request is written."""
        while count:
            if (left := deadline - time.monotonic()) <= 0:
                raise TimeoutError
            for key, _ in selector.select(min(left, _LONGEST_WAIT)):
                if key.data is None:
                    part = os.read(key.fd, min(_AT_ONCE, count))
                    if not part:
                        raise EndedError(self._status(deadline))
                    take(part)
                    count -= len(part)
                elif unsent := key.data[_written(key.fd, key.data) :]:
                    selector.modify(key.fileobj, selectors.EVENT_WRITE, unsent)
                else:
                    selector.unregister(key.fileobj)

    def _status(self, deadline: float) -> int:
        from subprocess import TimeoutExpired

        try:
            return self._process.wait(max(0.0, deadline - time.monotonic()))
        except TimeoutExpired:
            raise TimeoutError from None


def _written(pipe: int, data: memoryview) -> int:
    """Return how many bytes a pipe took; all, if nobody reads them any more."""
    try:
        return os.write(pipe, data[:_AT_ONCE])
    except BrokenPipeError:
        return len(data)


def requests(
    rest: Callable[[], None] = lambda: None, after: float = 0.0
) -> Iterator[tuple[bytes, Callable[..., None]]]:
    """Yield the requests to this process until there are no more, each with the function that sends its answer.

    That takes the answer in parts of bytes. What libraries read or print doesn't get in between. `rest` is called when
    no request came for so many seconds.
    """
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG, see prctl(2): it ends with the one that asks
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    source, target = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)

    def reply(*parts: bytes) -> None:
        target.writelines([_ANSWER.pack(sum(map(len, parts))), *parts])
        target.flush()
        signal.setitimer(signal.ITIMER_REAL, 0)

    def head_of_next() -> bytes:
        if after and not select.select([source], [], [], after)[0]:
            rest()
        return source.read(_REQUEST.size)

    while len(head := head_of_next()) == _REQUEST.size:
        size, seconds = _REQUEST.unpack(head)
        signal.setitimer(signal.ITIMER_REAL, seconds + _GRACE)
        yield source.read(size), reply
