"""Checks whether file locks work in a folder: without them, two writers would overwrite each other's captures."""

from __future__ import annotations

import errno
import os
import struct
import sys
from pathlib import Path
from typing import Final

from etq.database.temporary import BESIDE, temporary_folder
from etq.errors import WarehouseError

_UNSUPPORTED: Final = (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)
_NO_LOCKS: Final = (
    "file locks don't work in its folder, so that writers would overwrite each other's captures; "
    "move the warehouse to a disk of this machine, or to a network folder that is mounted with locks"
)


def check_locks(path: str) -> None:
    """Raise `WarehouseError` if locking a file in the folder of `path` doesn't exclude others.

    Some network folders and user-space file systems grant every lock, or none. Only Linux can ask for the same lock
    twice in one process. If no file can be made, nothing is checked. Leftovers of killed processes in the folder are
    removed.
    """
    if sys.platform != "linux":
        return
    try:
        with (
            temporary_folder(BESIDE, Path(path).resolve().parent) as folder,
            open(f"{folder}/lock", "wb") as file,
            open(f"{folder}/lock", "wb") as other,
        ):
            try:
                is_useless = _lock(file.fileno()) and _lock(other.fileno())
            except OSError as error:
                is_useless = error.errno in _UNSUPPORTED
    except OSError:
        return
    if is_useless:
        raise WarehouseError(f"{path}: {_NO_LOCKS}")


def _lock(file: int) -> bool:
    """Lock a file for this opening of it, see fcntl(2); return whether that was possible. Raises `OSError`."""
    import fcntl

    try:
        fcntl.fcntl(file, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
    except OSError as error:
        if error.errno not in (errno.EAGAIN, errno.EACCES):
            raise
        return False
    return True
