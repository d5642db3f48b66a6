"""Files to read: their bytes, paths and hashes, and checks of their options."""

from __future__ import annotations

import mmap
import os
import stat
from datetime import datetime
from hashlib import file_digest, sha256
from pathlib import Path
from threading import Thread
from typing import Final

from etq.choices import UNITS
from etq.errors import FormatError, WarehouseError, displayed

# Larger files are mapped: bytes.
SMALL: Final = 2**20


class Source:
    """A file's bytes and path."""

    def __init__(self, content: bytes | mmap.mmap, path: str, mapped: tuple[int, ...] | None = None) -> None:
        self.content = content
        self._mapped = mapped
        self.path = path
        self.uri = displayed(path)
        self._digest: str | None = None
        self._hashing: Thread | None = None

    def start_hashing(self) -> None:
        """Start to compute the hash on another thread, unless that was done."""
        if self._hashing is None:
            self._hashing = Thread(target=self._hash)
            self._hashing.start()

    @property
    def sha256(self) -> str:
        """The hash of the content: its identity."""
        if self._hashing is not None:
            self._hashing.join()
        if self._digest is None:
            self._hash()
        assert self._digest is not None
        return self._digest

    def _hash(self) -> None:
        if isinstance(self.content, bytes):
            self._digest = sha256(self.content).hexdigest()
            return
        # The file is read again if it is unchanged: reading through the map would keep all of it in memory.
        try:
            with Path(self.path).open("rb") as file:
                if _identity(os.fstat(file.fileno())) == self._mapped:
                    self._digest = file_digest(file, "sha256").hexdigest()
                    return
        except OSError:
            pass
        self._digest = sha256(self.content).hexdigest()


def source_of(file: str | os.PathLike[str] | bytes) -> Source:
    """A file, or its bytes, to read from. Raises `FormatError` for a file that can't be read."""
    if isinstance(file, bytes):
        return Source(file, "bytes")
    path = os.fspath(file)
    return Source(*_content(path))


def _identity(status: os.stat_result) -> tuple[int, ...]:
    """The identity of a file, which also differs after a change."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _content(path: str) -> tuple[bytes | mmap.mmap, str, tuple[int, ...] | None]:
    """The bytes and path of a file; with the identity of a large file, which is mapped rather than read.

    Raises `FormatError` if it can't be read.
    """
    try:
        if not stat.S_ISREG(Path(path).stat().st_mode) and not os.path.isdir(path):
            raise FormatError(path, "can't be read: not a regular file")
        with Path(path).open("rb") as file:
            status = os.fstat(file.fileno())
            # To touch what another process cuts off of a file that is mapped ends this one: small ones are read.
            if status.st_size <= SMALL and stat.S_ISREG(status.st_mode):
                return file.read(), path, None
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), path, _identity(status)
    except OSError as error:
        raise FormatError(displayed(path), f"can't be read: {(error.strerror or str(error)).lower()}") from error


def checked_moment(captured_at: datetime | None) -> datetime | None:
    if captured_at is not None and not isinstance(captured_at, datetime):
        raise WarehouseError(f"captured_at is a datetime, not {captured_at!r}")
    return captured_at


def checked_time_scale(time_scale: str | None) -> str | None:
    if time_scale is not None and time_scale not in UNITS:
        raise WarehouseError(f"no time scale {time_scale!r}; known are {', '.join(UNITS)}")
    return time_scale


def checked_clock_bits(clock_bits: int | None) -> int | None:
    if clock_bits not in (None, 32, 64):
        raise WarehouseError(f"a clock of {clock_bits} bits; known are 32 and 64")
    return clock_bits
