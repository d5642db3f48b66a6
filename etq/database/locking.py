"""Waiting for a file that others use: one process may write it or many may read it, and threads write in turn."""

from __future__ import annotations

import os
import random
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Final, TypeVar
from weakref import WeakValueDictionary

from etq.errors import WarehouseError

WAIT: Final = 30.0
# A command's settings for waiting: the longest time, in seconds, and a callback for a wait that takes a while.
lock_timeout: Final[ContextVar[float | None]] = ContextVar("lock_timeout", default=None)
on_wait: Final[ContextVar[Callable[[str], None] | None]] = ContextVar("on_wait", default=None)
# Pauses between two attempts, in seconds, grow from the first number to the second. Their length is random, so that
# waiting processes don't all try again at once.
PAUSES: Final = (0.005, 0.2)
WRITER_PAUSES: Final = (0.005, 0.05)
A_WHILE: Final = 2.0
# For how many seconds readers let a writer go first, and the ending of the file by which a writer shows that it waits.
LONGEST_YIELD: Final = 0.5
WAITING: Final = ".waiting"

_LOCKED: Final = "Could not set lock on file"
_HOLDER: Final = re.compile(r"PID (\d+)")

Result = TypeVar("Result")


class HeldError(WarehouseError):
    """Another process holds the file, and did so for the whole time of waiting."""


def retry_while_locked(
    path: str, attempt: Callable[[], Result], wait: float | None = None, *, is_writer: bool = False, yields: bool = True
) -> Result:
    """Return the result of a function that opens a database; it is called again while other processes hold the file.

    Many readers in turn could block a writer forever, as one of them always holds the file. So a waiting writer shows
    that it waits, and readers with `yields` let it go first, for up to `LONGEST_YIELD` seconds.

    Raises `HeldError` if the file is held for longer than `seconds_to_wait`, `duckdb.Error` for other failures.
    """
    # Imported here, as commands that use no database start faster without it.
    import duckdb

    seconds = seconds_to_wait(wait)
    start = time.monotonic()
    pause, most = PAUSES if not is_writer else WRITER_PAUSES
    notify = on_wait.get()
    has_shown = False
    with ExitStack() as stack:
        while True:
            if not is_writer and yields:
                _let_writers_pass(path, start + min(seconds, LONGEST_YIELD))
            try:
                return attempt()
            except duckdb.Error as error:
                text = str(error)
                waited = time.monotonic() - start
                if _LOCKED not in text:
                    raise
                if is_writer and waited < seconds and not has_shown:
                    has_shown = True
                    stack.enter_context(_waiting(path))
                if waited >= seconds:
                    raise HeldError(
                        f"{path}: held by {_holder(text)}; waited {seconds:g} s for it: end it, or wait longer "
                        "(etq --wait SECONDS, $ETQ_WAIT)"
                    ) from error
                if notify is not None and waited > A_WHILE:
                    notify(f"{path}: held by {_holder(text)}; waiting up to {seconds:g} s")
                    notify = None
            time.sleep(min(random.uniform(pause / 2, pause), max(0.0, seconds - waited)))
            pause = min(2 * pause, most)


@contextmanager
def _waiting(path: str) -> Iterator[None]:
    """Show readers that a writer waits for a file, by a file next to it that is locked meanwhile.

    If no file can be created or locked, readers don't notice the writer.
    """
    shown = _shown(path)
    try:
        yield
    finally:
        if shown is not None:
            import fcntl

            with suppress(OSError):
                # If several writers wait, the last one removes the file.
                fcntl.flock(shown, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if _is_at(shown, path + WAITING):
                    Path(path + WAITING).unlink()
            os.close(shown)


def _shown(path: str) -> int | None:
    """Create and lock the file that shows that a writer waits; return its descriptor, None if that isn't possible."""
    if sys.platform == "win32":
        return None
    import fcntl

    while True:
        try:
            shown = os.open(path + WAITING, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        except OSError:
            return None
        try:
            # The process that removes the file holds its lock exclusively for that moment.
            fcntl.flock(shown, fcntl.LOCK_SH)
            if _is_at(shown, path + WAITING):
                return shown
        except OSError:
            os.close(shown)
            return None
        os.close(shown)


def _is_at(file: int, path: str) -> bool:
    try:
        found, opened = Path(path).stat(), os.fstat(file)
    except OSError:
        return False
    return (found.st_dev, found.st_ino) == (opened.st_dev, opened.st_ino)


def _let_writers_pass(path: str, end: float) -> None:
    """Wait until no writer waits for a file, or until the monotonic clock reaches `end`."""
    if sys.platform == "win32":
        return
    import fcntl

    while time.monotonic() < end:
        try:
            shown = os.open(path + WAITING, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return
        try:
            fcntl.flock(shown, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # A writer that was killed left the file.
            if _is_at(shown, path + WAITING):
                Path(path + WAITING).unlink()
            return
        except BlockingIOError:
            pass
        except OSError:
            return
        finally:
            os.close(shown)
        time.sleep(PAUSES[0])


def seconds_to_wait(wait: float | None = None) -> float:
    """Return how long to wait for a file, in seconds: `wait`, the command's setting, `$ETQ_WAIT`, or else 30.

    Raises `WarehouseError` for anything but a number of seconds.
    """
    setting = lock_timeout.get() if wait is None else wait
    try:
        seconds = float(os.environ.get("ETQ_WAIT") or WAIT) if setting is None else float(setting)
    except (TypeError, ValueError):
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        shown = os.environ.get("ETQ_WAIT") if setting is None else setting
        raise WarehouseError(f"{shown!r} is not a number of seconds to wait")
    return seconds


def _holder(text: str) -> str:
    """Return command and number of the process that holds a file, from DuckDB's message and /proc."""
    match = _HOLDER.search(text)
    if match is None:
        return "another process"
    command = _command(match[1])
    return f"another process{f', {command},' if command else ''} with PID {match[1]}"


def _command(process: str) -> str:
    """Return the shortened command line of a process, empty if it is unknown."""
    try:
        words = Path(f"/proc/{process}/cmdline").read_bytes().decode(errors="backslashreplace").split("\0")
    except OSError:
        return ""
    command = " ".join([Path(words[0]).name, *words[1:]]).strip()
    return f"{command[:57]}..." if len(command) > 60 else command


class _Lock:
    """A lock that supports weak references."""

    def __init__(self) -> None:
        self.lock = threading.RLock()


_locks: WeakValueDictionary[str, _Lock] = WeakValueDictionary()
_guard: Final = threading.Lock()


class WriteLock:
    """Lets threads that write to the same file take turns: DuckDB alone would let two of them add the same content."""

    def __init__(self, path: str | None) -> None:
        with _guard:
            # A database in memory is not shared.
            self._held = _Lock() if path is None else _locks.setdefault(os.path.realpath(path), _Lock())

    def __enter__(self) -> None:
        self._held.lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._held.lock.release()
