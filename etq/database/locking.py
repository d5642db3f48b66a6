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
# Pauses between two attempts grow from the first to the second, in seconds; of random length, so that those who wait
# don't all come back at once.
PAUSES: Final = (0.005, 0.2)
WRITER_PAUSES: Final = (0.005, 0.05)
A_WHILE: Final = 2.0
# How long readers let writers go first, in seconds, and the ending of the file by which these show that they wait.
LONGEST_YIELD: Final = 0.5
WAITING: Final = ".waiting"

_LOCKED: Final = "Could not set lock on file"
_HOLDER: Final = re.compile(r"PID (\d+)")

Result = TypeVar("Result")


def retry_while_locked(
    path: str, attempt: Callable[[], Result], wait: float | None = None, *, is_writer: bool = False, yields: bool = True
) -> Result:
    """The result of a function that opens a database, called again while other processes hold the file.

    Many readers in turn would keep a writer out for good, as there is always one of them: a writer that waits shows it,
    and readers that `yields` let it go first, for up to `LONGEST_YIELD`.

    Raises `WarehouseError` if they hold it for longer than `seconds_to_wait`, `duckdb.Error` where all else fails.
    """
    # Commands that ask no database start sooner without it.
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
                    raise WarehouseError(
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
    """Show readers that a writer waits for a file: by a file next to it, which is locked meanwhile.

    Where no file can be made or locked, readers don't know of it.
    """
    shown = _shown(path)
    try:
        yield
    finally:
        if shown is not None:
            import fcntl

            with suppress(OSError):
                # Of several writers that wait, the last one removes it.
                fcntl.flock(shown, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if _is_at(shown, path + WAITING):
                    Path(path + WAITING).unlink()
            os.close(shown)


def _shown(path: str) -> int | None:
    """The file that shows that a writer waits, locked; None where that isn't possible."""
    if sys.platform == "win32":
        return None
    import fcntl

    while True:
        try:
            shown = os.open(path + WAITING, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        except OSError:
            return None
        try:
            # Who removes it holds it alone for that long.
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
    """Wait until no writer waits for a file, or the monotonic clock shows `end`."""
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
            # A writer that was killed left it.
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
    """How long to wait for a file: `wait`, or the command's setting, or `$ETQ_WAIT`; else 30 seconds.

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
    """The process that holds a file, from DuckDB's message and /proc: its command and number."""
    match = _HOLDER.search(text)
    if match is None:
        return "another process"
    command = _command(match[1])
    return f"another process{f', {command},' if command else ''} with PID {match[1]}"


def _command(process: str) -> str:
    """The command line of a process, shortened; empty if it is unknown."""
    try:
        words = Path(f"/proc/{process}/cmdline").read_bytes().decode(errors="backslashreplace").split("\0")
    except OSError:
        return ""
    command = " ".join([Path(words[0]).name, *words[1:]]).strip()
    return f"{command[:57]}..." if len(command) > 60 else command


class _Lock:
    """A lock that can be referred to weakly."""

    def __init__(self) -> None:
        self.lock = threading.RLock()


_locks: WeakValueDictionary[str, _Lock] = WeakValueDictionary()
_guard: Final = threading.Lock()


class WriteLock:
    """Threads that write to the same file do so in turn: the database would let two of them add the same content."""

    def __init__(self, path: str | None) -> None:
        with _guard:
            # A database in memory is not shared.
            self._held = _Lock() if path is None else _locks.setdefault(os.path.realpath(path), _Lock())

    def __enter__(self) -> None:
        self._held.lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._held.lock.release()
