"""A large file that is read in parts."""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import file_digest
from io import BufferedReader
from typing import BinaryIO, Final

from etq.errors import FormatError, displayed

CHANGED: Final = "changed while it was read; repeat when it is complete"


class LargeFile:
    """The bytes of a file, read in parts, for files of which a copy would take longer than reading.

    Slices are bytes. Each read raises `FormatError` if the file was changed after it was opened, so all parts
    are of the same content.
    """

    def __init__(self, file: BinaryIO, path: str) -> None:
        self._descriptor = os.dup(file.fileno())
        weakref.finalize(self, os.close, self._descriptor)
        self._path = path
        self._state = state_of(self._descriptor)

    def __len__(self) -> int:
        return self._state[0]

    def __getitem__(self, part: slice) -> bytes:
        start, stop, step = part.indices(len(self))
        assert step == 1
        parts, place = [], start
        with self._readable():
            # The system reads at most 2 GiB at once; a file that has become shorter has no more bytes.
            while place < stop and (read := os.pread(self._descriptor, stop - place, place)):
                parts.append(read)
                place += len(read)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def __bytes__(self) -> bytes:
        return self[:]

    def opened(self) -> BufferedReader:
        """Return the file, which the caller closes, from its beginning."""
        file = open(os.dup(self._descriptor), "rb")  # noqa: SIM115
        file.seek(0)
        return file

    def sha256(self) -> str:
        """Return the hash of the content, which identifies it."""
        with self._readable(), self.opened() as file:
            return file_digest(file, "sha256").hexdigest()

    @contextmanager
    def _readable(self) -> Iterator[None]:
        try:
            yield
            is_same = state_of(self._descriptor) == self._state
        except OSError as error:
            raise unreadable(self._path, error) from error
        if not is_same:
            raise FormatError(displayed(self._path), CHANGED)


def state_of(descriptor: int) -> tuple[int, int]:
    """Return properties of an open file that change when it is written to: its size and the time of the last change.

    The ctime is not among them, because it changes when a file is moved or linked.
    """
    status = os.fstat(descriptor)
    return status.st_size, status.st_mtime_ns


def unreadable(path: str, error: OSError) -> FormatError:
    """Return the error for a file that the system can't read."""
    what = f"can't be read: {(error.strerror or str(error)).lower()}"
    return FormatError(displayed(path), "a folder; name a file in it" if isinstance(error, IsADirectoryError) else what)
