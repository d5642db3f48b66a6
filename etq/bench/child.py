"""Runs commands on this machine, each in a process group of its own, which ends with the command. The kept output is
bounded.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from etq.errors import printable

# How many of the last bytes of a command's output are kept; and the most lines, and characters of a line, in messages.
_OUTPUT_BYTES: Final = 2**16
_OUTPUT_LINES: Final = 100
_LINE_LENGTH: Final = 500
# The bytes read from a pipe at once.
_AT_ONCE: Final = 2**16
# The most bytes that are read from a pipe after the command's end. There is a limit because remaining children may
# still write.
_LEFT: Final = 2**22
# Seconds in which a command may end by itself after SIGTERM.
_GRACE: Final = 2.0
_LAUNCHER: Final = str(Path(__file__).parent / "launch.py")


@dataclass(frozen=True)
class Ended:
    """A command that ended by itself."""

    status: int  # exit status; the negative number of the signal that ended it
    output: bytes  # the last bytes of stdout and stderr
    seconds: float
    peak_bytes: int | None


class TimeLimitError(Exception):
    """A command took too long and was ended; `output` has its last bytes."""

    def __init__(self, output: bytes) -> None:
        super().__init__("the command took too long")
        self.output = output


class _Tail:
    """The last bytes of an output."""

    def __init__(self) -> None:
        self._kept = bytearray()

    def add(self, data: bytes) -> None:
        self._kept += data
        if len(self._kept) > 2 * _OUTPUT_BYTES:
            del self._kept[:-_OUTPUT_BYTES]

    def content(self) -> bytes:
        return bytes(self._kept[-_OUTPUT_BYTES:])


def last_lines(output: bytes | bytearray) -> list[str]:
    """Return the last lines of an output, printable and shortened, without empty ones at the end."""
    lines = output.decode(errors="backslashreplace").rstrip().splitlines()[-_OUTPUT_LINES:]
    return [printable(line[:_LINE_LENGTH]) for line in lines]


def run_child(
    words: Sequence[str],
    *,
    seconds: float | None = None,
    folder: str | None = None,
    environment: Mapping[str, str] | None = None,
    stdin: IO[bytes] | None = None,
    sink: Callable[[bytes], None] | None = None,
) -> Ended:
    """Run a command without a shell, and return its end.

    The command and its child processes are ended if it takes too long, if this process is interrupted or ends, or if
    `sink` raises an error. Children that remain after the command's end are ended, too.

    seconds      the most that it may take; None: no limit
    folder       where it runs; None: the current folder
    environment  variables in addition to those of this process
    stdin        what it reads; None: nothing
    sink         receives its stdout, part by part; stdout is then not part of the output

    Raises `TimeLimitError`, and `OSError` if it can't be started.
    """
    reported, report = os.pipe()
    with (
        os.fdopen(reported, "rb", buffering=0) as source,
        open(os.devnull, "rb") as nothing,
        selectors.DefaultSelector() as selector,
    ):
        given = (stdin or nothing).fileno()
        try:
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", _LAUNCHER, str(report), str(given), *words],
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT if sink is None else subprocess.PIPE,
                cwd=folder,
                env=None if environment is None else {**os.environ, **environment},
                pass_fds=(report, given),
                start_new_session=True,
            )
        finally:
            os.close(report)
        tail = _Tail()
        with process:
            try:
                assert process.stdout
                for pipe, take in ((process.stdout, sink or tail.add), (process.stderr, tail.add)):
                    if pipe is not None:
                        os.set_blocking(pipe.fileno(), False)
                        selector.register(pipe, selectors.EVENT_READ, take)
                selector.register(source, selectors.EVENT_READ)
                if not _wait(selector, None if seconds is None else time.monotonic() + seconds):
                    raise TimeLimitError(tail.content())
                line = source.read(200).partition(b"\n")[0].split()  # after a failure: waits for the end
            except BaseException:
                _end(process, source)
                raise
            _kill(process)
    return _ended(line, tail)


def _wait(selector: selectors.BaseSelector, deadline: float | None) -> bool:
    """Pass on the contents of the pipes until the command ends; return False if it takes too long."""
    has_ended = False
    while not has_ended:
        left = None if deadline is None else deadline - time.monotonic()
        if left is not None and left <= 0:
            return False
        for key, _ in selector.select(left):
            if key.data is None:
                has_ended = True
            else:
                _read(selector, key, _AT_ONCE)
    for key in [*selector.get_map().values()]:
        if key.data is not None:
            _read(selector, key, _LEFT)
    return True


def _read(selector: selectors.BaseSelector, key: selectors.SelectorKey, most: int) -> None:
    """Pass on the current content of a pipe."""
    while most > 0:
        try:
            part = os.read(key.fd, _AT_ONCE)
        except BlockingIOError:
            return
        if not part:
            selector.unregister(key.fileobj)
            return
        key.data(part)
        most -= len(part)


def _end(process: subprocess.Popen[bytes], source: IO[bytes]) -> None:
    """End the command and its children, after giving them time to end by themselves."""
    try:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        with selectors.DefaultSelector() as selector:
            selector.register(source, selectors.EVENT_READ)
            selector.select(_GRACE)
    finally:
        _kill(process)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill the rest of the command's process group. The number of the group can't be reused until its leader has been
    waited for.
    """
    with suppress(ProcessLookupError, PermissionError):  # macOS: not permitted if all have ended
        os.killpg(process.pid, signal.SIGKILL)


def _ended(line: list[bytes], tail: _Tail) -> Ended:
    match line:
        case [b"ended", status, seconds, peak]:
            return Ended(int(status), tail.content(), float(seconds), int(peak) or None)
        case [b"failed", number]:
            raise OSError(int(number), os.strerror(int(number)))
    # The launcher was killed from outside, and perhaps the command, too.
    return Ended(-signal.SIGKILL, tail.content(), 0.0, None)
