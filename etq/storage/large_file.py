"""A large file that is read in parts."""

from __future__ import annotations

import os
import weakref
from hashlib import file_digest
from typing import BinaryIO, Final

from etq.errors import FormatError, displayed

CHANGED: Final = "changed while it was read; repeat when it is complete"


class LargeFile:
    """The bytes of a file, read in parts, where a copy would take longer than reading.

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
        # The system reads at most 2 GiB at once; a file that has become shorter has no more bytes.
        while place < stop and (read := os.pread(self._descriptor, stop - place, place)):
            parts.append(read)
            place += len(read)
        self._check()
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def __bytes__(self) -> bytes:
        return self[:]

    def sha256(self) -> str:
        """Return the hash of the content, which identifies it."""
        with open(os.dup(self._descriptor), "rb") as file:
            file.seek(0)
            digest = file_digest(file, "sha256").hexdigest()
        self._check()
        return digest

    def _check(self) -> None:
        if state_of(self._descriptor) != self._state:
            raise FormatError(displayed(self._path), CHANGED)


def state_of(descriptor: int) -> tuple[int, int, int]:
    """Return properties of an open file that change when it is written to: its size and times of change."""
    status = os.fstat(descriptor)
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns
