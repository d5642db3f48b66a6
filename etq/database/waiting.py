"""The queue of those who wait for a file: each has a place in a file next to it, as a lock of one byte.

A place is the time at which it was taken, so that the one who came first has the lowest. The system takes the locks of
a process that ends, however it ends.
"""

from __future__ import annotations

import errno
import os
import stat
import struct
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from etq.errors import WarehouseError

# The ending of the file with the places.
WAITING: Final = ".waiting"
# For how many seconds the others leave the file to who is first. A process that leaves the file open for reading keeps
# out writers, not readers; and a process that is first may be stopped. Then all may try once in a while.
LONGEST_FIRST: Final = 5.0
ONCE_IN_A_WHILE: Final = 1.0
# A place that can't be taken at once is being given up, or another process took one in the same nanosecond.
_ATTEMPTS: Final = 50
_PAUSE: Final = 0.001

_HAS_LOCKS: Final = sys.platform != "win32"
# On Linux, locks belong to an open file; elsewhere to a process, and end when it closes any descriptor of the file.
_OF_OPEN_FILES: Final = sys.platform == "linux"
_UNSUPPORTED: Final = (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)
NO_LOCKS: Final = (
    "file locks don't work in its folder, so that writers would overwrite each other's captures; "
    "move the warehouse to a disk of this machine, or to a network folder that is mounted with locks"
)


class Queue:
    """The queue for a file, in which this process may have a place until the with block ends.

    Where no file can be created or locked, nobody has a place.
    """

    def __init__(self, path: str) -> None:
        self._path = os.path.realpath(path) + WAITING
        self._file: int | None = None
        self._place = 0
        self._is_first = False
        self._next_try = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.leave()

    def may_try(self) -> bool:
        """Whether it's this process's turn to open the file: it is first, or who is first had time enough."""
        with suppress(OSError):
            if self._file is None:
                return self._may_pass()
            is_first = self._is_free(self._file, before=self._place)
            if is_first and not self._is_first:
                os.utime(self._file)
            self._is_first = is_first
            return is_first or self._may_try_once(self._file)
        return True

    def join(self, *, first: bool = False) -> None:
        """Take the last place, or the first one, unless this process has one or others have the first."""
        if self._file is not None or not _HAS_LOCKS:
            return
        with suppress(OSError):
            for _ in range(_ATTEMPTS):
                file = _opened(self._path, creates=True)
                self._place = 1 if first else time.time_ns()
                try:
                    if _lock(file, self._place, 1) and _is_at(file, self._path):
                        file, self._file = -1, file
                        return
                finally:
                    if file >= 0:
                        _close(file)
                time.sleep(_PAUSE)

    def leave(self) -> None:
        """Give up the place; the last one removes the file."""
        if self._file is None:
            return
        file, self._file = self._file, None
        _remove_if_last(file, self._path)
        _close(file)

    def _may_pass(self) -> bool:
        """Whether nobody waits: a file that a killed process left is removed."""
        try:
            file = _opened(self._path)
            is_writable = True
        except FileNotFoundError:
            return True
        except PermissionError:
            file = _opened(self._path, os.O_RDONLY)
            is_writable = False
        with _closing(file):
            is_free = _remove_if_last(file, self._path) if is_writable else self._is_free(file)
            return is_free or self._may_try_once(file)

    def _is_free(self, file: int, before: int = 0) -> bool:
        """Whether nobody has a place before this one, or, without one, any place."""
        if not _lock(file, 0, before, shared=True):
            return False
        _unlock(file, 0, before)
        return True

    def _may_try_once(self, file: int) -> bool:
        """Whether who is first has been that for long, and this process didn't try for a while."""
        now = time.monotonic()
        if abs(time.time() - os.fstat(file).st_mtime) < LONGEST_FIRST or now < self._next_try:
            return False
        self._next_try = now + ONCE_IN_A_WHILE
        return True


def check_locks(path: str) -> None:
    """Raise `WarehouseError` if a lock of a file in the folder of `path` doesn't keep others out.

    Some network folders and user-space file systems grant each lock that they are asked for, or none. Only Linux can
    ask for the same lock twice in one process. Where no file can be made, nothing is checked.
    """
    if not _OF_OPEN_FILES:
        return
    shown = os.path.realpath(path) + WAITING
    try:
        file = _opened(shown, creates=True)
    except OSError:
        return
    try:
        with _closing(_opened(shown)) as other:
            place = time.time_ns()
            is_useless = _is_at(other, shown) and _lock(file, place, 1) and _lock(other, place, 1)
    except OSError as error:
        is_useless = error.errno in _UNSUPPORTED
    with _closing(file):
        _remove_if_last(file, shown)
    if is_useless:
        with suppress(OSError):
            Path(shown).unlink(missing_ok=True)
        raise WarehouseError(f"{path}: {NO_LOCKS}")


@contextmanager
def _closing(file: int) -> Iterator[int]:
    try:
        yield file
    finally:
        _close(file)


def _close(file: int) -> None:
    """Close a file, also for processes that were started meanwhile and still have it open."""
    with suppress(OSError):
        _unlock(file, 0, 0)
    os.close(file)


# A link or pipe may be there; opening a pipe must not block.
_SAFELY: Final = (os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC) if sys.platform != "win32" else 0


def _opened(path: str, mode: int = os.O_RDWR, *, creates: bool = False) -> int:
    """Open the file with the places; a new one is for all who may open the warehouse.

    Raises `OSError`, also for what isn't a file.
    """
    try:
        file = os.open(path, mode | _SAFELY)
    except FileNotFoundError:
        if not creates:
            raise
        file = os.open(path, mode | os.O_CREAT | _SAFELY, 0o666)
        with suppress(OSError):
            os.fchmod(file, Path(path.removesuffix(WAITING)).stat().st_mode & 0o666)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise OSError(errno.EINVAL, "not a file", path)
    return file


def _remove_if_last(file: int, path: str) -> bool:
    """Remove the file unless others have places in it; return whether none has.

    Who opened the file just before finds that it isn't there any more, and opens it again.
    """
    with suppress(OSError):
        if not _lock(file, 0, 0):
            return False
        if _is_at(file, path):
            Path(path).unlink()
    return True


def _is_at(file: int, path: str) -> bool:
    try:
        found, opened = Path(path).lstat(), os.fstat(file)
    except OSError:
        return False
    return (found.st_dev, found.st_ino) == (opened.st_dev, opened.st_ino)


def _lock(file: int, start: int, length: int, *, shared: bool = False) -> bool:
    """Lock a part of a file, to its end if `length` is 0; return whether that was possible.

    Raises `OSError` if the file system has no locks.
    """
    import fcntl

    try:
        if _OF_OPEN_FILES:
            kind = fcntl.F_RDLCK if shared else fcntl.F_WRLCK
            fcntl.fcntl(file, fcntl.F_OFD_SETLK, _flock(kind, start, length))
        else:
            fcntl.lockf(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB, length, start)
    except OSError as error:
        if error.errno not in (errno.EAGAIN, errno.EACCES):
            raise
        return False
    return True


def _unlock(file: int, start: int, length: int) -> None:
    import fcntl

    if _OF_OPEN_FILES:
        fcntl.fcntl(file, fcntl.F_OFD_SETLK, _flock(fcntl.F_UNLCK, start, length))
    else:
        fcntl.lockf(file, fcntl.LOCK_UN, length, start)


def _flock(kind: int, start: int, length: int) -> bytes:
    """Return Linux's `struct flock`, see fcntl(2)."""
    return struct.pack("hhqqi4x", kind, os.SEEK_SET, start, length, 0)
