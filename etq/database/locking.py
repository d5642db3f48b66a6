"""Waiting for a file that others use: one process may write it or many may read it, and threads write in turn."""

from __future__ import annotations

import os
import random
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol, TypeVar
from weakref import WeakSet, WeakValueDictionary

from etq.database.file_locks import check_locks
from etq.database.limits import limits
from etq.errors import WarehouseError, displayed

WAIT: Final = 30.0
# Pauses between two attempts, in seconds, grow from the first number to the second. Their length is random, so that
# waiting processes don't all try again at once.
PAUSES: Final = (0.005, 0.05)
A_WHILE: Final = 2.0

_LOCKED: Final = "Could not set lock on file"
_HOLDER: Final = re.compile(r"PID (\d+)")

Result = TypeVar("Result")


class HeldError(WarehouseError):
    """Another process held the file during the whole wait."""


def retry_while_locked(path: str, attempt: Callable[[], Result], wait: float | None = None) -> Result:
    """Return the result of a function that opens a database; it is called again while other processes hold the file.

    Raises `HeldError` if the file is held for longer than `seconds_to_wait`, `WarehouseError` if locks don't work,
    `duckdb.Error` for other failures.
    """
    # Imported here, as commands that use no database start faster without it.
    import duckdb

    seconds = seconds_to_wait(wait)
    start = time.monotonic()
    pause = PAUSES[0]
    notify = limits().notify
    is_first = True
    while True:
        waited = time.monotonic() - start
        try:
            return attempt()
        except duckdb.Error as error:
            text = str(error)
            if _LOCKED not in text:
                raise
            if is_first:
                check_locks(path)
                is_first = False
            holder = _holder(text)
            if waited >= seconds:
                raise HeldError(
                    f"{path}: held by {holder}; waited {seconds:g} s for it: end it, or wait longer "
                    "(etq --wait SECONDS, $ETQ_WAIT)"
                ) from error
        if notify is not None and waited > A_WHILE:
            notify(f"{path}: held by {holder}; waiting up to {seconds:g} s")
            notify = None
        time.sleep(min(random.uniform(pause / 2, pause), max(0.0, seconds - waited)))
        pause = min(2 * pause, PAUSES[1])


def seconds_to_wait(wait: float | None = None) -> float:
    """Return how long to wait for a file, in seconds: `wait`, the command's setting, `$ETQ_WAIT`, or else 30.

    Raises `WarehouseError` for anything but a number of seconds.
    """
    setting = limits().wait if wait is None else wait
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


class Opened(Protocol):
    """An object that has a file open."""

    path: str | None
    file: tuple[int, int] | None

    @property
    def is_open(self) -> bool: ...


_locks: WeakValueDictionary[str, _Lock] = WeakValueDictionary()
_opened: WeakSet[Opened] = WeakSet()
_guard: Final = threading.Lock()


def note_opened(opened: Opened) -> None:
    """Note an object that has a file open in this process: a wait for the file to be closed would never end."""
    with _guard:
        _opened.add(opened)


def is_open_here(path: str | os.PathLike[str]) -> bool:
    """Whether this process has a file open as a warehouse, under any path."""
    file = identity(path)
    with _guard:
        return file is not None and any(each.file == file for each in _opened if each.is_open)


def refuse_gone(path: str) -> None:
    """Raise `WarehouseError` if this process has a warehouse with this path open although its file was removed: DuckDB
    would return the removed file.
    """
    with _guard:
        paths = [each.path for each in _opened if each.is_open and each.path is not None]
    if str(Path(path).absolute()) in {str(Path(path).absolute()) for path in paths}:
        raise WarehouseError(
            f"{displayed(path)}: already open in this process, and its file was removed; close it first"
        )


def refuse_open(path: str | os.PathLike[str]) -> None:
    """Raise `WarehouseError` for a file that this process has open as a warehouse.

    All locks that a process has on a file end when it closes any descriptor of it: after reading such a file, another
    process could open it for writing. And if another file replaces it, later writes to the warehouse are lost.
    """
    if is_open_here(path):
        raise WarehouseError(f"{displayed(os.fspath(path))}: the warehouse itself; name another file")


def identity(path: str | os.PathLike[str]) -> tuple[int, int] | None:
    """The identity of a file, by device and inode; None if it doesn't exist."""
    try:
        file = Path(path).stat()
    except (OSError, ValueError):
        return None
    return file.st_dev, file.st_ino


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
