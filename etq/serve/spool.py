"""Answers that wait until clients take them: long ones in files without a name, in place of the server's memory."""

from __future__ import annotations

import os
import tempfile
import threading
import weakref
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from etq.serve.turns import BusyError
from etq.team.folder import TeamFolder

# Bytes of the longest answer that stays in memory.
SHORT: Final = 2**16
# Bytes of all files, and of those of one client; and those that stay free on the disk.
MOST: Final = 4 * 2**30
MOST_OF_ONE: Final = 2 * 2**30
LEFT_FREE: Final = 200_000_000
# Bytes of the first line of an answer.
LONGEST_LINE: Final = 2**20


class Stored:
    """Bytes in a file, which is gone with this object. Several threads may read it at once."""

    def __init__(self, file: Any, size: int) -> None:
        self._file, self._size = file, size
        self._start = 0

    def __len__(self) -> int:
        return self._size

    def write(self, part: bytes) -> None:
        """Add bytes."""
        left = memoryview(part)
        while left:
            left = left[self._file.write(left) :]

    def skip(self, count: int) -> None:
        """Leave out so many bytes at the beginning."""
        self._start += count
        self._size -= count

    def part(self, at: int, count: int) -> bytes:
        """Return up to so many bytes from a place on."""
        return os.pread(self._file.fileno(), max(0, min(count, self._size - at)), self._start + at)


Body = bytes | Stored


def whole(body: Body) -> bytes:
    """Return all bytes of a body."""
    return body.part(0, len(body)) if isinstance(body, Stored) else body


class Spool:
    """The files of answers, in the server's folder if there is one, else in the system's for temporary files."""

    def __init__(self, folder: TeamFolder | None = None) -> None:
        self._folder = folder
        self._used = Counter[str]()
        # An answer that is needed no longer may be noticed while its own thread has the lock.
        self._lock = threading.RLock()

    def new(self, client: str, size: int) -> Stored:
        """Return an empty file for so many bytes of an answer to a client.

        Raises `BusyError` if there is no room, `OSError` if it can't be made.
        """
        has_folder = self._folder is not None and self._folder.exists
        place = self._folder.path if self._folder is not None and has_folder else Path(tempfile.gettempdir())
        found = os.statvfs(place)
        with self._lock:
            is_full = self._used.total() + size > MOST or self._used[client] + size > MOST_OF_ONE
            if is_full or found.f_bavail * found.f_frsize - size < LEFT_FREE:
                raise BusyError("too many large answers wait to be taken; take them, or ask again in a few seconds")
            self._used[client] += size
        try:
            file = tempfile.TemporaryFile(dir=place, buffering=0)  # noqa: SIM115 - `Stored` ends it
        except BaseException:
            self._forget(client, size)
            raise
        stored = Stored(file, size)
        weakref.finalize(stored, self._end, file, client, size)
        return stored

    def _end(self, file: Any, client: str, size: int) -> None:
        file.close()
        self._forget(client, size)

    def _forget(self, client: str, size: int) -> None:
        with self._lock:
            self._used[client] -= size
            self._used += Counter()  # without those that have none


class Answer:
    """An answer of a process to a client: a line, and a body."""

    def __init__(self, spool: Spool, client: str) -> None:
        self._spool, self._client = spool, client
        self._short = bytearray()
        self._stored: Stored | None = None

    def begin(self, size: int) -> Callable[[bytes], object]:
        """Return what takes the parts of an answer of so many bytes. Raises as `Spool.new`."""
        self._short = bytearray()
        self._stored = self._spool.new(self._client, size) if size > SHORT else None
        return self._short.extend if self._stored is None else self._stored.write

    def parts(self) -> tuple[bytes, Body]:
        """Return the line, without its end, and the body, when all is there."""
        if self._stored is None:
            line, _, body = bytes(self._short).partition(b"\n")
            return line, body
        line, end, _ = self._stored.part(0, LONGEST_LINE).partition(b"\n")
        self._stored.skip(len(line) + len(end))
        return line, self._stored
